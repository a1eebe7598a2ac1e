"""Each operation of the core on Pillow images gives torchvision's values with Pillow, to the last bit."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchvision")

from PIL import Image
from torchvision.transforms import functional as v1
from torchvision.transforms.functional import InterpolationMode
from torchvision.transforms.v2 import functional as v2

from cases.image_folders import photograph
from sluicegate import _core

DRAWS = int(os.environ.get("SLUICEGATE_PILLOW_DRAWS", "40"))

SIZES = ((1, 1), (1, 9), (2, 7), (3, 3), (24, 31), (40, 40), (65, 17))
FACTORS = (0.0, 1.0, 0.5, 2.0, 1e-3, 17.5)


def noise(draw: random.Random, size: tuple[int, int]) -> Image.Image:
    values = np.random.RandomState(draw.randrange(2**32))
    # Few levels or many: histograms with gaps, and some gray pixels.
    levels = draw.choice((2, 5, 256))
    pixels = values.randint(0, levels, (*size, 3)) * (255 // (levels - 1))
    return Image.fromarray(pixels.astype(np.uint8))


def images(draw: random.Random) -> list[Image.Image]:
    size = draw.choice(SIZES)
    image = draw.choice((noise, photograph))(draw, size)
    flat = Image.new("RGB", size, tuple(draw.randrange(256) for _ in range(3)))
    return [image, image.convert("L"), flat, flat.convert("L")]


def by_core(operation: Any, image: Image.Image, version: str = "v1") -> np.ndarray[Any, Any]:
    pixels = np.asarray(image)
    planes = pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
    array = ("image", "uint8", planes.ctypes.data, planes.shape, planes.strides, planes)
    made = _core.ImageOperations(json.dumps([{"OfPillow": {"version": version, "operation": operation}}])).apply(array)
    return made.numpy().transpose(1, 2, 0)


def by_pillow(image: Image.Image) -> np.ndarray[Any, Any]:
    pixels = np.asarray(image)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def factor(draw: random.Random) -> float:
    return draw.choice(FACTORS) if draw.random() < 0.3 else torch.empty(1).uniform_(0, draw.choice((1.0, 3.0))).item()


def _factor_of(name: str, function: str) -> Callable[[random.Random], tuple[Any, Any]]:
    def drawn(draw: random.Random) -> tuple[Any, Any]:
        value = factor(draw)
        return {name: {"factor": value}}, lambda of, image: getattr(of, function)(image, value)

    return drawn


def _hue(draw: random.Random) -> tuple[Any, Any]:
    value = draw.choice((0.0, 0.5, -0.5, 0.003, -0.003, draw.uniform(-0.5, 0.5), draw.uniform(-0.5, 0.5)))
    return {"Hue": {"factor": value}}, lambda of, image: of.adjust_hue(image, value)


def _gray(draw: random.Random) -> tuple[Any, Any]:
    channels = draw.choice((1, 3))
    # The function of v2's `Grayscale` has a different name.
    return {"Grayscale": {"channels": channels}}, lambda _, image: v1.to_grayscale(image, channels)


def _posterize(draw: random.Random) -> tuple[Any, Any]:
    bits = draw.randint(1, 8)
    return {"Posterize": {"bits": bits}}, lambda of, image: of.posterize(image, bits)


def _solarize(draw: random.Random) -> tuple[Any, Any]:
    threshold = draw.choice((0, 255, 256, 300.5, -3, 127, 127.00000001, draw.uniform(0, 255)))
    return {"Solarize": {"threshold": threshold}}, lambda of, image: of.solarize(image, threshold)


def _rotate(draw: random.Random) -> tuple[Any, Any]:
    angle = draw.choice((0.0, 90.0, -90.0, 180.0, 270.0, 45.0, 360.0, *(draw.uniform(-200, 200) for _ in range(9))))
    interpolation = draw.choice(("nearest", "bilinear"))
    center = draw.choice((None, None, [3.0, 4.5], [0.0, 0.0]))
    expand = center is None and draw.random() < 0.5
    fill = draw.randrange(256)
    arguments = {"angle": angle, "interpolation": interpolation, "center": center, "fill": [fill]}
    frame = "expanded" if expand else "same"
    mode = InterpolationMode(interpolation)
    return (
        {"Rotate": {**arguments, "frame": frame}},
        lambda of, image: of.rotate(image, angle, mode, expand=expand, center=center, fill=fill),
    )


def _affine(draw: random.Random) -> tuple[Any, Any]:
    interpolation = draw.choice(("nearest", "bilinear"))
    angle = draw.choice((0.0, draw.uniform(-180, 180)))
    scale = draw.choice((1.0, 1.0, draw.uniform(0.2, 3.0), 1e-4, 2.0))
    shear = [draw.choice((0.0, draw.uniform(-60, 60))), draw.choice((0.0, 0.0, draw.uniform(-60, 60)))]
    translate = [draw.randint(-9, 9), draw.choice((0, draw.randint(-9, 9), 90000))]
    center = draw.choice((None, None, [0, 0], [7.25, 3.5]))
    fill = draw.randrange(256)
    arguments = {"angle": angle, "translate": translate, "scale": scale, "shear": shear}
    mode = InterpolationMode(interpolation)
    return (
        {"Affine": {**arguments, "interpolation": interpolation, "center": center, "fill": [fill]}},
        lambda of, image: of.affine(image, **arguments, interpolation=mode, center=center, fill=fill),
    )


def _plain(name: str, function: str) -> Callable[[random.Random], tuple[Any, Any]]:
    return lambda _: (name, lambda of, image: getattr(of, function)(image))


OPERATIONS: dict[str, Callable[[random.Random], tuple[Any, Any]]] = {
    "affine": _affine,
    "autocontrast": _plain("Autocontrast", "autocontrast"),
    "brightness": _factor_of("Brightness", "adjust_brightness"),
    "contrast": _factor_of("Contrast", "adjust_contrast"),
    "equalize": _plain("Equalize", "equalize"),
    "grayscale": _gray,
    "hue": _hue,
    "invert": _plain("Invert", "invert"),
    "posterize": _posterize,
    "rotate": _rotate,
    "saturation": _factor_of("Saturation", "adjust_saturation"),
    "sharpness": _factor_of("Sharpness", "adjust_sharpness"),
    "solarize": _solarize,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_are_pillows(name: str) -> None:
    for seed in range(DRAWS):
        draw = random.Random(seed)
        torch.manual_seed(seed)
        operation, function = OPERATIONS[name](draw)
        for image in images(draw):
            for version, of in (("v1", v1), ("v2", v2)):
                ours, theirs = by_core(operation, image, version), by_pillow(function(of, image))
                assert np.array_equal(ours, theirs), (seed, operation, image, version)


def test_every_color_is_turned_as_by_pillow() -> None:
    steps = np.arange(0, 256, 5, np.uint8)
    colors = np.stack(np.meshgrid(steps, steps, steps), -1).reshape(len(steps), -1, 3)
    for value in (0.0, 0.1, -0.37):
        image = Image.fromarray(colors)
        assert np.array_equal(by_core({"Hue": {"factor": value}}, image), np.asarray(v1.adjust_hue(image, value)))


def test_every_pair_of_values_is_blended_as_by_pillow() -> None:
    # Contrast blends with the mean gray: two rows determine it, and the third has each value.
    for seed in range(DRAWS):
        draw = random.Random(seed)
        value = factor(draw)
        for mean in range(0, 256, 15):
            rows = np.stack([np.arange(256), *[np.full(256, mean)] * 40]).astype(np.uint8)
            image = Image.fromarray(rows)
            ours = by_core({"Contrast": {"factor": value}}, image)[:, :, 0]
            assert np.array_equal(ours, np.asarray(v1.adjust_contrast(image, value))), (seed, mean, value)
