"""`resize_method`: the way in which the installed Pillow resizes images; the core knows two of them."""

from __future__ import annotations

import functools
import json

import numpy as np

from sluicegate import _core

from .recognize import NotRecognizedError

_WAYS = ("pillow", "pillow 12")
# Pillow's constants, by name.
_FILTERS = {"box": 4, "bilinear": 2, "hamming": 5, "bicubic": 3, "lanczos": 1}
# Heights and widths, before and after: larger, smaller, and with both orders of the two passes.
_SIZES = (((37, 23), (11, 19)), ((23, 37), (19, 11)), ((40, 20), (30, 10)), ((40, 21), (12, 13)), ((9, 13), (31, 17)))


@functools.cache
def resize_method() -> str:
    """Return the core's name for Pillow's way, after resizing some images with both.

    Raises:
        NotRecognizedError: Pillow uses neither way.
    """
    way = next((way for way in _WAYS if _is_pillows(way)), None)
    if way is None:
        raise NotRecognizedError("this Pillow resizes differently")
    return way


def _is_pillows(way: str) -> bool:
    from PIL import Image

    draw = np.random.RandomState(0)
    for before, (height, width) in _SIZES:
        pixels = draw.randint(0, 256, (3, *before), dtype=np.uint8)
        image = Image.fromarray(pixels.transpose(1, 2, 0).copy())
        for name, constant in _FILTERS.items():
            resize = {"height": height, "width": width, "interpolation": name, "antialias": way}
            array = ("image", "uint8", pixels.ctypes.data, pixels.shape, pixels.strides, pixels)
            ours = _core.ImageOperations(json.dumps([{"Resize": resize}])).apply(array)
            theirs = np.asarray(image.resize((width, height), Image.Resampling(constant))).transpose(2, 0, 1)
            if not np.array_equal(ours.numpy(), theirs):
                return False
    return True
