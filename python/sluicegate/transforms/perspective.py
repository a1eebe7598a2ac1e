"""`RandomPerspective`: the image as if seen from a different side."""

from __future__ import annotations

from typing import Any

from .arguments import check_fill, fill_of, interpolation_of
from .transform import FilledTransform, check_probability


class RandomPerspective(FilledTransform):
    """Show the image from a different side, with probability `p`: its corners move inward by random amounts.

    Args:
        distortion_scale: how far each corner may move, as a share of half the edges, 0 to 1.
        p: the probability, 0 to 1.
        interpolation, fill: as for `RandomRotation`.

    Raises:
        ValueError: `distortion_scale` or `p` is not from 0 to 1; an interpolation other than "nearest" and "bilinear".
        TypeError: an invalid `fill`.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.RandomPerspective(0.3, p=1.0)
        RandomPerspective(p=1.0, distortion_scale=0.3, interpolation=bilinear, fill=0)
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = "bilinear",
        fill: Any = 0,
    ) -> None:
        check_probability(p)
        # First, as in torchvision's repr.
        self.p = p
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        check_fill(fill)
        self.fill = fill
        self._spec("Image")

    def _spec(self, kind: str) -> list[Any]:
        if not 0.0 <= self.distortion_scale <= 1.0:
            raise ValueError(f"distortion_scale: expected a fraction from 0 to 1, but got {self.distortion_scale!r}")
        arguments = {
            "distortion_scale": float(self.distortion_scale),
            "p": float(self.p),
            "interpolation": interpolation_of(self.interpolation, warps=True),
            "fill": fill_of(self.fill, kind, []),
        }
        return [{"RandomPerspective": arguments}]
