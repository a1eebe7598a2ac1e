"""The batches that the core can make by itself: of samples that it reads, rows that it packs, and lists it pads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sluicegate import _torch
from sluicegate.recognition.collated_source import CollatedSource, collated_source
from sluicegate.recognition.native_source import native_source
from sluicegate.recognition.source import Source

from .packed_source import PackedSource, packed_source

BatchSource = Source | PackedSource | CollatedSource


def batch_source(dataset: Any, collate_fn: Callable[[Any], Any], *, in_worker: bool) -> BatchSource | None:
    """Return the core's version of the batches that `collate_fn` makes of `dataset`; None if Python must make them.

    Args:
        dataset: any map-style dataset.
        collate_fn: the loader's.
        in_worker: True if torch would collate in worker processes.
    """
    if _torch.collate_is_default(collate_fn):
        return native_source(dataset, in_worker=in_worker)
    return packed_source(dataset, collate_fn) or collated_source(dataset, collate_fn, in_worker=in_worker)


def lacks_seed(source: BatchSource, seed: int | None) -> bool:
    """Return True if `source` is random in a way that only Python can draw for a loader without a `seed`."""
    return source.is_random and seed is None and not source.draws_in_order


def draws_from_seed(source: BatchSource, seed: int | None) -> bool:
    """Return True if a collate function draws from generators that a `seed` sets, which Python must do."""
    return seed is not None and source.draws_on_delivery


def lacks_order(source: BatchSource, seed: int | None, *, in_order: bool) -> bool:
    """Return True if a batch's draws could depend on one that fails only after they were delivered."""
    if in_order or seed is not None or not source.falls_back:
        return False
    return source.draws_in_order or source.draws_on_delivery
