"""`SequentialSampler`: every index once, in ascending order."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from torch.utils import data

from sluicegate import _core

from .positional import Positional
from .seed import checked_seed


class SequentialSampler(Positional, data.SequentialSampler):
    """Every index once, in ascending order: torch's `SequentialSampler`, with positions and a state.

    Args:
        data_source: the dataset; its length is read when an epoch begins.
        seed: has no effect; accepted because every sampler takes one.

    Raises:
        ValueError: `seed` is not from 0 to 2**64 - 1.

    Examples:
        >>> sampler = SequentialSampler(range(10))
        >>> sampler.index_at(7)
        7
    """

    def __init__(self, data_source: Sized, *, seed: int | None = None) -> None:
        super().__init__(data_source)
        self.seed = checked_seed(seed)

    def _is_random(self) -> bool:
        return False

    def _facts(self) -> tuple[Any, ...]:
        return (len(self.data_source),)

    def _make(self, seed: int) -> _core.Sampler:
        return _core.sequential_sampler(len(self.data_source))
