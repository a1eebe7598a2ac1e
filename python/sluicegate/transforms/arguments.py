"""The meaning of arguments: sizes, padding, fills, interpolations and ranges, in torchvision's forms."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import torch

from .products import match_products

INTERPOLATIONS = ("nearest", "nearest-exact", "bilinear", "bicubic", "box", "hamming", "lanczos")
# Pillow's constants.
_BY_NUMBER = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


def size_of(size: Any, name: str = "size") -> Any:
    """Return `size` as a pair; one number, or a sequence of one, counts for both."""
    if isinstance(size, numbers.Number):
        length: Any = size
        return int(length), int(length)
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(f"{name}: expected a number or (height, width), but got {size!r}")
    return size


def interpolation_of(interpolation: Any, *, warps: bool = False) -> str:
    """Return the name of an interpolation given by name, as `InterpolationMode`, or as Pillow's constant.

    For a transform that `warps` images, it also makes warps match torch's on this machine.
    """
    if warps:
        match_products()
    name = getattr(interpolation, "value", interpolation)
    if isinstance(name, int):
        name = _BY_NUMBER.get(name)
    known = ("nearest", "bilinear") if warps else INTERPOLATIONS
    if name not in known:
        raise ValueError(f"interpolation: expected one of {', '.join(known)}, but got {interpolation!r}")
    return str(name)


def antialias_of(interpolation: str, antialias: bool | None) -> str:
    """Return "on" if the core filters, otherwise "off"."""
    if interpolation == "lanczos" and not antialias:
        raise ValueError(f"antialias: expected True with lanczos interpolation, but got {antialias!r}")
    return "on" if antialias else "off"


def check_padding(padding: Any) -> None:
    """Raise ValueError if `padding` is invalid."""
    is_one = isinstance(padding, int)
    if not is_one and not (
        isinstance(padding, (tuple, list))
        and len(padding) in (1, 2, 4)
        and all(isinstance(each, int) for each in padding)
    ):
        raise ValueError(f"padding: expected an integer, or a tuple or list of 1, 2 or 4, but got {padding!r}")


def check_padding_mode(mode: Any) -> None:
    """Raise ValueError if `mode` is invalid."""
    if mode not in PADDING_MODES:
        raise ValueError(f"padding_mode: expected one of {', '.join(PADDING_MODES)}, but got {mode!r}")


def padding_of(padding: Any) -> list[int]:
    """Return the padding as left, top, right, bottom."""
    if isinstance(padding, int):
        return [padding] * 4
    if len(padding) == 1:
        return [padding[0]] * 4
    return [padding[0], padding[1]] * 2 if len(padding) == 2 else list(padding)


def check_fill(fill: Any) -> None:
    """Raise TypeError if `fill` is invalid."""
    if isinstance(fill, dict):
        for each in fill.values():
            check_fill(each)
    elif fill is not None and not isinstance(fill, (numbers.Number, tuple, list)):
        raise TypeError(f"fill: expected a number, a tuple or list of them, a dict of these, or None, but got {fill!r}")


def fill_of(fill: Any, kind: str, nothing: list[float]) -> list[float]:
    """Return the values for "Image" or "Mask"; `nothing` for None.

    A dictionary has tensor types for keys, or "others". A value for torchvision's `Image` also applies to unmarked
    tensors, and the reverse.
    """
    if isinstance(fill, dict):
        by_name = {getattr(key, "__name__", key): value for key, value in fill.items()}
        names = (kind, torch.Tensor.__name__, "others") if kind == "Image" else (kind, "others")
        fill = next((by_name[name] for name in names if name in by_name), None)
    if fill is None:
        return nothing
    return [float(value) for value in fill] if isinstance(fill, (tuple, list)) else [float(fill)]


def check_sequence(values: Any, name: str, lengths: tuple[int, ...]) -> None:
    """Raise TypeError if `values` is not a sequence, ValueError if it has a different length."""
    expected = " or ".join(map(str, lengths))
    if not isinstance(values, Sequence):
        raise TypeError(f"{name}: expected a sequence of {expected} numbers, but got {values!r}")
    if len(values) not in lengths:
        raise ValueError(f"{name}: expected {expected} numbers, but got {values!r}")


def range_around_zero(value: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    """Return (-value, value), or the sequence `value`."""
    if isinstance(value, numbers.Real):
        if value < 0:
            raise ValueError(f"{name}: expected a number of at least 0, or a sequence, but got {value!r}")
        return [float(-value), float(value)]
    check_sequence(value, name, lengths)
    return [float(each) for each in value]


def pair(values: Any) -> list[float]:
    """Return two numbers as floats."""
    first, second = values
    return [float(first), float(second)]
