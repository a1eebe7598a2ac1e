"""`BatchSampler`: a sampler's indices, cut into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch.utils import data

from sluicegate import _core

from .positional import Positional, array, has_seed, own_seed, seed_of_pass
from .sampler_state import checked_state, sampler_state
from .seed import checked_seed
from .translation import core_of

# How many indices are converted to Python integers at a time.
_AT_ONCE = 4096


class BatchSampler(data.BatchSampler):
    """A sampler's indices in batches: torch's `BatchSampler`, with positions in seed mode and a state.

    Seed mode comes from the sampler, or from `seed` if the sampler has none. Otherwise batches are what torch's class
    makes from any iterable.

    Args:
        sampler: any iterable of indices; in seed mode, one of sluicegate's samplers.
        batch_size: the number of indices in a batch.
        drop_last: True to drop a last batch that is not full.
        seed: turns on seed mode, for a sampler without a seed.

    Raises:
        ValueError: `batch_size` is not a positive int, `drop_last` is not a bool, or `seed` is not from 0 to
            2**64 - 1.

    Examples:
        >>> from sluicegate.sampler import RandomSampler
        >>> sampler = BatchSampler(RandomSampler(range(10**9), seed=7), 4, drop_last=False)
        >>> sampler.batch_at(123_456_789).shape
        (4,)
        >>> list(BatchSampler(range(5), 2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    # As for samplers of samples, but counted in batches.
    epoch: int = 0
    yielded: int = 0
    next_yielded: int | None = None
    _asked: tuple[Any, ...] | None = None

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool, *, seed: int | None = None) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self.seed = checked_seed(seed)

    def batches(self, epoch: int, seed: int | None = None) -> _core.Batches:
        """Return the batches of `epoch`, with random access; `seed` is the loader's, used if neither sampler has one.

        Raises:
            ValueError: there is no seed, or the sampler is not one of sluicegate's.
        """
        core = core_of(self.sampler, self.seed if self.seed is not None else checked_seed(seed))
        return _core.batch_sampler(core, self.batch_size, self.drop_last).batches(epoch)

    def batch_at(self, position: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the indices of the batch at `position` of the current epoch, in seed mode: int64.

        Raises:
            IndexError: there is no such batch.
            ValueError: as for `batches`.
        """
        asked = core_of(self.sampler, self.seed), self.batch_size, self.drop_last, self._current_epoch()
        if self._asked is None or self._asked[0] is not asked[0] or self._asked[1:4] != asked[1:]:
            self._asked = (*asked, self.batches(asked[3]))
        return np.array(array(self._asked[4].indices(position)))

    def index_at(self, position: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return `batch_at(position)`, under the name shared by all samplers; here a position is that of a batch."""
        return self.batch_at(position)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, and the sampler's too if it has one."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def identity(self, seed: int | None = None) -> str:
        """Return a description of which batches these are, which differs for different orders. `seed` as for `batches`.

        For a sampler that is not one of sluicegate's, only the type is named, because its order is unknown.
        """
        of = type(self.sampler).__name__
        if isinstance(self.sampler, Positional):
            of = self.sampler.identity(self.seed if self.seed is not None else seed)
        return f"BatchSampler({of}, {self.batch_size}, {self.drop_last})"

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, how many of its batches were yielded, and the seed they were drawn from: plain JSON."""
        # A sampler that drew a seed for this pass has to resume with it.
        return sampler_state(self, self._effective_seed(), seed_of_pass(self.sampler))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Make the next iteration resume where `state_dict` was taken.

        Raises:
            ValueError: the number of yielded batches is missing or negative, or the state has a different seed or is of
                different batches.
        """
        epoch, self.next_yielded, drawn = checked_state(self, self._effective_seed(), state_dict)
        self.set_epoch(epoch)
        if drawn is not None and isinstance(self.sampler, Positional):
            self.sampler.draw_again(drawn)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield lists of Python ints. Nothing is drawn before the first one is requested."""
        self.yielded, self.next_yielded = self.next_yielded or 0, None
        return self._counted(self._from(self.yielded))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_asked"}

    def _counted(self, batches: Iterator[list[int]]) -> Iterator[list[int]]:
        for batch in batches:
            self.yielded += 1
            yield batch

    def _from(self, batch: int) -> Iterator[list[int]]:
        if not isinstance(self.sampler, Positional) or (self.seed is None and not has_seed(self.sampler)):
            return itertools.islice(super().__iter__(), batch, None)
        return self._seeded(batch)

    def _seeded(self, batch: int) -> Iterator[list[int]]:
        order = core_of(self.sampler, self.seed).order(self._current_epoch())
        size, drop_last = self.batch_size, self.drop_last
        end = len(order) - len(order) % size if drop_last else len(order)
        at_once = max(_AT_ONCE // size, 1) * size
        for first in range(batch * size, end, at_once):
            indices = array(order.indices(first, min(first + at_once, end))).tolist()
            for start in range(0, len(indices), size):
                yield indices[start : start + size]

    def _effective_seed(self) -> int | None:
        own = own_seed(self.sampler)
        return self.seed if own is None else own

    def _current_epoch(self) -> int:
        # The epoch of the underlying sampler may have been set directly.
        return self.sampler.epoch if isinstance(self.sampler, Positional) else self.epoch
