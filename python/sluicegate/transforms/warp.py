"""Transforms that rotate and shear: `RandomRotation` and `RandomAffine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arguments import check_fill, check_sequence, fill_of, interpolation_of, pair, range_around_zero
from .transform import FilledTransform


class RandomRotation(FilledTransform):
    """Rotate the image counterclockwise by a random angle.

    Args:
        degrees: the (min, max) angle, or a number for (-degrees, degrees).
        interpolation: "nearest" or "bilinear"; torchvision's `InterpolationMode`; or Pillow's constant.
        expand: True to enlarge the frame to hold the whole rotated image; False to cut off its corners.
        center: the fixed point (x, y) of the rotation, in pixels from the upper left; by default the image's center.
        fill: the color of the area outside, as for `Pad`. None is also black, but pixels at the edge are blended with
            it once, not twice.

    Raises:
        ValueError: `degrees` is a negative number; an interpolation other than "nearest" and "bilinear"; a sequence of
            the wrong length.
        TypeError: `degrees`, `center` or `fill` has the wrong type.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomRotation((90, 90))(torch.tensor([[[1, 2], [3, 4]]], dtype=torch.uint8)).tolist()
        [[[2, 4], [1, 3]]]
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        self.degrees = range_around_zero(degrees, "degrees")
        interpolation_of(interpolation, warps=True)
        self.interpolation = interpolation
        self.expand = expand
        check_fill(fill)
        self.fill = fill
        if center is not None:
            check_sequence(center, "center", (2,))
        self.center = center

    def _spec(self, kind: str) -> list[Any]:
        arguments = {
            "degrees": self.degrees,
            "interpolation": interpolation_of(self.interpolation, warps=True),
            "frame": "expanded" if self.expand else "same",
            "center": None if self.center is None else pair(self.center),
            "fill": fill_of(self.fill, kind, []),
        }
        return [{"RandomRotation": arguments}]


class RandomAffine(FilledTransform):
    """Rotate, translate, scale and shear the image by random amounts.

    Args:
        degrees: the (min, max) angle, or a number for (-degrees, degrees).
        translate: the maximum translations, as shares of the image's width and height, 0 to 1.
        scale: the (min, max) scale.
        shear: the angles, in degrees: a number x for (-x, x); (min, max) along x; or (min x, max x, min y, max y).
        interpolation, fill, center: as for `RandomRotation`.

    Raises:
        ValueError: as for `RandomRotation`; a translation that is not from 0 to 1; a scale that is not positive.
        TypeError: an argument of the wrong type.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.RandomAffine(10, translate=(0.1, 0.2))
        RandomAffine(degrees=[-10.0, 10.0], translate=(0.1, 0.2), interpolation=nearest, fill=0)
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: Any = "nearest",
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        self.degrees = range_around_zero(degrees, "degrees")
        if translate is not None:
            check_sequence(translate, "translate", (2,))
            if not all(0.0 <= share <= 1.0 for share in translate):
                raise ValueError(f"translate: expected fractions from 0 to 1, but got {translate!r}")
        self.translate = translate
        if scale is not None:
            check_sequence(scale, "scale", (2,))
            if not all(each > 0 for each in scale):
                raise ValueError(f"scale: expected positive numbers, but got {scale!r}")
        self.scale = scale
        self.shear = None if shear is None else range_around_zero(shear, "shear", (2, 4))
        interpolation_of(interpolation, warps=True)
        self.interpolation = interpolation
        check_fill(fill)
        self.fill = fill
        if center is not None:
            check_sequence(center, "center", (2,))
        self.center = center

    def _spec(self, kind: str) -> list[Any]:
        shear = self.shear or []
        arguments = {
            "degrees": self.degrees,
            "translate": None if self.translate is None else pair(self.translate),
            "scale": None if self.scale is None else pair(self.scale),
            "shear": [shear[:2] or None, shear[2:] or None],
            "interpolation": interpolation_of(self.interpolation, warps=True),
            "fill": fill_of(self.fill, kind, []),
            "center": None if self.center is None else pair(self.center),
        }
        return [{"RandomAffine": arguments}]
