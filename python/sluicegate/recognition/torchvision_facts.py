"""torchvision's code for a dataset, and whether it is unchanged: users patch, hook, and modify in place."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sluicegate import _torch
from sluicegate.transforms.recognize import NotRecognizedError
from sluicegate.transforms.v1 import inside

# Functions that transforms call, by module: users patch these.
_OF_BOTH = (
    *("adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "adjust_sharpness", "affine"),
    *("autocontrast", "center_crop", "crop", "equalize", "erase", "invert", "normalize", "pad", "pil_to_tensor"),
    *("posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate", "solarize"),
)
_FUNCTIONS = {
    "torchvision.transforms.functional": (
        *_OF_BOTH,
        *("convert_image_dtype", "get_dimensions", "hflip", "to_pil_image", "to_tensor", "vflip"),
    ),
    "torchvision.transforms.v2.functional": (
        *_OF_BOTH,
        *("grayscale_to_rgb", "horizontal_flip", "permute_channels", "to_dtype", "to_image", "vertical_flip"),
    ),
    "torchvision.transforms._functional_pil": (*_OF_BOTH, "hflip", "to_grayscale", "vflip"),
    "torchvision.transforms.v2.functional._geometry": ("interpolate",),
    "torchvision.transforms.autoaugment": ("_apply_op",),
    "PIL.ImageOps": ("autocontrast", "equalize", "invert", "posterize", "solarize"),
    "torchvision.datasets.folder": ("default_loader", "pil_loader"),
    "torchvision": ("get_image_backend",),
}
# Methods of Pillow images that those functions call.
_OF_IMAGES = ("convert", "crop", "filter", "histogram", "point", "resize", "rotate", "split", "transform", "transpose")
# The core leaves larger images to Pillow, which warns of them where this number is not smaller.
_MOST_PIXELS = 1 << 26
_METHODS = (
    *("__call__", "forward", "get_params", "make_params", "transform", "check_inputs", "_call_kernel"),
    *("_apply_image_or_video_transform", "_augmentation_space", "_get_policies", "_get_random_item"),
)
# Attributes of any class that say how samples are made, apart from those with the samples.
_ATTRIBUTES = ("transform", "target_transform", "transforms", "compat", "loader", "_loader", "root", "base_folder")


@dataclass(frozen=True)
class Form:
    """How a class of torchvision's keeps its samples.

    Attributes:
        module: the name of its module, and of the module of its `__getitem__`, in `torchvision.datasets`.
        attributes: the names of the lists, arrays and tensors that its samples are made of.
        calls_both: True if it calls `transforms` with image and label, False if it calls `transform` and
            `target_transform`.
        settings: the names of other attributes that say how samples are made.
    """

    module: str
    attributes: tuple[str, ...]
    calls_both: bool = False
    settings: tuple[str, ...] = field(default=(), kw_only=True)


def called_with(dataset: Any, form: Form) -> tuple[Any, Any]:
    """Return the callables of `dataset` for an image and for a label, each None if there is none.

    Raises:
        NotRecognizedError: something is called with both.
    """
    if not form.calls_both or dataset.transforms is None:
        return (None, None) if form.calls_both else (dataset.transform, dataset.target_transform)
    both = dataset.transforms
    if type(both) is not getattr(sys.modules.get("torchvision.datasets.vision"), "StandardTransform", None):
        raise NotRecognizedError("transforms is called with image and label; pass transform and target_transform")
    return both.transform, both.target_transform


class Facts:
    """The facts of a dataset, to check later if they still hold, apart from single labels and pixels.

    Asked before each batch, so it compares by identity, and whole dictionaries of plain values at once.

    Args:
        dataset: one of torchvision's.
        form: that of its class.
    """

    def __init__(self, dataset: Any, form: Form) -> None:
        cls, own = type(dataset), vars(dataset)
        self._form, self._called = form, _called(dataset, form)
        steps = _steps(self._called)
        self._cls = cls
        self._arrays = [(name, own.get(name), array_facts(own.get(name))) for name in ("data", *form.attributes)]
        self._objects = [(name, getattr(dataset, name, None)) for name in (*_ATTRIBUTES, *form.settings)]
        self._is_plain = _has_plain_defaults()
        self._settings = _settings()
        self._functions = [
            (owner, name, getattr(owner, name, None)) for owner, names in _callers(cls, steps) for name in names
        ]
        # Not `copy.deepcopy`, which users' objects may refuse: lists are changed in place, their elements are not.
        self._steps = [(each, type(each), vars(each), _copied(vars(each))) for each in steps]

    def still_hold_for(self, dataset: Any) -> bool:
        """Return True if all of it is still true of `dataset`."""
        own = vars(dataset)
        return (
            type(dataset) is self._cls
            and "__getitems__" not in own
            and all(getattr(dataset, name, None) is each for name, each in self._objects)
            and all(now is then for now, then in zip(_called(dataset, self._form), self._called, strict=True))
            and all(own.get(name) is each and array_facts(each) == facts for name, each, facts in self._arrays)
            and _has_plain_defaults() is self._is_plain
            and _settings() == self._settings
            and all(getattr(owner, name, None) is function for owner, name, function in self._functions)
            and all(type(step) is kind and _are_same(now, copy) for step, kind, now, copy in self._steps)
        )


def array_facts(array: Any) -> tuple[Any, ...]:
    """Return where the memory of an array or tensor is, and how it is read; an empty tuple for other objects."""
    if type(array) is np.ndarray:
        return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
    if type(array) is torch.Tensor and _torch.tensor_is_plain(array):
        return array.data_ptr(), array.shape, array.stride(), array.dtype
    return ()


def _copied(value: Any) -> Any:
    if type(value) is list:
        return [_copied(each) for each in value]
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return value


def _are_same(now: dict[str, Any], copy: dict[str, Any]) -> bool:
    try:
        return now == copy
    except Exception:  # A tensor in the place of another one has no truth value.
        return False


def _has_plain_defaults() -> bool:
    """Return True if transforms make float32 on the CPU, unmarked, and nothing is called whenever a module is."""
    is_plain = torch.get_default_dtype() is torch.float32 and torch.get_default_device().type == "cpu"
    marks = sys.modules.get("torchvision.tv_tensors._torch_function_helpers")
    return is_plain and not (getattr(marks, "_TORCHFUNCTION_SUBCLASS", False) or _torch.modules_have_global_hooks())


def _callers(cls: type, steps: list[Any]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Return the code that runs when a sample is read: classes and modules, and the names of their functions."""
    yield cls, ("__getitem__", "__getitems__", "__len__")
    for module, names in _FUNCTIONS.items():
        if (functional := sys.modules.get(module)) is not None:
            # Older versions do not have all of them.
            yield functional, tuple(name for name in names if hasattr(functional, name))
    if (images := sys.modules.get("PIL.Image")) is not None:
        yield images, ("blend", "fromarray", "merge", "new", "open")
        yield images.Image, _OF_IMAGES
    if (vision := sys.modules.get("torchvision.datasets.vision")) is not None:
        yield vision.StandardTransform, ("__call__",)
    for kind in {type(step) for step in steps}:
        yield kind, _METHODS


