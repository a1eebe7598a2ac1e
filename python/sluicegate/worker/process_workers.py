"""`ProcessWorkers`: the consumer's side of worker processes: starting, asking, receiving, watching and ending them."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.forkserver
import multiprocessing.process
import multiprocessing.resource_tracker
import os
import pickle
import select
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch.multiprocessing

from sluicegate.fetch.messages import request_in_words
from sluicegate.order.ids import BatchIds
from sluicegate.order.requests import indices_of, pickled_request, portable
from sluicegate.system import deadlines
from sluicegate.system.descriptor import identity_of

from .death import advice, exited, killed
from .group import WorkerGroup
from .limits import descriptor_limit_named
from .live_groups import LiveGroups
from .payload import Payload, preload
from .process_answer import ProcessAnswer
from .process_end import events, joined, wait_for_end
from .process_main import STACK_SIGNAL, Channel, run_worker
from .work import Work

# When iterators share workers, the bits of an answer's epoch above these say which iterator it belongs to.
EPOCH_BITS = 32


# Results of the core's `receive` for an answer, and for a closed descriptor.
_HEARD, _CLOSED = -1, -2


class ProcessWorkers(WorkerGroup):
    """N processes that fetch for one iterator, and the shared memory that they write batches to.

    Args:
        work: what the workers are started with.
    """

    closed = False

    def __init__(self, work: Work) -> None:
        super().__init__()
        self._reusable = True
        self.workers = []
        self.inbox = deque()
        # Answers as the core returns them. A C function appends them, so that a signal handler's exception cannot lose
        # one.
        self._heard: deque[Any] = deque()
        self._pidfds: list[int | None] = []
        # Workers that have answered at least once.
        self._begun: set[int] = set()
        self._method = ""
        worker_settings, count = work.worker_settings, work.worker_settings.num_workers
        self._requests: list[deque[tuple[int, int, Any]]] = [deque() for _ in range(count)]
        under_way = count * work.prefetch_factor
        # Weak: the memory is kept for the loader's next iterator, so only as long as the loader exists.
        self._lender = weakref.ref(work.memory)
        # Samples of a map-style dataset are seeded by epoch, so the epoch is sent with every batch.
        self.sends_epoch = worker_settings.seed is not None and not work.settings.is_stream
        with descriptor_limit_named(count):
            self._memory = work.memory.lend(count, under_way, work.bytes_ahead)
        self._memory_file = identity_of(self._memory.descriptors[0])
        self._memory.pin(work.pinned)
        _live.add(self)
        try:
            with descriptor_limit_named(count):
                self._start(work)
        except BaseException:
            # A process may have started that is not tracked. Its memory is therefore never reused and says "stop"
            # forever.
            self._reusable = False
            self.close()
            raise

    def _start(self, work: Work) -> None:
        context: Any = work.settings.multiprocessing_context or torch.multiprocessing
        self._method = context.get_start_method()
        if self._method == "forkserver":
            preload()
            # Before interrupts are blocked: the server, and all processes that it forks for others, would inherit that.
            multiprocessing.forkserver.ensure_running()
        if self._method != "fork":
            # Starting the tracker unblocks interrupts.
            multiprocessing.resource_tracker.ensure_running()
        needs = {"dataset": work.dataset, "collate_fn": work.collate_fn, "sample_id": work.settings.sample_id}
        payload = Payload({**needs, "worker_init_fn": work.init_fn})
        own = os.pidfd_open(self._owner)
        try:
            channel = Channel(self._memory.layout, (*self._memory.descriptors, own), self._memory)
            for worker in range(work.worker_settings.num_workers):
                process = context.Process(
                    target=run_worker, args=(payload, channel, work.worker_settings, worker), daemon=True
                )
                with _interrupts_wait():
                    process.start()
                    self.workers.append(process)
                    try:
                        self._pidfds.append(os.pidfd_open(process.pid))
                    except ProcessLookupError:  # It has ended, and the fork server has collected it.
                        self._pidfds.append(None)
                        self._raise_death(worker)
        finally:
            payload.close()
            os.close(own)

    def fetch(self, worker: int, epoch: int, number: int, ids: BatchIds) -> None:
        """Send a request to `worker`."""
        request = portable(ids.request)
        request = pickled_request((ids.epoch, request) if self.sends_epoch else request)
        self._requests[worker].append((epoch, number, ids.request))
        try:
            self._memory.send(worker, "fetch", epoch, number, request)
        except BaseException:
            self._requests[worker].pop()  # The request was not sent, so no answer will come.
            raise

    def _unanswered_worker(self) -> int | None:
        return next((worker for worker, requests in enumerate(self._requests) if requests), None)

    def begin(self, epoch: int, shared_seed: int | None, number: int, sets_epoch: bool) -> None:
        """Tell all workers that another epoch begins. The arguments are those of `resume`."""
        content = pickle.dumps((shared_seed, number, sets_epoch))
        for worker in range(len(self.workers)):
            self._memory.send(worker, "resume", epoch, 0, content)

    def under_way(self, worker: int) -> int:
        """Return the number of batches that `worker` was asked for and has not answered."""
        return len(self._requests[worker])

    def dismiss(self, worker: int) -> None:
        """Let `worker` end: there is no more work for it."""
        descriptor = self._pidfds[worker]
        if descriptor is not None:
            self._memory.send(worker, "stop", 0, 0)
            self._forget(worker, descriptor)

    def _forget(self, worker: int, descriptor: int) -> None:
        self._pidfds[worker] = None
        with contextlib.suppress(OSError):  # Closed by other code.
            os.close(descriptor)

    def check(self) -> None:
        """Raise an error if a worker has died or if these workers belong to another process."""
        if self.closed:
            _stay_silent_at_exit()
            return
        self._refuse_foreign()
        for worker, happened in events(self._pidfds).items():
            if happened & select.POLLNVAL:
                self._raise_closed()
            self._raise_death(worker)

    def receive(self, timeout: float | None) -> bool:
        """Wait until an answer is in the inbox; return False if `timeout` seconds pass first.

        Raises:
            RuntimeError: a worker has died; the message is torch's.
        """
        self._unpack()
        while not self.inbox:
            watched = [(worker, each) for worker, each in enumerate(self._pidfds) if each is not None]
            heard = self._memory.receive([each for _, each in watched], timeout, self._heard.append)
            if heard is None:
                return False
            if heard == _CLOSED:
                self._raise_closed()
            if heard >= 0:
                self._raise_death(watched[heard][0])
            self._unpack()
        return True

    def gather(self) -> None:
        """Take in the answers that have come, without waiting. Does not detect dead workers; `receive` does."""
        while self._memory.receive([], 0.0, self._heard.append) == _HEARD:
            pass
        self._unpack()

    def listen(self) -> None:
        """Count the answers that have come as batches ahead."""
        self._memory.listen()

    def _unpack(self) -> None:
        """Move received answers into the inbox. If a signal handler raises in between, call it again."""
        while self._heard:
            answer = ProcessAnswer(*self._heard[0])
            self._begun.add(answer.worker)
            requests, answered = self._requests[answer.worker], (answer.epoch, answer.number)
            if any(request[:2] == answered for request in requests):
                while requests.popleft()[:2] != answered:
                    pass
            self.inbox.append(answer)
            self._heard.popleft()

    def report(self, worker: int) -> str:
        """Return the activity of `worker`, its duration, and its Python stack."""
        process, since = self.workers[worker], self._memory.busy_since(worker)
        name = f"worker {worker} (pid {process.pid})"
        if not since:
            return f"{name} has not started {self._working_on(worker)}"
        seconds = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - since) / 1e9
        text = f"{name} has been busy for {seconds:.1f} seconds with {self._working_on(worker)}"
        # Only now: a process that has not begun has no handler for this signal and would be ended by it.
        stack = self._stack_of(worker)
        return f"{text}; its Python stack:\n{stack}\n{advice(stack, self._method)}" if stack else text

    def _working_on(self, worker: int) -> str:
        for epoch, number, request in self._requests[worker]:
            what = request_in_words(indices_of(request))
            epoch %= 2**EPOCH_BITS
            return f"batch {number} of epoch {epoch} ({what})" if epoch else f"batch {number} ({what})"
        return "no batch"

    def _stack_of(self, worker: int) -> str:
        descriptor = self._pidfds[worker]
        if descriptor is None:
            return ""
        offset, size = self._memory.call_stack(worker)
        file = self._memory.descriptors[0]
        if identity_of(file) != self._memory_file:
            return ""  # Closed by other code; another file may have its number now.
        with contextlib.suppress(OSError):
            os.pwrite(file, bytes(size), offset)
            # The workers share this open file description, so they write at its offset.
            os.lseek(file, offset, os.SEEK_SET)
            signal.pidfd_send_signal(descriptor, STACK_SIGNAL)
        deadline, stack, last = time.monotonic() + deadlines.STACK, b"", b"\0"
        while time.monotonic() < deadline and (not stack or stack != last):
            time.sleep(0.05)
            last, stack = stack, self._memory.stack_of(worker)
        return stack.decode(errors="replace").rstrip()

    def _raise_death(self, worker: int) -> None:
        if self.closed:  # Closed by another thread.
            _stay_silent_at_exit()
            raise StopIteration
        process = self.workers[worker]
        if not wait_for_end(process, time.monotonic() + deadlines.TERMINATION):
            self._raise_closed()
        code = process.exitcode
        doing = f"Worker {worker} was working on {self._working_on(worker)}"
        has_begun = worker in self._begun or bool(self._memory.busy_since(worker)) or code != 1
        self.close(patience=deadlines.DEATH_GRACE)
        if code is not None and code < 0:
            raise RuntimeError(killed(process.pid, code, doing))
        raise RuntimeError(exited(process.pid, code, doing, has_begun, self._method))

    def _raise_closed(self) -> NoReturn:
        """End the workers, which are alive, because their deaths can no longer be detected."""
        if self.closed:  # Closed by another thread, as were the descriptors.
            _stay_silent_at_exit()
            raise StopIteration
        # The numbers may belong to other files by now.
        self._pidfds = [None] * len(self._pidfds)
        self._reusable = False
        self.close()
        raise RuntimeError(
            "other code in this process closed file descriptors that this DataLoader watches its worker processes "
            "with; close only descriptors that you opened (os.closerange closes all), or do so before iter(loader)"
        )

    def _refuse_foreign(self) -> None:
        if self.is_foreign:
            raise RuntimeError(
                f"this iterator belongs to process {self._owner}, whose workers answer only it, but this is a fork "
                f"of it, process {os.getpid()}; iterate over the loader again here"
            )

    def close(self, is_hurried: Callable[[], bool] | None = None, patience: float | None = None) -> None:
        """End the workers: gracefully, or by force if they take too long. May be called more than once.

        An interrupt such as Ctrl-C ends the waiting; it is raised after the workers have ended.

        Args:
            is_hurried: called during the wait; returning True ends the patience.
            patience: seconds to wait for what the workers are doing. Default `deadlines.GRACE`.
        """
        if self.closed:
            return
        self.closed = True
        if self.is_foreign:
            return
        self._memory.stop()
        interrupts: list[BaseException] = []
        left = joined(self.workers, deadlines.GRACE if patience is None else patience, interrupts, is_hurried)
        for process in left:
            process.terminate()
        left = joined(left, deadlines.TERMINATION, interrupts)
        for process in left:
            process.kill()
        left = joined(left, deadlines.TERMINATION, interrupts)
        for worker, descriptor in enumerate(self._pidfds):
            if descriptor is not None:
                self._forget(worker, descriptor)
        self.inbox.clear()
        # Otherwise a process may still write there.
        if not left and self._reusable and (lender := self._lender()) is not None:
            lender.give_back(self._memory)
        _live.discard(self)
        for interrupt in interrupts:
            raise interrupt


_live: LiveGroups[ProcessWorkers] = LiveGroups()


def _forget_parents_workers() -> None:
    # A forked child has no workers, but when it ends multiprocessing would end its parent's.
    for group in _live:
        for process in group.workers:
            multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
    _live.clear()


os.register_at_fork(after_in_child=_forget_parents_workers)


_exiting = threading.Event()


@atexit.register
def _close_all() -> None:
    # Runs before multiprocessing's own handler, which would end the workers in the middle of their work.
    _exiting.set()
    for group in _live:
        group.close()


def _stay_silent_at_exit() -> None:
    """Block forever in a daemon thread while the interpreter exits: an error could not be reported to anyone."""
    while _exiting.is_set() and threading.current_thread() is not threading.main_thread():
        time.sleep(60)


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Block Ctrl-C while a process starts, also in that process: without a handler it would print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
