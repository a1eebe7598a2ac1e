"""torchvision's datasets, as the core reads them.

The core reads one only if no difference can be observed: it is exactly one of these classes, with torchvision's own
methods, bytes for images, plain integers for labels, and transforms that `exact_steps` knows. Everything else is a
Python dataset, for the first reason that `python_reason` names. torchvision itself is never imported here.

| class | images | labels |
| --- | --- | --- |
| `CIFAR10`, `CIFAR100` | array (n, height, width, 3) | list of `int` |
| `MNIST`, `FashionMNIST`, `KMNIST`, `EMNIST` | tensor (n, height, width) | tensor of int64 |
| `QMNIST` with `compat=True` | the same | first column of a tensor of int64 |
| `SVHN`, `STL10` | array (n, 3, height, width) | array of integers |
| `USPS`, `SEMEION` | array (n, height, width) | list of `int`, array of integers |
| `ImageFolder` | files, by `default_loader` and Pillow | `int` in `samples` |
"""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import _core, _torch
from .global_generators import keeping_generators, torch_door
from .native_dataset import Kind, hand_over
from .torchvision_facts import Facts, array_facts, replaced_part
from .torchvision_folder import folder_parts
from .transforms.exact_pillow import exact_steps
from .transforms.recognise import NotRecognizedError

Parts = tuple[_core.Dataset, Any, tuple[Kind, ...]]


@dataclass(frozen=True)
class _Form:
    """How a class of torchvision's keeps its samples in memory.

    Attributes:
        module: the name of its module, and of the module of its `__getitem__`, in `torchvision.datasets`.
        labels: the attribute with the labels.
        axes: the number of axes of its array of images.
        is_tensor: True if images and labels are tensors, False if images are an array.
        channels: which axis of an image has its channels: "first", "last"; None if it has none.
    """

    module: str
    labels: str
    axes: int
    is_tensor: bool
    channels: str | None


_CIFAR = _Form("cifar", "targets", 4, is_tensor=False, channels="last")
_MNIST = _Form("mnist", "targets", 3, is_tensor=True, channels=None)
_FORMS = {
    "CIFAR10": _CIFAR,
    "CIFAR100": _CIFAR,
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST"), _MNIST),
    "SVHN": _Form("svhn", "labels", 4, is_tensor=False, channels="first"),
    "STL10": _Form("stl10", "labels", 4, is_tensor=False, channels="first"),
    "USPS": _Form("usps", "targets", 3, is_tensor=False, channels=None),
    "SEMEION": _Form("semeion", "labels", 3, is_tensor=False, channels=None),
}
# By class, the module, and the attribute with the labels.
_PLACES = {
    **{name: (form.module, form.labels) for name, form in _FORMS.items()},
    "ImageFolder": ("folder", "samples"),
}


@dataclass(frozen=True)
class _Found:
    """What a dataset was found to be: its parts or the reason why there are none, and what that was concluded from."""

    parts: Parts | str
    facts: Facts
    # The labels that were copied.
    labels: Any


# By dataset, with and without workers. Nothing of it holds the dataset itself.
_KNOWN: weakref.WeakKeyDictionary[Any, dict[bool, _Found]] = weakref.WeakKeyDictionary()


def is_dataset(dataset: Any) -> bool:
    """Returns whether `dataset` is exactly of one of the classes in the table."""
    cls = type(dataset)
    place = _PLACES.get(cls.__name__)
    if place is None or not cls.__module__.startswith("torchvision.datasets."):
        return False
    module = sys.modules.get(f"torchvision.datasets.{place[0]}")
    return module is not None and getattr(module, cls.__name__, None) is cls


