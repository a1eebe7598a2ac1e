"""Where the consumer of an epoch is: what a state is made of, and what a batch's identity is told from."""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import _core
from .ids import BatchIds
from .stateful import unpickled

if TYPE_CHECKING:
    from .draws import Draws
    from .sampler_stream import SamplerStream


class Epochs:
    """Which epoch is next: epochs count up, unless somebody sets one."""

    def __init__(self, first: int = 0) -> None:
        self.next = first
        # Which one somebody set last: what has a `set_epoch` was told of it. From then on the dataset is told of each
        # that begins, wherever it is.
        self.told: int | None = None
        # Whether somebody was told that a dataset draws what no seed reaches.
        self.has_warned = False
        # True once it was logged which engine reads.
        self.is_explained = False


class LeftOut:
    """What a user has asked to leave out: batches of certain epochs, and samples from now on."""

    def __init__(self) -> None:
        # By epoch: numbers of batches.
        self.batches: dict[int, set[int]] = {}
        self.samples: frozenset[int] = frozenset()
        # Whether there is anything at all: hardly ever, and every batch asks.
        self.is_something = False

    def add_batches(self, epoch: int, batches: Iterable[int]) -> None:
        """Leaves out these batches of `epoch`.

        Raises:
            TypeError: one of the numbers is no integer.
            ValueError: one of them is negative.
        """
        epoch, numbers = operator.index(epoch), set(map(operator.index, batches))
        if epoch < 0 or min(numbers, default=0) < 0:
            raise ValueError(f"batches and epochs count from 0, but got {min(numbers, default=0)} of epoch {epoch}")
        self.batches.setdefault(epoch, set()).update(numbers)
        self.is_something = True

    def add_samples(self, indices: Iterable[int]) -> None:
        """Leaves out these samples, of every batch."""
        self.samples |= frozenset(map(operator.index, indices))
        self.is_something = True

    def has_batch(self, epoch: int, batch: int) -> bool:
        """Whether batch number `batch` of `epoch` is left out."""
        return batch in self.batches.get(epoch, ())

    def count_batches(self, epoch: int, count: int) -> int:
        """How many of the first `count` batches of `epoch` are left out."""
        return sum(batch < count for batch in self.batches.get(epoch, ()))

    def state(self) -> dict[str, Any]:
        """As plain JSON: ranges of batches as (epoch, start, stop)."""
        ranges = [[epoch, *part] for epoch in sorted(self.batches) for part in ranges_of(self.batches[epoch])]
        return {"batches": ranges, "samples": ranges_of(self.samples)}

    @classmethod
    def of(cls, state: dict[str, Any]) -> LeftOut:
        """What `state` returned once."""
        left_out = cls()
        for epoch, start, stop in state["batches"]:
            left_out.add_batches(epoch, range(start, stop))
        for start, stop in state["samples"]:
            left_out.add_samples(range(start, stop))
        return left_out


