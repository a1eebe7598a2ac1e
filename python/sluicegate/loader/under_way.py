"""`UnderWay`: the batches that workers were asked for and that were not delivered yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sluicegate.order.ids import BatchIds
from sluicegate.worker.group import Answer


class UnderWay:
    """The batches of an epoch that workers were asked for and that were not delivered yet, with the answers received.

    Batches have numbers, which count the requests of the epoch.

    Attributes:
        asked: how many batches were asked for.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._ids: dict[int, BatchIds] = {}
        self._answers: dict[int, Answer] = {}
        # No batch before this one can still be delivered.
        self._next = 0

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, number: int) -> bool:
        return number in self._ids

    def add(self, number: int, ids: BatchIds) -> None:
        """Add a batch that is about to be requested of a worker: the next one, or the rest of a removed one."""
        self._ids[number] = ids
        self.asked = max(self.asked, number + 1)

    def withdraw(self, number: int) -> None:
        """Forget a batch that no worker could be asked for."""
        self._ids.pop(number, None)

    def worker(self, number: int) -> int:
        """Return the worker that was asked for the batch."""
        return self._ids[number].worker

    def keep(self, answer: Answer) -> bool:
        """Keep an answer; return False if nothing waits for it: its worker's stream had ended."""
        if answer.number not in self._ids:
            return False
        self._answers[answer.number] = answer
        return True

    def answer(self, number: int) -> Answer | None:
        """Return the answer for the batch, if it was received."""
        return self._answers.get(number)

    def answers(self) -> Iterator[Answer]:
        """Yield the answers received, in the order of their batches."""
        return (self._answers[number] for number in sorted(self._answers))

    def ready(self, inbox: Iterable[Answer], in_order: bool) -> Iterator[Answer]:
        """Yield the answers whose batches can be delivered, next one first; with `in_order`, up to the first gap.

        Args:
            inbox: answers of this epoch that were not kept yet.
            in_order: False if any batch may be delivered next.
        """
        come = {answer.number: answer for answer in inbox} | self._answers
        for number in range(self._next, self.asked):
            answer = come.get(number)
            if answer is not None and answer.is_ready:
                yield answer
            elif in_order and number in self._ids:
                return

    def next(self, active: Sequence[bool]) -> int | None:
        """Return the number of the next batch that can still arrive; None if there is none.

        Args:
            active: by worker, False if its stream has ended: what it was asked for after that does not arrive.
        """
        while self._next < self.asked:
            ids = self._ids.get(self._next)
            if ids is not None:
                if active[ids.worker] or self._next in self._answers:
                    return self._next
                del self._ids[self._next]
            self._next += 1
        return None

    def remove(self, number: int) -> BatchIds:
        """Remove a batch that is delivered, or in whose place its worker's stream ended, and its answer."""
        # In this order: if a signal handler raises in between, nothing waits for the batch.
        ids = self._ids.pop(number)
        self._answers.pop(number, None)
        return ids