def _settings() -> tuple[Any, ...]:
    """Return the functions that open files, and the image size above which Pillow warns."""
    torchvision, images = sys.modules.get("torchvision"), sys.modules.get("PIL.Image")
    return getattr(torchvision, "_image_backend", None), getattr(images, "MAX_IMAGE_PIXELS", None)


def loads_by_pillow(loader: Any) -> str | None:
    """Return why `loader` is not Pillow as torchvision calls it; None if it is.

    A loader of None is `PIL.Image.open`.
    """
    folder = sys.modules["torchvision.datasets.folder"]
    if loader is not None and loader is not folder.default_loader and loader is not folder.pil_loader:
        return "its loader is not torchvision's"
    backend, most = _settings()
    if backend != "PIL":
        return f"torchvision's image backend is {backend}"
    if most is not None and most < _MOST_PIXELS:
        return f"PIL.Image.MAX_IMAGE_PIXELS is {most}"
    features = importlib.import_module("PIL.features")
    if not features.check("libjpeg_turbo"):
        return "this Pillow was built without libjpeg-turbo"
    return None


def replaced_part(dataset: Any, form: Form) -> str | None:
    """Return why `dataset`, or torchvision's code for it, is not as in torchvision; None if it is."""
    cls, own = type(dataset), vars(dataset)
    if "__getitems__" in own or hasattr(cls, "__getitems__"):
        return f"a method __getitems__ was added to {cls.__name__}"
    if not _has_plain_defaults():
        return (
            "torch's default dtype or device is not float32 or cpu, a global hook of modules is registered, or "
            "torchvision.tv_tensors.set_return_type is in effect"
        )
    steps = _steps(_called(dataset, form))
    for owner, names in _callers(cls, steps):
        for name in names:
            function = getattr(owner, name, None)
            is_own = _is_of("torchvision", function) or _is_of("PIL", function) or _torch.is_torchs_own(function)
            if not is_own and not (function is None and name in (*_METHODS, "__getitems__")):
                return f"{owner.__name__}.{name} was replaced"
    for step in steps:
        if replaced := [name for name in _METHODS if name in vars(step)]:
            return f"{type(step).__name__}.{replaced[0]} was replaced"
    return None


def _called(dataset: Any, form: Form) -> tuple[Any, Any]:
    """Return the callables for an image and for a label; none if they are unknown."""
    try:
        return called_with(dataset, form)
    except (AttributeError, NotRecognizedError):
        return None, None


def _steps(called: tuple[Any, Any]) -> list[Any]:
    """Return torchvision's transforms of an image and of a mask, including nested ones."""
    return [each for transform in called for each in _inside(transform) if _is_of_torch(each)]


def _is_of_torch(transform: Any) -> bool:
    """Return True if its class is a transform of torchvision or a module of torch; others may hold anything."""
    return type(transform).__module__.startswith(("torchvision.transforms.", "torch.nn.modules."))


def _inside(transform: Any) -> Iterator[Any]:
    yield transform
    if not _is_of_torch(transform):
        return
    parts = getattr(transform, "transforms", None)
    if isinstance(parts, torch.nn.ModuleList):
        yield parts
    for each in inside(transform):
        yield from _inside(each)


def _is_of(package: str, function: Any) -> bool:
    """Return True if `function` is written in the files of `package`."""
    folder = os.path.dirname(getattr(sys.modules.get(package), "__file__", None) or "?") + os.sep
    return _torch.is_written_in(function, folder)
