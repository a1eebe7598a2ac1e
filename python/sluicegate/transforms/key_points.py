"""Key points that move as the pixels of their image do."""

from __future__ import annotations

import torch

from sluicegate import _core

from .boxes import numbers_of


def moved_key_points(points: torch.Tensor, operations: _core.ImageOperations, size: tuple[int, int]) -> torch.Tensor:
    """Return the key points (..., 2), x and y, of an image of this (height, width) after `operations`.

    They keep their data type; points that leave the image have coordinates outside of it.

    Raises:
        ValueError: one of the operations does not move key points.
    """
    plain = points.detach().as_subclass(torch.Tensor)
    before = plain.to(torch.float64).reshape(-1, 2).tolist()
    moved = torch.tensor(operations.key_points(before, size, numbers_of(plain.dtype)), dtype=torch.float64)
    return moved.to(plain.dtype).reshape(plain.shape)
