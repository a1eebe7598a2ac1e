"""`pillow_step`: torchvision's transforms of the values and positions of pixels of Pillow images."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from . import augment
from .pillow_arithmetic import check_arithmetic
from .recognize import NotRecognizedError, check_fill_kept, own_of

_JITTERED = {"brightness": "Brightness", "contrast": "Contrast", "saturation": "Saturation", "hue": "Hue"}
_OF_POLICIES = (
    *("Affine", "Autocontrast", "Brightness", "Contrast", "Equalize", "Invert", "Posterize", "Rotate", "Saturation"),
    *("Sharpness", "Solarize"),
)
# By transform, the operations of the core that it may become.
_OPERATIONS: dict[str, tuple[str, ...]] = {
    "AutoAugment": _OF_POLICIES,
    "ColorJitter": tuple(_JITTERED.values()),
    "Grayscale": ("Grayscale",),
    "RGB": (),
    "RandAugment": _OF_POLICIES,
    "RandomAdjustSharpness": ("Sharpness",),
    "RandomAffine": ("Affine",),
    "RandomAutocontrast": ("Autocontrast",),
    "RandomChannelPermutation": (),
    "RandomEqualize": ("Equalize",),
    "RandomGrayscale": ("Grayscale",),
    "RandomInvert": ("Invert",),
    "RandomPhotometricDistort": tuple(_JITTERED.values()),
    "RandomPosterize": ("Posterize",),
    "RandomRotation": ("Rotate",),
    "RandomSolarize": ("Solarize",),
    "TrivialAugmentWide": _OF_POLICIES,
}
PILLOW_STEPS = tuple(_OPERATIONS)
_POLICIES = ("AutoAugment", "RandAugment", "TrivialAugmentWide")
_TURNS = (*_POLICIES, "RandomAffine", "RandomRotation")
# More than any sensible change of an image, and far below the limits of float32.
_MOST = 1e6


class PillowStep(NamedTuple):
    """A transform of a Pillow image.

    Attributes:
        native: the transform as a list for the core.
        channels: the number of channels after it.
    """

    native: list[Any]
    channels: int


def pillow_step(step: Any, channels: int, *, is_v1: bool) -> PillowStep:
    """Return the core's equivalent of `step`, one of `PILLOW_STEPS`.

    Args:
        step: a transform of torchvision's.
        channels: of the Pillow image that it is called with: 1 or 3.
        is_v1: True for `torchvision.transforms`, False for `torchvision.transforms.v2`.

    Raises:
        NotRecognizedError: the core can't do it to the last bit.
    """
    name, version = type(step).__name__, "v1" if is_v1 else "v2"
    check_arithmetic(_OPERATIONS[name], version)
    if name in _TURNS:
        check_fill_kept(step)
        _check_fill(step.fill, channels)
    if name == "Grayscale":
        channels = step.num_output_channels
        if channels not in (1, 3):
            raise NotRecognizedError(f"num_output_channels is {channels!r}")
        spec: Any = [{name: {"num_output_channels": channels}}]
    elif name == "RGB":
        spec, channels = ["RGB"], 3
    elif name == "RandomPhotometricDistort":
        ranges = {each: _range(getattr(step, each), each) for each in _JITTERED}
        if None in ranges.values():
            raise NotRecognizedError("a range is None")
        spec = [{name: {**ranges, "p": float(step.p)}}]
    elif name == "ColorJitter":
        spec = [{name: {each: _range(getattr(step, each), each) for each in _JITTERED}}]
    elif name in _POLICIES:
        spec = _policy(step, name)
    else:
        _check_strength(step, name)
        spec = own_of(step, is_pillow=False).spec()
    return PillowStep([{"OfPillow": {"version": version, "transforms": spec}}], channels)


def _range(value: Any, name: str) -> list[float] | None:
    if value is None:
        return None
    least, most = value
    if not (_is_number(least) and _is_number(most) and -_MOST <= least <= most <= _MOST):
        raise NotRecognizedError(f"{name} is {value!r}, not a range of plain numbers")
    return [float(least), float(most)]


def _policy(step: Any, name: str) -> Any:
    """Return the policy, which torchvision's v1 transforms draw differently: the core knows both ways."""
    warp = {"interpolation": step.interpolation, "fill": step.fill}
    if name == "AutoAugment":
        policies = vars(step).get("policies", vars(step).get("_policies"))
        if policies != step._get_policies(step.policy):
            raise NotRecognizedError("its policies were replaced")
        return augment.AutoAugment(step.policy, **warp).spec()
    bins = step.num_magnitude_bins
    if type(bins) is not int or bins < 2:
        raise NotRecognizedError(f"num_magnitude_bins is {bins!r}, not an integer of at least 2")
    if name == "TrivialAugmentWide":
        return augment.TrivialAugmentWide(bins, **warp).spec()
    if type(step.num_ops) is not int or type(step.magnitude) is not int:
        raise NotRecognizedError("num_ops and magnitude are not integers")
    return augment.RandAugment(step.num_ops, step.magnitude, bins, **warp).spec()


def _check_strength(step: Any, name: str) -> None:
    if name == "RandomPosterize" and not (type(step.bits) is int and 1 <= step.bits <= 8):
        raise NotRecognizedError(f"bits is {step.bits!r}, not an integer from 1 to 8")
    if name == "RandomSolarize" and not _is_number(step.threshold):
        raise NotRecognizedError(f"threshold is {step.threshold!r}, not a plain number")
    if name == "RandomAdjustSharpness" and not (_is_number(step.sharpness_factor) and step.sharpness_factor <= _MOST):
        raise NotRecognizedError(f"sharpness_factor is {step.sharpness_factor!r}, not a plain number")


def _check_fill(fill: Any, channels: int) -> None:
    if fill is None:
        return
    values = list(fill) if isinstance(fill, (list, tuple)) else [fill]
    if len(values) not in (1, channels) or not all(_is_number(each) and each in range(256) for each in values):
        raise NotRecognizedError(f"fill={fill!r}: only whole numbers from 0 to 255 are recognized")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
