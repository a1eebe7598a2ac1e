"""`FiveCrop` and `TenCrop`: several parts of one image, for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .arguments import size_of
from .leaves import flatten, kind_of, tensor_of, wrapped
from .transform import Transform


class FiveCrop(Transform):
    """Cut out the four corners of the image and its center: a tuple of five images.

    The core makes one image from one, so this is called with the result of the earlier transforms in Rust. A loader's
    batch then has a list of five tensors (batch, channels, height, width). With `torch.stack` as the next transform it
    has one tensor (batch, 5, channels, height, width).

    Args:
        size: (height, width) of a part in pixels, or a number for squares.

    Raises:
        TypeError: when called, boxes, masks or key points in the sample.
        ValueError: when called, an image that is smaller than `size`.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> parts = transforms.FiveCrop(4)(torch.zeros(3, 9, 9, dtype=torch.uint8))
        >>> torch.stack(parts).shape
        torch.Size([5, 3, 4, 4])
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = size_of(size)

    def spec(self) -> None:
        """Return None: the core makes one image from one."""
        return

    def fuses(self, is_first: bool) -> bool:
        """Return False: the result is several images."""
        return False

    def __call__(self, *inputs: Any) -> Any:
        """Apply the transform to the sample."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        if any(kind_of(leaf) in ("BoundingBoxes", "Mask", "KeyPoints") for leaf in flatten(sample)):
            name = type(self).__name__
            raise TypeError(f"{name}: expected only images, but got boxes, masks or key points in the sample")
        return self._of_images(sample, self._cut)

    def _cut(self, leaf: Any, kind: str) -> tuple[Any, ...]:
        image = tensor_of(leaf) if kind == "array" else leaf.as_subclass(torch.Tensor)
        parts = self._parts(image)
        if kind == "array":
            arrays = [part.permute(1, 2, 0).numpy() for part in parts]
            return tuple(array[:, :, 0] if leaf.ndim == 2 else array for array in arrays)
        return tuple(wrapped(part, leaf) if kind in ("Image", "Video") else part for part in parts)

    def _parts(self, image: torch.Tensor) -> list[torch.Tensor]:
        (height, width), (rows, columns) = self.size, image.shape[-2:]
        if height > rows or width > columns:
            raise ValueError(
                f"size: expected at most the size of the image, {rows} x {columns}, but got {height} x {width}; resize "
                "the image first"
            )
        top, left = rows - height, columns - width
        middle = round(top / 2), round(left / 2)
        corners = [(0, 0), (0, left), (top, 0), (top, left), middle]
        return [image[..., y : y + height, x : x + width] for y, x in corners]


class TenCrop(FiveCrop):
    """Cut out the parts of `FiveCrop`, and those of the flipped image: a tuple of ten images.

    Args:
        size: (height, width) of a part in pixels, or a number for squares.
        vertical_flip: True to flip vertically, False (default) horizontally.

    Raises:
        TypeError, ValueError: as for `FiveCrop`.

    Examples:
        >>> import torch
        >>> from sluicegate import transforms
        >>> len(transforms.TenCrop(4)(torch.zeros(3, 9, 9, dtype=torch.uint8)))
        10
    """

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def _parts(self, image: torch.Tensor) -> list[torch.Tensor]:
        flipped = image.flip(-2 if self.vertical_flip else -1)
        return super()._parts(image) + super()._parts(flipped)
