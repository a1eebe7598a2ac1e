"""`StreamPlace`: where a pass over a stream or a sampler is."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

from .place_state import PlaceState
from .stateful import Pair


class StreamPlace:
    """The place of a pass over a stream, with the stream's own state. The indices of a sampler are a stream, too.

    A stream whose iterator is *lazy* (a generator, or what Python makes of one) reports nothing about an epoch before
    the first sample was requested, and applies a restored state only then. Until then its place is the one that it was
    given.

    Args:
        stream: anything with `__iter__`, which is called by the constructor.
        resumed: an earlier result of `state` or `left`, to resume from. A stateful stream is restored; any other stream
            is read, and its samples are dropped.
        before: what `left` returned for the previous epoch, if known.
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
        seed: Callable[[int], None] | None = None,
        *,
        iterator: Iterator[Any] | None = None,
        is_asked: bool = True,
    ) -> None:
        start = resumed or PlaceState()
        pair = Pair(stream, start.states, iterator)
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
        if start.ended and start.states:
            pair.see_end(start.states)
        self.samples = start.samples
        self.ended = start.ended
        self.is_stateful = is_asked and pair.is_stateful
        self.is_lazy = is_asked and pair.is_lazy
        self._iterator = pair.iterator
        if self.is_stateful:
            self._pair = pair
        # Freezes the stream's own state.
        self._freeze: Callable[[], Callable[[], Any]] | None = None
        self._untouched = before if resumed is None else resumed
        # True once a sample was requested: from then on a lazy stream's state takes the restored one into account.
        self._has_begun = resumed is not None and (start.at < start.samples or self.ended)

    def take_iterator(self) -> Iterator[Any]:
        """Return the iterator over the samples, for the caller to own: this object may be kept longer than that."""
        iterator, self._iterator = self._iterator, iter(())
        return iterator

    def begin(self) -> None:
        """Record that a sample is requested next."""
        self._has_begun = True

    def state(self) -> PlaceState | None:
        """Return the position; None if it is unknown: for a lazy stream before the first request."""
        if not self.is_stateful:
            return PlaceState({}, 0, self.samples, self.ended)
        if self.is_lazy and not self._has_begun:
            return self._untouched
        return PlaceState(self._pair.state(), self.samples, self.samples, self.ended)

    def frozen(self) -> Callable[[], PlaceState]:
        """Return a function that makes the result of `state`, also later; for non-lazy streams with `freezing`."""
        if self._freeze is None:
            self._freeze = self._pair.thing.freezing()
        return functools.partial(_thawed, self._freeze(), self.samples, self.ended)

    def left(self) -> PlaceState | None:
        """Return what the next epoch needs to know of this one; None if nothing is known.

        To be called before the next epoch begins, as the stream will then report on that one.
        """
        try:
            place = self.state()
        except Exception:
            return None  # The stream can't tell. The error shows when a state is requested.
        return None if place is None else copy.deepcopy(place.left())


def _thawed(frozen: Callable[[], Any], samples: int, ended: bool) -> PlaceState:
    return PlaceState.exact(frozen(), samples, ended)
