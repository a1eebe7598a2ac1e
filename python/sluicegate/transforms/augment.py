"""Policies of augmentation: what is done to an image is drawn, and how strongly."""

from __future__ import annotations

from typing import Any

from .arguments import check_fill, fill_of, interpolation_of
from .transform import Transform

__all__ = ["AutoAugment", "RandAugment", "TrivialAugmentWide"]


class _Policy(Transform):
    """A policy of images alone; its warps have an interpolation and a fill."""

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
    """One of 14 operations, of a strength that is drawn.

    Source: Müller and Hutter, "TrivialAugment: tuning-free yet state-of-the-art data augmentation", ICCV 2021.

    Args:
        num_magnitude_bins: how many strengths there are.
        interpolation, fill: as of `RandomRotation`.
    """

    def __init__(self, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def spec(self) -> list[Any]:
        """The transform in words that the core knows."""
        return [{"TrivialAugmentWide": {"num_magnitude_bins": self.num_magnitude_bins, **self._warp()}}]


class RandAugment(_Policy):
    """`num_ops` of 14 operations, one after the other, of one strength.

    Source: Cubuk et al., "RandAugment: practical automated data augmentation with a reduced search space",
    NeurIPS 2020.

    Args:
        num_ops: how many.
        magnitude: which of the strengths, from 0.
        num_magnitude_bins: how many strengths there are.
        interpolation, fill: as of `RandomRotation`.
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
        """The transform in words that the core knows."""
        bins = self.num_magnitude_bins
        if not -bins <= self.magnitude < bins:
            raise IndexError(f"magnitude: expected one of {bins} strengths, from 0, but got {self.magnitude}")
        strength = {"magnitude": self.magnitude % bins, "num_magnitude_bins": bins}
        return [{"RandAugment": {"num_ops": self.num_ops, **strength, **self._warp()}}]


class AutoAugment(_Policy):
    """Two operations of a policy that was found for a data set.

    Source: Cubuk et al., "AutoAugment: learning augmentation strategies from data", CVPR 2019.

    Args:
        policy: "imagenet", "cifar10" or "svhn", or torchvision's `AutoAugmentPolicy`.
        interpolation, fill: as of `RandomRotation`.
    """

    def __init__(self, policy: Any = "imagenet", interpolation: Any = "nearest", fill: Any = None) -> None:
        super().__init__(interpolation, fill)
        if getattr(policy, "value", policy) not in ("imagenet", "cifar10", "svhn"):
            raise ValueError(f"policy: expected 'imagenet', 'cifar10' or 'svhn', but got {policy!r}")
        self.policy = policy

    def spec(self) -> list[Any]:
        """The transform in words that the core knows."""
        return [{"AutoAugment": {"policy": getattr(self.policy, "value", self.policy), **self._warp()}}]
