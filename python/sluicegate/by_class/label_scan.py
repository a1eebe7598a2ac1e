"""The source of a dataset's labels: an existing column, or reading every sample once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Dataset, StackDataset, Subset, TensorDataset

from sluicegate.formats.image_folder import ImageFolderDataset
from sluicegate.formats.npy import NpyDataset
from sluicegate.loader.dataloader import DataLoader
from sluicegate.progress_line import ProgressLine
from sluicegate.recognition.native_source import is_untouched, native_source
from sluicegate.rng.global_generators import keeping_generators
from sluicegate.sampler.class_index import plain_label

# The names under which a label is searched for if none is given.
_NAMES = ("label", "labels", "target", "targets", "class", "y")

# Samples that a worker reads at once in the search for labels.
_BLOCK = 64

# The place of a label in a sample: a key, a position, a function of the sample, or None to search for it.
Part = str | int | Callable[[Any], Any] | None


def scanned_labels(dataset: Dataset[Any], part: Part, **workers: Any) -> Any:
    """Return the label of each sample: an array if `dataset` has one, otherwise a list, by reading each sample once.

    The global random number generators are left unchanged.

    Args:
        dataset: map-style.
        part: which part of a sample is its label: a key, a position, or a function of the sample. None for the last
            part of a tuple or list, and for the entry named "label", "target" or similar of a mapping.
        workers: arguments of the `DataLoader` that reads the samples, such as `num_workers`.

    Raises:
        TypeError: samples do not have that part; the message says what they are.
    """
    if not callable(part) and (_is_folder_of_images(dataset) or native_source(dataset, in_worker=False) is not None):
        column = _column(dataset, part)
        if column is not None and column.ndim == 1 and len(column) == len(dataset):  # type: ignore[arg-type]
            return column
    labels: list[Any] = []
    count = len(dataset)  # type: ignore[arg-type]
    with keeping_generators(), ProgressLine(f"labels of {type(dataset).__name__}", count) as progress:
        for block in DataLoader(_Labels(dataset, part), batch_size=_BLOCK, collate_fn=_as_it_is, **workers):
            labels += block
            progress.advance(len(block))
    return labels


class _Labels(Dataset[Any]):
    """The labels of another dataset's samples. At module level, so that it can be pickled to workers."""

    def __init__(self, dataset: Dataset[Any], part: Part) -> None:
        self.dataset = dataset
        self.part = part

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return plain_label(_part_of(self.dataset[index], self.part, index))


def _as_it_is(labels: list[Any]) -> list[Any]:
    return labels


def _part_of(sample: Any, part: Part, index: int) -> Any:
    if callable(part):
        return part(sample)
    if part is None:
        if isinstance(sample, Mapping):
            part = next((name for name in _NAMES if name in sample), None)
        elif isinstance(sample, (tuple, list)) and len(sample) > 1:
            part = -1
    try:
        if part is not None:
            return sample[part]
    except (KeyError, IndexError, TypeError):
        pass
    found = f"a mapping with the keys {list(sample)}" if isinstance(sample, Mapping) else f"a {type(sample).__name__}"
    if isinstance(sample, (tuple, list)):
        found += f" of {len(sample)}"
    wanted = "a label" if part is None else f"the label {part!r}"
    raise TypeError(
        f"labels: expected {wanted} in sample {index}, but got {found}; pass labels= as an array, as the name or "
        "position of a part, or as a function of a sample"
    )


def _column(dataset: Any, part: str | int | None) -> Any:
    """Return a part of all samples of a native dataset if it exists as an array; None if the samples must be read."""
    if type(dataset) is Subset:
        column = _column(dataset.dataset, part)
        return None if column is None else column[np.asarray(dataset.indices, dtype=np.int64)]
    if type(dataset) is ConcatDataset:
        columns = [_column(inner, part) for inner in dataset.datasets]
        if any(column is None or column.ndim != 1 for column in columns):
            return None
        return np.concatenate([np.asarray(column) for column in columns])
    if type(dataset) is ImageFolderDataset:
        # Its labels are known without decoding images, so the images' transform does not matter.
        is_meant = part in (None, 1, -1) and dataset.target_transform is None and dataset.labels is not None
        return np.asarray(dataset.targets) if is_meant else None
    parts: Any = None
    if type(dataset) is TensorDataset:
        parts = dataset.tensors
    elif type(dataset) is NpyDataset and isinstance(dataset.paths, (dict, tuple)) and len(dataset.paths) > 1:
        parts = dataset.paths
    elif type(dataset) is StackDataset:
        parts = dataset.datasets
    if part is None:
        part = next((name for name in _NAMES if name in parts), None) if isinstance(parts, dict) else -1
    if parts is None or isinstance(parts, dict) != isinstance(part, str):
        return None
    if not isinstance(parts, dict) and (len(parts) < 2 or not -len(parts) <= int(part) < len(parts)):  # type: ignore[arg-type]
        return None
    if isinstance(parts, dict) and part not in parts:
        return None
    found = parts[part]
    if type(dataset) is NpyDataset:
        return np.load(found, mmap_mode="r")
    return found if isinstance(found, (torch.Tensor, np.ndarray)) else None


def _is_folder_of_images(dataset: Any) -> bool:
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return type(dataset) is ImageFolderDataset and is_untouched(dataset)
