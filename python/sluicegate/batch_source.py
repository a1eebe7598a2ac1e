"""Which batches the core can make by itself: of samples that it reads, and of rows that it packs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _torch
from .dataset import Source, native_source
from .packed_source import PackedSource, packed_source

BatchSource = Source | PackedSource


def batch_source(
    dataset: Any, collate_fn: Callable[[Any], Any], *, in_worker: bool, seed: int | None = None
) -> BatchSource | None:
    """The batches that `collate_fn` makes of `dataset`, as the core makes them; None when that is for Python to do.

    Args:
        dataset: any map-style dataset.
        collate_fn: the loader's.
        in_worker: whether torch would collate in worker processes.
        seed: the loader's. Without one, random samples are Python's to draw, one after the other.
    """
    if _torch.collate_is_default(collate_fn):
        source = native_source(dataset, in_worker=in_worker)
        return None if source is not None and source.is_random and seed is None else source
    return packed_source(dataset, collate_fn)
