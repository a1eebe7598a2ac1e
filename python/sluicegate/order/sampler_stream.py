"""`SamplerStream`: the requests of a user-defined sampler, one at a time."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler

from sluicegate.known_length import known_length
from sluicegate.rng.global_generators import set_generator_state
from sluicegate.sampler import is_ours
from sluicegate.state.place_state import PlaceState
from sluicegate.state.sampler_place import SamplerPlace
from sluicegate.state.stateful import is_stateful, pickled
from sluicegate.state.stream_place import StreamPlace

from .torch_order import is_torchs


class SamplerStream:
    """The items of a sampler, batch by batch, with its state if it has one.

    Does the work of torch's own `BatchSampler`, which would hide the state of the inner iterator.

    Args:
        index_sampler: the loader's batch sampler, or its sampler if there are no batches.
        index_iterator: `iter(index_sampler)`, not started.
        state: the state that the sampler reported after `past` batches were yielded.
        past: how many batches of the epoch to skip: by `state`, or by reading and dropping them.
        order: the state of a generator from which a `RandomSampler` draws the order, instead of its own.
        before: what `left` or `state` returned at the end of the previous epoch, if known.
        see_past: called with the number of each batch that is read and dropped, and the batch.
    """

    def __init__(
        self,
        index_sampler: Any,
        index_iterator: Iterator[Any],
        state: SamplerPlace | None,
        past: int,
        order: str | None = None,
        before: SamplerPlace | None = None,
        see_past: Callable[[int, Any], None] = lambda number, request: None,
    ) -> None:
        self._batches = index_sampler if is_torchs(index_sampler, BatchSampler) else None
        thing = index_sampler if self._batches is None else self._batches.sampler
        if order is not None:
            thing = copy.copy(thing)
            thing.generator = torch.Generator()
            set_generator_state(thing.generator, order)
        begun = index_iterator if self._batches is None and state is None and order is None else None
        indices = past and past * (1 if self._batches is None else int(self._batches.batch_size))
        resumed = None if state is None else state.place_after(indices)
        # Our samplers report their position too, but their draws are repeated from the generators, as torch's are.
        is_asked = not is_ours(thing)
        self._place = StreamPlace(
            thing, resumed, None if before is None else before.place_after(0), iterator=begun, is_asked=is_asked
        )
        # Yields one index at a time, or whole batches if the sampler makes them.
        self.indices = self._place.take_iterator()
        self.is_stateful = self._place.is_stateful
        # The size of the last batch: read before every batch or, with `drop_last`, before the first one.
        self._size: int | None = 0
        # With `drop_last`, what each index of a batch is requested from.
        self._together: list[Iterator[Any]] | None = None
        # A flag, not a generator, which would keep this object and its sampler alive until a garbage collection.
        self._is_over = False
        # After the last index, some samplers report the start of their next pass: after it, or together with it.
        self._has_ended = state is not None and state.has_ended
        self._length = known_length(thing) if self.is_stateful else None
        self._is_over = self._has_ended
        if state is None and past:
            for number, request in enumerate(itertools.islice(self, past)):
                see_past(number, request)

    def __iter__(self) -> SamplerStream:
        return self

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        self._is_over = True  # Also if the sampler fails.
        self._place.begin()
        request = self._next_index() if self._batches is None else self._next_batch()
        self._is_over = False
        return request

    def state(self) -> bytes | None:
        """Return the current state of the sampler or its iterator, pickled; None if it has none."""
        return pickled(self._sampler_place) if self.is_stateful else None

    def _sampler_place(self) -> SamplerPlace:
        place = self._place.state()
        assert place is not None
        return SamplerPlace(place.states, self._has_ended)

    def left(self) -> SamplerPlace | None:
        """Return what the next epoch must know of this one; None if nothing, as after an epoch left in the middle.

        Call it when leaving: after that the sampler reports the state of its next pass.
        """
        place = self._place.left() if self.is_stateful else None
        return SamplerPlace(left=place) if place is not None and place.states else None

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
        # Torch calls `iter` of the iterator, too: `islice` does for every batch and, with `drop_last`, `zip` does at
        # the start, for every index of a batch. It matters for a sampler that is its own iterator and restarts there.
        if self._size == 0 and self._batches.drop_last:
            self._size = self._batches.batch_size
            self._together = [self.indices] * self._size
            if self._place.samples == 0:
                self._together = list(map(iter, self._together))
        if self._together is not None:
            batch = list(map(next, self._together))
        else:
            self._size = self._batches.batch_size
            batch = list(itertools.islice(self.indices, self._size))
        if not batch:
            self._place.ended = True
            raise StopIteration
        # `batch_size` None takes everything at once; the next read then finds the end.
        is_short = self._size is not None and len(batch) < self._size
        self._place.ended = self._has_ended = is_short
        self._count(len(batch))
        if self._together is not None and is_short:
            raise StopIteration
        return batch


_END = object()


def leave_epoch(index_sampler: Any, state: SamplerPlace) -> None:
    """Bring a stateful sampler to where an epoch left it; `state` is what was recorded at the epoch's end."""
    if state.left is None and next(SamplerStream(index_sampler, iter(()), state, 0), None) is None:
        return  # It has seen its end.
    # Otherwise it was left in its middle, or it started again by itself with its last index.
    StreamPlace(_requested_sampler(index_sampler), state.place_after(0))


def place_now(index_sampler: Any) -> SamplerPlace | None:
    """Return the position of a stateful sampler before its first epoch in a loader; None for other samplers.

    A sampler that cannot report its state starts as it is, as in torch.
    """
    thing = _requested_sampler(index_sampler)
    if is_ours(thing) or not is_stateful(thing):
        return None
    with contextlib.suppress(Exception):
        return SamplerPlace(left=PlaceState({"thing": copy.deepcopy(thing.state_dict())}))
    return None


def requested_sampler_name(index_sampler: Any) -> str:
    """Return the class of the sampler that indices are requested from."""
    return type(_requested_sampler(index_sampler)).__name__


def _requested_sampler(index_sampler: Any) -> Any:
    """Return the sampler that indices are requested from: the one in torch's `BatchSampler`, or the sampler itself."""
    return index_sampler.sampler if is_torchs(index_sampler, BatchSampler) else index_sampler
