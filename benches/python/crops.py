"""Operations of W3 for contenders without torchvision: the random crop, and the constants of `Normalize`."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import numpy as np
import numpy.typing as npt

SIZE = 224
SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
MEAN_255 = [255 * value for value in MEAN]
STD_255 = [255 * value for value in STD]


def random_crop(width: int, height: int) -> tuple[int, int, int, int]:
    """Return left, top, width, and height of a crop, drawn as torchvision's RandomResizedCrop draws it."""
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    for _ in range(10):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(low, high))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    w = min(width, round(height * RATIO[1]))
    h = min(height, round(width / RATIO[0]))
    return (width - w) // 2, (height - h) // 2, w, h


@functools.cache
def _row() -> tuple[Any, Any]:
    """Return the factor and offset of each value in a row of pixels; long rows let the loop over them be vectorized."""
    import torch

    std = torch.tensor(STD_255).repeat(SIZE)
    return 1 / std, -torch.tensor(MEAN_255).repeat(SIZE) / std


def normalized(images: Any) -> Any:
    """Return a uint8 tensor of shape (batch, height, width, channels) as floats of (batch, channels, height, width)."""
    import torch

    factor, summand = _row()
    rows = images.view(len(images), SIZE, SIZE * 3).to(torch.float32)
    torch.addcmul(summand, rows, factor, out=rows)
    return rows.view(len(images), SIZE, SIZE, 3).permute(0, 3, 1, 2)


def gray_levels(images: Any) -> npt.NDArray[np.float32]:
    """Return the values before `Normalize`, from 0 to 255."""
    mean, std = (np.array(values, np.float32)[:, None, None] for values in (MEAN_255, STD_255))
    levels: npt.NDArray[np.float32] = images * std + mean
    return levels
