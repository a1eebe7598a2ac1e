"""`SharedWorkers`: one set of workers for several loaders over one dataset."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from sluicegate.order.ids import BatchIds
from sluicegate.system.bell import Bell

from .group import Answer, WorkerGroup
from .process_workers import EPOCH_BITS
from .work import Work

# How often a thread that waits for another one to receive checks that the other one is still alive.
_LOOK_SECONDS = 1.0


class SharedWorkers:
    """Workers of several loaders, which start with the first iterator and end with the last one.

    Each iterator has a `WorkerShare`. A worker never has more requests at a time than it would from a single loader;
    further requests wait here, first come, first served. Iterators may be used on different threads: a thread that
    waits receives for all of them.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._owner = os.getpid()
        # Guards everything below.
        self._lock = threading.RLock()
        self._receiver: threading.Thread | None = None
        self._group: WorkerGroup | None = None
        self._terms: tuple[Any, ...] = ()
        self._last_epoch: int | None = None
        self._numbers = itertools.count()
        self._shares: weakref.WeakValueDictionary[int, WorkerShare] = weakref.WeakValueDictionary()
        # By worker: the requests that have not been sent yet.
        self._waiting: list[deque[tuple[int, int, BatchIds]]] = []
        self._limit = 0
        # The error of a worker that died; every share raises it.
        self._death: RuntimeError | None = None

    def share(self, work: Work, make: Callable[[Work], WorkerGroup]) -> WorkerShare | None:
        """Return a share for an iterator; None if it needs workers with other settings than these.

        Args:
            work: what the iterator's own workers would be started with.
            make: starts workers.
        """
        if self._owner != os.getpid():
            self._reset()  # In a fork: the lock may be held by a thread that was not forked.
        with self._lock:
            terms, worker_settings = work.terms(), work.worker_settings
            if self._group is None or self._group.closed:
                self._group, self._terms, self._death = make(work), terms, None
                self._last_epoch = worker_settings.epoch
                self._waiting = [deque() for _ in range(worker_settings.num_workers)]
                self._limit = worker_settings.num_workers * work.prefetch_factor
                self._shares.clear()
            elif terms != self._terms:
                return None
            number = next(self._numbers)
            share = WorkerShare(self, self._group, number)
            self._shares[number] = share
        self.set_epoch(worker_settings.shared_seed, worker_settings.epoch, worker_settings.sets_epoch)
        return share

    @property
    def iterators_served(self) -> int:
        """The number of iterators that the workers serve."""
        return max(len(self._shares), 1)

    def ask(self, worker: int, epoch: int, number: int, ids: BatchIds) -> None:
        """Ask `worker` for one batch, at once or when it has time."""
        with self._lock:
            self._waiting[worker].append((epoch, number, ids))
            self._send_waiting()

    def _send_waiting(self) -> None:
        if self._group is None:
            return
        for worker, waiting in enumerate(self._waiting):
            while waiting and self._group.under_way(worker) < self._limit:
                # Requests of a share that has left are no longer needed.
                if waiting[0][0] >> EPOCH_BITS in self._shares:
                    self._group.fetch(worker, *waiting[0])
                waiting.popleft()

    def set_epoch(self, shared_seed: int | None, number: int, sets_epoch: bool) -> None:
        """Make the workers call the dataset's `set_epoch`, unless the epoch is sent with every batch."""
        with self._lock:
            if sets_epoch and self._last_epoch != number and self._group is not None and not self._group.sends_epoch:
                self._group.begin(0, shared_seed, number, sets_epoch)
            self._last_epoch = number

    def receive(self, share: WorkerShare, timeout: float | None) -> bool:
        """Wait until an answer is in the inbox of `share`; return False if `timeout` seconds pass first.

        Raises:
            RuntimeError: a worker has died; every iterator that it served gets this error.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        is_silent = False
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            is_receiving = False
            try:
                with self._lock:
                    if share.inbox:
                        return True
                    if left == 0.0:
                        return False
                    self.check(share)
                    if not self._is_received_elsewhere(is_silent):
                        # In this order: if a signal handler raises from here on, the `finally` clause undoes this.
                        is_receiving, self._receiver = True, threading.current_thread()
                if is_receiving:
                    self._receive_for_all(share, left)
                else:
                    is_silent = not share.received.wait(_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS))
            finally:
                if is_receiving:
                    self._end_receiving()

    def _end_receiving(self) -> None:
        with self._lock:
            self._receiver = None
            for share in list(self._shares.values()):
                share.received.ring()

    def _is_received_elsewhere(self, is_silent: bool) -> bool:
        """Return True if another thread receives for all.

        A second signal handler's exception may have kept the last receiver from saying that it left. So if nothing was
        received for a while, this checks that the thread is alive. It does not check every time, for the reason in
        `ThreadWorkers.receive`.
        """
        receiver = self._receiver
        if receiver is None or receiver is threading.current_thread():
            return False
        return not is_silent or receiver.is_alive()

    def _receive_for_all(self, share: WorkerShare, timeout: float | None) -> None:
        with self._death_noted(share):
            share.group.receive(timeout)
        with self._lock:
            self._hand_out()

    def _hand_out(self) -> None:
        if self._group is None:
            return
        inbox = self._group.inbox
        while inbox:
            answer = inbox[0]
            share = self._shares.get(answer.epoch >> EPOCH_BITS)
            if share is not None:
                share.take(answer)
            # Last: if a signal handler raises before this, the answer is delivered a second time.
            inbox.popleft()
        self._send_waiting()

    def check(self, share: WorkerShare) -> None:
        """Raise an error if a worker has died or if these workers belong to another process."""
        group = share.group
        with self._lock, self._death_noted(share):
            group.check()
            if group.closed and not share.has_left and group is self._group and self._death is not None:
                raise RuntimeError(str(self._death))

    @contextlib.contextmanager
    def _death_noted(self, share: WorkerShare) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if share.group.closed and share.group is self._group:
                self._death = error
                share.has_left = True  # as with unshared workers: the error is raised once, and no more batches follow
            raise

    def leave(self, share: WorkerShare, is_hurried: Callable[[], bool] | None) -> None:
        """End the use of the workers by `share`. The last share to leave ends them, as their `close` does."""
        with self._lock:
            self._shares.pop(share.number, None)
            is_last = share.group is self._group and not self._shares
            if is_last:
                self._group = None  # Iterators that come while they end get new workers.
        if is_last:
            share.group.close(is_hurried=is_hurried)


class WorkerShare(WorkerGroup):
    """One iterator's view of shared workers: it can be used as if they were its own.

    Args:
        shared: the workers and all their shares.
        group: the workers.
        number: the number of this share.
    """

    def __init__(self, shared: SharedWorkers, group: WorkerGroup, number: int) -> None:
        super().__init__()
        self._shared = shared
        self.group = group
        self.number = number
        self.has_left = False
        self.inbox = deque()
        # Rung when another share has received for all.
        self.received = Bell()
        self.workers = group.workers
        self.first_epoch = number << EPOCH_BITS
        # Iterators begin with different workers; otherwise all would wait for the same one.
        self.first_worker = number % len(group.workers)
        # By epoch and number: the worker of each batch that was requested and has not come.
        self._under_way: dict[tuple[int, int], int] = {}

    @property
    def closed(self) -> bool:
        """True if no more answers will come."""
        return self.has_left or self.group.closed

    @property
    def is_foreign(self) -> bool:
        """True if this process is a fork of the one that owns the workers."""
        return self.group.is_foreign

    @property
    def iterators_served(self) -> int:
        """The number of iterators that the workers serve."""
        return self._shared.iterators_served

    def fetch(self, worker: int, epoch: int, number: int, ids: BatchIds) -> None:
        """Ask `worker` for one batch; return at once."""
        self._under_way[epoch, number] = worker
        try:
            self._shared.ask(worker, epoch, number, ids)
        except BaseException:
            self._under_way.pop((epoch, number), None)
            raise

    def take(self, answer: Answer) -> None:
        """Take in an answer. The same answer may be passed twice."""
        if (answer.epoch, answer.number) in self._under_way:
            self.inbox.append(answer)
            del self._under_way[answer.epoch, answer.number]

    def _unanswered_worker(self) -> int | None:
        return next(iter(self._under_way.values()), None)

    def begin(self, epoch: int, shared_seed: int | None, number: int, sets_epoch: bool) -> None:
        """Tell the workers the loader's epoch, if it differs from the last one."""
        self._shared.set_epoch(shared_seed, number, sets_epoch)

    def dismiss(self, worker: int) -> None:
        """Do nothing: other shares may need `worker`."""

    def check(self) -> None:
        """Raise an error if a worker has died or if these workers belong to another process."""
        if self.is_foreign:
            self.group.check()  # Without the lock, which a thread that was not forked may hold.
        self._shared.check(self)

    def receive(self, timeout: float | None) -> bool:
        """Wait until an answer is in the inbox; return False if `timeout` seconds pass first."""
        return self._shared.receive(self, timeout)

    def listen(self) -> None:
        """Count the answers that have come, for whichever share."""
        self.group.listen()

    def report(self, worker: int) -> str:
        """Return the activity of `worker`, its duration, and its Python stack."""
        return self.group.report(worker)

    def close(self, is_hurried: Callable[[], bool] | None = None) -> None:
        """Leave the workers to the other shares; the last one ends them. May be called more than once."""
        if self.has_left:
            return
        self.has_left = True
        self.inbox.clear()
        if not self.is_foreign:
            self._shared.leave(self, is_hurried)
