"""Sluicegate: torch's batches, bit for bit, out of a Rust core.

Change one import and nothing else:

>>> import torch
>>> from sluicegate import DataLoader, TensorDataset
>>> loader = DataLoader(TensorDataset(torch.arange(10)), batch_size=4)
>>> [batch.tolist() for (batch,) in loader]
[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

Every public name of `torch.utils.data` is here too. The names that users subclass or check with `isinstance` are
torch's own classes; `DataLoader` and the samplers are subclasses of torch's. Whether a dataset can be read without
Python is detected, not declared: see `sluicegate.dataset`.

Beyond torch:

- With `seed=`, the order and everything random about a sample is a pure function of the seed (`sample_rng`; samplers
  for classes, lengths, blocks and mixtures).
- The loader has a state and shards, and reports which samples are in a batch (`BatchIds`).
- `class_loaders` and `split_by_class` give a loader for each class.
- `ShuffleBuffer` and `shard_iterable` serve streams.
"""

from torch.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataChunk,
    Dataset,
    DFIterDataPipe,
    IterableDataset,
    IterDataPipe,
    MapDataPipe,
    Sampler,
    StackDataset,
    Subset,
    TensorDataset,
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

from . import _utils, distributed, transforms
from ._core import __version__
from .arrow import ArrowDataset
from .class_loaders import ClassLoaders, class_loaders
from .csv import CsvDataset
from .csv_labels import CsvLabels
from .csv_stream import CsvStream
from .damaged_image import DamagedImageError
from .dataloader import DataLoader
from .explanation import Explanation
from .folder import FolderDataset
from .ids import BatchIds
from .image import decode_image
from .image_field import ImageField
from .image_folder import ImageFolderDataset
from .json_lines import JsonLinesDataset
from .json_lines_stream import JsonLinesStream
from .mds import MdsDataset
from .npy import NpyDataset
from .pack import PackCollate
from .parquet import ParquetDataset
from .raw import RawDataset
from .raw_stream import RawStream
from .rng import sample_rng
from .safetensors import SafetensorsDataset
from .sampler import (
    BalancedBatchSampler,
    BatchSampler,
    BlockShuffleSampler,
    ClassSampler,
    DistributedSampler,
    LengthBucketBatchSampler,
    MixtureSampler,
    PackedBatchSampler,
    RandomSampler,
    RepeatSampler,
    SequentialSampler,
    StopCriteria,
    StratifiedBatchSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .shard_iterable import shard_iterable
from .shared_dict import SharedDict
from .shared_list import SharedList
from .shuffle_buffer import ShuffleBuffer
from .split_by_class import StreamSplit, split_by_class
from .stats import LoaderStats
from .tar import TarDataset
from .tar_stream import TarStream
from .tfrecord import TFRecordDataset
from .tfrecord_stream import TFRecordStream
from .token_documents import TokenDocumentsDataset
from .tokens import TokensDataset
from .write_parquet import write_parquet
from .write_tar import write_tar
from .write_tokens import write_tokens

# The name in torchdata.
StatefulDataLoader = DataLoader

__all__ = [
    "ArrowDataset",
    "BalancedBatchSampler",
    "BatchIds",
    "BatchSampler",
    "BlockShuffleSampler",
    "ChainDataset",
    "ClassLoaders",
    "ClassSampler",
    "ConcatDataset",
    "CsvDataset",
    "CsvLabels",
    "CsvStream",
    "DFIterDataPipe",
    "DamagedImageError",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "Explanation",
    "FolderDataset",
    "ImageField",
    "ImageFolderDataset",
    "IterDataPipe",
    "IterableDataset",
    "JsonLinesDataset",
    "JsonLinesStream",
    "LengthBucketBatchSampler",
    "LoaderStats",
    "MapDataPipe",
    "MdsDataset",
    "MixtureSampler",
    "NpyDataset",
    "PackCollate",
    "PackedBatchSampler",
    "ParquetDataset",
    "RandomSampler",
    "RawDataset",
    "RawStream",
    "RepeatSampler",
    "SafetensorsDataset",
    "Sampler",
    "SequentialSampler",
    "SharedDict",
    "SharedList",
    "ShuffleBuffer",
    "StackDataset",
    "StatefulDataLoader",
    "StopCriteria",
    "StratifiedBatchSampler",
    "StreamSplit",
    "Subset",
    "SubsetRandomSampler",
    "TFRecordDataset",
    "TFRecordStream",
    "TarDataset",
    "TarStream",
    "TensorDataset",
    "TokenDocumentsDataset",
    "TokensDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "__version__",
    "_utils",
    "argument_validation",
    "class_loaders",
    "decode_image",
    "default_collate",
    "default_convert",
    "distributed",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
    "sample_rng",
    "shard_iterable",
    "split_by_class",
    "transforms",
    "write_parquet",
    "write_tar",
    "write_tokens",
]
