"""From transforms to operations: random values are drawn in Rust, from the generator that torchvision would use."""

from __future__ import annotations

import functools

import torch

from sluicegate import _core
from sluicegate.rng.global_generators import fastest_torch_access
from sluicegate.rng.sample import seeded_generators


@functools.lru_cache(maxsize=256)
def compiled(json: str) -> _core.ImageTransforms:
    """Return the transforms that a JSON list describes."""
    return _core.ImageTransforms(json)


def current_generator() -> torch.Generator:
    """Return the generator to draw from: torch's default, or that of the sample fetched by a loader with a seed."""
    generators = seeded_generators()
    return torch.default_generator if generators is None else generators.torch


def drawn(transforms: str, masks: str, shape: tuple[int, int, int], dtype: str) -> tuple[str, str]:
    """Return the operations on images of `shape` (channels, height, width) and their masks, drawn together, as JSON."""
    channels, height, width = shape
    for_images, for_masks = compiled(transforms), compiled(masks)
    if not for_images.is_random():
        operations = for_images.draw_json(height, width, channels, dtype, None)
        return operations, operations if masks == transforms else for_masks.draw_json(
            height, width, channels, dtype, None
        )
    generator = current_generator()
    access = fastest_torch_access(generator)
    if masks == transforms:
        operations = for_images.draw_json(height, width, channels, dtype, access)
        return operations, operations
    before = generator.get_state()
    on_masks = for_masks.draw_json(height, width, channels, dtype, access)
    generator.set_state(before)
    return for_images.draw_json(height, width, channels, dtype, access), on_masks
