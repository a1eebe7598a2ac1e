"""`StreamPlace`: where a pass over a stream is, or over a sampler, and what the pass after it will find."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

from .stateful import Pair

# So many epochs in a row, each left after its first sample, are read again; of those before them, what they said is
# believed.
_MOST_EPOCHS = 8


class StreamPlace(Iterator[Any]):
    """Where a pass over a stream is, with what the stream says of itself; the indices of a sampler are one too.

    A stream whose iterator is *lazy* (a generator, or what Python makes of one) says nothing of an epoch before its
    first sample was read, and takes up a state that it was given only then. So where such an epoch was left in its
    middle, its state does not tell what the next one will find: some begin anew, others go on. It is told by a *mark*
    instead, a state that lies a little before: to get there, one goes on from it and reads what was read since, and
    leaves. A mark is taken where a sample is asked for next, so there is always something to be read.

    Args:
        stream: anything with `__iter__`, which is called now.
        resumed: what `state` or `left` returned once, to go on from there. A stream that knows its state is put there;
            any other is read, and its samples dropped.
        before: what `left` returned of the epoch before, if anything is known of it.
        every: after how many batches a mark is taken; 0 for once an epoch.
        seed: is told the ordinal of every sample that is read again, before it is.
        iterator: `iter(stream)`, where somebody has called it; only without `resumed`.
        is_asked: False to leave alone what the stream could say of itself.

    Raises:
        RuntimeError: the stream is shorter than it was when `resumed` was told.
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
            StreamPlace(stream, after, seed=seed)  # And left.
        pair = Pair(stream, {} if "after" in state else state, iterator)
        for ordinal in range(start["at"], start["samples"]):
            if seed is not None:
                seed(ordinal)
            try:
                next(pair.iterator)
            except StopIteration:
                if start.get("over"):
                    break  # Of an epoch that is over as much is read as there is now.
                raise RuntimeError(
                    f"the stream ended after {ordinal} samples, but {start['samples']} had been read when its state "
                    "was taken: resume with the data that the state was made with"
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
            # Whether a sample was asked for: by then the stream knows what it was given.
            self._has_begun = resumed is not None and (start["at"] < start["samples"] or self.ended)
            self._mark = {"state": state, "at": start["at"]}
            if resumed is None:
                self._mark["state"] = {"after": before}
            self._is_due = False

    def take_iterator(self) -> Iterator[Any]:
        """What gives the samples, for one who is to hold it: it ends with them, and this may be kept longer."""
        if self.is_lazy:
            return self
        iterator, self._untaken = self._untaken, iter(())
        return iterator

    def begin_batch(self) -> None:
        """Takes note that a batch is fetched next."""
        self._is_due = self._every > 0 and self._batches % self._every == 0
        self._batches += 1

    def __next__(self) -> Any:
        """The next sample of a lazy stream."""
        # The first one of an epoch tells what the epoch before can't be asked for.
        if self._has_begun and (self._is_due or (self.samples == 1 and self._mark["at"] == 0)):
            self._take_mark()
        self._is_due, self._has_begun = False, True
        return next(self._pair.iterator)

    def _take_mark(self) -> None:
        if self._mark["at"] != self.samples:
            # Whoever asks for the state will hear what is wrong; the mark before this one leads here too.
            with contextlib.suppress(Exception):
                # It is kept over batches in which a dataset may go on changing the very objects that it returned.
                self._mark = {"state": copy.deepcopy(self._pair.state()), "at": self.samples}

    def state(self) -> dict[str, Any] | None:
        """As a state keeps it: what the stream says, after how many samples it says so, and how many were read.

        None where nothing is known: of a lazy stream that was asked for nothing yet.
        """
        if not self.is_stateful:
            return self._as_place({}, 0)
        if not self.is_lazy:
            return self._as_place(self._pair.state(), self.samples)
        if not self._has_begun:
            return self._untouched
        return self._as_place(self._pair.state(), self.samples) | {"mark": self._mark}

    def marked(self) -> dict[str, Any] | None:
        """As `state`, without asking a lazy stream: from the last mark on."""
        if not self._has_begun:
            return self._untouched
        return self._as_place(self._mark["state"], self._mark["at"]) | {"mark": self._mark}

    def left(self) -> dict[str, Any] | None:
        """What the epoch after this one is to know of it: asked now, for the stream will soon speak of the next one."""
        try:
            place = self.state()
        except Exception:
            # Where it can't say where it is, what it said before leads there too.
            place = self.marked() if self.is_lazy else None
        if self.is_lazy and not self._has_begun and place is not None and place is self._untouched:
            self._leave_untouched(place)
        left: dict[str, Any] | None = copy.deepcopy(over(place))
        return left

    def _leave_untouched(self, place: dict[str, Any]) -> None:
        """Lets the stream begin where it was taken up, and nothing was read: it had begun when it was left there."""
        if not place.get("over") and not place["ended"] and place["samples"] > 0:
            self._pair.begin_and_leave(place["state"])

    def _as_place(self, state: dict[str, Any], at: int) -> dict[str, Any]:
        return {"state": state, "at": at, "samples": self.samples, "ended": self.ended}


def over(place: dict[str, Any] | None) -> dict[str, Any] | None:
    """`place` as that of an epoch that is over, be it ended or left: what the next one begins from."""
    if place is None or place.get("over"):
        return place
    left = {name: value for name, value in place.items() if name not in ("mark", "start", "retired")} | {"over": True}
    mark = place.get("mark")
    if mark is None or place["ended"]:
        return left
    if "after" not in mark["state"]:
        marked: dict[str, Any] = left | mark
        return marked
    # Nothing is known to lie before what was read but the epoch before.
    return _shortened(left | {"state": place["state"] | mark["state"], "at": 0}, _MOST_EPOCHS)


def _shortened(place: dict[str, Any], epochs: int) -> dict[str, Any]:
    state = dict(place["state"])
    after = state.pop("after", None)
    if after is None:
        return place
    if epochs == 0:
        return place | {"state": state, "at": place["samples"]}
    return place | {"state": state | {"after": _shortened(after, epochs - 1)}}
