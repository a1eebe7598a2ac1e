"""Transforms of colors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .transform import OptionalTransform, Transform, check_probability

_Range = float | Sequence[float] | None


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    On float images, values differ from torchvision's by up to 1e-6.

    Args:
        brightness, contrast, saturation: the (min, max) factor, not negative, or a number x for (1 - x, 1 + x).
        hue: the (min, max) shift, from -0.5 to 0.5 of the color circle, or a number x for (-x, x).

    Raises:
        ValueError: a range exceeds these limits.
        TypeError: an argument is neither a number nor a pair.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.ColorJitter(brightness=0.4, hue=0.1)
        ColorJitter(brightness=(0.6, 1.4), hue=(-0.1, 0.1))
    """

    def __init__(
        self, brightness: _Range = None, contrast: _Range = None, saturation: _Range = None, hue: _Range = None
    ) -> None:
        self.brightness = _range(brightness, "brightness", 1.0, (0.0, float("inf")))
        self.contrast = _range(contrast, "contrast", 1.0, (0.0, float("inf")))
        self.saturation = _range(saturation, "saturation", 1.0, (0.0, float("inf")))
        self.hue = _range(hue, "hue", 0.0, (-0.5, 0.5))

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        names = ("brightness", "contrast", "saturation", "hue")
        return [{"ColorJitter": {name: getattr(self, name) for name in names}}]


