"""`Assignment`: which worker fetches which batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator


class Assignment:
    """Assigns batches to workers exactly as torch does: in turns, and only to workers that still have work.

    Args:
        num_workers: the number of workers.
        prefetch_factor: batches under way per worker.
        in_order: False to skip a worker that has fallen behind.
        first: the worker whose turn it is.

    Examples:
        >>> assignment = Assignment(num_workers=2, prefetch_factor=2, in_order=True)
        >>> [assignment.next_worker() for _ in range(3)]
        [0, 1, 0]
        >>> assignment.end(1)
        >>> assignment.next_worker(), assignment.next_worker()
        (0, 0)
    """

    def __init__(self, num_workers: int, prefetch_factor: int, in_order: bool, first: int = 0) -> None:
        self._prefetch_factor = prefetch_factor
        self.capacity = num_workers * prefetch_factor
        self.in_order = in_order
        # True while a worker's stream continues; those of map-style datasets always do.
        self.active = [True] * num_workers
        self.under_way = [0] * num_workers
        self._turns: Iterator[int] = itertools.cycle([*range(first, num_workers), *range(first)])

    def share(self, iterators_served: int) -> None:
        """Divide the capacity by the `iterators_served` iterators that the workers fetch for, but keep a minimum."""
        # Out of order, each worker takes an equal part: a remainder could be requested from no worker.
        unit = 1 if self.in_order else len(self.active)
        self.capacity = max(self.capacity // iterators_served // unit, 1) * unit

    def next_worker(self) -> int | None:
        """Return the worker for the next batch; None if all have ended or have fallen behind."""
        for _ in self.active:
            worker = next(self._turns)
            if self.active[worker] and (self.in_order or self.under_way[worker] < self.capacity // sum(self.active)):
                self.under_way[worker] += 1
                return worker
        return None

    @property
    def ahead(self) -> int:
        """The number of batches under way as long as there are more to fetch.

        When a worker ends, one more request goes to the others: from the first end on, it is one more than
        `prefetch_factor` per active worker.
        """
        return self.capacity if all(self.active) else sum(self.active) * self._prefetch_factor + 1

    def done(self, worker: int) -> None:
        """Record that `worker` is done with a batch."""
        self.under_way[worker] -= 1

    def end(self, worker: int) -> None:
        """Record that the stream of `worker` has ended."""
        self.active[worker] = False
