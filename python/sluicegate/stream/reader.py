"""`StreamReader`: one pass over an iterable that can be resumed."""

from __future__ import annotations

import contextlib
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sluicegate.rng.sample import SampleSeeding
from sluicegate.rng.stream_seeding import current_stream, reading_epoch_before
from sluicegate.state.stateful import is_lazy, is_stateful, iter_restored

from .images import DecodesImages, StreamImages

# Used instead of a sample's ordinal for the call of `iter`.
_BEGIN = 2**64 - 1


class StreamReader:
    """Reads an iterable once, and keeps *snapshots* of its state along the way.

    A snapshot is the state of the iterable, of its iterator, or of both, whichever is stateful, and the number of
    samples read so far. It is a deep copy, and JSON if those states are. To restore a position between two snapshots,
    load the earlier one and read on.

    Only `every` determines where snapshots are taken, so a resumed reader takes the same ones as the original. The
    start of an epoch needs care: a generator that has not run yet does not know that a new epoch began, so its
    dataset's state still describes the end of the last one. There the snapshot is one of the last epoch plus the number
    of samples read since; restoring it ends the last epoch again to get to the new one. A stream whose last epoch was
    left in the middle starts over.

    Under a loader with a seed every sample has its own generators, which depend on its ordinal here: samples that are
    read again get the same draws.

    Args:
        iterable: the iterable to read; `iter` is called once, in the constructor.
        every: the number of samples between two snapshots.
        snapshot: where to start, instead of at the start of an epoch.
        previous: the reader of the previous epoch, if this process has read one.
        number: the number of this reader among those in a loader's stream, if known.

    Raises:
        ValueError: `snapshot` holds a state that neither the iterable nor its iterator can load.
    """

    def __init__(
        self,
        iterable: Iterable[Any],
        every: int,
        snapshot: Mapping[str, Any] | None = None,
        previous: StreamReader | None = None,
        number: int | None = None,
    ) -> None:
        self.iterable = iterable
        self.number = number or 0
        self._seeding: SampleSeeding | None = None
        if (stream := current_stream()) is not None:
            self.number, self._seeding = stream.reader(number)
        self.every = every
        self.ended = False
        self.read = 0
        # Oldest first, each with its position.
        self._snapshots: deque[tuple[int, dict[str, Any]]] = deque()
        if snapshot is not None:
            # A copy, because an iterable may keep the state that it is given.
            self._restore(copy.deepcopy(dict(snapshot)))
        else:
            self._iterator = self._begun()
        self._keeps_own_state = is_stateful(iterable) and self._iterator is not iterable
        self.is_stateful = self._keeps_own_state or is_stateful(self._iterator)
        # True if nothing of this epoch has happened yet, although `iter` was called.
        self._is_lazy = self._keeps_own_state and is_lazy(self._iterator)
        if not self.is_stateful:
            self.next_snapshot = -1
        elif snapshot is not None:
            self._snapshots.append((self.read, copy.deepcopy(dict(snapshot))))
            self._set_next_snapshot()
        elif self._is_lazy and previous is not None and previous._snapshots:
            self._snapshots.append((0, previous._left_behind()))
            self._set_next_snapshot()
        else:
            self.next_snapshot = 0

    def _restore(self, snapshot: dict[str, Any]) -> None:
        after = snapshot.get("after")
        if after is not None:
            with reading_epoch_before():
                last = StreamReader(self.iterable, self.every, after["snapshot"], number=self.number)
                last.read_to(after["read"], after["ended"])
            self._iterator = self._begun()
            return
        self._iterator = self._begun(snapshot)
        if "iterator" in snapshot:
            self._load(self._iterator, snapshot["iterator"])
        self.read = snapshot["read"]

    def _begun(self, snapshot: Mapping[str, Any] | None = None) -> Iterator[Any]:
        begin: Callable[[Any], Iterator[Any]] = iter
        if snapshot is not None and "iterable" in snapshot:
            self._load(self.iterable, snapshot["iterable"])
            begin = iter_restored
        if self._seeding is None:
            return begin(self.iterable)
        return self._seeding.alone(_BEGIN, lambda: begin(self.iterable))

    @property
    def iterator(self) -> Iterator[Any]:
        """The iterator being read. A direct reader must update `read` and `ended`, and call `take_snapshot`."""
        return self._iterator

    def take_images(self) -> StreamImages | None:
        """Take over the decoding of images: see `DecodesImages`."""
        images = self._iterator.take_images() if isinstance(self._iterator, DecodesImages) else None
        if images is not None:
            self._seeding = None  # Only images draw in such a stream, each from its own generators.
        return images

    def _next(self) -> Any:
        if self._seeding is None:
            return next(self._iterator)
        return self._seeding.alone(self.read, self._iterator.__next__)

    def _load(self, thing: Any, state: Any) -> None:
        if not is_stateful(thing):
            raise ValueError(
                "load_state_dict: expected a stream with load_state_dict, because the state was saved with one, but "
                f"got {type(thing).__name__}; read the iterable that the state was saved with"
            )
        thing.load_state_dict(state)

    def __next__(self) -> Any:
        """Return the next sample. At `next_snapshot`, call `take_snapshot` first."""
        try:
            sample = self._next()
        except StopIteration:
            self.ended = True
            raise
        self.read += 1
        return sample

    def take_snapshot(self, needed: int) -> None:
        """Save the current state, and drop snapshots that are not needed for samples from ordinal `needed` on."""
        self._snapshots.append((self.read, self._state()))
        self._set_next_snapshot()
        self.forget_before(needed)

    def _state(self) -> dict[str, Any]:
        states: dict[str, Any] = {"read": self.read}
        iterable: Any = self.iterable
        iterator: Any = self._iterator
        if self._keeps_own_state:
            states["iterable"] = iterable.state_dict()
        if is_stateful(iterator):
            states["iterator"] = iterator.state_dict()
        return copy.deepcopy(states)

    def _set_next_snapshot(self) -> None:
        # A generator's dataset has a state of this epoch only from its first sample on, and the next epoch builds on
        # it.
        if self._is_lazy and self.read == 0:
            self.next_snapshot = 1
        else:
            self.next_snapshot = (self.read // self.every + 1) * self.every

    def _left_behind(self) -> dict[str, Any]:
        place, snapshot = self._snapshots[-1]
        if not self.ended:
            # If nothing happened in this epoch, the one before it still counts.
            return snapshot if place == self.read == 0 else {"read": 0}
        return {"read": 0, "after": {"snapshot": snapshot, "read": self.read, "ended": self.ended}}

    def forget_before(self, ordinal: int) -> None:
        """Drop the snapshots that are not needed to read `ordinal` and later samples again."""
        while len(self._snapshots) > 1 and self._snapshots[1][0] <= ordinal:
            self._snapshots.popleft()

    def snapshot_for(self, ordinal: int) -> dict[str, Any] | None:
        """Return the newest snapshot from which sample `ordinal` can still be read; None for a stream without state."""
        return copy.deepcopy(self.kept_snapshot_for(ordinal))

    def kept_snapshot_for(self, ordinal: int) -> dict[str, Any] | None:
        """Return the same, to be copied before it is modified."""
        if self.next_snapshot == 0:
            self.take_snapshot(0)
        self.forget_before(ordinal)
        return self._snapshots[0][1] if self._snapshots else None

    def read_to(self, read: int, ended: bool) -> None:
        """Read and discard samples until `read` were read, and with `ended` also the end of the stream."""
        while self.read < read:
            self.next_again(read)
        if ended:
            self.see_end()

    def next_again(self, read: int) -> Any:
        """Return the next sample while repeating the `read` samples that were read before.

        Raises:
            RuntimeError: the stream ends here.
        """
        try:
            return self._next_with_snapshot()
        except StopIteration:
            raise self.ended_before(read) from None

    def ended_before(self, read: int) -> RuntimeError:
        """Return the error for a stream that ended, but had `read` samples before."""
        return RuntimeError(
            f"load_state_dict: the stream ended after {self.read} samples, but the state was saved after {read}; "
            "resume with the data that the state was saved with"
        )

    def _next_with_snapshot(self) -> Any:
        if self.read == self.next_snapshot:
            # Keep all snapshots: samples that are read again are all needed.
            self.take_snapshot(0)
        return next(self)

    def see_end(self) -> None:
        """Read to the end of the stream, because its changes there are part of its state."""
        with contextlib.suppress(StopIteration):
            self._next_with_snapshot()
        self.ended = True
