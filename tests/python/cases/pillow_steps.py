"""Random transforms of torchvision, v1 and v2, for the colors and the geometry of Pillow images."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

from torchvision import transforms as v1
from torchvision.transforms import AutoAugmentPolicy, InterpolationMode, v2

# Includes a step that is rarely applied, and one that usually is.
PROBABILITIES = (0.0, 0.1, 0.5, 0.5, 0.8, 1.0)


def random_step(draw: random.Random, kind: ModuleType, channels: int) -> Any:
    """Return a color transform, a rotation, or a policy that keeps the mode of the image.

    Args:
        draw: the generator.
        kind: `torchvision.transforms` or `torchvision.transforms.v2`.
        channels: the number of channels of the image.
    """
    choice = draw.random()
    if choice < 0.45:
        return _color(draw, kind)
    if choice < 0.7:
        return _turn(draw, kind, channels)
    return _policy(draw, kind, channels)


def random_erasing(draw: random.Random, kind: ModuleType, channels: int) -> Any:
    """Return a transform that erases part of a tensor."""
    value = draw.choice((0, 0, -1.5, 0.3, "random", [0.25], [draw.uniform(-1, 1) for _ in range(channels)]))
    scale, ratio = draw.choice(((0.02, 0.33), (0.3, 0.9))), draw.choice(((0.3, 3.3), (1, 1), (0.5, 0.6)))
    return kind.RandomErasing(draw.choice(PROBABILITIES), scale, ratio, value, inplace=draw.random() < 0.3)


def _color(draw: random.Random, kind: ModuleType) -> Any:
    p = draw.choice(PROBABILITIES)
    steps = (
        lambda: kind.RandomGrayscale(p),
        lambda: kind.RandomInvert(p),
        lambda: kind.RandomPosterize(draw.randint(1, 8), p),
        lambda: kind.RandomSolarize(draw.choice((0, 128, 200.5, draw.uniform(0, 255))), p),
        lambda: kind.RandomAdjustSharpness(draw.choice((0, 0.3, 2, 7.5)), p),
        lambda: kind.RandomAutocontrast(p),
        lambda: kind.RandomEqualize(p),
        lambda: _jitter(draw, kind),
        lambda: _jitter(draw, kind),
        v2.RandomChannelPermutation,
        lambda: v2.RandomPhotometricDistort(p=p),
        lambda: kind.RandomApply([_jitter(draw, kind), kind.RandomInvert(p)], p=p),
    )
    return draw.choice(steps)()


def _jitter(draw: random.Random, kind: ModuleType) -> Any:
    strengths = [draw.choice((0, 0.4, draw.random(), (0.5, 1.8))) for _ in range(3)]
    return kind.ColorJitter(*strengths, hue=draw.choice((0, 0.1, 0.5, (-0.2, 0.4))))


def _turn(draw: random.Random, kind: ModuleType, channels: int) -> Any:
    warp = {**_warp(draw, kind, channels), "center": draw.choice((None, None, [3, 4.5], [0, 0]))}
    degrees = draw.choice((10, 90, 180, (-30, 70), (90, 90)))
    if draw.random() < 0.5:
        return kind.RandomRotation(degrees, **warp)
    return kind.RandomAffine(
        draw.choice((0, degrees)),
        translate=draw.choice((None, (0.1, 0.3), (0, 0.5))),
        scale=draw.choice((None, (0.5, 2.0), (0.9, 1.0))),
        shear=draw.choice((None, 10, (-20, 30), (-20, 30, 5, 10))),
        **warp,
    )


def _policy(draw: random.Random, kind: ModuleType, channels: int) -> Any:
    warp = _warp(draw, kind, channels)
    warp["fill"] = draw.choice((None, warp["fill"]))
    name, bins = draw.choice(("AutoAugment", "RandAugment", "TrivialAugmentWide")), draw.choice((31, 31, 10, 2, 7, 64))
    if name == "AutoAugment":
        return kind.AutoAugment(draw.choice(tuple(AutoAugmentPolicy)), **warp)
    if name == "RandAugment":
        return kind.RandAugment(draw.randint(0, 3), draw.randrange(-1, bins), bins, **warp)
    return kind.TrivialAugmentWide(bins, **warp)


def _warp(draw: random.Random, kind: ModuleType, channels: int) -> dict[str, Any]:
    fill = draw.choice((0, 0, 128, 255.0, [77], [draw.randrange(256) for _ in range(channels)]))
    return {"interpolation": draw.choice((InterpolationMode.NEAREST, InterpolationMode.BILINEAR)), "fill": fill}


def random_order(draw: random.Random, channels: int) -> Any:
    """Return some steps in a random order, or one of them: drawn from torch's generator, or from Python's (v1)."""
    kind = draw.choice((v1, v2))
    steps = [random_step(draw, kind, channels) for _ in range(draw.randint(1, 4))]
    if draw.random() < 0.5:
        return kind.RandomOrder(steps)
    return kind.RandomChoice(steps, draw.choice((None, [draw.choice((1, 2, 3, 0.5)) for _ in steps])))
