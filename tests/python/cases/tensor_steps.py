"""Random transforms of torchvision (v2) that resize a tensor of bytes."""

from __future__ import annotations

import random
from typing import Any

from torchvision.transforms import InterpolationMode, v2

INTERPOLATIONS = (
    InterpolationMode.BILINEAR,
    InterpolationMode.BILINEAR,
    InterpolationMode.BICUBIC,
)


def random_resize(draw: random.Random, size: Any) -> list[Any]:
    """Return steps after which a tensor has this size: a number, or height and width."""
    interpolation = draw.choice(INTERPOLATIONS)
    size = size if isinstance(size, int) else list(size)
    choice = draw.random()
    if choice < 0.5:
        return [v2.RandomResizedCrop(size, draw.choice(((0.08, 1.0), (0.5, 0.9))), interpolation=interpolation)]
    if choice < 0.7:
        return [v2.Resize(draw.choice((20, 31)), interpolation, draw.choice((None, 47))), v2.CenterCrop(size)]
    return [v2.Resize([size, size] if isinstance(size, int) else size, interpolation)]
