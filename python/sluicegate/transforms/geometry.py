"""Transforms that move pixels: sizes, crops, flips and padding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .arguments import (
    antialias_of,
    check_fill,
    check_padding,
    check_padding_mode,
    check_sequence,
    fill_of,
    interpolation_of,
    padding_of,
    pair,
    size_of,
)
from .transform import FilledTransform, OptionalTransform, Transform, check_probability


class Resize(Transform):
    """Resize the whole image.

    On float images, values differ from torchvision's by up to 2e-5.

    Args:
        size: (height, width) in pixels; one number, or a sequence of one: the length of the shorter edge, the other in
            proportion; None: `max_size` determines it.
        interpolation: "bilinear", "bicubic", "nearest", "nearest-exact", "lanczos", "box" or "hamming"; torchvision's
            `InterpolationMode`; or Pillow's constant.
        max_size: the limit of the longer edge; its length if `size` is None.
        antialias: True to average all pixels when shrinking; only for bilinear, bicubic and lanczos, and required by
            lanczos. None is False.

    Raises:
        ValueError: an invalid size or interpolation, or arguments that exclude each other.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.Resize(256)(torch.zeros(3, 512, 768, dtype=torch.uint8)).shape
        torch.Size([3, 256, 384])
    """

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        if isinstance(size, int):
            size = [size]
        elif isinstance(size, Sequence) and len(size) in (1, 2):
            size = list(size)
        elif size is not None:
            raise ValueError(f"size: expected a number, a sequence of one or two, or None, but got {size!r}")
        if size is None and not isinstance(max_size, int):
            raise ValueError(f"max_size: expected an integer where size is None, but got {max_size!r}")
        if max_size is not None and size is not None and (len(size) == 2 or max_size <= size[0]):
            raise ValueError(
                f"max_size: expected a number above size, the length of the shorter edge, but got {max_size!r} with "
                f"size {size!r}"
            )
        antialias_of(interpolation_of(interpolation), antialias)
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        to: dict[str, Any]
        if self.size is None:
            to = {"longer": self.max_size}
        elif len(self.size) == 1:
            to = {"shorter": {"length": self.size[0], "max_size": self.max_size}}
        else:
            to = {"exact": list(self.size)}
        name = interpolation_of(self.interpolation)
        return [{"Resize": {"size": to, "interpolation": name, "antialias": antialias_of(name, self.antialias)}}]


class CenterCrop(Transform):
    """Cut out the center; a smaller image gets a black border.

    Args:
        size: (height, width) in pixels, or a number for a square.

    Raises:
        ValueError: `size` is not a number or a pair.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.CenterCrop(2)(torch.arange(16, dtype=torch.uint8).reshape(1, 4, 4)).tolist()
        [[[5, 6], [9, 10]]]
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = size_of(size)

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return [{"CenterCrop": {"size": list(self.size)}}]


class RandomCrop(FilledTransform):
    """Cut out a part of the image at a random place.

    Args:
        size: (height, width) in pixels, or a number for a square.
        padding: applied to the image first: a number, (horizontal, vertical), or (left, top, right, bottom).
        pad_if_needed: True to pad an image that is too small, on both sides, to the size.
        fill: the color of the padding: a number, one for each channel, or a dictionary of these by tensor type.
        padding_mode: "constant", "edge", "reflect" or "symmetric", as for `Pad`.

    Raises:
        ValueError: an invalid size, padding or mode; when called, the image is too small, and `pad_if_needed` is False.
        TypeError: an invalid `fill`.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomCrop(32, padding=4)(torch.zeros(3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([3, 32, 32])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        self.size = size_of(size)
        if padding is not None:
            check_padding(padding)
        check_padding_mode(padding_mode)
        check_fill(fill)
        # Left, right, top, bottom, like torchvision's attribute.
        self.padding: list[int] | None = None
        if padding:
            left, top, right, bottom = padding_of(padding)
            self.padding = [left, right, top, bottom]
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments that make an equal transform, by name."""
        return {**super().arguments(), "padding": self._sides()}

    def _sides(self) -> list[int] | None:
        """Return left, top, right, bottom: the order of the argument, which differs from that of the attribute."""
        if self.padding is None:
            return None
        left, right, top, bottom = self.padding
        return [left, top, right, bottom]

    def _spec(self, kind: str) -> list[Any]:
        arguments = {
            "size": list(self.size),
            "padding": self._sides(),
            "small_image": "padded" if self.pad_if_needed else "refused",
            "fill": fill_of(self.fill, kind, [0.0]),
            "padding_mode": self.padding_mode,
        }
        return [{"RandomCrop": arguments}]


