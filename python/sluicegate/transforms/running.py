"""Transforms on samples: one draw for all images, boxes and masks of a sample, with pixels processed in Rust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sluicegate import _core

from .boxes import FORMATS, moved_boxes
from .by_torchvision import KEY_POINTS, PILLOW, by_torchvision
from .drawing import drawn
from .leaves import IMAGES, flatten, kind_of, tensor_of, to_transform, unflatten, wrapped
from .specification import as_json

_MEANT = (*IMAGES, "BoundingBoxes", "Mask")
_DTYPES = {torch.uint8: "uint8", torch.float32: "float32"}
_POLICIES = ("TrivialAugmentWide", "RandAugment", "AutoAugment", "AugMix")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def run(transforms: Sequence[Any], sample: Any) -> Any:
    """Return `sample` after these transforms, in one call of the core if the sample allows it."""
    if isinstance(sample, np.ndarray):
        return _array_of(run(transforms, tensor_of(sample)), sample.ndim)
    leaves = flatten(sample)
    kinds = [kind_of(leaf) for leaf in leaves]
    if "PIL" in kinds:
        for transform in transforms:
            sample = by_torchvision(transform, sample, PILLOW)
        return sample
    if "KeyPoints" in kinds:
        check_policies(as_json([transform.spec() for transform in transforms]))
        for transform in transforms:
            sample = by_torchvision(transform, sample, KEY_POINTS)
        return sample
    if "Video" in kinds and len(transforms) > 1:
        # Some of them ignore videos.
        for transform in transforms:
            sample = run([transform], sample)
        return sample
    chosen = to_transform(kinds, _MEANT)
    meant = [(leaf, str(kind)) for leaf, kind, is_chosen in zip(leaves, kinds, chosen, strict=True) if is_chosen]
    shape, dtype = _shape(meant)
    specs = [spec for transform in transforms for spec in transform.spec() or []]
    mask_specs = [spec for transform in transforms for spec in transform.mask_spec() or []]
    _check_normalize(specs, dtype)
    text = as_json(specs)
    if any(kind not in IMAGES for _, kind in meant):
        check_policies(text)
    for_images, for_masks = drawn(text, as_json(mask_specs), shape, dtype)
    if for_images == "[]":
        return unflatten(sample, iter(leaves))
    operations = _core.ImageOperations(for_images)
    on_masks = operations if for_masks == for_images else _core.ImageOperations(for_masks)
    passed = {kind for transform in transforms for kind in transform.passes}
    after = []
    for leaf, kind, is_chosen in zip(leaves, kinds, chosen, strict=True):
        if not is_chosen or kind in passed:
            after.append(leaf)
        elif kind == "BoundingBoxes":
            after.append(_boxes(leaf, operations))
        elif kind == "Mask":
            after.append(wrapped(_planes(leaf, on_masks.mask), leaf))
        else:
            image = _planes(leaf, operations.apply)
            after.append(image if kind == "tensor" else wrapped(image, leaf))
    return unflatten(sample, iter(after))


def _array_of(image: torch.Tensor, dimensions: int) -> np.ndarray[Any, Any]:
    """Return the array (height, width, channels) of a tensor, or (height, width) for a tensor of two dimensions."""
    array = image.permute(1, 2, 0).numpy()
    return array[:, :, 0] if dimensions == 2 and array.shape[2] == 1 else array


def _shape(meant: list[tuple[Any, str]]) -> tuple[tuple[int, int, int], str]:
    """Return channels, height and width of the transformed leaves, and their data type."""
    sizes, channels, dtypes = set(), set(), set()
    for leaf, kind in meant:
        if kind == "BoundingBoxes":
            sizes.add(tuple(leaf.canvas_size))
            continue
        if leaf.ndim < (2 if kind == "Mask" else 3):
            expected = "(..., height, width)" if kind == "Mask" else "(..., channels, height, width)"
            raise TypeError(f"expected a {kind} of shape {expected}, but got {tuple(leaf.shape)}")
        if leaf.device.type != "cpu":
            raise TypeError(f"expected an image on the CPU, but got one on {leaf.device}; move it first")
        sizes.add(tuple(leaf.shape[-2:]))
        if kind != "Mask":
            if leaf.dtype not in _DTYPES:
                raise TypeError(
                    f"expected an image of uint8 or float32, but got {leaf.dtype}; convert it with ToDtype first"
                )
            channels.add(leaf.shape[-3])
            dtypes.add(_DTYPES[leaf.dtype])
    if not sizes:
        raise TypeError("expected an image, mask or bounding box in the sample, but got none")
    for what, found in (("size", sizes), ("number of channels", channels), ("data type", dtypes)):
        if len(found) > 1:
            raise ValueError(
                f"expected the images, masks and boxes of a sample to have the same {what}, but got {found}"
            )
    (height, width), channel, dtype = sizes.pop(), channels or {3}, dtypes or {"uint8"}
    return (channel.pop(), height, width), dtype.pop()


def check_policies(transforms: str) -> None:
    """Raise TypeError if one of `transforms`, a list in JSON, does not move boxes, masks and key points."""
    found = next((name for name in _POLICIES if name in transforms), None)
    if found is not None:
        raise TypeError(f"{found}: expected only images, but got boxes, masks or key points in the sample")


def moved_mask(mask: Any, operations: _core.ImageOperations, size: tuple[int, int]) -> torch.Tensor:
    """Return the mask (..., height, width) of an image of this size after `operations`."""
    mask = torch.as_tensor(mask)
    if tuple(mask.shape[-2:]) != tuple(size):
        found, of = (" x ".join(map(str, reversed(each))) for each in (tuple(mask.shape[-2:]), tuple(size)))
        raise ValueError(f"the mask has {found} pixels, but its image has {of}")
    return _planes(mask, operations.mask)


def _check_normalize(specs: Sequence[Any], dtype: str) -> None:
    for spec in specs:
        name, arguments = next(iter(spec.items())) if isinstance(spec, dict) else (spec, {})
        if name == "ToDtype":
            dtype = arguments["dtype"]
        elif name == "Normalize" and dtype not in _FLOATS:
            raise TypeError(f"Normalize: expected an image of floats, but got {dtype}; put ToDtype before it")


def _planes(image: torch.Tensor, apply: Any) -> torch.Tensor:
    """Return the results of `apply` for each (planes, height, width), for any leading dimensions."""
    image = image.detach().as_subclass(torch.Tensor)
    if image.ndim == 2:
        return _planes(image[None], apply)[0]
    if image.ndim == 3:
        return _applied(image, apply)
    front = image.shape[:-3]
    each = [_applied(part, apply) for part in image.reshape(-1, *image.shape[-3:])]
    # Of no images, the result has the shape that it would have of one.
    stacked = torch.stack(each) if each else _applied(image.new_zeros(image.shape[-3:]), apply)[None][:0]
    return stacked.reshape(*front, *stacked.shape[1:])


def _applied(image: torch.Tensor, apply: Any) -> torch.Tensor:
    name = str(image.dtype).removeprefix("torch.")
    strides = tuple(step * image.element_size() for step in image.stride())
    result: torch.Tensor = apply(("image", name, image.data_ptr(), tuple(image.shape), strides, image))
    return result


def _boxes(boxes: Any, operations: _core.ImageOperations) -> torch.Tensor:
    form = boxes.format.name
    if form not in FORMATS:
        raise TypeError(f"expected bounding boxes of the format XYXY, XYWH or CXCYWH, but got {form}")
    is_clamped = getattr(boxes, "clamping_mode", "soft") is not None
    moved, canvas, _, _ = moved_boxes(boxes, form, operations, tuple(boxes.canvas_size), is_clamped)
    return wrapped(moved, boxes, canvas_size=tuple(canvas))
