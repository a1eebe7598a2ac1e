"""`MixtureSampler`: the parts of a concatenation, read in proportion to weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional, ints
from .seed import checked_seed

# How many times per epoch a function of weights is called.
_TABULATED = 1024


class StopCriteria:
    """When an epoch of a mixture ends: the names and values of `torchdata.nodes.StopCriteria`.

    Attributes:
        CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED: with the sample that completes the last part; exhausted parts start again.
        ALL_DATASETS_EXHAUSTED: when every sample was read once; an exhausted part leaves its share to the others.
        FIRST_DATASET_EXHAUSTED: with the sample that completes the first part.
        CYCLE_FOREVER: after `num_samples`; exhausted parts start again.

    Examples:
        >>> [len(MixtureSampler([90, 10], [1, 1], stop=rule)) for rule in (
        ...     StopCriteria.ALL_DATASETS_EXHAUSTED, StopCriteria.FIRST_DATASET_EXHAUSTED
        ... )]
        [100, 20]
    """

    CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED = "CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED"
    ALL_DATASETS_EXHAUSTED = "ALL_DATASETS_EXHAUSTED"
    FIRST_DATASET_EXHAUSTED = "FIRST_DATASET_EXHAUSTED"
    CYCLE_FOREVER = "CYCLE_FOREVER"


class MixtureSampler(Positional, data.Sampler[int]):
    """The parts of a `ConcatDataset` in proportion to weights, each part in its own random order.

    How often each part has come by a given position is computed, within one or two of what the weights require. Which
    positions those are is shuffled, 1024 at a time. So any position of any epoch costs a fraction of a microsecond, a
    rare part comes as often as it should, and every epoch has the same length. A part that starts again does so in a
    different order.

    Args:
        data_source: a `ConcatDataset`, or the lengths of its parts.
        weights: one for each part; they need not sum to one. Or a schedule: pairs of (step, weights), in ascending
            order. Or a function from a step to weights, which is called 1024 times per epoch and needs `num_samples`.
        stop: when an epoch ends, one of `StopCriteria`.
        num_samples: the length of an epoch under CYCLE_FOREVER; otherwise the maximum length of an epoch.
        samples_per_step: how many samples make up one step of a schedule: the batch size times the number of ranks.
            Steps count from the beginning of each epoch.
        linear: True to interpolate a schedule's weights linearly between steps instead of jumping. (The weights of a
            function are always interpolated.)
        generator: the source of the seed that a pass without `seed` draws at its first `next`; default: torch's global
            generator.
        seed: turns on seed mode: the order is a pure function of (seed, epoch, position).

    Raises:
        ValueError: a weight is negative or not a number, the number of weights is not that of the parts, all weights
            are zero, a part without samples has a weight, steps do not ascend, the epoch would never end, `stop` is
            unknown, or CYCLE_FOREVER has no `num_samples`.

    Examples:
        >>> sampler = MixtureSampler([1000, 10], [3.0, 1.0], seed=7)
        >>> 90 < sum(sampler.index_at(position) >= 1000 for position in range(400)) < 110
        True
        >>> ramp = MixtureSampler([50, 50], [(0, [1, 0]), (100, [0, 1])], linear=True, stop="CYCLE_FOREVER",
        ...                       num_samples=100, seed=7)
        >>> len(ramp)
        100
    """

    def __init__(
        self,
        data_source: data.ConcatDataset[Any] | Sequence[int],
        weights: Sequence[float] | Sequence[tuple[int, Sequence[float]]] | Callable[[int], Sequence[float]],
        *,
        stop: str = StopCriteria.CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED,
        num_samples: int | None = None,
        samples_per_step: int = 1,
        linear: bool = False,
        generator: torch.Generator | None = None,
        seed: int | None = None,
    ) -> None:
        for name, value in (
            ("num_samples", 1 if num_samples is None else num_samples),
            ("samples_per_step", samples_per_step),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
        if stop == StopCriteria.CYCLE_FOREVER and num_samples is None:
            raise ValueError("num_samples: expected the length of an epoch with CYCLE_FOREVER, but got None; pass it")
        self.data_source = data_source
        self.weights = weights
        self.stop = stop
        self.num_samples = num_samples
        self.samples_per_step = samples_per_step
        self.linear = bool(linear) or callable(weights)
        self.generator = generator
        self.seed = checked_seed(seed)
        self.breakpoints = self._breakpoints()
        # To raise errors here and not in the first epoch.
        self._length = len(self._make(0).order(0))

    def __len__(self) -> int:
        """Return how many indices an epoch has; the same in every epoch."""
        return self._length

    def _lengths(self) -> list[int]:
        if isinstance(self.data_source, data.ConcatDataset):
            return [len(part) for part in self.data_source.datasets]  # type: ignore[arg-type]
        lengths = [] if isinstance(self.data_source, Mapping) else list(self.data_source)
        if not lengths or not all(hasattr(length, "__index__") for length in lengths):
            raise TypeError(
                "data_source: expected a ConcatDataset, or the lengths of its parts, got "
                f"{self.data_source!r}; wrap the datasets, ConcatDataset([first, second])"
            )
        return lengths

    def _breakpoints(self) -> list[tuple[int, list[float]]]:
        """Return the weights as (position, weights), in whichever form they were given."""
        weights = self.weights
        if callable(weights):
            if self.num_samples is None:
                raise ValueError(
                    "num_samples: expected the length of an epoch, over which a function of weights is tabulated, but "
                    "got None; pass it, or pass a schedule as weights"
                )
            steps = -(-self.num_samples // self.samples_per_step)
            asked = sorted({steps * part // _TABULATED for part in range(_TABULATED + 1)})
            scheduled: list[tuple[int, Any]] = [(step, weights(step)) for step in asked]
        elif len(weights) and isinstance(weights[0], (tuple, list)):
            scheduled = [(step, at_once) for step, at_once in weights]  # type: ignore[misc]
        else:
            scheduled = [(0, weights)]
        return [(step * self.samples_per_step, [float(weight) for weight in at_once]) for step, at_once in scheduled]

    def _unseeded(self) -> Iterator[int]:
        yield from ints(self._make(self._seed_of_pass(self.generator)).order(0), 0)

    def _facts(self) -> tuple[Any, ...]:
        return (*self._lengths(), self.breakpoints, self.stop, self.num_samples, self.linear)

    def _make(self, seed: int) -> _core.Sampler:
        return _core.mixture_sampler(self._lengths(), self.breakpoints, self.linear, self.stop, self.num_samples, seed)