class RandomResizedCrop(Transform):
    """Cut out a part of random area and aspect ratio, and resize it.

    On float images, values differ from torchvision's by up to 2e-5.

    Args:
        size: (height, width) of the result in pixels, or a number for a square.
        scale: the (min, max) share of the image's area.
        ratio: the (min, max) aspect ratio, width / height.
        interpolation, antialias: as for `Resize`.

    Raises:
        TypeError: `scale` or `ratio` is not a pair.
        ValueError: an invalid size or interpolation.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomResizedCrop(224)(torch.zeros(3, 300, 400, dtype=torch.uint8)).shape
        torch.Size([3, 224, 224])
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        self.size = size_of(size)
        for name, values in (("scale", scale), ("ratio", ratio)):
            if not isinstance(values, Sequence) or len(values) != 2:
                raise TypeError(f"{name}: expected a pair of numbers, but got {values!r}")
            if values[0] > values[1]:
                warnings.warn(f"{name}: expected (min, max), but got {values!r}", stacklevel=2)
        antialias_of(interpolation_of(interpolation), antialias)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        name = interpolation_of(self.interpolation)
        arguments = {
            "size": list(self.size),
            "scale": pair(self.scale),
            "ratio": pair(self.ratio),
            "interpolation": name,
            "antialias": antialias_of(name, self.antialias),
        }
        return [{"RandomResizedCrop": arguments}]


class RandomHorizontalFlip(OptionalTransform):
    """Flip the image horizontally, with probability `p`.

    Args:
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomHorizontalFlip(p=1.0)(torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)).tolist()
        [[[2, 1], [4, 3]]]
    """


class RandomVerticalFlip(OptionalTransform):
    """Flip the image vertically, with probability `p`.

    Args:
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomVerticalFlip(p=1.0)(torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)).tolist()
        [[[3, 4], [1, 2]]]
    """


class Pad(FilledTransform):
    """Add rows and columns around the image.

    Args:
        padding: a number, (horizontal, vertical), or (left, top, right, bottom), in pixels; negative numbers crop.
        fill: the color of "constant": a number, one for each channel, or a dictionary of these by tensor type.
        padding_mode: "constant"; "edge": repeats the pixel at the edge; "reflect": mirrors the image without repeating
            the pixel at the edge; "symmetric": mirrors it with that pixel.

    Raises:
        ValueError: an invalid padding or mode; when called, nothing would be left of the image, or it is too small to
            be mirrored.
        TypeError: an invalid `fill`.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.Pad((1, 0), fill=9)(torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)).tolist()
        [[[9, 1, 2, 9], [9, 3, 4, 9]]]
    """

    def __init__(self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> None:
        check_padding(padding)
        check_padding_mode(padding_mode)
        check_fill(fill)
        self.padding = padding if isinstance(padding, int) else list(padding)
        self.fill = fill
        self.padding_mode = padding_mode

    def _spec(self, kind: str) -> list[Any]:
        fill = fill_of(self.fill, kind, [0.0])
        return [{"Pad": {"padding": padding_of(self.padding), "fill": fill, "padding_mode": self.padding_mode}}]


class RandomZoomOut(FilledTransform):
    """Place the image at random in a larger one, with probability `p`, so that objects become smaller.

    Source: Liu et al., "SSD: Single shot multibox detector", ECCV 2016.

    Args:
        fill: the color around it: a number, one for each channel, or a dictionary of these by tensor type.
        side_range: the (min, max) factor by which edges become longer, at least 1.
        p: the probability, 0 to 1.

    Raises:
        TypeError: `side_range` is not a sequence, or `fill` is invalid.
        ValueError: `side_range` is not a pair of ascending numbers of at least 1, or `p` is not a probability.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.RandomZoomOut(fill=127, side_range=(1.0, 2.0))
        RandomZoomOut(p=0.5, fill=127, side_range=(1.0, 2.0))
    """

    def __init__(self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5) -> None:
        check_probability(p)
        check_fill(fill)
        check_sequence(side_range, "side_range", (2,))
        if side_range[0] < 1.0 or side_range[0] > side_range[1]:
            raise ValueError(f"side_range: expected (min, max), both at least 1, got {side_range!r}")
        self.p = p
        self.fill = fill
        self.side_range = side_range

    def _spec(self, kind: str) -> list[Any]:
        fill = fill_of(self.fill, kind, [0.0])
        return [{"RandomZoomOut": {"fill": fill, "side_range": pair(self.side_range), "p": float(self.p)}}]
