"""The requests of a sampler of the user's, asked for one by one."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler

from .global_generators import set_generator_state
from .sampler import is_ours
from .stateful import pickled
from .stream_place import StreamPlace
from .torch_order import is_torchs


class SamplerStream:
    """What a sampler yields, batch by batch, with its state where it has one.

    Torch's own `BatchSampler` is done here, so that the state of the iterator that it would hide can be asked for.

    Args:
        index_sampler: the loader's batch sampler, or its sampler when batches are not made.
        index_iterator: `iter(index_sampler)`, not begun.
        state: what the sampler said of itself when `past` batches had been yielded.
        past: how many batches of the epoch are left out: by `state`, or by reading and dropping them.
        order: the state of a generator that a `RandomSampler` draws the order from, instead of its own.
        before: what `left` or `state` returned at the end of the epoch before, if anything is known of it.
    """

    def __init__(
        self,
        index_sampler: Any,
        index_iterator: Iterator[Any],
        state: Any,
        past: int,
        order: str | None = None,
        before: Any = None,
    ) -> None:
        self._batches = index_sampler if is_torchs(index_sampler, BatchSampler) else None
        thing = index_sampler if self._batches is None else self._batches.sampler
        if order is not None:
            thing = copy.copy(thing)
            thing.generator = torch.Generator()
            set_generator_state(thing.generator, order)
        begun = index_iterator if self._batches is None and state is None and order is None else None
        indices = past and past * (1 if self._batches is None else int(self._batches.batch_size))
        resumed = None if state is None else _place(state, indices)
        # Ours say where they are too, but what they drew is drawn again from the generators, as torch's is.
        is_asked = not is_ours(thing)
        self._place = StreamPlace(
            thing, resumed, None if before is None else _place(before), iterator=begun, is_asked=is_asked
        )
        # What gives one index after the other, or whole batches where they are the sampler's.
        self.indices = self._place.take_iterator()
        self.is_stateful = self._place.is_stateful
        # How large the next batch is: read when the first one is asked for, and before every other that may be smaller.
        self._size: int | None = 0
        self._drops_last = False
        # No generator of this object's own says so: it would keep this, and with it the sampler's, until a collection.
        self._is_over = False
        # Some that have yielded the last index say where their next pass begins: after it, or with it.
        self._has_ended = bool(state and state.get("has_ended"))
        self._length = _length(thing) if self.is_stateful else None
        self._is_over = self._has_ended
        if state is None and past:
            next(itertools.islice(self, past, past), None)

    def __iter__(self) -> SamplerStream:
        return self

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        self._is_over = True  # Where the sampler fails too.
        self._place.begin_batch()
        request = self._next_index() if self._batches is None else self._next_batch()
        self._is_over = False
        return request

    def state(self) -> bytes | None:
        """What the sampler, or its iterator, says of itself now, pickled; None when it says nothing."""
        return pickled(self._told) if self.is_stateful else None

    def _told(self) -> Any:
        place = self._place.state()
        assert place is not None
        return place["state"] | {"has_ended": self._has_ended}

    def left(self) -> dict[str, Any] | None:
        """What the next epoch is to know of this one, which was left in its middle; None where nothing is to be known.

        Asked now, for the sampler will soon speak of the next one.
        """
        place = self._place.left() if self.is_stateful else None
        return None if place is None else {"left": place}

    def _count(self, indices: int) -> None:
        self._place.samples += indices
        self._has_ended |= self._place.samples == self._length

    def _next_index(self) -> Any:
        index = next(self.indices, _END)
        if index is _END:
            self._place.ended = True
            raise StopIteration
        self._count(1)
        return index

    def _next_batch(self) -> list[Any]:
        assert self._batches is not None
        if self._size == 0:
            self._drops_last = self._batches.drop_last
        if self._size == 0 or not self._drops_last:
            self._size = self._batches.batch_size
        batch = list(itertools.islice(self.indices, self._size))
        if not batch:
            self._place.ended = True
            raise StopIteration
        # All at once, where somebody has set no size: then the next look finds the end.
        is_short = self._size is not None and len(batch) < self._size
        self._place.ended = self._has_ended = is_short
        self._count(len(batch))
        if self._drops_last and is_short:
            raise StopIteration
        return batch


_END = object()


def leave_epoch(index_sampler: Any, state: Any) -> None:
    """Brings a stateful sampler to where an epoch left it; `state` is what was said of that at its end."""
    thing = index_sampler.sampler if is_torchs(index_sampler, BatchSampler) else index_sampler
    if "left" not in state and next(SamplerStream(index_sampler, iter(()), state, 0), None) is None:
        return  # It has seen its end.
    # Else it was left in its middle; or it has begun anew by itself, with its last index.
    StreamPlace(thing, _place(state))


def _place(state: dict[str, Any], indices: int = 0) -> dict[str, Any]:
    """Where a pass over a sampler was, `indices` after its beginning, when it said `state`."""
    if "left" in state:
        left: dict[str, Any] = state["left"]
        return left
    told = {name: value for name, value in state.items() if name != "has_ended"}
    return {"state": told, "at": indices, "samples": indices, "ended": state.get("has_ended", False)}


def _length(sampler: Any) -> int | None:
    try:
        return len(sampler)
    except (TypeError, NotImplementedError):
        return None
