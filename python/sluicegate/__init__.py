"""Sluicegate: torch's batches, bit for bit, out of a Rust core.

Change one import and nothing else:

>>> import torch
>>> from sluicegate import DataLoader, TensorDataset
>>> loader = DataLoader(TensorDataset(torch.arange(10)), batch_size=4)
>>> [batch.tolist() for (batch,) in loader]
[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

Every public name of `torch.utils.data` is here too. The names that users subclass or check with `isinstance` are
torch's own classes; `DataLoader` and the samplers are subclasses of torch's. Whether a dataset can be read without
Python is detected, not declared: `DataLoader.explain` shows the result.

Beyond torch:

- Datasets and streams read files of common formats (`ParquetDataset`, `TarStream`, ...); `write_parquet` and others
  write them. `sluicegate.transforms` has transforms of images.
- With `seed=`, the order and everything random about a sample is a pure function of the seed (`sample_rng`; samplers
  for classes, lengths, blocks and mixtures).
- The loader has a state and shards, and reports which samples are in a batch (`BatchIds`).
- `class_loaders` and `split_by_class` give a loader for each class.
- `ShuffleBuffer` and `shard_iterable` shuffle and split streams.
- `sluicegate.accelerate`, `sluicegate.transformers`, and `sluicegate.xarray` are for users of these packages.
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
from .by_class.loaders import ClassLoaders, class_loaders
from .by_class.split import StreamSplit, split_by_class
from .formats.arrow import ArrowDataset
from .formats.csv import CsvDataset
from .formats.csv_labels import CsvLabels
from .formats.csv_stream import CsvStream
from .formats.folder import FolderDataset
from .formats.hdf5 import Hdf5Dataset
from .formats.image_folder import ImageFolderDataset
from .formats.json_lines import JsonLinesDataset
from .formats.json_lines_stream import JsonLinesStream
from .formats.mds import MdsDataset
from .formats.npy import NpyDataset
from .formats.npz import NpzDataset
from .formats.parquet import ParquetDataset
from .formats.raw import RawDataset
from .formats.raw_stream import RawStream
from .formats.safetensors import SafetensorsDataset
from .formats.tar import TarDataset
from .formats.tar_stream import TarStream
from .formats.tfrecord import TFRecordDataset
from .formats.tfrecord_stream import TFRecordStream
from .formats.token_documents import TokenDocumentsDataset
from .formats.tokens import TokensDataset
from .formats.zarr import ZarrDataset
from .image.damaged import DamagedImageError
from .image.decode import decode_image
from .image.field import ImageField
from .loader.dataloader import DataLoader
from .loader.explanation import Explanation
from .loader.patch import Patch, patch
from .loader.stats import LoaderStats
from .order.ids import BatchIds
from .packing import PackCollate
from .passes.field_statistics import FieldStatistics
from .passes.statistics import statistics
from .rng.sample import sample_rng
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
from .shared.dict import SharedDict
from .shared.list import SharedList
from .stream.shard import shard_iterable
from .stream.shuffle_buffer import ShuffleBuffer
from .writers.parquet import write_parquet
from .writers.tar import write_tar
from .writers.tokens import write_tokens
from .writers.zarr import write_zarr

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
    "FieldStatistics",
    "FolderDataset",
    "Hdf5Dataset",
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
    "NpzDataset",
    "PackCollate",
    "PackedBatchSampler",
    "ParquetDataset",
    "Patch",
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
    "ZarrDataset",
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
    "patch",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
    "sample_rng",
    "shard_iterable",
    "split_by_class",
    "statistics",
    "transforms",
    "write_parquet",
    "write_tar",
    "write_tokens",
    "write_zarr",
]

# Pickles and messages name the package, so that a class may move within it.
for _name in __all__:
    if getattr(globals()[_name], "__module__", "").startswith(f"{__name__}."):
        globals()[_name].__module__ = __name__
