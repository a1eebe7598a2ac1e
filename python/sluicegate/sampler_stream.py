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
from .stateful import Pair, pickled
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
    """

    def __init__(
        self, index_sampler: Any, index_iterator: Iterator[Any], state: Any, past: int, order: str | None = None
    ) -> None:
        self._batches = index_sampler if is_torchs(index_sampler, BatchSampler) else None
        thing = index_sampler if self._batches is None else self._batches.sampler
        if order is not None:
            thing = copy.copy(thing)
            thing.generator = torch.Generator()
            set_generator_state(thing.generator, order)
        begun = index_iterator if self._batches is None and state is None and order is None else None
        self._pair = Pair(thing, state, begun)
        # Ours say where they are too, but what they drew is drawn again from the generators, as torch's is.
        self.is_stateful = self._pair.is_stateful and not is_ours(thing)
        self._iterator = self._pair.iterator if self._batches is None else self._cut(self._pair.iterator)
        # Where the last batch is smaller, the sampler has ended with it, and may say where its next pass begins.
        self._has_ended = bool(state and state.get("has_ended"))
        if self._has_ended:
            self._iterator = iter(())
        if state is None and past:
            next(itertools.islice(self._iterator, past, past), None)

    def __iter__(self) -> SamplerStream:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def state(self) -> bytes | None:
        """What the sampler, or its iterator, says of itself now, pickled; None when it says nothing."""
        return pickled(lambda: self._pair.state() | {"has_ended": self._has_ended}) if self.is_stateful else None

    def _cut(self, indices: Iterator[Any]) -> Iterator[list[Any]]:
        assert self._batches is not None
        size, drop_last = self._batches.batch_size, self._batches.drop_last
        while batch := list(itertools.islice(indices, size)):
            self._has_ended = len(batch) < size
            if drop_last and self._has_ended:
                return
            yield batch
            if not drop_last:
                size = self._batches.batch_size
