"""Sluicegate: torch's batches, bit for bit, out of a Rust core.

Change one import and nothing else:

>>> import torch
>>> from sluicegate import DataLoader, TensorDataset
>>> loader = DataLoader(TensorDataset(torch.arange(10)), batch_size=4)
>>> [batch.tolist() for (batch,) in loader]
[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

Every public name of `torch.utils.data` is here too. Those that users subclass, or ask `isinstance` of, are torch's own
classes; `DataLoader` is a subclass of torch's. Whether a dataset can be read without Python is found out, not declared:
see `sluicegate.dataset`.
"""

from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataChunk,
    Dataset,
    DFIterDataPipe,
    DistributedSampler,
    IterableDataset,
    IterDataPipe,
    MapDataPipe,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    _DatasetKind,
    argument_validation,
    default_collate,
    default_convert,
    functional_datapipe,
    get_worker_info,
    guaranteed_datapipes_determinism,
    non_deterministic,
    random_split,
    runtime_validation,
    runtime_validation_disabled,
)

from ._core import __version__
from .dataloader import DataLoader
from .npy import NpyDataset
from .shared_list import SharedList

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "NpyDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SharedList",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "__version__",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]
