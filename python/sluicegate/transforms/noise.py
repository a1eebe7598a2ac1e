"""`GaussianNoise`: a normal deviate for each value of an image."""

from __future__ import annotations

from typing import Any

import torch

from .drawing import current_generator
from .leaves import tensor_of, wrapped
from .transform import Transform


class GaussianNoise(Transform):
    """Add normally distributed noise to the values of a uint8 or float image. Boxes and masks do not change.

    torch draws in the order of the values in memory. A call does the same, for tensors of any strides; a dataset that
    runs the transform in Rust draws as torchvision does for a contiguous tensor (channels, height, width).

    Args:
        mean: the mean of the noise, as a share of the range from black to white: 1.0 is 255 in uint8.
        sigma: its standard deviation, in the same units.
        clip: True to clip sums to the range from black to white. Otherwise 256 wraps to 0 in uint8.

    Raises:
        ValueError: `sigma` is negative; when called, an image that is neither of uint8 nor of floats.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> _ = torch.manual_seed(0)
        >>> transforms.GaussianNoise(sigma=0.1)(torch.full((1, 1, 3), 100, dtype=torch.uint8))
        tensor([[[139,  93,  45]]], dtype=torch.uint8)
    """

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        self.mean = mean
        self.sigma = sigma
        self.clip = clip
        self.spec()

    def spec(self) -> list[Any]:
        """Return the transform as a list for the core."""
        if not self.sigma >= 0:
            raise ValueError(f"sigma: expected a deviation of at least 0, but got {self.sigma!r}")
        return [{"GaussianNoise": {"mean": float(self.mean), "sigma": float(self.sigma), "clip": bool(self.clip)}}]

    def fuses(self, is_first: bool) -> bool:
        """Return False: torch draws the deviates, in an order that depends on the tensor's strides."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        return self._of_images(inputs if len(inputs) > 1 else inputs[0], self._convert)

    def _convert(self, leaf: Any, kind: str) -> Any:
        if kind == "array":
            array = self._noisy(tensor_of(leaf)).permute(1, 2, 0).numpy()
            return array[:, :, 0] if leaf.ndim == 2 else array
        noisy = self._noisy(leaf.as_subclass(torch.Tensor))
        return wrapped(noisy, leaf) if kind in ("Image", "Video") else noisy

    def _noisy(self, image: torch.Tensor) -> torch.Tensor:
        is_float = image.is_floating_point()
        if not is_float and image.dtype != torch.uint8:
            raise ValueError(f"expected an image of uint8 or floats, but got {image.dtype}; convert it first")
        dtype = image.dtype if is_float else torch.float32
        deviates = torch.empty_like(image, dtype=dtype).normal_(generator=current_generator())
        if is_float:
            noisy = image + (self.mean + deviates * self.sigma)
            return noisy.clamp(0, 1) if self.clip else noisy
        sums = image + (self.mean * 255 + deviates * (self.sigma * 255)).to(torch.int16)
        return (sums.clamp(0, 255) if self.clip else sums).to(torch.uint8)
