"""`ThreadWorkers`: the consumer's side of worker threads: starting, asking, receiving and ending them."""

from __future__ import annotations

import atexit
import copy
import math
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from sluicegate import _core, _torch
from sluicegate.fetch.messages import request_in_words
from sluicegate.order.ids import BatchIds
from sluicegate.order.requests import indices_of
from sluicegate.state.map_place import MapPlace
from sluicegate.stream.resumable import set_epoch
from sluicegate.system import deadlines
from sluicegate.system.bell import Bell

from .group import WorkerGroup
from .lane import Lane
from .live_groups import LiveGroups
from .pace import Pace
from .thread_answer import ThreadAnswer
from .thread_main import ThreadWorker
from .work import Work

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

    Attributes:
        pace: how long batches of a stream of the core take.
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
        self._is_stopping = threading.Event()
        # By worker: the number of batches that it was asked for and has not answered.
        self._unanswered = [0] * work.worker_settings.num_workers
        self._lanes = [Lane() for _ in range(work.worker_settings.num_workers)]
        self.pace = Pace()
        # The pass that the workers of a stream share in this epoch.
        self._pass = _core.StreamPass(work.worker_settings.num_workers) if work.shares_pass else None
        _torch.answer_per_thread()
        self._run = [
            ThreadWorker(worker, lane, work, self._pass, self.pace, self._answer, self._is_stopping.is_set)
            for worker, lane in enumerate(self._lanes)
        ]
        self.workers = [
            threading.Thread(target=each.run, name=f"sluicegate-worker-{each.worker}", daemon=True)
            for each in self._run
        ]
        _live.add(self)
        self._dataset = None if work.replaces_processes else work.dataset
        if work.worker_settings.sets_epoch:
            self._set_epoch(work.worker_settings.epoch)
        place = next(iter(work.worker_settings.places), None)
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

    def begin(self, epoch: int, shared_seed: int | None, number: int, sets_epoch: bool) -> None:
        """Tell all workers that another epoch begins. The arguments are those of `resume`."""
        if sets_epoch:
            self._set_epoch(number)
        if self._pass is not None:
            self._pass = _core.StreamPass(len(self._lanes))
        for lane in self._lanes:
            lane.ask(("resume", number, sets_epoch, self._pass))

    def _set_epoch(self, epoch: int) -> None:
        # Once for all that share the dataset.
        if self._dataset is not None:
            set_epoch(self._dataset, epoch)

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
        deadline = math.inf if timeout is None else time.perf_counter() + timeout
        while True:
            if self.inbox:
                return True
            if self.closed:
                raise StopIteration
            left = deadline - time.perf_counter()
            if left <= 0.0:
                return False
            has_come = self._come.wait(min(left, _ALIVE_SECONDS))
            self.pace.since = time.perf_counter()
            if not has_come:
                # Rarely: if a signal handler raises inside `is_alive`, Python considers the thread ended.
                self._check_alive()

    def can_fetch(self, worker: int, request: Any, seconds: float) -> bool:
        """Return True if `answer_on_calling_thread` may be called for `worker`, and does not have to wait.

        Waits for the samples up to `seconds`. Never True while the thread of `worker` has something to do.
        """
        run = self._run  # before the request: if another thread closes the workers, it is not answered
        return not self.closed and run[worker].may_answer(request, seconds)

    def answer_on_calling_thread(self, worker: int, epoch: int, number: int, ids: BatchIds) -> ThreadAnswer:
        """Return the next answer of `worker`, made on the calling thread in place of its own.

        Raises:
            BaseException: the calling thread was interrupted by an exception outside `Exception`; no batch has failed.
        """
        run = self._run[worker]
        request = epoch, number, ids.request, ids.epoch
        answer: ThreadAnswer = _torch.call_as_worker(run.info, run.answer, *request, is_ahead=False)
        if answer.error is not None and not isinstance(answer.error, Exception):
            answer.batch()
        return answer

    def _check_alive(self) -> None:
        for worker, thread in enumerate(self.workers):
            # A dataset cannot end a thread, but other code can raise an exception in it from outside.
            if self._unanswered[worker] > 0 and not thread.is_alive() and not self.inbox:
                raise RuntimeError(
                    f"worker {worker} (thread {thread.name}) died without an answer: other code of this process ended "
                    "it; iterate over the loader again"
                )

    def report(self, worker: int) -> str:
        """Return the activity of `worker`, its duration, and its Python stack."""
        thread, lane = self.workers[worker], self._lanes[worker]
        name = f"worker {worker} (thread {thread.name})"
        if lane.since is None or lane.doing is None:
            return f"{name} has not started"
        _, number, index = lane.doing
        what, seconds = request_in_words(index), time.monotonic() - lane.since
        text = f"{name} has been fetching batch {number} ({what}) for {seconds:.1f} seconds"
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
        self._is_stopping.set()
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
        self._run = []
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


_live: LiveGroups[ThreadWorkers] = LiveGroups()


@atexit.register
def _close_all() -> None:
    for group in _live:
        group.close()
