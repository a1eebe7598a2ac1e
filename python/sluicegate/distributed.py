"""The names of `torch.utils.data.distributed`.

Examples:
    >>> from sluicegate.distributed import DistributedSampler
    >>> list(DistributedSampler(range(10), num_replicas=4, rank=1, shuffle=False))
    [1, 5, 9]
"""

from .sampler import DistributedSampler

__all__ = ["DistributedSampler"]
