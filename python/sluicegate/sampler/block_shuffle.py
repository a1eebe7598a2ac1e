"""`BlockShuffleSampler`: whole blocks in random order, shuffled inside of windows of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional, ints
from .seed import checked_seed


class BlockShuffleSampler(Positional, data.Sampler[int]):
    """Every index once: whole blocks of neighbours in random order, shuffled among `window` blocks at a time.

    For data that is read block by block: pages of a disk, row groups, compressed frames. A reader that keeps the blocks
    of a window reads each block once an epoch. A window of all blocks is a full shuffle; in one of a single block the
    samples stay with their block. Nothing is stored; any position costs some tens of nanoseconds.

    Args:
        data_source: what has the samples; its length is asked when an epoch begins.
        block: the number of samples in a block; the dataset's last may have fewer.
        window: the number of blocks whose samples are mixed.
        generator: what a pass without `seed` draws its seed from, at the first `next`; by default torch's global one.
        seed: seed mode: the order is a pure function of (seed, epoch, position).

    Raises:
        ValueError: `block` or `window` is no positive int, or `seed` none of 64 bits.

    Example:
        >>> sampler = BlockShuffleSampler(range(1000), block=100, window=2, seed=7)
        >>> first = [sampler.index_at(position) // 100 for position in range(200)]
        >>> len(set(first)), sorted(sampler) == list(range(1000))
        (2, True)
    """

    def __init__(
        self,
        data_source: Sized,
        block: int,
        window: int,
        generator: torch.Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        for name, value in (("block", block), ("window", window)):
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
        self.data_source = data_source
        self.block = block
        self.window = window
        self.generator = generator
        self.seed = checked_seed(seed)

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.data_source)

    def _unseeded(self) -> Iterator[int]:
        yield from ints(self._make(self._seed_of_pass(self.generator)).order(0), 0)

    def _facts(self) -> tuple[Any, ...]:
        return len(self.data_source), self.block, self.window

    def _make(self, seed: int) -> _core.Sampler:
        return _core.block_shuffle_sampler(len(self.data_source), self.block, self.window, seed)
