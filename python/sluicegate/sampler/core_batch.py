"""`CoreBatchSampler`: the Python base class of the core's batch samplers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from sluicegate import _core

from .sampler_state import checked_epoch, checked_state, sampler_state
from .seed import checked_seed, drawn_seed, missing_seed


class CoreBatchSampler(Sampler[list[int]]):
    """Batches of indices computed by the core. A subclass selects the core's sampler in `_make`.

    Batches are a pure function of (seed, epoch, batch number), so they can be accessed in any order at any time.

    Args:
        seed: an integer from 0 to 2**64 - 1; None to draw one at the first `next` of each iteration.
        generator: the source of the drawn seed, instead of torch's global generator.
    """

    # True if the order is random.
    shuffle = True

    def __init__(self, seed: int | None, generator: torch.Generator | None) -> None:
        self.seed = checked_seed(seed)
        self.generator = generator
        self.epoch = 0
        # How many indices or batches the running or last iteration has yielded, and where the next one begins.
        self.yielded = 0
        self.next_yielded: int | None = None
        # The seed that the running iteration, or the one to be resumed, has drawn.
        self._drawn: int | None = None
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

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, counted from 0. It does not advance by itself."""
        self.epoch = checked_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the iteration: plain JSON."""
        return sampler_state(self, self.seed, self._drawn)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration, and only that one, resume where the iteration of `state` was.

        Raises:
            ValueError: the state belongs to a sampler with a different seed or made from something else, or its number
                of yielded items is missing or negative.
        """
        self.epoch, yielded, self._drawn = checked_state(self, self.seed, state)
        self.next_yielded = self.yielded = yielded

    def _begin(self) -> tuple[int, int]:
        """Begin an iteration and return its seed and first position. Call it at the first `next`."""
        start, self.next_yielded = self.next_yielded, None
        self.yielded = start or 0
        if self.seed is not None or not self.shuffle:
            return self.seed or 0, self.yielded
        if start is None or self._drawn is None:
            self._drawn = drawn_seed(self.generator)
        return self._drawn, self.yielded

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except the caches, which can be rebuilt."""
        return {**vars(self), "_kept": None, "_called": None}


def positive(name: str, number: Any) -> int:
    """Return `number` if it is a positive integer; otherwise raise torch's ValueError."""
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={number}")
    return number
