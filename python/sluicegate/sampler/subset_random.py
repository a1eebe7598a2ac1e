"""`SubsetRandomSampler`: given indices in random order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional, described
from .seed import checked_seed


class SubsetRandomSampler(Positional, data.SubsetRandomSampler):
    """Each of the given indices once, in random order: torch's `SubsetRandomSampler`, with positions in seed mode.

    In seed mode the core keeps its own copy of the indices (4 bytes each, 8 if one needs more than 32 bits), made when
    an order is first requested. Assign another sequence to `indices` to change them. Negative indices are not allowed
    in seed mode.

    Args:
        indices: the indices: a range, list, array or tensor.
        generator: the generator to draw from without `seed`; default: torch's global generator.
        seed: turns on seed mode: the order is a pure function of (seed, epoch, position).

    Raises:
        ValueError: `seed` is not from 0 to 2**64 - 1. In seed mode, when an order is requested: an index is negative.

    Examples:
        >>> sampler = SubsetRandomSampler([30, 10, 20], seed=7)
        >>> sorted(sampler)
        [10, 20, 30]
    """

    def __init__(
        self, indices: Sequence[int], generator: torch.Generator | None = None, *, seed: int | None = None
    ) -> None:
        super().__init__(indices, generator)
        self.seed = checked_seed(seed)

    def _facts(self) -> tuple[Any, ...]:
        return self.indices, len(self.indices)

    def _make(self, seed: int) -> _core.Sampler:
        return _core.subset_random_sampler(described(_int64(self.indices)), seed)


def _int64(indices: Any) -> torch.Tensor:
    if type(indices) is range:
        return torch.arange(indices.start, indices.stop, indices.step, dtype=torch.int64, device="cpu")
    found = np.asarray(indices.cpu() if isinstance(indices, torch.Tensor) else indices)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and len(found)):
        raise ValueError(f"indices should be a flat sequence of integers, but got {found.dtype} of shape {found.shape}")
    array = np.ascontiguousarray(found, dtype=np.int64)
    # The core copies them, so read-only user memory would do, but torch warns about it.
    return torch.from_numpy(array if array.flags.writeable else array.copy())
