"""`ThreadWorker`: the code of one worker thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from sluicegate import _core, _torch
from sluicegate.fetch.fetcher import make_fetcher
from sluicegate.rng.sample import SampleSeeding
from sluicegate.rng.stream_seeding import StreamSeeding
from sluicegate.state.place_state import PlaceState
from sluicegate.stream.split import sharing

from .batch_bytes import bytes_of
from .lane import Lane
from .pace import Pace
from .report import Reporter
from .thread_answer import ThreadAnswer
from .work import Work

_NOT_BEGUN = "this worker could not start; see its first error"


class ThreadWorker:
    """Runs in one thread: task after task, with the fetcher of the current epoch.

    While that thread is idle, the consumer's may fetch a batch in its place: see `may_answer`.

    Args:
        worker: its number.
        lane: its tasks.
        work: what the workers are started with.
        shared: what the workers of a stream read together in the first epoch.
        pace: told how long batches of a native stream take.
        put: takes an answer.
        is_stopping: returns True when the workers are closed.
    """

    def __init__(
        self,
        worker: int,
        lane: Lane,
        work: Work,
        shared: _core.StreamPass | None,
        pace: Pace,
        put: Callable[[ThreadAnswer], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self.worker = worker
        self.lane = lane
        self.pace, self.put, self.is_stopping = pace, put, is_stopping
        self.bytes_ahead = work.bytes_ahead
        # Not `work` itself: a thread would keep the sampler alive, which may refer to the loader.
        self.worker_settings, self.dataset, self.collate_fn = work.worker_settings, work.dataset, work.collate_fn
        self.init_fn, self.sample_id = work.init_fn, work.settings.sample_id
        self.shared = shared
        # True if this worker has its own copy of the dataset.
        self.is_alone = work.replaces_processes
        if self.is_alone:
            self.dataset, self.init_fn = work.dataset.for_worker(), None
        self.is_stream = work.settings.is_stream
        seed = self.worker_settings.base_seed + worker
        self.info = _torch.WorkerInfo(
            id=worker, num_workers=self.worker_settings.num_workers, seed=seed, dataset=self.dataset
        )
        self.seeding: SampleSeeding | StreamSeeding | None = None
        if self.worker_settings.seed is not None and not self.is_stream:
            # The global generators belong to the whole process: parallel threads cannot seed them per sample.
            self.seeding = SampleSeeding(self.worker_settings.seed, False)
        self.reporter = Reporter(self.worker_settings.snapshot_every, False, work.shares_pass)
        self.fetcher: Any = None
        # Where the last epoch of a stream stopped, if known.
        self.before: PlaceState | None = None
        # Error from before the first batch of an epoch; sent as the answer to the next request.
        self.failure: BaseException | None = None
        # Setup failures are permanent: the worker is unusable.
        self.failure_of_set_up: BaseException | None = None
        self.ended = False
        self.is_set_up = False

    def run(self) -> None:
        """Set up, and answer tasks until the last one."""
        _torch.set_worker_info_of_thread(self.info)
        places, epoch = self.worker_settings.places, self.worker_settings.epoch
        resumed = places[self.worker] if self.is_stream and self.worker < len(places) else None
        try:
            if self.init_fn is not None:
                self.init_fn(self.worker)
            self.is_set_up = True
        except BaseException as error:  # Any exception: a consumer waits for this worker.
            self.failure = self.failure_of_set_up = error
            if self.shared is not None:
                self.shared.arrive(self.worker)
        else:
            if resumed is not None and resumed.over:
                # First restore how the finished epoch left the dataset, then begin the requested epoch.
                if resumed.states:
                    self._begin(resumed, max(epoch - 1, 0), None)
                resumed, self.before = None, resumed
            if self.is_alone and self.worker_settings.sets_epoch:
                self.dataset.set_epoch(epoch)
            self._begin(resumed, epoch, self.shared)
        self.lane.done()
        while True:
            task = self.lane.next()
            if task == "stop" or self.is_stopping():
                return
            if task[0] == "resume":
                _, epoch, sets_epoch, self.shared = task
                self.ended, self.failure = False, self.failure_of_set_up
                if self.is_alone and sets_epoch:
                    self.dataset.set_epoch(epoch)
                if self.is_set_up:
                    self._begin(None, epoch, self.shared)
            else:
                self.lane.begin(task[:3])
                # In one expression: a batch must not be kept while this thread waits.
                self.put(self.answer(*task))
            self.lane.done()
            # The same for its indices.
            del task

    def _begin(self, resumed: PlaceState | None, epoch: int, shared: _core.StreamPass | None) -> None:
        self.fetcher = None  # A fetcher left from another epoch must not be used for this one.
        if self.is_stream and self.worker_settings.seed is not None:
            self.seeding = StreamSeeding(self.worker_settings.seed, False, self.worker, epoch)
        try:
            worker_settings = self.worker_settings
            seeding = self.seeding if self.is_stream else None
            with contextlib.nullcontext() if seeding is None else seeding.batch(), sharing(shared):
                self.fetcher = make_fetcher(
                    worker_settings.dataset_kind,
                    self.dataset,
                    worker_settings.fetching(self.collate_fn, self.sample_id),
                    self.seeding,
                    resumed,
                    self.before,
                )
            self.reporter.begin(self.fetcher)
        except BaseException as error:  # Any exception: a consumer waits for this worker.
            self.failure = error
        finally:
            if shared is not None:
                shared.arrive(self.worker)  # The others do not wait for a worker that could not begin.

    def may_answer(self, index: Any, seconds: float) -> bool:
        """Return True if another thread may call `answer`, which does not have to wait; waits for that up to `seconds`.

        Never True while the thread of this worker has something to do.
        """
        if not self.lane.is_idle:
            return False
        if self.ended or self.failure is not None or self.fetcher is None:
            return True
        return self.fetcher.has_next(len(index), seconds)  # type: ignore[no-any-return]

    def answer(self, epoch: int, number: int, index: Any, loader_epoch: int, is_ahead: bool = True) -> ThreadAnswer:
        """Return the answer to a request; with `is_ahead`, its batch counts as one ahead."""
        answer = ThreadAnswer(self.worker, epoch, number)
        if self.ended:
            answer.ended = True
        elif self.failure is not None or self.fetcher is None:
            answer.error = self.failure or RuntimeError(_NOT_BEGUN)
            self.failure = None
        else:
            told = self.fetcher.batch_bytes if self.is_stream else None
            try:
                if told is None:
                    answer.content = self._fetched(index, loader_epoch)
                else:
                    answer.content = self.pace.measured(self._fetched, index, loader_epoch)
                if is_ahead:
                    answer.held = self.bytes_ahead.hold(bytes_of(answer.content) if told is None else told())
            except BaseException as error:  # Any exception: a consumer waits for this batch.
                if isinstance(error, StopIteration) and self.is_stream:
                    self.ended = answer.ended = True
                else:
                    answer.error = error
        try:
            answer.report = self.reporter.report(self.fetcher)
        except BaseException as error:  # A dataset's state_dict may raise anything, too.
            answer.error = answer.error or error
        try:
            return answer
        finally:
            del answer  # The traceback of its error would keep it alive, and with it the samples.

    def _fetched(self, index: Any, epoch: int) -> Any:
        if self.seeding is None:
            return self.fetcher.fetch(index)
        self.seeding.begin(epoch)
        with self.seeding.batch():
            return self.fetcher.fetch(index)
