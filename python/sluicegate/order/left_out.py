"""`LeftOut`: the batches and samples that the user leaves out of a loader's epochs."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from sluicegate.state.loader_state import LeftOutRanges


class LeftOut:
    """The user's choice of batches to leave out of certain epochs, and samples to leave out from now on."""

    def __init__(self) -> None:
        # Numbers of batches, by epoch.
        self.batches: dict[int, set[int]] = {}
        self.samples: frozenset[int] = frozenset()
        # True if there is anything to leave out. It is rare, and every batch checks.
        self.is_something = False

    def add_batches(self, epoch: int, batches: Iterable[int]) -> None:
        """Leave out these batches of `epoch`.

        Raises:
            TypeError: one of the numbers is not an integer.
            ValueError: one of them is negative.
        """
        epoch, numbers = operator.index(epoch), set(map(operator.index, batches))
        if epoch < 0 or min(numbers, default=0) < 0:
            raise ValueError(
                f"batches, epoch: must be at least 0, got batch {min(numbers, default=0)} of epoch {epoch}"
            )
        self.batches.setdefault(epoch, set()).update(numbers)
        self.is_something = True

    def add_samples(self, indices: Iterable[int]) -> None:
        """Leave out these samples from every batch."""
        self.samples |= frozenset(map(operator.index, indices))
        self.is_something = True

    def has_batch(self, epoch: int, batch: int) -> bool:
        """Return True if batch number `batch` of `epoch` is left out."""
        return batch in self.batches.get(epoch, ())

    def count_batches(self, epoch: int, count: int) -> int:
        """Return how many of the first `count` batches of `epoch` are left out."""
        return sum(batch < count for batch in self.batches.get(epoch, ()))

    def ranges(self) -> LeftOutRanges:
        """Return it in the form that a state keeps."""
        batches = [[epoch, *part] for epoch in sorted(self.batches) for part in ranges_of(self.batches[epoch])]
        return LeftOutRanges(batches, ranges_of(self.samples))

    @classmethod
    def of(cls, ranges: LeftOutRanges) -> LeftOut:
        """Restore a result of `ranges`."""
        left_out = cls()
        for epoch, start, stop in ranges.batches:
            left_out.add_batches(epoch, range(start, stop))
        for start, stop in ranges.samples:
            left_out.add_samples(range(start, stop))
        return left_out


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """Return the runs of `numbers` as [start, stop]."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] = number + 1
        else:
            ranges.append([number, number + 1])
    return ranges
