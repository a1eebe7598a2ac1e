"""`RandomSampler`: every index once in random order, or drawn independently."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional
from .seed import checked_seed


class RandomSampler(Positional, data.RandomSampler):
    """Random indices: torch's `RandomSampler`, and with a seed an order that is computed and takes no memory.

    Without `seed`, iterating gives what torch's sampler gives, and leaves the generators as torch does. With it, any
    position of any epoch costs nanoseconds, for 10^10 samples as for ten.

    Args:
        data_source: the dataset; its length is read when an epoch begins.
        replacement: True to draw independently, with replacement.
        num_samples: draws per epoch; default: the number of samples. If larger, without replacement, whole orders
            follow one another.
        generator: the generator to draw from without `seed`; default: torch's global generator.
        seed: turns on seed mode: the order is a pure function of (seed, epoch, position).

    Raises:
        TypeError: `replacement` is not a bool.
        ValueError: `num_samples` is not a positive int, or `seed` is not from 0 to 2**64 - 1.

    Examples:
        >>> sampler = RandomSampler(range(10**10), seed=7)
        >>> sampler.index_at(9_999_999_999) < 10**10
        True
        >>> sorted(RandomSampler(range(5), seed=7))
        [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: torch.Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(data_source, replacement, num_samples, generator)
        self.seed = checked_seed(seed)

    def _facts(self) -> tuple[Any, ...]:
        return len(self.data_source), self.replacement, self.num_samples

    def _make(self, seed: int) -> _core.Sampler:
        return _core.random_sampler(len(self.data_source), seed, self.replacement, self.num_samples)
