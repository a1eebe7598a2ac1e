"""Transforms of values: data type, scale, blur, and erasing."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from typing import Any

from .arguments import pair, size_of
from .transform import OptionalTransform, Transform


class Normalize(Transform):
    """Normalize each channel of a float image: (value - mean) / std.

    Args:
        mean, std: one number for each channel, or one for all. A gray image with several numbers gets that many
            channels.
        inplace: accepted for torchvision's signature and ignored; the result is always a new tensor.

    Raises:
        TypeError: when called, an image that is not of floats.
        ValueError: when called, a deviation of 0.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> transforms.Normalize([0.5], [0.25])(torch.tensor([[[0.25, 0.5, 1.0]]]))
        tensor([[[-1.,  0.,  2.]]])
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        self.mean = list(mean)
        self.std = list(std)
        self.inplace = inplace

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        mean, std = ([float(value) for value in values] for values in (self.mean, self.std))
        if not all(std):
            raise ValueError(f"std: expected deviations other than 0, but got {self.std!r}")
        return [{"Normalize": {"mean": mean, "std": std}}]


class GaussianBlur(Transform):
    """Blur the image with a Gaussian of random standard deviation.

    On float images, values differ from torchvision's by up to 1e-6.

    Args:
        kernel_size: odd numbers of pixels (horizontal, vertical), or one for both.
        sigma: the (min, max) standard deviation in pixels, or a fixed one.

    Raises:
        ValueError: a size that is not odd and positive, or a deviation that is not positive.
        TypeError: `sigma` is neither a number nor a sequence.

    Examples:
        >>> from sluicegate import transforms
        >>> transforms.GaussianBlur(3, sigma=(0.5, 1.0))
        GaussianBlur(kernel_size=(3, 3), sigma=[0.5, 1.0])
    """

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        self.kernel_size = size_of(kernel_size, "kernel_size")
        if not all(size > 0 and size % 2 == 1 for size in self.kernel_size):
            raise ValueError(f"kernel_size: expected odd positive numbers, but got {kernel_size!r}")
        self.sigma = _deviations(sigma)
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma: expected positive deviations (min, max), but got {sigma!r}")

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        return [{"GaussianBlur": {"kernel_size": list(self.kernel_size), "sigma": self.sigma}}]


def _deviations(sigma: Any) -> list[float]:
    if isinstance(sigma, (int, float)):
        return [float(sigma)] * 2
    if not isinstance(sigma, Sequence):
        raise TypeError(f"sigma: expected a number or a sequence of them, but got {sigma!r}")
    if len(sigma) not in (1, 2) or not all(isinstance(each, (int, float)) for each in sigma):
        raise ValueError(f"sigma: expected one number or two, but got {sigma!r}")
    return [float(sigma[0]), float(sigma[-1])]


class RandomErasing(OptionalTransform):
    """Erase a rectangle of random area and aspect ratio, with probability `p`. Masks and boxes do not change.

    Source: Zhong et al., "Random erasing data augmentation", AAAI 2020.

    Args:
        p: the probability, 0 to 1.
        scale: the (min, max) share of the image's area.
        ratio: the (min, max) aspect ratio, height / width.
        value: the new value: a number, one for each channel, or "random" for values from a normal distribution.
        inplace: accepted for torchvision's signature and ignored; the result is always a new tensor.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: `p` is not a probability, a string other than "random", or a scale that is not from 0 to 1; when
            called, too few or too many values.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> _ = torch.manual_seed(0)
        >>> image = transforms.RandomErasing(p=1.0, scale=(0.25, 0.25), ratio=(1, 1), value=0.5)(torch.ones(1, 8, 8))
        >>> int((image == 0.5).sum())
        16
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0.0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p)
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError(f"value: expected a number, a sequence of them, or 'random', but got {value!r}")
        if isinstance(value, str) and value != "random":
            raise ValueError(f"value: expected a number, a sequence of them, or 'random', but got {value!r}")
        for name, values in (("scale", scale), ("ratio", ratio)):
            if not isinstance(values, Sequence):
                raise TypeError(f"{name}: expected a pair of numbers, but got {values!r}")
            if values[0] > values[1]:
                warnings.warn(f"{name}: expected (min, max), but got {values!r}", stacklevel=2)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError(f"scale: expected fractions from 0 to 1, but got {scale!r}")
        self.scale = scale
        self.ratio = ratio
        self.value = _color(value)
        self.inplace = inplace

    def arguments(self) -> dict[str, Any]:
        """Return the constructor arguments that make an equal transform, by name."""
        return {**super().arguments(), "value": "random" if self.value is None else self.value}

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        value: Any = "random" if self.value is None else {"color": self.value}
        ranges = {"scale": pair(self.scale), "ratio": pair(self.ratio)}
        return [{"RandomErasing": {"p": float(self.p), **ranges, "value": value}}]


def _color(value: Any) -> list[float] | None:
    """Return the color; None stands for random values."""
    if isinstance(value, str):
        return None
    values = value if isinstance(value, (tuple, list)) else [value]
    return [float(each) for each in values]
