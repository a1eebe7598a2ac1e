"""Samplers: which index comes next, and which indices make up a batch. One class per file.

Torch's five samplers and more. Where torch has the sampler, ours is a subclass with torch's arguments. With a `seed`,
its order is a pure function of (seed, epoch, position), computed in Rust; `Positional` is the common interface of
samplers of samples.
"""

from .balanced_batch import BalancedBatchSampler
from .batch import BatchSampler
from .block_shuffle import BlockShuffleSampler
from .class_sampler import ClassSampler
from .distributed import DistributedSampler
from .length_bucket_batch import LengthBucketBatchSampler
from .mixture import MixtureSampler, StopCriteria
from .packed_batch import PackedBatchSampler
from .positional import Positional
from .random import RandomSampler
from .repeat import RepeatSampler
from .sequential import SequentialSampler
from .stratified_batch import StratifiedBatchSampler
from .subset_random import SubsetRandomSampler
from .weighted_random import WeightedRandomSampler


def is_ours(sampler: object) -> bool:
    """Return True if `sampler` is exactly one of these classes; a subclass may yield anything.

    Examples:
        >>> is_ours(SequentialSampler(range(3))), is_ours(range(3))
        (True, False)
    """
    return type(sampler) in _OURS


__all__ = [
    "BalancedBatchSampler",
    "BatchSampler",
    "BlockShuffleSampler",
    "ClassSampler",
    "DistributedSampler",
    "LengthBucketBatchSampler",
    "MixtureSampler",
    "PackedBatchSampler",
    "Positional",
    "RandomSampler",
    "RepeatSampler",
    "SequentialSampler",
    "StopCriteria",
    "StratifiedBatchSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "is_ours",
]

_OURS = frozenset(kind for name in __all__ if isinstance(kind := globals()[name], type))
