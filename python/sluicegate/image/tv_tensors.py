"""Tensors marked as in torchvision: an image, its boxes and its masks."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch


def tv_tensors(why: str) -> Any:
    """Return the module `torchvision.tv_tensors`.

    Raises:
        ModuleNotFoundError: torchvision is not installed; the message says `why` it is needed.
    """
    try:
        return importlib.import_module("torchvision.tv_tensors")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{why}: needs torchvision, which is not installed ({error})") from None


class Marks:
    """Marks the parts of a sample as `torchvision.tv_tensors`, which torchvision's transforms rely on.

    Args:
        why: what needs the marks, for the error if torchvision is missing.
        box_format: what the four numbers of boxes are.
        has_keypoints: True if there are key points to mark.

    Raises:
        ModuleNotFoundError: torchvision is not installed, or does not support key points.
    """

    def __init__(self, why: str, box_format: str, has_keypoints: bool = False) -> None:
        self._tensors = tv_tensors(why)
        self._box_format = box_format
        if has_keypoints and not hasattr(self._tensors, "KeyPoints"):
            raise ModuleNotFoundError(f"{why}: key points need torchvision 0.23 or newer; update it")

    def image(self, image: torch.Tensor) -> torch.Tensor:
        """Mark an image (channels, height, width)."""
        marked: torch.Tensor = self._tensors.Image(image)
        return marked

    def boxes(self, boxes: Any, size: tuple[int, int], form: str | None = None) -> Any:
        """Mark boxes (..., 4) in an image of this (height, width), in the format `form` if given; None stays None."""
        if boxes is None:
            return None
        plain = torch.as_tensor(boxes)
        plain = plain if plain.numel() else plain.reshape(0, 4)
        return self._tensors.BoundingBoxes(plain, format=form or self._box_format, canvas_size=tuple(size))

    def mask(self, mask: Any) -> Any:
        """Mark a mask (..., height, width); None stays None."""
        return None if mask is None else self._tensors.Mask(torch.as_tensor(mask))

    def keypoints(self, points: torch.Tensor | None, size: tuple[int, int]) -> Any:
        """Mark key points (..., 2) in an image of this (height, width); None stays None."""
        return None if points is None else self._tensors.KeyPoints(points, canvas_size=tuple(size))


def points_of(points: Any) -> torch.Tensor:
    """Return key points, given as a tensor, an array or lists, as a tensor of shape (..., 2).

    Raises:
        ValueError: they are not pairs of numbers.
    """
    plain = torch.as_tensor(points)
    plain = plain.reshape(0, 2) if plain.shape == (0,) else plain
    if plain.ndim < 2 or plain.shape[-1] != 2:
        raise ValueError(f"expected key points of shape (..., 2), pairs of x and y, but got shape {tuple(plain.shape)}")
    return plain


def without_mark(image: Any) -> Any:
    """Return a tensor that is marked as an image without the mark; return anything else unchanged."""
    tensors = sys.modules.get("torchvision.tv_tensors")
    return plain(image) if tensors is not None and isinstance(image, tensors.Image) else image


def plain(tensor: Any) -> Any:
    """Return `tensor` without a mark."""
    return tensor.as_subclass(torch.Tensor) if isinstance(tensor, torch.Tensor) else tensor