def native_parts(dataset: Any, *, in_worker: bool) -> tuple[Parts, Callable[[], bool]] | None:
    """Returns the core's dataset, structure and kinds of `dataset`, and whether they are still right; None for Python.

    Args:
        dataset: one that `is_dataset` is true of.
        in_worker: whether torch would read a copy in worker processes, made when the epoch begins.
    """
    found = _found(dataset, in_worker=in_worker)
    if isinstance(found.parts, str):
        return None
    if in_worker:
        return found.parts, _memory_check(dataset.data) if in_memory(dataset) else lambda: True
    return found.parts, lambda: _is_current(dataset, found)


def in_memory(dataset: Any) -> bool:
    """Returns whether `dataset`, which `is_dataset` is true of, holds its images in memory."""
    return type(dataset).__name__ in _FORMS


def python_reason(dataset: Any) -> str | None:
    """Returns why Python reads `dataset`, which `is_dataset` is true of; None if the core does."""
    in_worker = next(iter(_KNOWN.get(dataset, ())), False)
    parts = _found(dataset, in_worker=in_worker).parts
    return parts if isinstance(parts, str) else None


def _found(dataset: Any, *, in_worker: bool) -> _Found:
    known = _KNOWN.setdefault(dataset, {})
    found = known.get(in_worker)
    if found is None or not _is_current(dataset, found):
        facts = Facts(dataset, _PLACES[type(dataset).__name__][1])
        labels: Any = None
        parts: Parts | str
        try:
            _check(dataset)
            if in_memory(dataset):
                labels = _labels(dataset, copies=in_worker)
                parts = _parts(dataset, labels)
            else:
                parts = folder_parts(dataset)
            if not _gives_the_same(dataset, parts):
                parts = "this version of torchvision gives other values"
        except (AttributeError, NotRecognizedError, ValueError) as error:
            parts = str(error)
        except Exception as error:  # A version of torchvision that is different inside: it reads its datasets itself.
            parts = f"this version of torchvision is not recognized ({type(error).__name__}: {error})"
        # Of what is not read nothing has to be kept.
        snapshot = None if isinstance(parts, str) else _snapshot(dataset, labels)
        known[in_worker] = found = _Found(parts, facts, snapshot)
    return found


def _is_current(dataset: Any, found: _Found) -> bool:
    return found.facts.are_of(dataset) and (isinstance(found.parts, str) or _has_labels(dataset, found.labels))


def _labels(dataset: Any, *, copies: bool) -> torch.Tensor:
    """The labels as int64; a copy, or the very memory where that has such integers."""
    labels = getattr(dataset, _FORMS[type(dataset).__name__].labels)
    if type(dataset).__name__ == "QMNIST":
        if not getattr(dataset, "compat", False):
            raise NotRecognizedError("compat=False: targets are not single integers")
        labels = labels[:, 0]
    if type(labels) is list:
        if not all(type(each) is int for each in labels):
            raise NotRecognizedError("labels are not all of type int")
        return torch.tensor(labels, dtype=torch.int64, device="cpu").reshape(-1)
    if type(labels) is np.ndarray and labels.ndim == 1 and labels.dtype.kind in "iu" and labels.dtype.isnative:
        # Without a copy memory that is read-only would be taken for writable.
        shares = labels.dtype == np.int64 and labels.flags.writeable and min(labels.strides) >= 0 and not copies
        return torch.from_numpy(labels if shares else labels.astype(np.int64))
    if type(labels) is torch.Tensor and labels.ndim == 1 and labels.dtype is torch.int64:
        if not _torch.tensor_is_plain(labels):
            raise NotRecognizedError("labels are not a plain tensor")
        return labels.clone() if copies else labels
    raise NotRecognizedError("labels are not integers in a list, array or tensor of one axis")


def _snapshot(dataset: Any, labels: torch.Tensor) -> Any:
    """What labels are compared with: a copy; None where they are read from their own memory."""
    own = getattr(dataset, _PLACES[type(dataset).__name__][1])
    if type(own) is list:
        return list(own)
    return None if labels.data_ptr() == _address(own) else own.clone() if type(own) is torch.Tensor else own.copy()


