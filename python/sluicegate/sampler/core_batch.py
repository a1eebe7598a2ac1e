"""`CoreBatchSampler`: the Python base class of the core's batch samplers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from sluicegate import _core

from .iteration import Iteration
from .seed import checked_seed, missing_seed


class CoreBatchSampler(Iteration, Sampler[list[int]]):
    """Batches of indices computed by the core. A subclass selects the core's sampler in `_make`.

    Batches are a pure function of (seed, epoch, batch number), so they can be accessed in any order at any time.
    """

    def __init__(self, seed: int | None, generator: torch.Generator | None) -> None:
        super().__init__(seed, generator)
        self._kept: tuple[tuple[int, int], _core.Batches] | None = None
        self._called: tuple[int | None, str] | None = None

    def _make(self, seed: int) -> _core.BatchingSampler:
        raise NotImplementedError

    def batches(self, epoch: int, seed: int | None = None) -> _core.Batches:
        """Return the batches of `epoch`.

        Args:
            epoch: counted from 0.
            seed: the loader's seed, used if the sampler has none.

        Raises:
            ValueError: neither has a seed.
        """
        seed = checked_seed(seed) if self.seed is None else self.seed
        if seed is None:
            raise missing_seed(type(self).__name__)
        # Kept for `len` and `batch_at`, because some batches take time to make.
        kept, key = self._kept, (epoch, seed)
        if kept is None or kept[0] != key:
            self._kept = kept = (key, self._make(seed).batches(epoch))
        return kept[1]

    def identity(self, seed: int | None = None) -> str:
        """Return a description that differs between samplers with different batches. `seed` as for `batches`."""
        seed = checked_seed(seed) if self.seed is None else self.seed
        # Kept, because it may take as long as making an epoch's batches.
        if self._called is None or self._called[0] != seed:
            self._called = seed, self._make(seed or 0).identity()
        return self._called[1]

    def batch_at(self, position: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the indices of the batch at `position` of the current epoch: int64."""
        return np.array(np.frombuffer(self.batches(self.epoch).indices(position), np.int64))

    def index_at(self, position: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return `batch_at(position)`, under the name shared by all samplers; here a position is that of a batch."""
        return self.batch_at(position)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self.batches(self.epoch, seed=0))

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of the current epoch as lists of integers."""
        seed, start = self._begin()
        batches = self.batches(self.epoch, seed)
        for position in range(start, len(batches)):
            batch = np.frombuffer(batches.indices(position), np.int64).tolist()
            self.yielded = position + 1
            yield batch

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except the caches, which can be rebuilt."""
        return {**vars(self), "_kept": None, "_called": None}


def positive(name: str, number: Any) -> int:
    """Return `number` if it is a positive integer; otherwise raise torch's ValueError."""
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={number}")
    return number
