"""`BlockShuffleSampler`: whole blocks in random order, shuffled within windows of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils import data

from sluicegate import _core

from .class_index import described, integers
from .core_batch import positive
from .positional import Positional, ints
from .seed import checked_seed

_Sizes: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class BlockShuffleSampler(Positional, data.Sampler[int]):
    """Every index once: whole contiguous blocks in random order, shuffled among `window` blocks at a time.

    For data that is read block by block: disk pages, row groups, compressed frames. A reader that keeps the blocks of a
    window reads each block once per epoch. A window of all blocks is a full shuffle; with a window of one block,
    samples stay with their block.

    Blocks may have one size or individual sizes, such as the row groups left by a filter, or archives:

    - With one size, nothing is stored, and any position costs some tens of nanoseconds. Sizes that are all equal,
      except for a smaller last one, count as one size.
    - Individual sizes take 16 bytes per block, and 16 more for an epoch's order, which is made when the epoch begins in
      about 20 ns per block (20 ms for 10^6). Each position also costs a search in it.

    Args:
        data_source: the dataset; its length is read when an epoch begins.
        block: the number of samples in a block, of which the last may have fewer; or the number of samples in each
            block, a list, array or tensor of integers whose sum is the length. Empty blocks are skipped: they do not
            count in a window. Default: the `block_sizes` of the dataset, which `ArrowDataset`, `MdsDataset`,
            `ParquetDataset`, `TarDataset` and `ZarrDataset` have.
        window: the number of blocks whose samples are mixed.
        generator: the source of the seed that a pass without `seed` draws at its first `next`; default: torch's global
            generator.
        seed: turns on seed mode: the order is a pure function of (seed, epoch, position).

    Attributes:
        block: the number of samples in a block; for unequal blocks, a read-only int64 array.

    Raises:
        ValueError: `block` or `window` is not a positive int; `seed` is not from 0 to 2**64 - 1; block sizes are
            negative, or their sum is not the length; no `block` is given, and the dataset does not have `block_sizes`.
        TypeError: block sizes are not integers.

    Examples:
        >>> sampler = BlockShuffleSampler(range(1000), block=100, window=2, seed=7)
        >>> first = [sampler.index_at(position) // 100 for position in range(200)]
        >>> len(set(first)), sorted(sampler) == list(range(1000))
        (2, True)
        >>> list(BlockShuffleSampler(range(10), block=[1, 6, 0, 3], window=1, seed=7))
        [0, 7, 9, 8, 5, 6, 3, 4, 2, 1]
    """

    def __init__(
        self,
        data_source: Sized,
        block: int | Sequence[int] | np.ndarray[Any, Any] | torch.Tensor | None = None,
        window: int | None = None,
        generator: torch.Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        self.data_source = data_source
        if block is None:
            block = getattr(data_source, "block_sizes", None)
            if block is None:
                raise ValueError(
                    f"block: expected a number, because a {type(data_source).__name__} has no block_sizes, but got "
                    "None; pass the number of samples of a block, or a sequence with that of each"
                )
        has_sizes = isinstance(block, (list, tuple, range)) or np.ndim(block) > 0
        self.block: int | _Sizes = _sizes(block) if has_sizes else positive("block", block)
        self.window = positive("window", window)
        self.generator = generator
        self.seed = checked_seed(seed)
        if not isinstance(self.block, int):
            self._make(0)  # To raise argument errors now.
            self.block = _even_size(self.block) or self.block

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.data_source)

    def _unseeded(self) -> Iterator[int]:
        yield from ints(self._make(self._seed_of_pass(self.generator)).order(0), 0)

    def _facts(self) -> tuple[Any, ...]:
        return len(self.data_source), self.block, self.window

    def _make(self, seed: int) -> _core.Sampler:
        length = len(self.data_source)
        if isinstance(self.block, int):
            return _core.block_shuffle_sampler(length, self.block, self.window, seed)
        made = _core.uneven_block_shuffle_sampler(described(self.block), self.window, seed)
        # The core has checked that no size is negative and that the sum does not overflow.
        if (samples := int(self.block.sum())) != length:
            raise ValueError(
                f"block: expected blocks of {length} samples in total, as the dataset has, but got {len(self.block)} "
                f"blocks of {samples}"
            )
        return made


def _sizes(block: Any) -> _Sizes:
    """Return the block sizes in an array of our own."""
    sizes = np.array(integers("block", block), np.int64)
    sizes.flags.writeable = False
    return sizes


def _even_size(sizes: _Sizes) -> int | None:
    """Return the common size of all blocks, except for a smaller last one; None if there is none. Same in the core."""
    full = sizes[sizes > 0]
    if len(full) == 0:
        return 1
    return int(full[0]) if bool((full[:-1] == full[0]).all()) and full[-1] <= full[0] else None
