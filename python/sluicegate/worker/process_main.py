"""`run_worker`: the main function of a worker process."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import pickle
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import context, reduction
from typing import Any

import numpy as np
import numpy.random
import torch
from torch.utils.data import IterDataPipe
from torch.utils.data.graph_settings import apply_random_seed

from sluicegate import _core, _torch
from sluicegate.error_note import add_note
from sluicegate.fetch.collate import KINDS
from sluicegate.fetch.collate_in_place import placing
from sluicegate.fetch.fetcher import make_fetcher
from sluicegate.fetch.map_fetcher import MapFetcher
from sluicegate.fetch.stream_fetcher import StreamFetcher
from sluicegate.rng.global_generators import set_global_state
from sluicegate.rng.sample import SampleSeeding
from sluicegate.rng.stream_seeding import StreamSeeding
from sluicegate.state.place_state import PlaceState
from sluicegate.stream.hugging_face import is_hugging_face, own_epoch
from sluicegate.stream.resumable import read_by, set_epoch

from . import envelope
from . import error as worker_error
from .dask_scheduler import make_dask_synchronous
from .inherited_files import InheritedFiles
from .limits import is_of_a_limit, limits_in_words
from .payload import Payload
from .report import Reporter, attached
from .work import WorkerSettings

# Requests a worker's Python stack. A real-time signal, because no other code sends it.
STACK_SIGNAL = signal.SIGRTMAX - 3


@dataclass(frozen=True)
class Channel:
    """How a worker reaches the consumer: inherited by a forked process, handed over to a spawned one."""

    layout: tuple[int, int, int]
    # Of the shared memory, of the consumer's doorbell and of the consumer's process.
    descriptors: tuple[int, int, int]
    # Set only in the consumer and its forks.
    memory: _core.Workers | None = None

    def open(self, worker: int) -> _core.WorkerEnd:
        """Return the worker's end of the channel. To be called in the worker's own process."""
        if self.memory is not None:
            return self.memory.end(worker)
        return _core.WorkerEnd(self.layout, self.descriptors[:2], worker, KINDS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Hand the descriptors over to a process that multiprocessing is starting."""
        assert context.get_spawning_popen() is not None
        return _arrived, (self.layout, tuple(map(reduction.DupFd, self.descriptors)))


def _arrived(layout: tuple[int, int, int], carriers: tuple[Any, Any, Any]) -> Channel:
    memory, bell, consumer = (carrier.detach() for carrier in carriers)
    return Channel(layout, (memory, bell, consumer))


def run_worker(payload: Payload, channel: Channel, settings: WorkerSettings, worker: int) -> None:
    """Fetch batches until the consumer stops it or is gone."""
    # If a worker thread forked this process, that thread's worker info would hide this worker's.
    _torch.set_worker_info_of_thread(None)
    # Ignored until there is a handler: the signal's default action would end the process.
    signal.signal(STACK_SIGNAL, signal.SIG_IGN)
    # Before anything is read. Spawned workers share no open files, but a forkserver may have opened some.
    files = InheritedFiles()
    # Before anything that can fail: from here on, every failure is reported to the consumer.
    end = channel.open(worker)
    # Ctrl-C reaches every process of the terminal, but the consumer decides how to react. This is a handler and not
    # SIG_IGN because programs that the dataset runs would inherit SIG_IGN.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        _Loop(payload, end, channel, settings, worker, files).run()
    except KeyboardInterrupt:
        pass  # Raised by user code; the consumer notices that this worker is gone.
    finally:
        _torch.set_worker_info(None)
        # A spawned worker frees its modules at its end, for which the consumer waits. Most of that was the search for
        # cycles through torch's modules; nothing searches what is frozen.
        gc.freeze()


def _write_stack_on_demand(memory: int) -> None:
    """Make `STACK_SIGNAL` write the Python stack to the shared memory, at the offset that the consumer has set."""
    with contextlib.suppress(OSError):
        faulthandler.register(STACK_SIGNAL, file=memory, all_threads=False)


