"""Folders of image files of all kinds, and random pipelines of torchvision's transforms for them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, PngImagePlugin
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from .pillow_steps import random_order, random_step
from .tensor_steps import random_resize
from .torchvision_datasets import Pipelines

# The suffix for a color photograph, and how it is saved. The core decodes the first six kinds.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "jpeg": ("jpg", "RGB", {}),
    "fine jpeg": ("jpeg", "RGB", {"quality": 97, "subsampling": 0}),
    "wide jpeg": ("jpg", "RGB", {"subsampling": 1, "restart_marker_blocks": 3}),
    "gray jpeg": ("jpg", "L", {}),
    "progressive jpeg": ("jpg", "RGB", {"progressive": True}),
    "jpeg with data": ("jpg", "RGB", {"comment": b"words", "icc_profile": bytes(400), "dpi": (72, 72)}),
    "printer's jpeg": ("jpg", "CMYK", {}),
    "png": ("png", "RGB", {}),
    "clear png": ("png", "RGBA", {}),
    "gray png": ("png", "L", {}),
    "gray and clear png": ("png", "LA", {}),
    "palette png": ("png", "P", {}),
    "deep png": ("png", "I;16", {}),
    "bitmap": ("bmp", "RGB", {}),
    "ppm": ("ppm", "RGB", {}),
    "webp": ("webp", "RGB", {"quality": 60}),
    "tiff": ("tif", "RGB", {}),
    "png without transparency": ("png", "P", {}),
    "png with data": ("png", "RGB", {"dpi": (72, 72), "compress_level": 1}),
    "png of two colors": ("png", "1", {}),
}
# The core decodes some of the kinds after the first six as well.
PLAIN_PNGS = ("png", "gray png", "png without transparency", "png with data")
DAMAGES = ("cut", "text", "empty", "missing")
INTERPOLATIONS = tuple(InterpolationMode)


def photograph(draw: random.Random, size: tuple[int, int]) -> Image.Image:
    """Return a picture of this height and width, with large and small shapes in it."""
    values = np.random.RandomState(draw.randrange(2**32))
    small = Image.fromarray(values.randint(0, 256, (5, 6, 3), dtype=np.uint8))
    smooth = np.asarray(small.resize(size[::-1], Image.Resampling.BICUBIC), np.int16)
    return Image.fromarray((smooth + values.randint(-9, 10, smooth.shape)).clip(0, 255).astype(np.uint8))


def image_file(path: Path, kind: str, draw: random.Random, size: tuple[int, int]) -> Path:
    """Write a file of this kind, and return its path, with a suffix added to its name."""
    end, mode, options = KINDS[kind]
    image = photograph(draw, size)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image.convert("L"), np.uint16) * 257)
    elif mode in ("RGBA", "LA"):
        image.putalpha(image.convert("L"))
        image = image.convert(mode)
    elif mode != "RGB":
        image = image.convert(mode)
    path = path.with_suffix(f".{end}")
    if kind == "palette png":
        options = {"transparency": 3}
    if kind == "png with data":
        text = PngImagePlugin.PngInfo()
        text.add_text("Software", "words")
        options = options | {"pnginfo": text}
    image.save(path, **options)
    return path


def damage(path: Path, how: str) -> None:
    """Damage a file."""
    encoded = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(encoded[: len(encoded) * 2 // 3])
    elif how == "text":
        path.write_text("this is not an image")
    else:
        path.write_bytes(b"")


def image_folder(root: Path, draw: random.Random, count: int, kinds: tuple[str, ...] = tuple(KINDS)) -> list[Path]:
    """Write `count` files of random kinds and sizes in two classes, and return their paths."""
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
    paths = []
    for number in range(count):
        size = (draw.randint(1, 9), draw.randint(1, 9)) if draw.random() < 0.1 else _size(draw)
        name = ("cat", "dog")[number % 2]
        paths.append(image_file(root / name / f"{number:03}", draw.choice(kinds), draw, size))
    return paths


def _size(draw: random.Random) -> tuple[int, int]:
    return draw.randint(10, 90), draw.randint(10, 90)


class FolderPipelines(Pipelines):
    """Random pipelines that resize all images to one size."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(draw, 3, (0, 0))

    def draw(self) -> Any:
        """Return a pipeline in which every step is recognized."""
        draw = self._draw
        if draw.random() < 0.2:
            return self._nested(self._of_tensors())
        steps = [self._move(is_pillow=True)] if draw.random() < 0.2 else []
        kind, interpolation = draw.choice((v1, v2)), draw.choice(INTERPOLATIONS)
        size = draw.choice((24, (17, 30), [33, 12]))
        choice = draw.random()
        if choice < 0.5:
            scale, ratio = draw.choice(((0.08, 1.0), (0.3, 0.9))), draw.choice(((3 / 4, 4 / 3), (0.2, 0.4), (1, 1)))
            steps.append(kind.RandomResizedCrop(size, scale, ratio, interpolation))
        elif choice < 0.9:
            limit = draw.choice((None, None, 47))
            steps.append(kind.Resize(draw.choice((20, 31)), interpolation, limit))
            steps.append(kind.CenterCrop(size) if draw.random() < 0.6 else kind.RandomCrop(12))
        else:
            steps.append(kind.Resize((21, 26), interpolation))
        if draw.random() < 0.5:
            steps.append(kind.RandomHorizontalFlip(draw.choice((0.5, 0.2))))
        if draw.random() < 0.2:
            steps += [draw.choice((v1, v2)).Resize((15, 14), draw.choice(INTERPOLATIONS))]
        while draw.random() < 0.4:
            step = random_step(draw, draw.choice((v1, v2)), self._channels)
            step = random_order(draw, self._channels) if draw.random() < 0.2 else step
            steps.insert(draw.randint(0, len(steps)), step)
        steps += self._to_tensor()
        if self._is_float and draw.random() < 0.7:
            steps.append(self._normalize())
        return self._nested([*steps, *self._erasing()])

    def _of_tensors(self) -> list[Any]:
        """Return steps that resize a tensor, as in torchvision's guide to v2."""
        draw = self._draw
        steps = [random_step(draw, draw.choice((v1, v2)), self._channels)] if draw.random() < 0.3 else []
        steps.append(draw.choice((v1.PILToTensor, v2.PILToTensor, v2.ToImage))())
        steps += random_resize(draw, draw.choice((24, (17, 30), [33, 12])))
        if draw.random() < 0.5:
            steps.append(draw.choice((v1, v2)).RandomHorizontalFlip())
        self._is_float = draw.random() < 0.8
        if self._is_float:
            steps += [v2.ToDtype(torch.float32, scale=True), self._normalize()]
        return [*steps, *self._erasing()]