def _range(value: Any, name: str, center: float, bounds: tuple[float, float]) -> tuple[float, float] | None:
    """Return the range of the factor; None if the factor changes nothing, and is not drawn."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"{name}: expected a number of at least 0, or a pair, but got {value!r}")
        least = center - value
        value = (max(least, 0.0) if center else least, center + value)
    elif not isinstance(value, Sequence) or len(value) != 2:
        raise TypeError(f"{name}: expected a number or a pair of them, but got {value!r}")
    least, most = float(value[0]), float(value[1])
    if not bounds[0] <= least <= most <= bounds[1]:
        raise ValueError(f"{name}: expected (min, max) within {bounds}, but got {value!r}")
    return None if least == most == center else (least, most)


class Grayscale(Transform):
    """Make the image gray. Videos do not change, as with torchvision.

    Args:
        num_output_channels: 1, or 3 for equal channels.

    Raises:
        ValueError: when called, `num_output_channels` is neither 1 nor 3, or the image has neither 1 nor 3 channels.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.Grayscale(3)(torch.tensor([[[10]], [[20]], [[30]]], dtype=torch.uint8)).tolist()
        [[[18]], [[18]], [[18]]]
    """

    passes: ClassVar[tuple[str, ...]] = ("Video",)

    def __init__(self, num_output_channels: int = 1) -> None:
        self.num_output_channels = num_output_channels

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return [{"Grayscale": {"num_output_channels": self.num_output_channels}}]


class RandomGrayscale(OptionalTransform):
    """Make the image gray with probability `p`; it keeps its number of channels.

    Videos do not change, as with torchvision.

    Args:
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability; when called, the image has neither 1 nor 3 channels.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomGrayscale(p=1.0)(torch.tensor([[[10]], [[20]], [[30]]], dtype=torch.uint8)).tolist()
        [[[18]], [[18]], [[18]]]
    """

    passes: ClassVar[tuple[str, ...]] = ("Video",)

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)


class RGB(Transform):
    """Repeat the channel of a gray image three times; other images and videos do not change, as with torchvision.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RGB()(torch.zeros(1, 5, 7, dtype=torch.uint8)).shape
        torch.Size([3, 5, 7])
    """

    passes: ClassVar[tuple[str, ...]] = ("Video",)

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return ["RGB"]


class RandomChannelPermutation(Transform):
    """Put the channels in random order.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> image = transforms.RandomChannelPermutation()(torch.tensor([[[10]], [[20]], [[30]]], dtype=torch.uint8))
        >>> sorted(image.flatten().tolist())
        [10, 20, 30]
    """

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return ["RandomChannelPermutation"]


class RandomPhotometricDistort(Transform):
    """Change brightness, contrast, saturation, hue and the order of the channels, each with probability `p`.

    On float images, values differ from torchvision's by up to 1e-6.

    Args:
        brightness, contrast, saturation: the (min, max) factor.
        hue: the (min, max) shift, from -0.5 to 0.5 of the color circle.
        p: the probability of each, 0 to 1.

    Raises:
        ValueError: `p` is not a probability; when called, a factor that was drawn exceeds its limits.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.RandomPhotometricDistort(hue=(-0.1, 0.1)).hue
        (-0.1, 0.1)
    """

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
    ) -> None:
        self.brightness = brightness
        self.contrast = contrast
        self.hue = hue
        self.saturation = saturation
        check_probability(p)
        self.p = p

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        names = ("brightness", "contrast", "saturation", "hue")
        ranges = {name: [float(each) for each in getattr(self, name)] for name in names}
        return [{"RandomPhotometricDistort": {**ranges, "p": float(self.p)}}]


class RandomInvert(OptionalTransform):
    """Invert each value (255 - value in uint8, 1 - value in floats), with probability `p`.

    Args:
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomInvert(p=1.0)(torch.tensor([[[0, 55, 255]]], dtype=torch.uint8)).tolist()
        [[[255, 200, 0]]]
    """


class RandomAutocontrast(OptionalTransform):
    """Stretch each channel to the whole range of values, with probability `p`.

    Args:
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomAutocontrast(p=1.0)(torch.tensor([[[0, 51, 85]]], dtype=torch.uint8)).tolist()
        [[[0, 153, 255]]]
    """


class RandomEqualize(OptionalTransform):
    """Equalize each channel's histogram, with probability `p`.

    On float images, a value between two of 256 levels may be rounded to a different one than with torchvision.

    Args:
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> image = torch.tensor([60, 70], dtype=torch.uint8).repeat(256).reshape(1, 16, 32)
        >>> transforms.RandomEqualize(p=1.0)(image).unique().tolist()
        [0, 255]
    """


class RandomPosterize(OptionalTransform):
    """Keep the upper `bits` bits of each value, with probability `p`.

    Args:
        bits: the number of bits, 0 to 8.
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability; when called, `bits` is out of range.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomPosterize(2, p=1.0)(torch.tensor([[[20, 100, 255]]], dtype=torch.uint8)).tolist()
        [[[0, 64, 192]]]
    """

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return [{"RandomPosterize": {"bits": self.bits, "p": float(self.p)}}]


class RandomSolarize(OptionalTransform):
    """Invert values that are at least `threshold`, with probability `p`.

    Args:
        threshold: the smallest value to invert, in the units of the image: up to 255 in uint8, up to 1.0 in floats.
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomSolarize(128, p=1.0)(torch.tensor([[[20, 128, 255]]], dtype=torch.uint8)).tolist()
        [[[20, 127, 0]]]
    """

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return [{"RandomSolarize": {"threshold": float(self.threshold), "p": float(self.p)}}]


class RandomAdjustSharpness(OptionalTransform):
    """Blur (a `sharpness_factor` below 1) or sharpen (above 1) the image, with probability `p`.

    On float images, values differ from torchvision's by up to 1e-6.

    Args:
        sharpness_factor: 0 blurs, 1 changes nothing, 2 sharpens; not negative.
        p: the probability, 0 to 1.

    Raises:
        ValueError: `p` is not a probability; when called, `sharpness_factor` is negative.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.RandomAdjustSharpness(2)
        RandomAdjustSharpness(p=0.5, sharpness_factor=2)
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        factor = float(self.sharpness_factor)
        return [{"RandomAdjustSharpness": {"sharpness_factor": factor, "p": float(self.p)}}]
