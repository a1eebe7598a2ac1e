"""Transforms that resize to a size that is drawn: `RandomResize`, `RandomShortestSize`, and `ScaleJitter`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .arguments import antialias_of, interpolation_of, pair
from .transform import Transform


class _RandomSize(Transform):
    """A transform that resizes the whole image, with boxes and masks."""

    interpolation: Any
    antialias: bool | None

    def _resampling(self) -> dict[str, Any]:
        name = interpolation_of(self.interpolation)
        return {"interpolation": name, "antialias": antialias_of(name, self.antialias)}


class RandomResize(_RandomSize):
    """Resize the whole image to a random length of the shorter edge.

    On float images, values differ from torchvision's by up to 2e-5.

    Args:
        min_size: the minimum length of the shorter edge, in pixels.
        max_size: one more than the maximum length, in pixels; it is never drawn itself, as in torchvision.
        interpolation, antialias: as for `Resize`.

    Raises:
        ValueError: `min_size` is not positive, `max_size` is not greater, or an unknown interpolation.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> _ = torch.manual_seed(0)
        >>> transforms.RandomResize(20, 30)(torch.zeros(3, 50, 100, dtype=torch.uint8)).shape
        torch.Size([3, 24, 48])
    """

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        self.min_size = min_size
        self.max_size = max_size
        self.interpolation = interpolation
        self.antialias = antialias
        self.spec()

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        least, most = operator.index(self.min_size), operator.index(self.max_size)
        if not 0 < least < most:
            raise ValueError(
                f"max_size: expected more than min_size, which must be positive, "
                f"but got min_size {least} and max_size {most}; max_size itself is never drawn"
            )
        return [{"RandomResize": {"min_size": least, "max_size": most, **self._resampling()}}]


class RandomShortestSize(_RandomSize):
    """Resize the whole image to a length of the shorter edge that is drawn from a list.

    On float images, values differ from torchvision's by up to 2e-5.

    Args:
        min_size: the lengths of the shorter edge to choose from, in pixels, or the only one.
        max_size: the longer edge does not exceed this length, in pixels; None (the default) sets no limit.
        interpolation, antialias: as for `Resize`.

    Raises:
        ValueError: no length, or a length that is not positive; an unknown interpolation.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomShortestSize([20], max_size=30)(torch.zeros(3, 50, 100, dtype=torch.uint8)).shape
        torch.Size([3, 15, 30])
    """

    def __init__(
        self,
        min_size: Sequence[int] | int,
        max_size: int | None = None,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size
        self.interpolation = interpolation
        self.antialias = antialias
        self.spec()

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        lengths = [operator.index(each) for each in self.min_size]
        if not lengths or min(lengths) <= 0:
            raise ValueError(f"min_size: expected at least one positive length, but got {self.min_size!r}")
        longest = None if self.max_size is None else operator.index(self.max_size)
        if longest is not None and longest <= 0:
            raise ValueError(f"max_size: expected a positive length or None, but got {longest}")
        return [{"RandomShortestSize": {"min_size": lengths, "max_size": longest, **self._resampling()}}]


class ScaleJitter(_RandomSize):
    """Resize the whole image: fit it into `target_size`, times a random scale.

    On float images, values differ from torchvision's by up to 2e-5.

    Source: Ghiasi et al., "Simple copy-paste is a strong data augmentation method for instance segmentation", CVPR
    2021.

    Args:
        target_size: (width, height) in pixels that a scale of 1 fits the image into; in this order, as in torchvision.
        scale_range: the (min, max) scale.
        interpolation, antialias: as for `Resize`.

    Raises:
        ValueError: a scale that is not positive; an unknown interpolation; when called, an image that would
            have no pixels.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> jitter = transforms.ScaleJitter((40, 40), scale_range=(0.5, 0.5))
        >>> jitter(torch.zeros(3, 50, 100, dtype=torch.uint8)).shape
        torch.Size([3, 10, 20])
    """

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        self.target_size = target_size
        self.scale_range = scale_range
        self.interpolation = interpolation
        self.antialias = antialias
        self.spec()

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        first, second = self.target_size
        target, scales = [operator.index(first), operator.index(second)], pair(self.scale_range)
        if min(target) <= 0:
            raise ValueError(f"target_size: expected two positive lengths, but got {self.target_size!r}")
        if not 0.0 < min(scales) <= max(scales) < float("inf"):
            raise ValueError(f"scale_range: expected positive numbers, but got {self.scale_range!r}")
        return [{"ScaleJitter": {"target_size": target, "scale_range": scales, **self._resampling()}}]
