"""Torch's samplers as ours: the equivalents used when an order is accessed by position."""

from __future__ import annotations

import weakref
from typing import Any

from torch.utils import data

from sluicegate import _core, _torch

from .positional import Positional
from .random import RandomSampler
from .sequential import SequentialSampler
from .subset_random import SubsetRandomSampler
from .weighted_random import WeightedRandomSampler


def translated(sampler: Any) -> Positional | None:
    """Return our equivalent of `sampler` if that is exactly one of torch's and its `__iter__` is torch's own.

    A generator that the sampler was given, perhaps by a trainer, is not used: the order comes from the seed.
    """
    cls = type(sampler)
    if not _torch.iterates_as_torchs(cls):
        return None
    if cls is data.SequentialSampler:
        return SequentialSampler(sampler.data_source)
    if cls is data.RandomSampler:
        return RandomSampler(sampler.data_source, sampler.replacement, sampler._num_samples)
    if cls is data.SubsetRandomSampler:
        return SubsetRandomSampler(sampler.indices)
    return _weighted(sampler) if cls is data.WeightedRandomSampler else None


# By torch sampler: its weights tensor, the tensor's version, and our sampler, which has a table of the weights.
_tables: weakref.WeakKeyDictionary[Any, tuple[Any, int | None, WeightedRandomSampler]] = weakref.WeakKeyDictionary()


def _weighted(sampler: data.WeightedRandomSampler) -> WeightedRandomSampler:
    weights: Any = sampler.weights
    # A list may have been assigned, which has no version.
    version = getattr(weights, "_version", None)
    known = _tables.get(sampler)
    if known is None or known[0] is not weights or known[1] != version:
        own = WeightedRandomSampler(weights, sampler.num_samples, sampler.replacement)
        known = _tables[sampler] = (weights, version, own)
    return known[2]


def core_of(sampler: Any, seed: int | None) -> _core.Sampler:
    """Return the core's sampler for one of our samplers or of torch's.

    Raises:
        ValueError: it is neither, or there is no seed.
    """
    own = sampler if isinstance(sampler, Positional) else translated(sampler)
    if own is None:
        name = type(sampler).__name__
        raise ValueError(f"sampler: with seed=, expected one of sluicegate's index samplers, but got {name}")
    return own.core(seed)
