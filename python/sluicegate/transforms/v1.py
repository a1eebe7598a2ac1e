"""Torchvision's v1 transforms (`torchvision.transforms`): which of them equal those of this package.

They are made for Pillow images. A pipeline that contains one gets such an image, as from torchvision's `ImageFolder`,
and is recognized as long as values are the same within the rounding of each step, up to two levels of 256; from the
first tensor on they are those of this package.
"""

from __future__ import annotations

import copy
import inspect
import math
from typing import Any

import numpy as np
import torch

from . import color, container, conversion, geometry, identity, values
from .arguments import interpolation_of
from .transform import Transform

_MODULES = ("torchvision.transforms.transforms", "torchvision.transforms.autoaugment")
# Their draws differ.
_OTHERS = ("AutoAugment", "RandAugment", "TrivialAugmentWide", "RandomChoice", "RandomOrder")
# Compared as Python floats, where v2 compares as float32.
_COMPARED_IN_PYTHON = (
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
)
_IN_COLOR = 3
# The results of `torch.rand` are multiples of this.
_STEP = 2.0**-24

_THE_SAME = (
    color.Grayscale,
    color.RGB,
    color.RandomAdjustSharpness,
    color.RandomAutocontrast,
    color.RandomChannelPermutation,
    color.RandomEqualize,
    color.RandomGrayscale,
    color.RandomInvert,
    color.RandomPosterize,
    color.RandomSolarize,
    geometry.CenterCrop,
    geometry.Pad,
    geometry.RandomCrop,
    geometry.RandomHorizontalFlip,
    geometry.RandomVerticalFlip,
    identity.Identity,
    values.GaussianBlur,
    conversion.ToImage,
)
_RESIZING = (geometry.Resize, geometry.RandomResizedCrop)
_SMOOTH = ("bilinear", "bicubic", "lanczos", "hamming")


class _RandomCropOfV1(geometry.RandomCrop):
    """Draws in both directions, while v2 draws only in directions that have a choice."""

    def _spec(self, kind: str) -> list[Any]:
        (spec,) = super()._spec(kind)
        return [{"RandomCrop": {**spec["RandomCrop"], "draws": "both"}}]


class _GrayscaleOfV1(color.Grayscale):
    """Makes three channels of a Pillow image; a gray tensor keeps its one channel, unlike in v2."""

    def spec(self) -> list[Any]:
        raise ValueError("torchvision.transforms (v1) makes as many channels as a tensor has")


def inside(transform: Any) -> list[Any]:
    """Return the transforms that `transform` contains, if any."""
    parts = getattr(transform, "transforms", None)
    if isinstance(parts, (list, tuple, torch.nn.ModuleList)):
        return list(parts)
    return list(transform.children()) if isinstance(transform, torch.nn.Module) else []


def is_v1(transform: Any) -> bool:
    """Return True if it is one of torchvision's v1 transforms, or contains one."""
    return any(kind.__module__ in _MODULES for kind in type(transform).__mro__) or any(map(is_v1, inside(transform)))


def own_of_v1(transform: Any, kind: type[Transform]) -> Transform:
    """Return the transform of this package that draws as `transform`, a v1 transform of the same name, does.

    Raises:
        ValueError: there is none; the message says why.
    """
    name = type(transform).__name__
    if name in _OTHERS:
        raise ValueError("torchvision.transforms (v1) draws different values than torchvision.transforms.v2")
    arguments = {each: getattr(transform, each) for each in inspect.signature(kind).parameters}
    if name == "RandomCrop":
        if transform.padding is not None and transform.pad_if_needed and transform.padding_mode != "constant":
            raise ValueError("torchvision.transforms (v1) pads twice")
        return _RandomCropOfV1(**arguments)
    if name == "Grayscale" and transform.num_output_channels == _IN_COLOR:
        return _GrayscaleOfV1(**arguments)
    if name in _COMPARED_IN_PYTHON:
        arguments["p"] = math.ceil(arguments["p"] / _STEP) * _STEP
    return kind(**arguments)


def applied_of_v1(transforms: list[Transform], p: float) -> Transform:
    """Return `RandomApply` as v1 draws it: it also applies if the number drawn is `p` itself."""
    apply = container.RandomApply(transforms, p)
    apply.p = probability_of_v1(p)
    return apply


def probability_of_v1(p: float) -> float:
    """Return the probability with which v2's `RandomApply` does what v1's does with `p`."""
    return (math.floor(float(np.float32(p)) / _STEP) + 1) * _STEP


def as_of_pillow(own: Transform) -> Transform:
    """Return `own` as it is applied to a Pillow image.

    Raises:
        ValueError: its values would differ from Pillow's; the message says how.
    """
    if isinstance(own, _RESIZING):
        if interpolation_of(own.interpolation) not in _SMOOTH:
            raise ValueError(f"with interpolation={own.interpolation!r} Pillow takes different pixels")
        filtered = copy.copy(own)
        # Pillow always filters.
        filtered.antialias = True
        return filtered
    if isinstance(own, _GrayscaleOfV1):
        return color.Grayscale(own.num_output_channels)
    if isinstance(own, color.ColorJitter):
        if own.hue is not None:
            raise ValueError("Pillow's hues differ")
        return own
    if isinstance(own, (container.Compose, container.RandomApply, container.RandomOrder)):
        parts = [as_of_pillow(each) for each in own.transforms if isinstance(each, Transform)]
        if any(isinstance(each, conversion.ToImage) for each in parts):
            raise ValueError("it converts images inside other transforms")
        changed = copy.copy(own)
        changed.transforms = parts
        return changed
    if not isinstance(own, _THE_SAME):
        raise ValueError("Pillow's values differ, or it does not take a Pillow image")
    return own
