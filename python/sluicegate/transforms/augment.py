"""Augmentation policies: which operations are applied to an image, and how strongly, is random."""

from __future__ import annotations

import operator
from typing import Any

from .arguments import check_fill, fill_of, interpolation_of
from .leaves import flatten, kind_of
from .transform import Transform


class _Policy(Transform):
    """A policy for images only; its warps have an interpolation and a fill."""

    def __init__(self, interpolation: Any, fill: Any) -> None:
        interpolation_of(interpolation, warps=True)
        self.interpolation = interpolation
        check_fill(fill)
        self.fill = fill

    def _warp(self) -> dict[str, Any]:
        return {
            "interpolation": interpolation_of(self.interpolation, warps=True),
            "fill": fill_of(self.fill, "Image", []),
        }


class TrivialAugmentWide(_Policy):
    """Apply one of 14 operations, with a random strength.

    On float images, values differ from torchvision's by up to 1e-6, and by up to one level of 256 where a histogram is
    equalized.

    Source: Müller and Hutter, "TrivialAugment: tuning-free yet state-of-the-art data augmentation", ICCV 2021.

    Args:
        num_magnitude_bins: the number of strengths.
        interpolation, fill: as for `RandomRotation`.

    Raises:
        ValueError: an interpolation other than "nearest" and "bilinear".
        TypeError: an invalid `fill`.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.TrivialAugmentWide()
        TrivialAugmentWide(interpolation=nearest, num_magnitude_bins=31)
    """

    def __init__(self, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return [{"TrivialAugmentWide": {"num_magnitude_bins": self.num_magnitude_bins, **self._warp()}}]


class RandAugment(_Policy):
    """Apply `num_ops` of 14 operations, one after another, with the same strength.

    On float images, values differ from torchvision's by up to 1e-6, and by up to one level of 256 where a histogram is
    equalized.

    Source: Cubuk et al., "RandAugment: practical automated data augmentation with a reduced search space",
    NeurIPS 2020.

    Args:
        num_ops: the number of operations.
        magnitude: the number of the strength, from 0.
        num_magnitude_bins: the number of strengths.
        interpolation, fill: as for `RandomRotation`.

    Raises:
        ValueError: `num_ops` is negative or not an integer; an interpolation other than "nearest" and "bilinear".
        TypeError: an invalid `fill`.
        IndexError: when called, `magnitude` is not one of the strengths.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.RandAugment(magnitude=5)
        RandAugment(interpolation=nearest, num_ops=2, magnitude=5, num_magnitude_bins=31)
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = "nearest",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        if not isinstance(num_ops, int) or num_ops < 0:
            raise ValueError(f"num_ops: expected an integer of at least 0, but got {num_ops!r}")
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        bins = self.num_magnitude_bins
        if not -bins <= self.magnitude < bins:
            raise IndexError(
                f"magnitude: expected an integer from 0 to {bins - 1}, below num_magnitude_bins, but got "
                f"{self.magnitude}"
            )
        strength = {"magnitude": self.magnitude % bins, "num_magnitude_bins": bins}
        return [{"RandAugment": {"num_ops": self.num_ops, **strength, **self._warp()}}]


class AutoAugment(_Policy):
    """Apply two operations of a policy that was learned for a data set.

    On float images, values differ from torchvision's by up to 1e-6, and by up to one level of 256 where a histogram is
    equalized.

    Source: Cubuk et al., "AutoAugment: learning augmentation strategies from data", CVPR 2019.

    Args:
        policy: "imagenet", "cifar10" or "svhn", or torchvision's `AutoAugmentPolicy`.
        interpolation, fill: as for `RandomRotation`.

    Raises:
        ValueError: an unknown policy; an interpolation other than "nearest" and "bilinear".
        TypeError: an invalid `fill`.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.AutoAugment("cifar10")
        AutoAugment(interpolation=nearest, policy=cifar10)
    """

    def __init__(self, policy: Any = "imagenet", interpolation: Any = "nearest", fill: Any = None) -> None:
        super().__init__(interpolation, fill)
        if getattr(policy, "value", policy) not in ("imagenet", "cifar10", "svhn"):
            raise ValueError(f"policy: expected 'imagenet', 'cifar10' or 'svhn', but got {policy!r}")
        self.policy = policy

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return [{"AutoAugment": {"policy": getattr(self.policy, "value", self.policy), **self._warp()}}]


class AugMix(_Policy):
    """Mix the image with the results of several chains of operations.

    On float images, values differ from torchvision's by up to 1e-6, and by up to one level of 256 where a histogram is
    equalized.

    Source: Hendrycks et al., "AugMix: a simple data processing method to improve robustness and uncertainty", ICLR
    2020.

    Args:
        severity: the maximum strength that may be drawn, from 1 to 10.
        mixture_width: the number of chains.
        chain_depth: the number of operations in a chain; if it is not positive, it is drawn from 1 to 3.
        alpha: the parameter of the Dirichlet distributions from which the weights are drawn.
        all_ops: True to include brightness, contrast, saturation and sharpness in the operations.
        interpolation, fill: as for `RandomRotation`.

    Raises:
        ValueError: `severity` is not from 1 to 10, `mixture_width` is below 1, or `alpha` is not positive.
        TypeError: when called, boxes, masks, or a stack of images, which torchvision mixes with different weights.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.AugMix(severity=5)
        AugMix(interpolation=bilinear, severity=5, mixture_width=3, chain_depth=-1, alpha=1.0, all_ops=True)
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = "bilinear",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops
        self.spec()

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        severity, width = operator.index(self.severity), operator.index(self.mixture_width)
        if not 1 <= severity <= 10:
            raise ValueError(f"severity: expected a strength from 1 to 10, but got {severity}")
        if width < 1:
            raise ValueError(f"mixture_width: expected at least one chain, but got {width}")
        if not 0.0 < self.alpha < float("inf"):
            raise ValueError(f"alpha: expected a positive number, but got {self.alpha!r}")
        arguments = {
            "severity": severity,
            "mixture_width": width,
            "chain_depth": operator.index(self.chain_depth),
            "alpha": float(self.alpha),
            "all_ops": bool(self.all_ops),
        }
        return [{"AugMix": {**arguments, **self._warp()}}]

    def fuses(self, is_first: bool) -> bool:
        """Return False: a stack of images must be refused."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        for leaf in flatten(inputs):
            if kind_of(leaf) in ("Image", "tensor") and leaf.ndim > 3:
                raise TypeError(f"AugMix: expected one image, but got a stack of shape {tuple(leaf.shape)}")
        return super().__call__(*inputs)
