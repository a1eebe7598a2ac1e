"""`StreamPlace`: where a pass over a stream or a sampler is, and what the next pass will find."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

from .place_state import Mark, PlaceState
from .stateful import Pair


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
        resumed: PlaceState | None = None,
        before: PlaceState | None = None,
        every: int = 1,
        seed: Callable[[int], None] | None = None,
        *,
        iterator: Iterator[Any] | None = None,
        is_asked: bool = True,
    ) -> None:
        start = resumed or PlaceState()
        states = start.states
        if (after := states.get("after")) is not None:
            StreamPlace(stream, PlaceState.of_inner(after), seed=seed)  # Dropped at once, which leaves that epoch.
        pair = Pair(stream, {} if "after" in states else states, iterator)
        for ordinal in range(start.at, start.samples):
            if seed is not None:
                seed(ordinal)
            try:
                next(pair.iterator)
            except StopIteration:
                if start.over:
                    break  # a finished epoch is reread only as far as it goes now
                raise RuntimeError(
                    f"load_state_dict: the stream ended after {ordinal} samples, but the state was saved after "
                    f"{start.samples}; resume with the data that the state was saved with"
                ) from None
        if start.ended and states:
            pair.see_end(states)
        elif start.over and start.at == start.samples > 0 and pair.is_lazy:
            pair.begin_and_leave(states)
        self.samples = start.samples
        self.ended = start.ended
        self.is_stateful = is_asked and pair.is_stateful
        self.is_lazy = is_asked and pair.is_lazy
        self._untaken = iter(()) if self.is_lazy else pair.iterator
        if self.is_stateful:
            self._pair = pair
        # Freezes the stream's own state.
        self._freeze: Callable[[], Callable[[], Any]] | None = None
        self._every = every
        self._batches = 0
        if self.is_lazy:
            self._untouched = before if resumed is None else resumed
            # True once a sample was requested: from then on the stream's state takes the restored one into account.
            self._has_begun = resumed is not None and (start.at < start.samples or self.ended)
            self._mark = Mark(states, start.at)
            if resumed is None:
                self._mark = Mark({"after": None if before is None else before.inner()}, 0)
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
        if self._has_begun and (self._is_due or (self.samples == 1 and self._mark.at == 0)):
            self._take_mark()
        self._is_due, self._has_begun = False, True
        return next(self._pair.iterator)

    def _take_mark(self) -> None:
        if self._mark.at != self.samples:
            # The error shows when the state is requested; the previous mark leads here, too.
            with contextlib.suppress(Exception):
                # Copied because it is kept over several batches, in which the dataset may modify the objects that it
                # returned.
                self._mark = Mark(copy.deepcopy(self._pair.state()), self.samples)

    def state(self) -> PlaceState | None:
        """Return the position; None if it is unknown: for a lazy stream before the first request."""
        if not self.is_stateful:
            return PlaceState({}, 0, self.samples, self.ended)
        if self.is_lazy and not self._has_begun:
            return self._untouched
        mark = self._mark if self.is_lazy else None
        return PlaceState(self._pair.state(), self.samples, self.samples, self.ended, mark=mark)

    def frozen(self) -> Callable[[], PlaceState]:
        """Return a function that makes the result of `state`, also later; for non-lazy streams with `freezing`."""
        if self._freeze is None:
            self._freeze = self._pair.thing.freezing()
        return functools.partial(_thawed, self._freeze(), self.samples, self.ended)

    def marked(self) -> PlaceState | None:
        """Return the place as `state` does, but starting from the last mark, without asking a lazy stream."""
        if not self._has_begun:
            return self._untouched
        return PlaceState(*self._mark, self.samples, self.ended, mark=self._mark)

    def left(self) -> PlaceState | None:
        """Return what the next epoch needs to know of this one.

        To be called before the next epoch begins, as the stream will then report on that one.
        """
        try:
            place = self.state()
        except Exception:
            # If the stream cannot report its state, an earlier one leads there, too.
            place = self.marked() if self.is_lazy else None
        if place is None:
            return None
        if self.is_lazy and not self._has_begun and not (place.over or place.ended) and place.samples > 0:
            # A stream that was resumed and then not read: when it was left there, it had begun.
            self._pair.begin_and_leave(place.states)
        return copy.deepcopy(place.left())


def _thawed(frozen: Callable[[], Any], samples: int, ended: bool) -> PlaceState:
    return PlaceState.exact(frozen(), samples, ended)
