"""`check_arithmetic`: checks that the installed Pillow and torchvision give exactly the core's values.

They may differ if a different version computes differently, or if Pillow was compiled to round differently.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sluicegate import _core

from .recognize import NotRecognizedError

# torchvision's modules of functions, by version.
MODULES = {"v1": "torchvision.transforms.functional", "v2": "torchvision.transforms.v2.functional"}
# Darker and lighter, to the left and to the right. With thirds, and these angles and shears, some values differ if a
# product is not rounded before it is added, as in a Pillow compiled for fused multiply-add.
_FACTORS = (0.0, 0.37, 2 / 3, 1.0, 4 / 3, 1.83)
_HUES = (-0.5, -0.043, 0.21)
_ANGLES = (-171.3, 12.7, 45.0, 90.0)
_SHEARS = ([0.0, 0.0], [21.3, -7.9], [33.36, 0.0], [0.0, -32.97])
_SCALES = (1.0, 0.83)
# By operation, a different one with the same function of Pillow, in which its rounding shows best.
_SHOWN_BY = {"Brightness": "Contrast", "Saturation": "Contrast", "Sharpness": "Contrast", "Rotate": "Affine"}

_Case = tuple[Any, Callable[[Any, Any], Any]]


def check_arithmetic(names: tuple[str, ...], version: str) -> None:
    """Refuse operations on Pillow images whose values would differ.

    Args:
        names: operations of the core.
        version: the version of torchvision's functions that are called in Python: "v1" or "v2".

    Raises:
        NotRecognizedError: some values differ.
    """
    for name in names:
        if not is_the_same(name, version) or not is_the_same(_SHOWN_BY.get(name, name), version):
            raise NotRecognizedError(f"this Pillow or torchvision makes different values ({name})")


@functools.cache
def is_the_same(name: str, version: str) -> bool:
    """Return True if the core and torchvision give the same results for some images with this operation."""
    functions = sys.modules[MODULES[version]]
    for operation, function in _cases(name):
        for image in _images():
            ours, theirs = _of_core(operation, version, image), np.asarray(function(functions, image))
            if not np.array_equal(ours, theirs):
                return False
    return True


@functools.cache
def _images() -> list[Any]:
    """Return images in color and in gray: noise, smooth with gray parts, and all grays among many of their mean."""
    from PIL import Image

    noise = np.random.RandomState(0).randint(0, 256, (29, 23, 3), dtype=np.uint8)
    down, across = np.mgrid[0:26, 0:37]
    smooth = np.stack([down * 9, across * 6, np.where(down < 8, down * 9, 90)], -1).astype(np.uint8)
    smooth[:, :5] = smooth[:, :5, :1]
    grays = np.full((41, 256), 129, np.uint8)
    grays[0] = range(256)
    colored = [Image.fromarray(noise), Image.fromarray(smooth), Image.fromarray(grays).convert("RGB")]
    return [*colored, *(image.convert("L") for image in colored)]


def _of_core(operation: Any, version: str, image: Any) -> np.ndarray[Any, Any]:
    pixels = np.asarray(image)
    planes = np.ascontiguousarray(np.atleast_3d(pixels).transpose(2, 0, 1))
    array = ("image", "uint8", planes.ctypes.data, planes.shape, planes.strides, planes)
    spec = {"OfPillow": {"version": version, "operation": operation}}
    made: np.ndarray[Any, Any] = _core.ImageOperations(json.dumps([spec])).apply(array).numpy().transpose(1, 2, 0)
    return made[:, :, 0] if made.shape[2] == 1 else made


def _cases(name: str) -> Iterator[_Case]:
    """Return the operation of this name with several arguments, and functions that call torchvision's with them."""
    if name in _BY_FACTOR:
        for factor in _HUES if name == "Hue" else _FACTORS:
            yield {name: {"factor": factor}}, _called(_BY_FACTOR[name], factor)
    elif name in _PLAIN:
        yield name, _called(_PLAIN[name])
    elif name == "Posterize":
        yield {name: {"bits": 3}}, _called("posterize", 3)
    elif name == "Solarize":
        yield {name: {"threshold": 99.5}}, _called("solarize", 99.5)
    elif name == "Grayscale":
        yield {name: {"channels": 3}}, _called("rgb_to_grayscale", 3)
    else:
        yield from _turns(name)


_BY_FACTOR = {
    "Brightness": "adjust_brightness",
    "Contrast": "adjust_contrast",
    "Hue": "adjust_hue",
    "Saturation": "adjust_saturation",
    "Sharpness": "adjust_sharpness",
}
_PLAIN = {"Autocontrast": "autocontrast", "Equalize": "equalize", "Invert": "invert"}


def _called(function: str, *arguments: Any, **named: Any) -> Callable[[Any, Any], Any]:
    return lambda functions, image: getattr(functions, function)(image, *arguments, **named)


def _turns(name: str) -> Iterator[_Case]:
    modes = sys.modules["torchvision.transforms.functional"].InterpolationMode
    for interpolation in ("nearest", "bilinear"):
        both = {"fill": [9], "interpolation": interpolation, "center": None}
        torchs = {"fill": 9, "interpolation": modes(interpolation)}
        for angle in _ANGLES:
            if name == "Rotate":
                for frame in ("same", "expanded"):
                    call = _called("rotate", angle, expand=frame == "expanded", **torchs)
                    yield {name: {**both, "angle": angle, "frame": frame}}, call
                continue
            for shear, scale in itertools.product(_SHEARS, _SCALES):
                motion: dict[str, Any] = {"angle": angle, "translate": [3, -2], "scale": scale, "shear": shear}
                yield {name: {**both, **motion}}, _called("affine", **motion, **torchs)
