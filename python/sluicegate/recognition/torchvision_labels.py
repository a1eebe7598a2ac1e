"""Labels of torchvision's datasets as the core reads them, and the results of a `target_transform`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sluicegate import _torch
from sluicegate.native.dataset import Kind
from sluicegate.transforms.recognize import NotRecognizedError

from .number_function import NumberFunction

# The data type of labels in a batch, by the type of all of them. A selection from an array leaves NumPy's types:
# `dataset.targets = list(np.array(dataset.targets)[chosen])`.
_DTYPES: dict[type, torch.dtype] = {
    int: torch.int64,
    float: torch.float64,
    bool: torch.bool,
    np.int64: torch.int64,
}
LabelRow = tuple[str, str, int, tuple[int, ...], tuple[int, ...], object]


def as_tensor(labels: Any, *, copies: bool, is_transformed: bool) -> torch.Tensor:
    """Return labels that are integers, in one axis of int64; in their own memory if possible.

    Args:
        labels: a list, array or tensor.
        copies: True for a copy in any case.
        is_transformed: True if they are transformed, so that those of a list have to be of type int.

    Raises:
        NotRecognizedError: a sample does not have one integer each.
    """
    if type(labels) is list:
        return listed(labels, (int,) if is_transformed else (int, np.int64))
    if type(labels) is np.ndarray and labels.ndim == 1 and labels.dtype.kind in "iu" and labels.dtype.isnative:
        # Without a copy memory that is read-only would be taken for writable.
        shares = labels.dtype == np.int64 and labels.flags.writeable and min(labels.strides) >= 0 and not copies
        return torch.from_numpy(labels if shares else labels.astype(np.int64))
    if type(labels) is torch.Tensor and labels.ndim == 1 and labels.dtype is torch.int64:
        return plain(labels, copies=copies)
    raise NotRecognizedError("labels are not integers in a list, array or tensor of one axis")


def listed(labels: list[Any], kinds: tuple[type, ...] = tuple(_DTYPES)) -> torch.Tensor:
    """Return labels that are all of one type in one axis, with the data type of a batch of them.

    Raises:
        NotRecognizedError: they are not all of one of `kinds`, or too large.
    """
    kind = type(labels[0]) if labels else int
    if kind not in kinds or not all(type(each) is kind for each in labels):
        known = kind if kind in kinds else kinds[0]
        raise NotRecognizedError(f"labels are not all of type {known.__name__}")
    try:
        return torch.tensor(labels, dtype=_DTYPES[kind], device="cpu").reshape(-1)
    except (OverflowError, RuntimeError, ValueError):
        raise NotRecognizedError("labels are not all within 64 bits") from None


def plain(labels: torch.Tensor, *, copies: bool) -> torch.Tensor:
    """Return a tensor of labels, or a copy.

    Raises:
        NotRecognizedError: its values are not its bytes.
    """
    if type(labels) is not torch.Tensor or not _torch.tensor_is_plain(labels):
        raise NotRecognizedError("labels are not a plain tensor")
    return labels.clone() if copies else labels


def transformed(labels: torch.Tensor, function: NumberFunction) -> torch.Tensor:
    """Return the results of `function` for labels that samples have as `int`; it is called once per distinct label.

    Raises:
        NotRecognizedError: not all of one type that becomes a plain tensor, or `function` fails.
    """
    different, numbers = torch.unique(labels, return_inverse=True)
    values = []
    for label in different.tolist():
        try:
            values.append(function(label))
        except Exception as error:
            raise NotRecognizedError(f"it fails for {label} ({type(error).__name__})") from None
    kinds = {type(each) for each in values}
    if len(kinds) > 1 or kinds.pop() not in _DTYPES:
        names = sorted({type(each).__name__ for each in values})
        raise NotRecognizedError(f"it returns {' and '.join(names)}, not always int, always float or always bool")
    return listed(values)[numbers]


def row_of(labels: torch.Tensor) -> tuple[LabelRow, Kind]:
    """Return labels as a field of a dataset in memory, and its kind."""
    size = labels.element_size()
    strides = tuple(size * stride for stride in labels.stride())
    dtype = _torch.dtype_name(labels.dtype)
    row = ("1", dtype, labels.data_ptr(), tuple(labels.shape), strides, labels.untyped_storage())
    return row, "number" if labels.ndim == 1 else "tensor"