class _Loop:
    """Runs task after task with the fetcher of the current epoch."""

    def __init__(
        self,
        payload: Payload,
        end: _core.WorkerEnd,
        channel: Channel,
        settings: WorkerSettings,
        worker: int,
        files: InheritedFiles,
    ) -> None:
        self.end = end
        self.files = files
        self.settings = settings
        self.where = f"in DataLoader worker process {worker}"
        self.fetcher: MapFetcher | StreamFetcher | None = None
        # Where the last epoch stopped in a lazy stream.
        self.before: PlaceState | None = None
        # Error from before the first batch of an epoch; sent as the answer to the next request.
        self.failure: bytes | None = None
        # Setup failures are permanent: the worker is unusable.
        self.failure_of_set_up: bytes | None = None
        # True once the generators may differ from the state that the consumer expects at a worker's start.
        self.has_begun = False
        self.ended = False
        self.shared_rng = torch.Generator()
        self.worker = worker
        self.sets_epoch = settings.sets_epoch
        # The last epoch passed to the dataset's `set_epoch`.
        self.epoch: int | None = None
        self.is_stream = settings.dataset_kind == _torch.DatasetKind.Iterable
        self.seeding: SampleSeeding | None = None
        if settings.seed is not None and not self.is_stream:
            self.seeding = SampleSeeding(settings.seed, settings.seed_samples)
        # Generators that are seeded for each sample carry no information about later samples.
        self.reporter = Reporter(settings.snapshot_every, self.seeding is None or not settings.seed_samples)
        try:
            self._set_up(payload, channel, worker)
        except Exception as error:
            self.failure = self.failure_of_set_up = self._packed(error)
            self.is_set_up = False
        else:
            self.is_set_up = True
            resumed = settings.places[worker] if worker < len(settings.places) else None
            if resumed is not None and resumed.over:
                # First restore how the finished epoch left the dataset, then begin the requested epoch.
                if resumed.states:
                    self._begin(resumed, None)
                self._restore_generators(resumed)
                resumed, self.before = None, resumed
                self.has_begun = True
            self._begin(resumed, settings.epoch)

    def _set_up(self, payload: Payload, channel: Channel, worker: int) -> None:
        memory, _, consumer = channel.descriptors
        _core.WorkerEnd.end_with(consumer)
        _core.WorkerEnd.keep_freed_memory()
        _torch.set_thread_name("pt_data_worker")
        _write_stack_on_demand(memory)
        # First, as with torch: modules that this imports, and objects that it creates, may seed, draw, and set threads
        # and signal handlers.
        needs = payload.load()
        _torch.set_worker_signal_handlers()
        # Before torch runs anything else in a fork: OpenMP's threads do not survive it.
        torch.set_num_threads(1)
        seed = self.settings.base_seed + worker
        random.seed(seed)
        torch.manual_seed(seed)
        np.random.seed(_torch.numpy_seed(self.settings.base_seed, worker))
        make_dask_synchronous()
        self.dataset, init_fn = needs["dataset"], needs["worker_init_fn"]
        self.collate_fn: Callable[[Any], Any] = needs["collate_fn"]
        self.sample_id = needs["sample_id"]
        self._seed_pipe(self.settings.shared_seed)
        _torch.set_worker_info(
            _torch.WorkerInfo(id=worker, num_workers=self.settings.num_workers, seed=seed, dataset=self.dataset)
        )
        if init_fn is not None:
            init_fn(worker)

    def _packed(self, error: Exception) -> bytes:
        if is_of_a_limit(error):
            add_note(error, limits_in_words())
        return worker_error.pack(error, self.where)

    def _seed_pipe(self, shared_seed: int | None) -> None:
        if isinstance(self.dataset, IterDataPipe):
            assert shared_seed is not None
            self.shared_rng.manual_seed(shared_seed)
            self.dataset = apply_random_seed(self.dataset, self.shared_rng)

    def _begin(self, resumed: PlaceState | None, epoch: int | None) -> None:
        settings = self.settings
        # A fetcher left from another epoch must not be used for this one. As in torch, it is closed after the new epoch
        # has begun.
        left, self.fetcher = self.fetcher, None
        collate_fn = placing(self.collate_fn, self.end) if settings.auto_collation else self.collate_fn
        # A finished epoch that is reread makes the same draws as before, provided epochs were counted. A stream of
        # `datasets` applies a state only in the epoch of that state.
        number = max(settings.epoch - 1, 0) if epoch is None else epoch
        seeding: SampleSeeding | StreamSeeding | None = self.seeding
        if settings.seed is not None and self.is_stream:
            seeding = StreamSeeding(settings.seed, settings.seed_samples, self.worker, number)
            seeding.make_current()
        try:
            if resumed is not None and resumed.start is not None:
                set_global_state(resumed.start)
            before = self.reporter.generators() if self.is_stream else None
            start = before if self.has_begun else None
            self.has_begun = True
            if self.is_stream:
                self.epoch = None  # An epoch left before its first batch begins again.
            self._set_epoch(number)
            self.fetcher = make_fetcher(
                settings.dataset_kind,
                self.dataset,
                settings.fetching(collate_fn, self.sample_id, reads_heads=settings.allows_native),
                seeding,
                resumed,
                self.before,
            )
            # After everything that draws random numbers, so that the next sample continues from the restored state.
            self._restore_generators(resumed)
            self.reporter.begin(self.fetcher, start, before)
            del left
        except Exception as error:
            self.failure = self._packed(error)

    def _set_epoch(self, epoch: int) -> None:
        if self.sets_epoch and epoch != self.epoch:
            for stream in read_by(self.dataset):
                if is_hugging_face(stream):
                    own_epoch(stream)
            set_epoch(self.dataset, epoch)
            self.epoch = epoch

    def _restore_generators(self, resumed: PlaceState | None) -> None:
        if resumed is not None and resumed.rng is not None:
            set_global_state(resumed.rng)

    def run(self) -> None:
        while True:
            kind, _, _, content = self.end.next()
            if kind == "stop":
                return
            if kind == "resume":
                self.ended = False
                self.failure = self.failure_of_set_up
                if self.is_set_up:
                    shared_seed, epoch, self.sets_epoch = pickle.loads(content)
                    self._seed_pipe(shared_seed)
                    if isinstance(self.fetcher, StreamFetcher) and self.fetcher.place.is_lazy:
                        self.before = self.fetcher.place.left()
                    self._begin(None, epoch)
            elif self.ended:
                self._answer("ended", b"")
            elif self.failure is not None:
                self._answer("failed", self.failure)
                self.failure = None
            else:
                self._fetch(content)

    def _answer(self, outcome: str, content: bytes) -> None:
        # Once per answer: a report contains only what has changed since the previous one.
        report = self.reporter.report(self.fetcher)
        try:
            self.end.answer(outcome, attached(content, report))
        except Exception as error:
            if outcome != "batch":
                raise
            # There is no room for this batch; the next one may be smaller.
            self.end.answer("failed", attached(self._packed(error), report))

    def _fetch(self, content: bytes) -> None:
        if self.fetcher is None:
            # Like torch's worker when its fetcher could not be made; the reason was the previous answer.
            error: Exception = RuntimeError("this worker could not start; see the error of its first batch")
            self._answer("failed", self._packed(error))
            return
        try:
            request = pickle.loads(content)
            if self.seeding is not None:
                epoch, request = request
                self.seeding.begin(epoch)
                self._set_epoch(epoch)
            try:
                batch = self.fetcher.fetch(request)
            finally:
                self.reporter.warning = self.files.check()
            text = envelope.write(batch, self.end)
        except Exception as error:
            if isinstance(error, StopIteration) and self.is_stream:
                self.ended = True
                self._answer("ended", b"")
            else:
                self._answer("failed", self._packed(error))
        else:
            self._answer("batch", text)
