"""`WeightedRandomSampler`: indices drawn in proportion to weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional, described
from .seed import checked_seed


class WeightedRandomSampler(Positional, data.WeightedRandomSampler):
    """Indices drawn in proportion to weights: torch's `WeightedRandomSampler`, and in seed mode up to 2^32 weights.

    Torch refuses more than 2^24 weights. In seed mode the draws follow the same distribution, with and without
    replacement:

    - With replacement, they come from an alias table of 8 bytes per weight (Walker, ACM TOMS 3, 1977), which is made
      when an order is first requested, 10^8 weights in seconds. Any position of any epoch then costs nanoseconds.
    - Without replacement, an epoch's order is made when it starts.

    Assign another tensor to `weights` to change them.

    Args:
        weights: one for each sample, flat, not negative; they need not sum to one.
        num_samples: draws per epoch.
        replacement: True to draw with replacement.
        generator: the generator to draw from without `seed`; default: torch's global generator.
        seed: turns on seed mode: the order is a pure function of (seed, epoch, position).

    Raises:
        ValueError: an argument is one that torch refuses, or `seed` is not from 0 to 2**64 - 1. When an order is
            requested: a weight is negative, infinite or not a number, all are zero, or fewer are positive than are to
            be drawn without replacement.

    Examples:
        >>> sampler = WeightedRandomSampler([0.0, 1.0, 3.0], 1000, seed=7)
        >>> 700 < list(sampler).count(2) < 800
        True
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: torch.Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(weights, num_samples, replacement, generator)
        self.seed = checked_seed(seed)

    def _facts(self) -> tuple[Any, ...]:
        return self.weights, self.num_samples, self.replacement

    def _make(self, seed: int) -> _core.Sampler:
        weights = self.weights.detach().to(device="cpu", dtype=torch.float64).contiguous()
        return _core.weighted_random_sampler(described(weights), self.num_samples, self.replacement, seed)