def _address(array: Any) -> int:
    address: int = array.data_ptr() if type(array) is torch.Tensor else array.__array_interface__["data"][0]
    return address


def _has_labels(dataset: Any, snapshot: Any) -> bool:
    if snapshot is None:
        return True
    own = vars(dataset).get(_PLACES[type(dataset).__name__][1])
    if type(own) is not type(snapshot):
        return False
    if type(own) is torch.Tensor:
        return torch.equal(own, snapshot)
    return own == snapshot if type(own) is list else np.array_equal(own, snapshot)


def _check(dataset: Any) -> None:
    """Raises `NotRecognizedError` where something is not as torchvision has it, or is for Python in any case."""
    if (reason := replaced_part(dataset)) is not None:
        raise NotRecognizedError(reason)
    if dataset.target_transform is not None:
        raise NotRecognizedError("target_transform is called in Python; apply it to the labels beforehand")
    if dataset.transform is None:
        raise NotRecognizedError("without a transform, samples are Pillow images")


def _parts(dataset: Any, labels: torch.Tensor) -> Parts:
    """What the core reads in place of `dataset`, which holds its images in memory.

    Raises:
        NotRecognizedError, ValueError: it can't; the message says why.
    """
    form, data = _FORMS[type(dataset).__name__], dataset.data
    images, is_last = _images(data, form)
    if len(labels) != len(data) or len(data) == 0:
        raise NotRecognizedError(f"there are {len(data)} images and {len(labels)} labels")
    steps = exact_steps(dataset.transform, 1 if form.channels is None else 3)
    address = labels.data_ptr()
    row = [("1", "int64", address, tuple(labels.shape), (8 * labels.stride(0),), labels.untyped_storage())]
    return _core.pixel_images(images, row, json.dumps(steps), is_last), [0, 1], ("tensor", "number")


def _images(data: Any, form: _Form) -> tuple[tuple[str, str, int, tuple[int, ...], tuple[int, ...], object], bool]:
    """The array of images for the core, and whether channels are the last axis of it."""
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
        # As CIFAR has them: (height, width, channels) by strides alone.
        view, is_last = data.transpose(0, 3, 1, 2), False
    if min(view.strides) < 0:
        raise NotRecognizedError("data has negative strides")
    return ("0", "uint8", view.__array_interface__["data"][0], view.shape, view.strides, view), is_last


def _memory_check(data: Any) -> Callable[[], bool]:
    """Whether the memory of `data` is still where it was: nothing can hold a tensor's that is resized."""
    facts = array_facts(data)
    return lambda: array_facts(data) == facts


def _gives_the_same(dataset: Any, parts: Parts) -> bool:
    """Whether three samples are the same by both ways, and leave the generator at the same place.

    Of one that Python can't read nothing is known, and of files that the core fails at Python makes the batch.
    """
    engine = _core.Engine(0, 2, None)
    window = _core.Prefetch(engine, parts[0], hand_over(*parts), True, None)
    window.set_generator(torch_door(torch.default_generator))
    with keeping_generators():
        for place in sorted({0, len(dataset) // 2, len(dataset) - 1}):
            before = torch.random.get_rng_state()
            try:
                image, label = dataset[place]
            except Exception:
                torch.random.set_rng_state(before)
                continue
            after = torch.random.get_rng_state()
            torch.random.set_rng_state(before)
            taken = window.pop({place: None}, None) if window.push(place, [place]) else None
            if taken is None or isinstance(taken[1], Exception):
                if in_memory(dataset):
                    return False
                continue
            ours, number = taken[1]
            plain = image.as_subclass(torch.Tensor)
            is_same = ours.dtype == plain.dtype and ours.shape[1:] == plain.shape and type(label) is int
            if not is_same or not torch.equal(ours[0], plain) or number.tolist() != [label]:
                return False
            if not torch.equal(torch.random.get_rng_state(), after):
                return False
    return True
