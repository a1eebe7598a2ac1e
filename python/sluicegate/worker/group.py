"""`WorkerGroup`: the consumer's side of the workers that fetch for an iterator."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from sluicegate.order.ids import BatchIds

from .process_answer import ProcessAnswer
from .thread_answer import ThreadAnswer

Answer: TypeAlias = ProcessAnswer | ThreadAnswer

# The id of this process. Every batch needs it, and the system takes longer to tell it than a call in Python.
_process = os.getpid()


def _enter_child() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_enter_child)


class WorkerGroup(ABC):
    """The workers of one iterator: what asks them, receives their answers, and ends them.

    Attributes:
        workers: the processes or threads, by number.
        inbox: the answers received, oldest first.
        first_epoch: the number of the first epoch; later ones count up from it.
        first_worker: the worker that is asked first.
        sends_epoch: True if the loader's epoch is sent with every batch.
    """

    workers: list[Any]
    inbox: deque[Answer]
    first_epoch = 0
    first_worker = 0
    sends_epoch = False

    def __init__(self) -> None:
        self._owner = _process

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True if no more answers will come."""

    @property
    def iterators_served(self) -> int:
        """The number of iterators that the workers serve."""
        return 1

    @property
    def is_foreign(self) -> bool:
        """True if this process is a fork of the one that owns the workers."""
        return _process != self._owner

    @abstractmethod
    def fetch(self, worker: int, epoch: int, number: int, ids: BatchIds) -> None:
        """Ask `worker` for one batch; return at once."""

    def resume(
        self,
        epoch: int,
        shared_seed: int | None,
        number: int,
        sets_epoch: bool,
        wait: Callable[[int], None],
        note: Callable[[Answer], None],
    ) -> None:
        """Tell all workers that another epoch begins, once they have finished what is left of the last one.

        Workers finish it in torch, too: a dataset may count or draw on every sample.

        Args:
            epoch: the number of the epoch since the workers started.
            shared_seed: the seed for DataPipes.
            number: the loader's number of the epoch.
            sets_epoch: True to call the dataset's `set_epoch`.
            wait: waits for an answer of a worker.
            note: called with every answer that will not be delivered.
        """
        self.check()
        while True:
            while self.inbox:
                note(self.inbox.popleft())
            if (worker := self._unanswered_worker()) is not None:
                wait(worker)
            elif not self.inbox:
                break
        self.begin(epoch, shared_seed, number, sets_epoch)

    @abstractmethod
    def _unanswered_worker(self) -> int | None:
        """Return a worker that has not answered a request yet; None if all requests are answered."""

    @abstractmethod
    def begin(self, epoch: int, shared_seed: int | None, number: int, sets_epoch: bool) -> None:
        """Tell all workers that another epoch begins. The arguments are those of `resume`."""

    def under_way(self, worker: int) -> int:
        """Return the number of requests that `worker` has not answered; 0 if it can take any number of them."""
        return 0

    @abstractmethod
    def dismiss(self, worker: int) -> None:
        """Let `worker` end, unless other iterators need it: there is no more work for it."""

    @abstractmethod
    def check(self) -> None:
        """Raise an error if a worker has died or if these workers belong to another process."""

    @abstractmethod
    def receive(self, timeout: float | None) -> bool:
        """Wait until an answer is in the inbox; return False if `timeout` seconds pass first.

        Raises:
            RuntimeError: a worker has died.
            StopIteration: another thread has ended the workers.
        """

    def gather(self) -> None:  # noqa: B027
        """Take in the answers that have come, without waiting, unless they come by themselves."""

    def listen(self) -> None:  # noqa: B027
        """Count the answers that have come as batches ahead, unless they count themselves."""

    @abstractmethod
    def report(self, worker: int) -> str:
        """Return the activity of `worker`, its duration, and its Python stack."""

    @abstractmethod
    def close(self, is_hurried: Callable[[], bool] | None = None) -> None:
        """End the workers, unless other iterators need them. May be called more than once.

        Args:
            is_hurried: called during the wait for them; returning True ends the wait.
        """
