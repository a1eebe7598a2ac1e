"""torchvision's datasets with their images in memory, as the core reads them.

| class | images | labels |
| --- | --- | --- |
| `CIFAR10`, `CIFAR100` | array (n, height, width, 3) | list of `int` or `np.int64` |
| `MNIST`, `FashionMNIST`, `KMNIST`, `EMNIST` | tensor (n, height, width) | tensor of int64 |
| `QMNIST` with `compat=True` | the same | first column of a tensor of int64 |
| `SVHN`, `STL10` | array (n, 3, height, width) | array of integers |
| `USPS`, `SEMEION` | array (n, height, width) | list of `int`, array of integers |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sluicegate import _core, _torch
from sluicegate.native.dataset import Kind
from sluicegate.transforms.exact_pillow import exact_steps
from sluicegate.transforms.recognize import NotRecognizedError
from sluicegate.transforms.specification import as_json

from .torchvision_facts import Form
from .torchvision_labels import as_tensor, row_of


@dataclass(frozen=True)
class ArrayForm(Form):
    """How a class of torchvision's keeps its samples in memory; the one attribute of the form has the labels.

    Attributes:
        axes: the number of axes of its array of images.
        is_tensor: True if images and labels are tensors, False if images are an array.
        channels: which axis of an image has its channels: "first", "last"; None if it has none.
    """

    axes: int = 3
    is_tensor: bool = False
    channels: str | None = None


_CIFAR = ArrayForm("cifar", ("targets",), axes=4, channels="last")
_MNIST = ArrayForm("mnist", ("targets",), is_tensor=True)
ARRAY_FORMS = {
    "CIFAR10": _CIFAR,
    "CIFAR100": _CIFAR,
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST"), _MNIST),
    "SVHN": ArrayForm("svhn", ("labels",), axes=4, channels="first"),
    "STL10": ArrayForm("stl10", ("labels",), axes=4, channels="first"),
    "USPS": ArrayForm("usps", ("targets",)),
    "SEMEION": ArrayForm("semeion", ("labels",)),
}


def array_labels(dataset: Any, form: ArrayForm, *, copies: bool, is_transformed: bool) -> torch.Tensor:
    """Return the labels as int64; a copy, or the same memory if it has such integers.

    Raises:
        NotRecognizedError: they have another form.
    """
    labels = getattr(dataset, form.attributes[0])
    if form is _CIFAR and is_transformed and type(labels) is not list:
        raise NotRecognizedError("target_transform is called with NumPy's integers, which overflow")
    if type(dataset).__name__ == "QMNIST":
        if not getattr(dataset, "compat", False):
            raise NotRecognizedError("compat=False: targets are not single integers")
        labels = labels[:, 0]
    return as_tensor(labels, copies=copies, is_transformed=is_transformed)


def array_parts(
    dataset: Any, form: ArrayForm, transform: Any, labels: torch.Tensor
) -> tuple[_core.Dataset, Any, tuple[Kind, ...]]:
    """Return the parts that the core reads in place of `dataset`, whose labels have been transformed already.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    data = dataset.data
    images, is_last = _images(data, form)
    if len(labels) != len(data) or len(data) == 0:
        raise NotRecognizedError(f"there are {len(data)} images and {len(labels)} labels")
    steps = exact_steps(transform, "L" if form.channels is None else "RGB")
    row, kind = row_of(labels)
    return _core.pixel_images(images, [row], as_json(steps), is_last), [0, 1], ("tensor", kind)


def _images(data: Any, form: ArrayForm) -> tuple[tuple[str, str, int, tuple[int, ...], tuple[int, ...], object], bool]:
    """Return the array of images for the core, and True if channels are its last axis."""
    if form.is_tensor:
        if type(data) is not torch.Tensor or not _torch.tensor_is_plain(data) or data.dtype is not torch.uint8:
            raise NotRecognizedError("data is not a plain tensor of uint8")
        if data.ndim != form.axes:
            raise NotRecognizedError(f"data has {data.ndim} axes, expected {form.axes}")
        return ("0", "uint8", data.data_ptr(), tuple(data.shape), tuple(data.stride()), data.untyped_storage()), True
    if type(data) is not np.ndarray or data.dtype != np.uint8 or data.ndim != form.axes:
        raise NotRecognizedError(f"data is not an array of uint8 with {form.axes} axes")
    if form.channels is not None and data.shape[1 if form.channels == "first" else 3] != 3:
        raise NotRecognizedError("images do not have three channels")
    view, is_last = data, form.channels != "first"
    if form.channels == "last" and data.strides[3] != 1:
        # As in CIFAR: (height, width, channels) only by strides.
        view, is_last = data.transpose(0, 3, 1, 2), False
    if min(view.strides) < 0:
        raise NotRecognizedError("data has negative strides")
    return ("0", "uint8", view.__array_interface__["data"][0], view.shape, view.strides, view), is_last
