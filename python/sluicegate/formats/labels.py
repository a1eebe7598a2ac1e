"""Labels of files that do not come from their folders: by pattern, by table, by function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from sluicegate import _core, _torch
from sluicegate.native.dataset import Kind

from .csv_labels import CsvLabels

# The source of labels; "folder", as in torchvision's `ImageFolder`; None for no labels.
LabelsLike: TypeAlias = "str | re.Pattern[str] | CsvLabels | Callable[[str], Any] | None"


@dataclass(frozen=True)
class Labels:
    """The labels of files.

    Attributes:
        values: a tensor of shape (files, ...).
        kind: "number" if each label is an `int`, `float` or `bool`; "tensor" for rows.
        classes: the class names by number, if the labels are classes.
        indices: which files have a label; None for all.
    """

    values: torch.Tensor
    kind: Kind = "number"
    classes: tuple[str, ...] = ()
    indices: Sequence[int] | None = None

    def at(self, index: int) -> Any:
        """Return the label of one file: a number, or an independent tensor."""
        value = self.values[index]
        return value.item() if self.kind == "number" else value.clone()

    def subset(self, indices: Sequence[int]) -> Labels:
        """Return the labels of the files at `indices`."""
        chosen = torch.tensor(indices, dtype=torch.int64, device="cpu")
        return Labels(self.values[chosen], self.kind, self.classes)

    def to_list(self) -> list[Any]:
        """Return all labels, in the form that `at` returns."""
        return self.values.tolist() if self.kind == "number" else [row.clone() for row in self.values]

    def core(self) -> _core.Dataset:
        """Return a core dataset that shares the memory of the labels."""
        values = self.values
        strides = tuple(stride * values.element_size() for stride in values.stride())
        dtype, owner = _torch.dtype_name(values.dtype), values.untyped_storage()
        return _core.Dataset.in_memory([("label", dtype, values.data_ptr(), tuple(values.shape), strides, owner)])


def checked_labels(labels: Any) -> LabelsLike:
    """Return the argument `labels`.

    Raises:
        TypeError: its type is not supported.
        ValueError: a string is not a regular expression, or has no group.
    """
    if isinstance(labels, str) and labels != "folder":
        try:
            labels = re.compile(labels)
        except re.error as error:
            raise ValueError(
                f"labels: expected 'folder' or a valid regular expression, but got {labels!r} ({error})"
            ) from None
    if isinstance(labels, re.Pattern):
        if isinstance(labels.pattern, bytes) or labels.groups == 0:
            raise ValueError(
                "labels: expected a regular expression of type str with a group for the label, such as "
                rf"r'(?P<label>[a-z]+)_\d+\.jpg$', but got {labels.pattern!r}"
            )
    elif not (labels is None or labels == "folder" or isinstance(labels, CsvLabels) or callable(labels)):
        raise TypeError(
            "labels: expected 'folder', a regular expression, CsvLabels, a function of a path, or None, but got "
            f"{labels!r} ({type(labels).__name__})"
        )
    found: LabelsLike = labels
    return found


def labels_of(labels: Any, paths: Sequence[str]) -> Labels:
    """Return the labels that `labels`, from `checked_labels`, gives the files at `paths`, relative to their root."""
    if isinstance(labels, re.Pattern):
        return _classes(_found(labels, paths))
    if isinstance(labels, CsvLabels):
        values, classes, indices = labels.of(paths)
        return Labels(values, "number" if values.ndim == 1 else "tensor", tuple(classes), indices)
    return _stacked([labels(path) for path in paths], paths)


def _classes(names: Sequence[str]) -> Labels:
    classes = tuple(sorted(set(names)))
    numbers = {name: number for number, name in enumerate(classes)}
    values = torch.tensor([numbers[name] for name in names], dtype=torch.int64, device="cpu")
    return Labels(values, classes=classes)


def _found(pattern: re.Pattern[str], paths: Sequence[str]) -> list[str]:
    """Return the match of the pattern's group in each path."""
    group: str | int = "label" if "label" in pattern.groupindex else 1
    found = [match and match[group] for match in map(pattern.search, paths)]
    missed = [path for path, label in zip(paths, found, strict=True) if label is None]
    if missed:
        raise ValueError(
            f"labels: {pattern.pattern!r} does not match {len(missed)} of {len(paths)} paths, such as {missed[0]!r}; "
            "change the pattern, or select files with extensions or is_valid_file"
        )
    return [label for label in found if label is not None]


# The stored data type, by label type.
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}


def _stacked(found: list[Any], paths: Sequence[str]) -> Labels:
    """Return the labels that a function returned."""
    kinds = [_type(label) for label in found]
    for path, kind, label in zip(paths, kinds, found, strict=True):
        if kind is None or kind is not kinds[0]:
            first = f", and a {type(found[0]).__name__} for {paths[0]!r}" if kind is not None else ""
            raise TypeError(
                "labels: expected a number, string or tensor, of one type for all files, but got "
                f"{label!r} ({type(label).__name__}) for {path!r}{first}"
            )
    if not found:
        return Labels(torch.empty(0, dtype=torch.int64, device="cpu"))
    if kinds[0] is str:
        return _classes(found)
    if kinds[0] is torch.Tensor:
        return Labels(_rows(found, paths), "tensor")
    try:
        return Labels(torch.tensor(found, dtype=_DTYPES[kinds[0]], device="cpu"))  # type: ignore[index]
    except (OverflowError, RuntimeError, ValueError) as error:
        raise ValueError(f"labels: a label does not fit in 64 bits ({error})") from None


def _type(label: Any) -> type | None:
    if isinstance(label, str):
        return str
    if isinstance(label, (bool, np.bool_)):
        return bool
    if isinstance(label, (int, np.integer)):
        return int
    if isinstance(label, (float, np.floating)):
        return float
    return torch.Tensor if isinstance(label, (torch.Tensor, np.ndarray, list, tuple)) else None


def _rows(found: list[Any], paths: Sequence[str]) -> torch.Tensor:
    rows: list[torch.Tensor] = []
    for path, label in zip(paths, found, strict=True):
        try:
            row = torch.as_tensor(label).detach().to("cpu")
            _torch.dtype_name(row.dtype)
        except (TypeError, ValueError, RuntimeError, KeyError) as error:
            raise TypeError(f"labels: expected a tensor of numbers, but got {label!r} for {path!r} ({error})") from None
        if rows and (row.shape, row.dtype) != (rows[0].shape, rows[0].dtype):
            raise TypeError(
                f"labels: expected one shape and data type for all files, but got {tuple(row.shape)} of {row.dtype} "
                f"for {path!r}, and {tuple(rows[0].shape)} of {rows[0].dtype} for {paths[0]!r}"
            )
        rows.append(row)
    return torch.stack(rows)
