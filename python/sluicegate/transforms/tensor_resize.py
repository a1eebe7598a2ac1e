"""`check_tensor_resize`: checks that torch resizes tensors of bytes on this machine as the core does.

With AVX2, torch sums integers, and the core makes the same sums. On other processors, torchvision may resize floats
and round them.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator

import numpy as np
import torch

from sluicegate import _core

from .recognize import NotRecognizedError

_WAY = "torch"
# Heights and widths, before and after: larger, smaller, both, only in one direction, and many times as large.
_SIZES = (
    ((37, 23), (11, 19)),
    ((23, 37), (31, 17)),
    ((9, 13), (31, 40)),
    ((40, 20), (40, 13)),
    ((21, 40), (33, 40)),
    ((203, 7), (2, 60)),
)


@functools.cache
def check_tensor_resize(interpolation: str) -> str:
    """Return the core's name for torch's way, after resizing some images with both.

    Args:
        interpolation: "bilinear" or "bicubic".

    Raises:
        NotRecognizedError: the results differ.
    """
    functional = sys.modules["torchvision.transforms.v2.functional"]
    mode = sys.modules["torchvision.transforms.functional"].InterpolationMode(interpolation)
    for image, (height, width) in _images():
        resize = {"height": height, "width": width, "interpolation": interpolation, "antialias": _WAY}
        array = ("image", "uint8", image.data_ptr(), tuple(image.shape), tuple(image.stride()), image)
        ours = _core.ImageOperations(json.dumps([{"Resize": resize}])).apply(array)
        if not torch.equal(ours, functional.resize(image, [height, width], interpolation=mode, antialias=True)):
            raise NotRecognizedError("torch resizes tensors differently on this machine")
    return _WAY


def _images() -> Iterator[tuple[torch.Tensor, tuple[int, int]]]:
    """Return images in color and in gray, as noise and in black and white, with both layouts, and their new sizes."""
    draw = np.random.RandomState(0)
    for number, (before, after) in enumerate(_SIZES):
        pixels = draw.randint(0, 256, (*before, 3), dtype=np.uint8)
        if number % 2:
            pixels = (pixels > 127).astype(np.uint8) * 255
        image = torch.from_numpy(pixels).permute(2, 0, 1)
        for each in (image, image.contiguous(), image[:1].contiguous()):
            yield each, after
