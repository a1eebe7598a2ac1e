"""The leaves of a sample: the images, boxes, masks and other values in its dictionaries, lists and tuples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

# torchvision's names for its marked tensors.
MARKED = ("Image", "Video", "BoundingBoxes", "Mask", "KeyPoints")

# Kinds of leaves that are images.
IMAGES = ("Image", "Video", "tensor")


def flatten(sample: Any) -> list[Any]:
    """Return the leaves of dictionaries, lists and tuples (plain ones, and named), depth first, in order."""
    return [*_leaves(sample)]


def unflatten(sample: Any, leaves: Iterator[Any]) -> Any:
    """Return the structure of `sample` with `leaves`, in order."""
    kind = type(sample)
    if kind in (list, tuple):
        return kind(unflatten(part, leaves) for part in sample)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return kind(*[unflatten(part, leaves) for part in sample])
    if isinstance(sample, dict):
        filled = {key: unflatten(value, leaves) for key, value in sample.items()}
        if kind is dict:
            return filled
        copied = sample.copy()
        copied.update(filled)
        return copied
    return next(leaves)


def kind_of(leaf: Any) -> str | None:
    """Return the kind of `leaf`; None if it is neither an image nor a part of one.

    "Image", "Video", "BoundingBoxes", "Mask" or "KeyPoints", as torchvision marks tensors; "tensor" for one that is not
    marked; "PIL" for a Pillow image; "array" for a NumPy array.
    """
    if isinstance(leaf, torch.Tensor):
        marked = sys.modules.get("torchvision.tv_tensors")
        if marked is not None and isinstance(leaf, marked.TVTensor):
            return next((name for name in MARKED if isinstance(leaf, getattr(marked, name, ()))), None)
        return "tensor"
    if isinstance(leaf, np.ndarray):
        return "array"
    pillow = sys.modules.get("PIL.Image")
    return "PIL" if pillow is not None and isinstance(leaf, pillow.Image) else None


def to_transform(kinds: list[str | None], meant: tuple[str, ...]) -> list[bool]:
    """Return which leaves are transformed, of those that a transform is `meant` for.

    By torchvision's rule: of unmarked tensors only the first, and none if there is a marked image.
    """
    is_open = not any(kind in ("Image", "Video", "PIL") for kind in kinds)
    chosen = []
    for kind in kinds:
        is_chosen = kind in meant and (kind != "tensor" or is_open)
        if kind == "tensor" and is_chosen:
            is_open = False
        chosen.append(is_chosen)
    return chosen


def tensor_of(image: Any) -> torch.Tensor:
    """Return the tensor (channels, height, width) of a Pillow image or of an array (height, width, channels)."""
    array = np.array(image)
    if array.ndim == 2:
        array = array[:, :, None]
    return torch.from_numpy(array).permute(2, 0, 1).contiguous()


def marked_image(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor`, marked as torchvision's `tv_tensors.Image` if that is imported."""
    marked: Any = sys.modules.get("torchvision.tv_tensors")
    return tensor if marked is None else marked.Image(tensor)


def wrapped(tensor: torch.Tensor, like: Any, **marks: Any) -> torch.Tensor:
    """Return `tensor` with the marks of `like`."""
    tensors: Any = sys.modules["torchvision.tv_tensors"]
    wrap: Callable[..., torch.Tensor] = tensors.wrap
    return wrap(tensor, like=like, **marks)


def _leaves(sample: Any) -> Iterator[Any]:
    if type(sample) in (list, tuple) or (isinstance(sample, tuple) and hasattr(sample, "_fields")):
        for part in sample:
            yield from _leaves(part)
    elif isinstance(sample, dict):
        for part in sample.values():
            yield from _leaves(part)
    else:
        yield sample
