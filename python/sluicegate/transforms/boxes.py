"""Bounding boxes that move as the pixels of their image do."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from sluicegate import _core

# By torchvision's names: two corners, a corner and the size, the center and the size.
FORMATS = ("XYXY", "XYWH", "CXCYWH")


class GivenBoxes(NamedTuple):
    """Boxes as the core takes them.

    Attributes:
        rows: four numbers each.
        form: the meaning of the four numbers, one of `FORMATS`.
        numbers: "float32", "float64" or "integer".
    """

    rows: list[list[float]]
    form: str
    numbers: str


class MovedBoxes(NamedTuple):
    """Boxes after the operations on their image.

    Attributes:
        boxes: (..., 4) numbers of the original data type.
        canvas: the height and width of the image.
        rows: the indices of the remaining boxes, if some may have been dropped.
        form: the meaning of the four numbers, one of `FORMATS`.
    """

    boxes: torch.Tensor
    canvas: tuple[int, int]
    rows: list[int] | None
    form: str


def given_boxes(boxes: Any, form: str) -> GivenBoxes:
    """Return boxes (..., 4), a tensor or anything that `torch.as_tensor` takes, as the core takes them.

    Raises:
        ValueError: they are not of shape (..., 4).
    """
    plain = torch.as_tensor(boxes).detach().as_subclass(torch.Tensor)
    shape = _shape(plain)
    if shape[-1] != 4:
        raise ValueError(f"expected boxes of shape (..., 4), but got shape {shape}")
    return GivenBoxes(plain.to(torch.float64).reshape(-1, 4).tolist(), form, numbers_of(plain.dtype))


def numbers_of(dtype: torch.dtype) -> str:
    """Return the core's name for numbers of this type: "float32", "float64" or "integer"."""
    return "float64" if dtype == torch.float64 else "float32" if dtype.is_floating_point else "integer"


def moved_boxes(
    boxes: Any, form: str, operations: _core.ImageOperations, size: tuple[int, int], is_clamped: bool = True
) -> MovedBoxes:
    """Return the boxes (..., 4) of an image of this (height, width) after `operations`.

    Args:
        boxes: a tensor, or anything that `torch.as_tensor` takes; no box may be an empty list.
        form: the meaning of the four numbers, one of `FORMATS`.
        operations: the operations on the image.
        size: its height and width before these.
        is_clamped: True if boxes are clamped to the image.

    Raises:
        ValueError: they are not of shape (..., 4), or some may be dropped and they are not of shape (n, 4).
    """
    plain = torch.as_tensor(boxes)
    given = given_boxes(plain, form)
    shape, dtype = _shape(plain), plain.dtype
    moved, canvas, rows, form = operations.boxes(given.rows, form, size, given.numbers, is_clamped)
    if rows is not None and len(shape) != 2:
        raise ValueError(f"expected boxes of shape (n, 4), because some may be dropped, but got shape {shape}")
    after = torch.tensor(moved, dtype=torch.float64).reshape(-1, 4)
    return MovedBoxes(after.to(dtype).reshape(shape if rows is None else (-1, 4)), canvas, rows, form)


def _shape(boxes: torch.Tensor) -> tuple[int, ...]:
    # For a list without boxes, torch makes a tensor of shape (0,).
    return tuple(boxes.shape) if boxes.numel() else (0, 4)
