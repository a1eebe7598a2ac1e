"""`Progress`: how far the consumer of an epoch is; states and the identities of batches are made from it."""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sluicegate import _core
from sluicegate.state.loader_state import LeftOutRanges, LoaderState
from sluicegate.state.place_state import Fetching, PlaceState
from sluicegate.state.sampler_place import SamplerPlace
from sluicegate.state.stateful import unpickled

from .ids import BatchIds

if TYPE_CHECKING:
    from .draws import Draws
    from .sampler_stream import SamplerStream


class Epochs:
    """The number of the next epoch: it counts up unless the user sets one."""

    def __init__(self, first: int = 0) -> None:
        self.next = first
        # The epoch that was set last, and passed on to everything with a `set_epoch`. From then on, the dataset
        # receives the number of each epoch that begins, also in workers.
        self.told: int | None = None
        # True once a warning said that a dataset draws values that no seed determines.
        self.has_warned = False
        # True once it was logged which engine reads.
        self.is_explained = False


class LeftOut:
    """What the user asked to leave out: batches of certain epochs, and samples from now on."""

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
            raise ValueError(f"batches, epoch: both count from 0, got batch {min(numbers, default=0)} of epoch {epoch}")
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
        """Restore what `ranges` returned."""
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


class Progress:
    """How far the consumer of one epoch is. It counts received batches, never those fetched ahead.

    Args:
        epochs: the loader's count of epochs.
        left_out: what the loader leaves out.
        resumed: the state that the epoch resumes from.
    """

    def __init__(self, epochs: Epochs, left_out: LeftOut, resumed: LoaderState) -> None:
        self._epochs = epochs
        self.left_out = left_out
        self.resumed = resumed
        # The generators that the epoch is drawn from; with a seed, only those that a user-defined sampler owns.
        self.draws: Draws | None = None
        # None until something is drawn: until then it is the next epoch, which trainers may still set.
        self._number: int | None = resumed.epoch if resumed.drawn else None
        self._told: int | None = None
        # The number of batches received before this iterator's first one, and the batches received beyond them.
        self.first = resumed.batches_received
        self.ahead = {number for start, stop in resumed.received_ahead for number in range(start, stop)}
        self.start = resumed.position
        # Returns the current state of the generators that the epoch is drawn from.
        self.take_draws: Callable[[], Draws | None] = lambda: None
        self.draws_after_iter: Draws | None = None
        # The global generators before those of another process replaced them for the draws.
        self.outer: dict[str, str] | None = None
        # True if torch drew a seed for workers before the order, as it does when an iterator is created; and that seed.
        self.begins_iterator = resumed.begins_iterator
        self.base_seed: int | None = None
        # The order of torchdata's `RandomSampler`, drawn elsewhere: the state of a generator, as text.
        self.order = resumed.order
        # True if batches may be received out of order.
        self.out_of_turn = False
        # In that case: where each batch beyond the first gap ends, and the sampler's state there.
        self._ends: dict[int, tuple[int, bytes | None]] = {}
        self._sampler_state: bytes | None = None
        # The requests of a user-defined sampler, and its position.
        self.sampler_stream: SamplerStream | None = None
        # Its state after its last batch, which may have been left out.
        self.sampler_end: bytes | None = None
        # Returns the last state of the previous epoch's sampler.
        self.sampler_before: Callable[[], SamplerPlace | None] | None = None
        # The sampler's state at the end of the resumed epoch, or of an earlier one that requested nothing, until the
        # sampler has received it.
        self.sampler_untold = resumed.sampler if resumed.sampler_is_over else None
        # With `num_workers=0`, where the stream of the previous epoch was left: a lazy stream has no place in an epoch
        # that has not begun.
        self.place_before: PlaceState | None = None
        # Returns where the stream of this epoch was left, if that must be known before another epoch begins.
        self.leave: Callable[[], PlaceState | None] = lambda: None
        self.last_ids: BatchIds | None = None
        # How many requests a user-defined sampler has yielded, if that may have advanced the generators.
        self.requests_drawn = resumed.requests_drawn
        # True once the sampler was asked for its first batch; and once the epoch has ended.
        self.is_drawn = resumed.drawn
        self.finished = False
        # The plan of the batches if they are computed, and which batch of the epoch its first one is.
        self.plan: _core.Plan | None = None
        self.plan_first = 0
        # The name of the order in states, once it was asked for.
        self.identity: str | None = None
        # Returns the state of the fetcher or the workers. They do not refer to this object, which would be a cycle.
        self.fetching: Callable[[], Fetching] | None = None

    @property
    def epoch(self) -> int:
        """The number of the epoch: that of the next one until something is requested."""
        return self._epochs.next if self._number is None else self._number

    @property
    def epoch_told(self) -> int | None:
        """The last epoch set before this one began, or until now if it has not; None if none was set."""
        return self._told if self.is_drawn else self._epochs.told

    @property
    def is_epoch_set(self) -> bool:
        """True if an epoch was ever set."""
        return self._epochs.told is not None

    def begin(self) -> int:
        """Note that the first batch is requested, and return the epoch's number, which is fixed from now on."""
        if self._number is None:
            self._number = self._epochs.next
        if self._epochs.next == self._number:  # Otherwise the next epoch was set in the meantime.
            self._epochs.next = self._number + 1
        if not self.is_drawn and (now := self.take_draws()) != self.draws_after_iter:
            # Trainers set generators between `iter` and the first batch; the seed of the workers was drawn before that.
            self.draws, self.begins_iterator = now, False
        self.is_drawn = True
        self._told = self._epochs.told
        return self._number

    def fix_epoch(self) -> None:
        """Fix the epoch's number: a stream begins before its first batch is requested."""
        resumed = self.resumed
        self._number = resumed.epoch if resumed.in_epoch else self.epoch

    def pass_over(self, ids: BatchIds) -> None:
        """Note that this batch is not delivered, so that the count of received batches does not wait for it."""
        if self.out_of_turn:
            self._close_gap(ids)

    def warns_of_draws(self) -> bool:
        """Return True the first time that a dataset of the loader draws values that no seed determines."""
        has_warned, self._epochs.has_warned = self._epochs.has_warned, True
        return not has_warned

    @property
    def received(self) -> int:
        """How many batches of the epoch were received without a gap, from the first one on."""
        if self.out_of_turn or self.last_ids is None:
            return self.first
        return self.last_ids.batch_index + 1

    def is_complete(self, count: int) -> bool:
        """Return True if no batch of the epoch is still to be received.

        Args:
            count: how many batches the epoch has, including those that are left out; unused if there is a plan.
        """
        count = count if self.plan is None else self.plan_first + len(self.plan)
        return all(self.left_out.has_batch(self.epoch, batch) for batch in range(self.received, count))

    def deliver(self, ids: BatchIds) -> None:
        """Note that the consumer receives this batch, or the exception in its place."""
        self.last_ids = ids
        if self.out_of_turn:
            self._close_gap(ids)

    def _close_gap(self, ids: BatchIds) -> None:
        self.ahead.add(ids.batch_index)
        self._ends[ids.batch_index] = ids.end, ids.sampler_state
        while self.first in self.ahead:
            self.ahead.remove(self.first)
            self.start, self._sampler_state = self._ends.pop(self.first, (self.start, self._sampler_state))
            self.first += 1

    @property
    def position(self) -> int:
        """How far all ranks are in the global order, in samples; in batches if the order consists of batches."""
        if self.plan is not None:
            return self.plan.position_after(self.received - self.plan_first)
        return self.start if self.last_ids is None or self.out_of_turn else self.last_ids.end

    def sampler_state(self) -> SamplerPlace | None:
        """Return the state of a stateful sampler after the last batch received; None for other samplers."""
        if self.finished:
            pickled = self.sampler_end
        else:
            pickled = self._sampler_state if self.last_ids is None or self.out_of_turn else self.last_ids.sampler_state
        if pickled is not None:
            state: SamplerPlace | None = unpickled(pickled, "the sampler")
            return state
        if self.resumed.sampler_is_over or self.last_ids is not None:
            return None
        return copy.deepcopy(self.resumed.sampler)

    def what_sampler_left(self) -> SamplerPlace | None:
        """Return the sampler's state at the end of the previous epoch; None if it is unknown."""
        if (before := self.sampler_state_before()) is None and self.sampler_before is not None:
            # A sampler that could not report its state then starts as in torch.
            with contextlib.suppress(RuntimeError):
                return self.sampler_before()
        return before

    def leave_sampler(self) -> SamplerPlace | None:
        """Return the state of a stateful sampler whose epoch was left in the middle, when another one begins."""
        if self.sampler_stream is not None:
            return self.sampler_stream.left()
        return None if self.is_drawn else self.what_sampler_left()

    def sampler_state_before(self) -> SamplerPlace | None:
        """Return the sampler's state at the end of the previous epoch, if nothing of this one was received yet."""
        return copy.deepcopy(self.sampler_untold)

    def fetching_state(self) -> Fetching:
        """Return which worker is next, and the place of each."""
        return Fetching() if self.fetching is None else self.fetching()

    def set_plan(self, plan: _core.Plan) -> None:
        """Set the plan of the batches, counted from the first one that this iterator requests."""
        self.plan = plan
        self.plan_first = self.received
