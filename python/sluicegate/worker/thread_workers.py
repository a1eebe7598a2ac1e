"""`ThreadWorkers`: the consumer's side of worker threads: starting, asking, receiving and ending them."""

from __future__ import annotations

import atexit
import contextlib
import copy
import math
import os
import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from sluicegate import _core, _torch
from sluicegate.fetch.fetcher import make_fetcher
from sluicegate.fetch.messages import indices_in_words
from sluicegate.order.ids import BatchIds
from sluicegate.order.requests import indices_of
from sluicegate.rng.sample import SampleSeeding
from sluicegate.rng.stream_seeding import StreamSeeding
from sluicegate.state.map_place import MapPlace
from sluicegate.state.place_state import PlaceState
from sluicegate.stream.split import sharing
from sluicegate.system import deadlines
from sluicegate.system.bell import Bell

from .batch_bytes import bytes_of
from .duty import Work
from .group import WorkerGroup
from .live_groups import LiveGroups
from .report import Reporter
from .thread_answer import ThreadAnswer

# How often a waiting consumer checks that the threads are alive.
_ALIVE_SECONDS = 1.0
# The longest sleep of a wait that may be hurried.
_LOOK_SECONDS = 0.05


class ThreadWorkers(WorkerGroup):
    """N threads of this process that fetch for one iterator.

    They share the dataset and the global random number generators with each other and with the rest of the process:
    nothing is copied, pickled or seeded. Each thread runs `worker_init_fn` and has its own result of
    `torch.utils.data.get_worker_info()`.

    A stream of the core can be read by such threads instead of worker processes, where no one can tell the difference.
    Then each has its own copy of the stream, with positions of its own, and `worker_init_fn` is not called, since it
    only seeds generators. What they read in common, a single thread of the core reads and parses once for all.

    Args:
        work: what the workers are started with.
    """

    closed = False

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.inbox = deque()
        self.bytes_ahead = work.bytes_ahead
        # Guards the counts below, and keeps them consistent with the inbox.
        self._lock = threading.Lock()
        # Rung when an answer has come, and when the workers are closed.
        self._come = Bell()
        self._stopping = False
        # By worker: the number of batches that it was asked for and has not answered.
        self._unanswered = [0] * work.duty.num_workers
        self._lanes = [_Lane() for _ in range(work.duty.num_workers)]
        # What the workers of a stream read together in this epoch.
        self._pass = _core.StreamPass(work.duty.num_workers) if work.shares_pass else None
        _torch.answer_per_thread()
        self.workers = [
            threading.Thread(
                target=_Worker(self, worker, self._lanes[worker], work, self._pass).run,
                name=f"sluicegate-worker-{worker}",
                daemon=True,
            )
            for worker in range(work.duty.num_workers)
        ]
        _live.add(self)
        self._dataset = None if work.replaces_processes else work.dataset
        if work.duty.tells_epoch:
            self._tell_epoch(work.duty.epoch)
        place = next(iter(work.duty.places), None)
        if place is not None and not work.settings.is_stream:
            # The threads share the dataset, so it is restored once, before any of them reads it.
            MapPlace(work.dataset, place)
        try:
            for thread in self.workers:
                thread.start()
        except BaseException:
            self.close()
            raise

    def fetch(self, worker: int, epoch: int, number: int, ids: BatchIds) -> None:
        """Ask `worker` for one batch; return at once."""
        # A sampler may reuse its list before this batch is fetched.
        index = indices_of(copy.copy(ids.request))
        with self._lock:
            self._lanes[worker].ask((epoch, number, index, ids.epoch))
            self._unanswered[worker] += 1  # Last: if a signal handler raises before this, the count is not too high.

    def _unanswered_worker(self) -> int | None:
        # The threads share the dataset: its epoch must not change while they read.
        with self._lock:
            return next((worker for worker, batches in enumerate(self._unanswered) if batches > 0), None)

    def begin(self, epoch: int, shared_seed: int | None, number: int, tells_number: bool) -> None:
        """Tell all workers that another epoch begins. The arguments are those of `resume`."""
        if tells_number:
            self._tell_epoch(number)
        if self._pass is not None:
            self._pass = _core.StreamPass(len(self._lanes))
        for lane in self._lanes:
            lane.ask(("resume", number, tells_number, self._pass))

    def _tell_epoch(self, epoch: int) -> None:
        # Once for all that share the dataset.
        if self._dataset is not None:
            self._dataset.set_epoch(epoch)

    def dismiss(self, worker: int) -> None:
        """Let `worker` end: there is no more work for it."""
        self._lanes[worker].ask("stop")

    def check(self) -> None:
        """Raise an error if these threads belong to another process."""
        if self.is_foreign:
            raise RuntimeError(
                f"this iterator belongs to process {self._owner}, whose threads were not forked, but this is a fork "
                f"of it, process {os.getpid()}; iterate over the loader again here"
            )

    def receive(self, timeout: float | None) -> bool:
        """Wait until an answer is in the inbox; return False if `timeout` seconds pass first.

        Raises:
            StopIteration: another thread has ended the workers.
            RuntimeError: a worker died without an answer.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            if self.inbox:
                return True
            if self.closed:
                raise StopIteration
            left = deadline - time.monotonic()
            if left <= 0.0:
                return False
            if not self._come.wait(min(left, _ALIVE_SECONDS)):
                # Rarely: if a signal handler raises inside `is_alive`, Python considers the thread ended.
                self._check_alive()

    def _check_alive(self) -> None:
        for worker, thread in enumerate(self.workers):
            # A dataset cannot end a thread, but other code can raise an exception in it from outside.
            if self._unanswered[worker] > 0 and not thread.is_alive() and not self.inbox:
                raise RuntimeError(
                    f"worker {worker} (thread {thread.name}) died without an answer: other code of this process ended "
                    "it; iterate over the loader again"
                )

    def report(self, worker: int) -> str:
        """Return what `worker` has been doing, for how long, and its Python stack."""
        thread, lane = self.workers[worker], self._lanes[worker]
        name = f"worker {worker} (thread {thread.name})"
        if lane.since is None or lane.doing is None:
            return f"{name} has not begun"
        _, number, index = lane.doing
        what = f"indices {indices_in_words(index)}" if index is not None else "the next samples of its stream"
        text = f"{name} has been fetching batch {number} ({what}) for {time.monotonic() - lane.since:.1f} seconds"
        frame = sys._current_frames().get(thread.ident or 0)
        return f"{text}; its Python stack:\n{''.join(traceback.format_stack(frame))}" if frame else text

    def close(self, is_hurried: Callable[[], bool] | None = None) -> None:
        """End the workers after their current work. May be called more than once.

        Args:
            is_hurried: called during the wait for them; returning True ends the wait.
        """
        if self.closed:
            return
        self.closed = True
        if self.is_foreign:
            return
        self._stopping = True
        if self._pass is not None:
            self._pass.close()  # Ends waiting for samples.
        self._come.ring()  # Otherwise a thread that waits for an answer would wait forever.
        for lane in self._lanes:
            lane.ask("stop")
        deadline = time.monotonic() + deadlines.GRACE
        for thread in self.workers:
            if thread.ident is not None and thread is not threading.current_thread():
                _join(thread, deadline, is_hurried)
        self.inbox.clear()
        _live.discard(self)

    def _answer(self, answer: ThreadAnswer) -> None:
        with self._lock:
            self._unanswered[answer.worker] -= 1
            self.inbox.append(answer)
        self._come.ring()


def _join(thread: threading.Thread, deadline: float, is_hurried: Callable[[], bool] | None) -> None:
    while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
        if is_hurried is not None and is_hurried():
            return
        thread.join(min(left, _LOOK_SECONDS))


class _Lane:
    """The tasks of one thread, and what it is doing."""

    def __init__(self) -> None:
        # Not a deque and a semaphore: if a signal handler raised between the two, a task would be left that the thread
        # is not woken for, and every later task would wake it for the one before.
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.doing: tuple[int, int, Any] | None = None
        self.since: float | None = None

    def begin(self, task: tuple[int, int, Any]) -> None:
        self.doing, self.since = task, time.monotonic()

    def end(self) -> None:
        self.doing = self.since = None

    def ask(self, task: Any) -> None:
        self.tasks.put(task)

    def next(self) -> Any:
        """Wait for the next task. The last one is "stop", which `close` sends, also at interpreter exit."""
        return self.tasks.get()


class _Worker:
    """Runs in one thread: task after task, with the fetcher of the current epoch."""

    def __init__(
        self, group: ThreadWorkers, worker: int, lane: _Lane, work: Work, shared: _core.StreamPass | None
    ) -> None:
        self.group = group
        self.worker = worker
        self.lane = lane
        # Not `work` itself: a thread would keep the sampler alive, which may refer to the loader.
        self.duty, self.dataset, self.collate_fn = work.duty, work.dataset, work.collate_fn
        self.init_fn, self.sample_id = work.init_fn, work.settings.sample_id
        self.shared = shared
        # True if this worker has its own copy of the dataset.
        self.is_alone = work.replaces_processes
        if self.is_alone:
            self.dataset, self.init_fn = work.dataset.for_worker(), None
        self.is_stream = work.settings.is_stream
        seed = self.duty.base_seed + worker
        self.info = _torch.WorkerInfo(id=worker, num_workers=self.duty.num_workers, seed=seed, dataset=self.dataset)
        self.seeding: SampleSeeding | StreamSeeding | None = None
        if self.duty.seed is not None and not self.is_stream:
            # The global generators belong to the whole process: parallel threads cannot seed them per sample.
            self.seeding = SampleSeeding(self.duty.seed, False)
        self.reporter = Reporter(self.duty.snapshot_every, False, work.shares_pass)
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
        _torch.set_worker_info_of_thread(self.info)
        places, epoch = self.duty.places, self.duty.epoch
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
            if self.is_alone and self.duty.tells_epoch:
                self.dataset.set_epoch(epoch)
            self._begin(resumed, epoch, self.shared)
        while True:
            task = self.lane.next()
            if task == "stop" or self.group._stopping:
                return
            if task[0] == "resume":
                _, epoch, tells_epoch, self.shared = task
                self.ended, self.failure = False, self.failure_of_set_up
                if self.is_alone and tells_epoch:
                    self.dataset.set_epoch(epoch)
                if self.is_set_up:
                    self._begin(None, epoch, self.shared)
            else:
                self._answer(*task)
            # So that neither a batch nor its indices are kept while this thread waits.
            del task

    def _begin(self, resumed: PlaceState | None, epoch: int, shared: _core.StreamPass | None) -> None:
        self.fetcher = None  # A fetcher left from another epoch must not be used for this one.
        if self.is_stream and self.duty.seed is not None:
            self.seeding = StreamSeeding(self.duty.seed, False, self.worker, epoch)
        try:
            duty = self.duty
            seeding = self.seeding if self.is_stream else None
            with contextlib.nullcontext() if seeding is None else seeding.batch(), sharing(shared):
                self.fetcher = make_fetcher(
                    duty.dataset_kind,
                    self.dataset,
                    duty.auto_collation,
                    self.collate_fn,
                    duty.drop_last,
                    duty.sampler,
                    self.seeding,
                    resumed,
                    self.sample_id,
                    self.before,
                    duty.snapshot_every,
                    duty.run,
                )
            self.reporter.begin(self.fetcher)
        except BaseException as error:  # Any exception: a consumer waits for this worker.
            self.failure = error
        finally:
            if shared is not None:
                shared.arrive(self.worker)  # The others do not wait for a worker that could not begin.

    def _answer(self, epoch: int, number: int, index: Any, loader_epoch: int) -> None:
        answer = ThreadAnswer(self.worker, epoch, number)
        if self.ended:
            answer.ended = True
        elif self.failure is not None or self.fetcher is None:
            answer.error = self.failure or RuntimeError("this worker could not begin: see its first error")
            self.failure = None
        else:
            self.lane.begin((epoch, number, index))
            try:
                answer.content = self._fetched(index, loader_epoch)
                told = self.fetcher.batch_bytes if self.is_stream else None
                answer.held = self.group.bytes_ahead.hold(bytes_of(answer.content) if told is None else told())
            except BaseException as error:  # Any exception: a consumer waits for this batch.
                if isinstance(error, StopIteration) and self.is_stream:
                    self.ended = answer.ended = True
                else:
                    answer.error = error
            self.lane.end()
        try:
            answer.report = self.reporter.report(self.fetcher)
        except BaseException as error:  # A dataset's state_dict may raise anything, too.
            answer.error = answer.error or error
        self.group._answer(answer)
        del answer  # The traceback of its error would keep it alive, and with it the samples.

    def _fetched(self, index: Any, epoch: int) -> Any:
        if self.seeding is None:
            return self.fetcher.fetch(index)
        self.seeding.begin(epoch)
        with self.seeding.batch():
            return self.fetcher.fetch(index)


_live: LiveGroups[ThreadWorkers] = LiveGroups()


@atexit.register
def _close_all() -> None:
    for group in _live:
        group.close()
