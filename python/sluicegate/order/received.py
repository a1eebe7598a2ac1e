"""`Received`: which batches of an epoch the consumer has received."""

from __future__ import annotations

from sluicegate import _core
from sluicegate.state.loader_state import LoaderState

from .ids import BatchIds


class Received:
    """The batches of one epoch that the consumer has received, never those fetched ahead.

    These are the first `count` batches, without a gap, and those numbered in `ahead`. `ahead` is empty, and batches are
    received in order, unless `out_of_turn` is True: it is also True for an epoch that resumes from such a state.

    Args:
        resumed: the state that the epoch resumes from.
    """

    def __init__(self, resumed: LoaderState) -> None:
        # Received before this iterator's first batch or, out of order, before the first gap; and beyond that.
        self._first = resumed.batches_received
        self.ahead = {number for start, stop in resumed.received_ahead for number in range(start, stop)}
        # True if batches may be received out of order.
        self.out_of_turn = bool(self.ahead)
        self._resumed_first = resumed.batches_received
        # The position of all ranks after the first `_first` batches, and the state of a stateful sampler there.
        self.start = resumed.position
        self._sampler_state: bytes | None = None
        # The same after each batch in `ahead`, once it is known: of those received before the state was taken, when
        # their turn to be requested comes.
        self._ends: dict[int, tuple[int, bytes | None]] = {}
        self.last_ids: BatchIds | None = None
        # The plan of the batches if they are computed, and which batch of the epoch its first one is.
        self.plan: _core.Plan | None = None
        self.plan_first = 0

    @property
    def count(self) -> int:
        """How many batches of the epoch were received without a gap, from the first one on."""
        if self.out_of_turn or self.last_ids is None:
            return self._first
        return self.last_ids.batch_index + 1

    @property
    def has_advanced(self) -> bool:
        """True if `count` is more than it was when the epoch began or was resumed."""
        return self.count > self._resumed_first

    @property
    def position(self) -> int:
        """How far all ranks are in the global order, in samples; in batches if the order consists of batches."""
        if self.plan is not None:
            return self.plan.position_after(self.count - self.plan_first)
        return self.start if self.last_ids is None or self.out_of_turn else self.last_ids.end

    @property
    def sampler_state(self) -> bytes | None:
        """The state of a stateful sampler after the batches received; None if nothing of it is known."""
        return self._sampler_state if self.last_ids is None or self.out_of_turn else self.last_ids.sampler_state

    def set_plan(self, plan: _core.Plan) -> None:
        """Set the plan of the batches, counted from the first one that this iterator requests."""
        self.plan = plan
        self.plan_first = self.count

    def deliver(self, ids: BatchIds) -> None:
        """Note that the consumer receives this batch, or the exception in its place."""
        self.last_ids = ids
        if self.out_of_turn:
            self._close_gap(ids)

    def skip(self, ids: BatchIds) -> None:
        """Note that this batch is not delivered, so that the count of received batches does not wait for it.

        It is left out, or was received before the state was taken.
        """
        if self.out_of_turn:
            self._close_gap(ids)

    def _close_gap(self, ids: BatchIds) -> None:
        self.ahead.add(ids.batch_index)
        self._ends[ids.batch_index] = ids.end, ids.sampler_state
        while (end := self._ends.pop(self._first, None)) is not None:
            self.ahead.remove(self._first)
            self.start, self._sampler_state = end
            self._first += 1
