"""`Epochs`: a loader's count of epochs."""

from __future__ import annotations


class Epochs:
    """The number of the next epoch: it counts up unless the user sets one."""

    def __init__(self, first: int = 0) -> None:
        self.next = first
        # The epoch that was set last, and passed on to everything with a `set_epoch`. From then on, the dataset
        # receives the number of each epoch that begins, also in workers.
        self.last_set: int | None = None
        # True once a warning said that a dataset draws values that no seed determines.
        self.has_warned = False
        # True once it was logged which engine reads.
        self.is_explained = False

    def warns_of_draws(self) -> bool:
        """Return True the first time that a dataset of the loader draws values that no seed determines."""
        has_warned, self.has_warned = self.has_warned, True
        return not has_warned
