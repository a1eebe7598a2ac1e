"""Checks that a cache of images does not change samples."""

from __future__ import annotations

from typing import Any

from checks.equality import assert_same
from sluicegate import DataLoader, ImageField, TarDataset


def assert_same_from_cache(path: str, transform: Any) -> None:
    """Assert that two epochs of a shard of images, boxes, and labels are the same with and without a cache."""
    batches: list[Any] = []
    for cache in (None, "memory"):
        options: dict[str, Any] = {"boxes": "box", "box_fields": "label", "cache": cache, "exact": True}
        dataset = TarDataset(path, {"jpg": ImageField(transform, **options), "box": ["npy"], "label": ["npy"]})
        loader = DataLoader(dataset, batch_size=3, seed=1)
        for epoch in range(2):
            loader.set_epoch(epoch)
            batches.append(list(loader))
    assert_same(batches[2:], batches[:2])
