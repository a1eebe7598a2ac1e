"""Images for tests that look like photographs: smooth areas, edges, some noise, all different; and folders of them."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from sluicegate import ImageFolderDataset


def photograph(seed: int, width: int = 96, height: int = 80) -> Image.Image:
    """Return an image of this size."""
    return Image.fromarray(_pixels(seed, width, height))


@functools.lru_cache(1000)
def _pixels(seed: int, width: int, height: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    pixels = np.empty((height, width, 3))
    for channel in range(3):
        across, down, phase = generator.uniform(0.02, 0.2, 3)
        pixels[..., channel] = 128 + 80 * np.sin(x * across + phase * 30) * np.cos(y * down)
    left, top = generator.integers(0, width // 2), generator.integers(0, height // 2)
    pixels[top : top + height // 3, left : left + width // 3] = generator.integers(0, 256, 3)
    pixels += generator.normal(0, 4, pixels.shape)
    return pixels.clip(0, 255).astype(np.uint8)


def encoded(image: Image.Image, format: str = "jpeg", **options: Any) -> bytes:
    """Return `image` as a file in this format."""
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def folder_of(root: Path, images: int = 24, classes: int = 3) -> Path:
    """Write JPEG files of several sizes to `root`, in a folder per class, and return `root`."""
    for number in range(images):
        folder = root / f"class{number % classes}"
        folder.mkdir(parents=True, exist_ok=True)
        image = photograph(number, 70 + 7 * (number % 5), 60 + 5 * (number % 7))
        (folder / f"{number:03}.jpg").write_bytes(encoded(image, quality=90))
    return root


class InPython(ImageFolderDataset):
    """Any subclass is treated as a Python dataset."""
