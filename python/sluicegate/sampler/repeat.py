"""`RepeatSampler`: another sampler's indices, repeated."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional, has_seed
from .seed import checked_seed
from .translation import core_of


class RepeatSampler(Positional, data.Sampler[int]):
    """Another sampler's indices, `times` times per epoch: whole passes, or each index several times in a row.

    Whole passes make short epochs longer: each pass has its own order. In seed mode, pass k of epoch e is the sampler's
    epoch e * times + k.

    Repetitions in a row are those of repeated augmentation (Hoffer et al., "Augment your batch", CVPR 2020). With
    `num_samples=len(dataset)`, an epoch has as many samples as without repetition, as in timm's `RepeatAugSampler`.
    Ranks that read in turns (the loader's `shard=`) get repetitions of one sample at the same time.

    Args:
        sampler: any iterable of indices that can be iterated more than once; in seed mode, one of sluicegate's.
        times: the number of repetitions, at least 0.
        interleaved: True to repeat each index directly after itself, like `torch.repeat_interleave`.
        num_samples: the maximum length of an epoch; default: no limit.
        seed: turns on seed mode, for a sampler without a seed.

    Raises:
        ValueError: `times` or `num_samples` is negative or not an int, or `seed` is not from 0 to 2**64 - 1.

    Examples:
        >>> list(RepeatSampler(range(3), 2))
        [0, 1, 2, 0, 1, 2]
        >>> list(RepeatSampler(range(3), 2, interleaved=True))
        [0, 0, 1, 1, 2, 2]
    """

    def __init__(
        self,
        sampler: Any,
        times: int,
        *,
        interleaved: bool = False,
        num_samples: int | None = None,
        seed: int | None = None,
    ) -> None:
        for name, value in (("times", times), ("num_samples", 0 if num_samples is None else num_samples)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} should be a non-negative integer value, but got {name}={value}")
        self.sampler = sampler
        self.times = times
        self.interleaved = bool(interleaved)
        self.num_samples = num_samples
        self.seed = checked_seed(seed)

    def __len__(self) -> int:
        """Return how many indices an epoch has."""
        whole = self.times * len(self.sampler)
        return whole if self.num_samples is None else min(whole, self.num_samples)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, and the inner sampler's too if it has one."""
        super().set_epoch(epoch)
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def _unseeded(self) -> Iterator[int]:
        sampler = self.sampler
        if getattr(sampler, "generator", self) is None:
            # One draw for all passes: by the time of a later one, fetching may have moved the generator.
            sampler = copy.copy(sampler)
            sampler.generator = torch.Generator().manual_seed(self._seed_of_pass(None))
        if self.interleaved:
            repeated = (index for index in sampler for _ in range(self.times))
        else:
            repeated = (index for _ in range(self.times) for index in sampler)
        yield from itertools.islice(repeated, self.num_samples)

    def _has_seed(self) -> bool:
        return self.seed is not None or has_seed(self.sampler)

    def _is_random(self) -> bool:
        # The inner sampler reports this itself.
        return False

    def _facts(self) -> tuple[Any, ...]:
        return self.times, self.interleaved, self.num_samples, self.sampler

    def core(self, seed: int | None = None) -> _core.Sampler:
        """Return the core's sampler that makes the orders; `seed` as for `order`."""
        inner = core_of(self.sampler, self.seed if self.seed is not None else seed)
        made = self._made
        # The inner core sampler changes with its dataset.
        if made is None or made[0][0] is not inner or made[0][1:] != self._facts():
            core = _core.repeat_sampler(inner, self.times, self.interleaved, self.num_samples)
            self._made = made = (inner, *self._facts()), core
        return made[1]
