"""`EpochDraws`: the generators that one epoch is drawn from."""

from __future__ import annotations

from collections.abc import Callable

from sluicegate.state.loader_state import LoaderState

from .draws import Draws
from .yielded_requests import YieldedRequests


class EpochDraws:
    """The generators that one epoch is drawn from, and the other facts that determine its draws.

    `generators` are as they were before the first draw of the epoch, so that it can be drawn again. With a seed of the
    loader, they are only those that a user-defined sampler owns.

    Args:
        resumed: the state that the epoch resumes from.
        take: returns the current state of the generators; None with a seed of the loader.
    """

    def __init__(self, resumed: LoaderState, take: Callable[[], Draws] | None) -> None:
        self._take = take
        self.generators: Draws | None = None if take is None else take()
        self._after_iter: Draws | None = None
        # The global generators before those of another process replaced them for the draws.
        self.outer: dict[str, str] | None = None
        # True if torch drew a seed for workers before the order, as it does when an iterator is created; and that seed.
        self.begins_iterator = resumed.begins_iterator
        self.base_seed: int | None = None
        # The order of torchdata's `RandomSampler`, drawn elsewhere: the state of a generator, as text.
        self.order = resumed.order
        # How many requests a user-defined sampler has yielded, if that may have advanced the generators.
        self.requests = resumed.requests_drawn
        self.yielded = YieldedRequests(resumed.requests_ahead, resumed.batches_received, resumed.requests_checksum)

    def end_iter(self) -> None:
        """Note that everything was drawn that `iter` draws: a change until the first request is the user's."""
        if self._take is not None:
            self._after_iter = self._take()

    def begin(self) -> None:
        """Note that the first batch is requested.

        Trainers set generators between `iter` and the first batch; the seed of the workers was drawn before that.
        """
        if self._take is not None and (now := self._take()) != self._after_iter:
            self.generators, self.begins_iterator = now, False
