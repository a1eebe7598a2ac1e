"""Datasets as worker processes have them: as they were when an epoch began, for batches that Python makes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch.utils.data import ConcatDataset, StackDataset, Subset


def changed_copy(dataset: Any, /, **attributes: Any) -> Any:
    """Return a shallow copy of `dataset` with other values of these attributes."""
    changed = copy.copy(dataset)
    vars(changed).update(attributes)
    return changed


def captured_subset(dataset: Subset[Any], inner: Any) -> Any:
    """Return `dataset` as it is now, over the captured `inner`; None if that is None."""
    if inner is None:
        return None
    # `deepcopy` of a long list takes a second.
    indices = list(dataset.indices) if type(dataset.indices) is list else copy.deepcopy(dataset.indices)
    return changed_copy(dataset, dataset=inner, indices=indices)


def captured_parts(dataset: ConcatDataset[Any] | StackDataset[Any], inner: Sequence[Any]) -> Any:
    """Return `dataset` as it is now.

    Args:
        dataset: the combinator.
        inner: by part, the captured dataset, or None for the part itself; if all are None, so is the result.
    """
    if all(each is None for each in inner):
        return None
    parts: Any = dataset.datasets
    names = list(parts) if isinstance(parts, dict) else range(len(parts))
    made = [parts[name] if each is None else each for name, each in zip(names, inner, strict=True)]
    kind = type(parts)
    return changed_copy(dataset, datasets=dict(zip(names, made, strict=True)) if kind is dict else kind(made))