def ranges_of(numbers: Iterable[int]) -> list[list[int]]:
    """`numbers` as [start, stop] of each run."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] = number + 1
        else:
            ranges.append([number, number + 1])
    return ranges


def _numbers(ranges: Iterable[list[int] | int]) -> set[int]:
    """What `ranges_of` was given; older states list the numbers themselves."""
    parts = (range(each, each + 1) if isinstance(each, int) else range(*each) for each in ranges)
    return {number for part in parts for number in part}


class Progress:
    """Where the consumer of one epoch is. It counts what was received, never what was fetched ahead.

    Args:
        epochs: the loader's count of epochs.
        left_out: what the loader leaves out.
        resumed: the state that the epoch goes on from; None for an epoch from its beginning.
    """

    def __init__(self, epochs: Epochs, left_out: LeftOut, resumed: dict[str, Any] | None) -> None:
        self._epochs = epochs
        self.left_out = left_out
        self.resumed = resumed
        # What the epoch is drawn from, in torch mode.
        self.draws: Draws | None = None
        # Of one that nothing was drawn of yet it is the next one's, which trainers may still set.
        self._number: int | None = resumed["epoch"] if resumed is not None and resumed["drawn"] else None
        self._told: int | None = None
        # How many batches were received before this iterator's first one, and which beyond them.
        self.first = 0 if resumed is None else int(resumed["batches_received"])
        self.ahead: set[int] = set() if resumed is None else _numbers(resumed["received_ahead"])
        self.start = 0 if resumed is None else int(resumed["position"])
        # Tells what the epoch is drawn from at this moment.
        self.take_draws: Callable[[], Draws | None] = lambda: None
        self.draws_after_iter: Draws | None = None
        # Where the global generators were before those of another process were put in their place for the draws.
        self.outer: dict[str, str] | None = None
        # Whether torch drew a seed for workers before the order, as it does when an iterator is made; and which.
        self.begins_iterator = resumed is None or bool(resumed["begins_iterator"])
        self.base_seed: int | None = None
        # The order of torchdata's `RandomSampler`, which drew it elsewhere: the state of a generator, as text.
        self.order: str | None = None if resumed is None else resumed["order"]
        # Whether batches may be received out of turn.
        self.out_of_turn = False
        # Then: where each of those beyond the first gap ends, and what the sampler said there.
        self._ends: dict[int, tuple[int, bytes | None]] = {}
        self._sampler_state: bytes | None = None
        # What a sampler of the user's yields, and where it is.
        self.sampler_stream: SamplerStream | None = None
        # What it said when it had yielded its last batch, which may have been left out.
        self.sampler_end: bytes | None = None
        # How the epoch before tells what its sampler said last.
        self.sampler_before: Callable[[], Any] | None = None
        # What a state says that the sampler left, where it has not been told yet: of this epoch, or of one before that
        # asked it for nothing.
        self.sampler_untold: Any = resumed["sampler"] if resumed is not None and resumed["sampler_is_over"] else None
        # Where its stream was left, with `num_workers=0`; a lazy one says nothing of this epoch before that has begun.
        self.place_before: dict[str, Any] | None = None
        # How to ask where the stream of this one was left, where it must be asked before another epoch begins.
        self.leave: Callable[[], dict[str, Any] | None] = lambda: None
        self.last_ids: BatchIds | None = None
        # How many requests a sampler of the user's was asked for, where that may have moved the generators.
        self.requests_drawn: int | None = None if resumed is None else resumed.get("requests_drawn")
        # Whether the sampler was asked for its first batch, and whether the epoch has ended.
        self.is_drawn = resumed is not None and bool(resumed["drawn"])
        self.finished = False
        # What the batches follow from where that is arithmetic, and which of the epoch's batches its first one is.
        self.plan: _core.Plan | None = None
        self.plan_first = 0
        # What the order is called in states, once somebody has asked.
        self.identity: str | None = None
        # How whoever fetches tells its state. It does not hold this: each would keep the other.
        self.fetching: Callable[[], dict[str, Any]] | None = None

    @property
    def epoch(self) -> int:
        """The number of the epoch: as long as nothing was asked for, the one that is next."""
        return self._epochs.next if self._number is None else self._number

    @property
    def epoch_told(self) -> int | None:
        """What `set_epoch` was given last before this epoch began, or before now where it has not; None for nothing."""
        return self._told if self.is_drawn else self._epochs.told

    @property
    def is_epoch_set(self) -> bool:
        """Whether somebody has ever set an epoch."""
        return self._epochs.told is not None

    def begin(self) -> int:
        """Takes note that the first batch is asked for, and returns the epoch's number, fixed from now on."""
        if self._number is None:
            self._number = self._epochs.next
        if self._epochs.next == self._number:  # Else somebody has said since which one follows.
            self._epochs.next = self._number + 1
        if not self.is_drawn and (now := self.take_draws()) != self.draws_after_iter:
            # Trainers set generators between `iter` and the first batch; the workers' seed was drawn before that.
            self.draws, self.begins_iterator = now, False
        self.is_drawn = True
        self._told = self._epochs.told
        return self._number

    def fix_epoch(self) -> None:
        """Has the epoch's number be what it is now: a stream begins before its first batch is asked for."""
        resumed = self.resumed
        self._number = resumed["epoch"] if resumed is not None and resumed["in_epoch"] else self.epoch

    def pass_over(self, ids: BatchIds) -> None:
        """Takes note that this batch does not come: where there are no turns, nobody must wait for it."""
        if self.out_of_turn:
            self._close_gap(ids)

    def warns_of_draws(self) -> bool:
        """Whether this is the first time that a dataset of the loader is seen to draw what no seed reaches."""
        has_warned, self._epochs.has_warned = self._epochs.has_warned, True
        return not has_warned

    @property
    def received(self) -> int:
        """How many batches of the epoch were received, from the first one on without a gap."""
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
        """Takes note that the consumer gets this batch, or the exception in its place."""
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
        """How far all ranks are in the global order, in samples; in batches, where those make the order."""
        if self.plan is not None:
            return self.plan.position_after(self.received - self.plan_first)
        return self.start if self.last_ids is None or self.out_of_turn else self.last_ids.end

    def sampler_state(self) -> Any:
        """What a stateful sampler said when it had yielded the last batch that was received; None of others."""
        if self.finished:
            pickled = self.sampler_end
        else:
            pickled = self._sampler_state if self.last_ids is None or self.out_of_turn else self.last_ids.sampler_state
        if pickled is not None:
            return unpickled(pickled, "the sampler")
        if self.resumed is None or self.resumed["sampler_is_over"] or self.last_ids is not None:
            return None
        return copy.deepcopy(self.resumed["sampler"])

    def what_sampler_left(self) -> Any:
        """What is known of the sampler's epoch before this one; None when that is nothing."""
        if (before := self.sampler_state_before()) is None and self.sampler_before is not None:
            # Whoever could not say where it was is not asked for it here: its epochs are as in torch.
            with contextlib.suppress(RuntimeError):
                return self.sampler_before()
        return before

    def leave_sampler(self) -> Any:
        """What a stateful sampler says of this epoch, when that was left in its middle and another one begins."""
        if self.sampler_stream is not None:
            return self.sampler_stream.left()
        return None if self.is_drawn else self.what_sampler_left()

    def sampler_state_before(self) -> Any:
        """What a stateful sampler said at the end of the epoch before, when nothing of this one was received yet."""
        return copy.deepcopy(self.sampler_untold)

    def fetching_state(self) -> dict[str, Any]:
        """Which worker's turn is next, and what each says of its dataset and of its place in it."""
        return {"next_worker": 0, "workers": []} if self.fetching is None else self.fetching()

    def set_plan(self, plan: _core.Plan) -> None:
        """Takes note of what the batches follow from, counted from the first one that this iterator asks for."""
        self.plan = plan
        self.plan_first = self.received
