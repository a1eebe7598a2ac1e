"""Bounding boxes that move as the pixels of their image do."""

from __future__ import annotations

from typing import Any

import torch

from sluicegate import _core

__all__ = ["FORMATS", "moved_boxes"]

# By torchvision's names: corners, a corner and the size, the middle and the size.
FORMATS = ("XYXY", "XYWH", "CXCYWH")


def moved_boxes(
    boxes: Any, form: str, operations: _core.ImageOperations, size: tuple[int, int], is_clamped: bool = True
) -> tuple[torch.Tensor, tuple[int, int]]:
    """The boxes (..., 4) of an image of this (height, width) behind `operations`, and its size then.

    Args:
        boxes: a tensor, or anything that `torch.as_tensor` takes; no box may be an empty list.
        form: what the four numbers are, one of `FORMATS`.
        operations: what was done to the image.
        size: its height and width before.
        is_clamped: whether boxes end where the image does.
    """
    plain = torch.as_tensor(boxes).detach().as_subclass(torch.Tensor)
    shape, dtype = plain.shape if plain.numel() else (0, 4), plain.dtype
    if shape[-1] != 4:
        raise ValueError(f"a box is four numbers, and these are of shape {tuple(shape)}")
    numbers = "float64" if dtype == torch.float64 else "float32" if dtype.is_floating_point else "integer"
    corners = _to_corners(plain.to(torch.float64).reshape(-1, 4), form)
    moved, canvas = operations.boxes(corners.tolist(), size, numbers, is_clamped)
    after = _from_corners(torch.tensor(moved, dtype=torch.float64).reshape(-1, 4), form)
    return after.to(dtype).reshape(shape), canvas


def _to_corners(boxes: torch.Tensor, form: str) -> torch.Tensor:
    if form == "XYXY":
        return boxes
    place, size = boxes[:, :2], boxes[:, 2:]
    start = place if form == "XYWH" else place - size / 2
    return torch.cat([start, start + size], 1)


def _from_corners(corners: torch.Tensor, form: str) -> torch.Tensor:
    if form == "XYXY":
        return corners
    start, size = corners[:, :2], corners[:, 2:] - corners[:, :2]
    return torch.cat([start if form == "XYWH" else start + size / 2, size], 1)
