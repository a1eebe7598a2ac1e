"""Torch's samplers as ours: what stands for them where an order is asked for by position."""

from __future__ import annotations

import weakref
from typing import Any

from torch.utils import data

from sluicegate import _torch

from .positional import Positional
from .random import RandomSampler
from .sequential import SequentialSampler
from .subset_random import SubsetRandomSampler
from .weighted_random import WeightedRandomSampler


def translated(sampler: Any) -> Positional | None:
    """Ours with the arguments of `sampler`, when that is exactly one of torch's and iterates as torch wrote it.

    A generator that somebody gave it, a trainer perhaps, is not asked: the order comes from the seed.
    """
    cls = type(sampler)
    if not _torch.is_torchs_own(cls.__dict__.get("__iter__")):
        return None
    if cls is data.SequentialSampler:
        return SequentialSampler(sampler.data_source)
    if cls is data.RandomSampler:
        return RandomSampler(sampler.data_source, sampler.replacement, sampler._num_samples)
    if cls is data.SubsetRandomSampler:
        return SubsetRandomSampler(sampler.indices)
    return _weighted(sampler) if cls is data.WeightedRandomSampler else None


# By a sampler of torch's: the tensor of its weights and which version of it, and ours, which has a table of them.
_tables: weakref.WeakKeyDictionary[Any, tuple[Any, int | None, WeightedRandomSampler]] = weakref.WeakKeyDictionary()


def _weighted(sampler: data.WeightedRandomSampler) -> WeightedRandomSampler:
    weights: Any = sampler.weights
    # Somebody may have put a list there.
    version = getattr(weights, "_version", None)
    known = _tables.get(sampler)
    if known is None or known[0] is not weights or known[1] != version:
        own = WeightedRandomSampler(weights, sampler.num_samples, sampler.replacement)
        known = _tables[sampler] = (weights, version, own)
    return known[2]
