"""`StreamPlace`: where a pass over a stream or a sampler is, and what the next pass will find."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

from .stateful import Pair

# At most this many consecutive epochs, each left after its first sample, are read again. For those before them, the
# states that they reported are used.
_MOST_EPOCHS = 8


class StreamPlace(Iterator[Any]):
    """The place of a pass over a stream, with the stream's own state. The indices of a sampler are a stream, too.

    A stream whose iterator is *lazy* (a generator, or what Python makes of one) reports nothing about an epoch before
    the first sample was read, and applies a restored state only then. So if such an epoch was left in the middle, its
    state does not say what the next epoch will find: some streams start over, others continue.

    Such a place is saved as a *mark* instead: a state from a little earlier. To get to the place, the stream is resumed
    from the mark, the samples read since then are read again, and the stream is left. A mark is taken only when another
    sample is about to be read, so there is always something to read again.

    Args:
        stream: anything with `__iter__`, which is called by the constructor.
        resumed: an earlier result of `state` or `left`, to resume from. A stateful stream is restored; any other stream
            is read, and its samples are dropped.
        before: what `left` returned for the previous epoch, if known.
        every: the number of batches between marks; 0 for one per epoch.
        seed: called with the ordinal of each sample that is read again, before it is read.
        iterator: the result of `iter(stream)`, if it was called already; only without `resumed`.
        is_asked: False to ignore the stream's own state.

    Raises:
        RuntimeError: the stream is shorter than it was when `resumed` was saved.
    """

    def __init__(
        self,
        stream: Any,
        resumed: dict[str, Any] | None = None,
        before: dict[str, Any] | None = None,
        every: int = 1,
        seed: Callable[[int], None] | None = None,
        *,
        iterator: Iterator[Any] | None = None,
        is_asked: bool = True,
    ) -> None:
        start = resumed or {"state": {}, "at": 0, "samples": 0, "ended": False}
        state = start["state"]
        if (after := state.get("after")) is not None:
            StreamPlace(stream, after, seed=seed)  # Dropped at once, which leaves that epoch.
        pair = Pair(stream, {} if "after" in state else state, iterator)
        for ordinal in range(start["at"], start["samples"]):
            if seed is not None:
                seed(ordinal)
            try:
                next(pair.iterator)
            except StopIteration:
                if start.get("over"):
                    break  # A finished epoch is read again only as far as it goes now.
                raise RuntimeError(
                    f"load_state_dict: the stream ended after {ordinal} samples, but the state was saved after "
                    f"{start['samples']}; resume with the data that the state was saved with"
                ) from None
        if start["ended"] and state:
            pair.see_end(state)
        elif start.get("over") and start["at"] == start["samples"] > 0 and pair.is_lazy:
            pair.begin_and_leave(state)
        self.samples: int = start["samples"]
        self.ended: bool = start["ended"]
        self.is_stateful = is_asked and pair.is_stateful
        self.is_lazy = is_asked and pair.is_lazy
        self._untaken = iter(()) if self.is_lazy else pair.iterator
        if self.is_stateful:
            self._pair = pair
        self._every = every
        self._batches = 0
        if self.is_lazy:
            self._untouched = before if resumed is None else resumed
            # True once a sample was requested: from then on the stream's state takes the restored one into account.
            self._has_begun = resumed is not None and (start["at"] < start["samples"] or self.ended)
            self._mark = {"state": state, "at": start["at"]}
            if resumed is None:
                self._mark["state"] = {"after": before}
            self._is_due = False

    def take_iterator(self) -> Iterator[Any]:
        """Return the iterator over the samples, for the caller to own: this object may be kept longer than that."""
        if self.is_lazy:
            return self
        iterator, self._untaken = self._untaken, iter(())
        return iterator

    def begin_batch(self) -> None:
        """Record that a batch is fetched next."""
        self._is_due = self._every > 0 and self._batches % self._every == 0
        self._batches += 1

    def __next__(self) -> Any:
        """Return the next sample of a lazy stream."""
        # The first mark of an epoch is needed because the previous epoch can no longer be asked.
        if self._has_begun and (self._is_due or (self.samples == 1 and self._mark["at"] == 0)):
            self._take_mark()
        self._is_due, self._has_begun = False, True
        return next(self._pair.iterator)

    def _take_mark(self) -> None:
        if self._mark["at"] != self.samples:
            # The error shows when the state is requested; the previous mark leads here, too.
            with contextlib.suppress(Exception):
                # Copied because it is kept over several batches, in which the dataset may modify the objects that it
                # returned.
                self._mark = {"state": copy.deepcopy(self._pair.state()), "at": self.samples}

    def state(self) -> dict[str, Any] | None:
        """Return the place: the stream's state, after how many samples it was taken, and how many samples were read.

        None if nothing is known: for a lazy stream of which nothing was requested yet.
        """
        if not self.is_stateful:
            return self._as_place({}, 0)
        if not self.is_lazy:
            return self._as_place(self._pair.state(), self.samples)
        if not self._has_begun:
            return self._untouched
        return self._as_place(self._pair.state(), self.samples) | {"mark": self._mark}

    def marked(self) -> dict[str, Any] | None:
        """Return the place as `state` does, but starting from the last mark, without asking a lazy stream."""
        if not self._has_begun:
            return self._untouched
        return self._as_place(self._mark["state"], self._mark["at"]) | {"mark": self._mark}

    def left(self) -> dict[str, Any] | None:
        """Return what the next epoch needs to know of this one.

        To be called before the next epoch begins, as the stream will then report on that one.
        """
        try:
            place = self.state()
        except Exception:
            # If the stream cannot report its state, an earlier one leads there, too.
            place = self.marked() if self.is_lazy else None
        if self.is_lazy and not self._has_begun and place is not None and place is self._untouched:
            self._leave_untouched(place)
        left: dict[str, Any] | None = copy.deepcopy(over(place))
        return left

    def _leave_untouched(self, place: dict[str, Any]) -> None:
        """Let a stream begin that was resumed and then not read: when it was left there, it had begun."""
        if not place.get("over") and not place["ended"] and place["samples"] > 0:
            self._pair.begin_and_leave(place["state"])

    def _as_place(self, state: dict[str, Any], at: int) -> dict[str, Any]:
        return {"state": state, "at": at, "samples": self.samples, "ended": self.ended}


def over(place: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return `place` as that of an epoch that is over, ended or left: where the next epoch begins."""
    if place is None or place.get("over"):
        return place
    left = {name: value for name, value in place.items() if name not in ("mark", "start", "retired")} | {"over": True}
    mark = place.get("mark")
    if mark is None or place["ended"]:
        return left
    if "after" not in mark["state"]:
        marked: dict[str, Any] = left | mark
        return marked
    # Nothing earlier is known than the previous epoch.
    return _shortened(left | {"state": place["state"] | mark["state"], "at": 0}, _MOST_EPOCHS)


def _shortened(place: dict[str, Any], epochs: int) -> dict[str, Any]:
    state = dict(place["state"])
    after = state.pop("after", None)
    if after is None:
        return place
    if epochs == 0:
        return place | {"state": state, "at": place["samples"]}
    return place | {"state": state | {"after": _shortened(after, epochs - 1)}}
