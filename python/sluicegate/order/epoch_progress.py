"""`EpochProgress`: how far the consumer of one epoch is; states and the identities of batches are made from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluicegate.state.loader_state import LoaderState
from sluicegate.state.place_state import Fetching, PlaceState
from sluicegate.state.sampler_place import SamplerPlace

from .draws import Draws
from .epoch_draws import EpochDraws
from .epochs import Epochs
from .left_out import LeftOut
from .received import Received
from .sampler_progress import SamplerProgress


class EpochProgress:
    """How far the consumer of one epoch is.

    Its number is that of the next epoch until `begin`, and then fixed.

    Args:
        epochs: the loader's count of epochs.
        left_out: what the loader leaves out.
        resumed: the state that the epoch resumes from.
        take_draws: returns the current state of the generators that the epoch is drawn from; None with a seed.

    Attributes:
        received: the batches that the consumer has.
        draws: the generators that the epoch is drawn from.
        sampler: the progress of a user-defined sampler.
    """

    def __init__(
        self, epochs: Epochs, left_out: LeftOut, resumed: LoaderState, take_draws: Callable[[], Draws] | None
    ) -> None:
        self.epochs = epochs
        self.left_out = left_out
        self.resumed = resumed
        self.received = Received(resumed)
        self.draws = EpochDraws(resumed, take_draws)
        self.sampler = SamplerProgress(resumed)
        # None until something is drawn: until then it is the next epoch, which trainers may still set.
        self._number: int | None = resumed.epoch if resumed.drawn else None
        self._last_set: int | None = None
        # Where the previous epoch left a stream that this process reads, by worker: a lazy stream has no place in an
        # epoch that has not begun.
        self.places_before: Sequence[PlaceState | None] = ()
        # Returns them for this epoch.
        self.leave: Callable[[], Sequence[PlaceState | None]] = tuple
        # Returns the state of the fetcher or the workers. They do not refer to this object, which would be a cycle.
        self.fetching: Callable[[], Fetching] = Fetching
        # True once the sampler was asked for its first batch; and once the epoch has ended.
        self.is_drawn = resumed.drawn
        self.finished = False
        # The name of the order in states, once it was asked for.
        self.identity: str | None = None

    @property
    def epoch(self) -> int:
        """The number of the epoch: that of the next one until something is requested."""
        return self.epochs.next if self._number is None else self._number

    @property
    def epoch_told(self) -> int | None:
        """The last epoch set before this one began, or until now if it has not; None if none was set."""
        return self._last_set if self.is_drawn else self.epochs.last_set

    def begin(self) -> int:
        """Note that the first batch is requested, and return the epoch's number, which is fixed from now on."""
        epochs = self.epochs
        if self._number is None:
            self._number = epochs.next
        if epochs.next == self._number:  # Otherwise the next epoch was set in the meantime.
            epochs.next = self._number + 1
        if not self.is_drawn:
            self.draws.begin()
        self.is_drawn = True
        self._last_set = epochs.last_set
        return self._number

    def fix_epoch(self) -> None:
        """Fix the epoch's number: a stream begins before its first batch is requested."""
        resumed = self.resumed
        self._number = resumed.epoch if resumed.in_epoch else self.epoch

    def is_complete(self, count: int) -> bool:
        """Return True if no batch of the epoch is still to be received.

        Args:
            count: how many batches the epoch has, including those that are left out; unused if there is a plan.
        """
        received = self.received
        count = count if received.plan is None else received.plan_first + len(received.plan)
        return all(self.left_out.has_batch(self.epoch, batch) for batch in range(received.count, count))

    def sampler_place(self) -> SamplerPlace | None:
        """Return where a stateful sampler was after the last batch received; None for other samplers."""
        received = self.received
        state = self.sampler.end if self.finished else received.sampler_state
        return self.sampler.place(state, received.has_advanced)
