"""`LoaderStats`: what a loader has prefetched."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate import _core

from .explanation import Explanation


@dataclass(frozen=True)
class LoaderStats:
    """What a `DataLoader` has prefetched, over all its iterators; the loaders of `class_loaders` are counted together.

    Attributes:
        prefetch_bytes: the current limit on prefetched data, in bytes.
        largest_batch_bytes: the size of the largest batch made by workers; 0 before the first. The number of batches in
            flight is limited as if all were this large.
        batches_ahead: batches that are ready and not yet received.
        bytes_ahead: their size in bytes; for batches that Python made in threads, the size of their tensors, arrays and
            strings.
        bytes_ahead_high_water: the maximum of `bytes_ahead` since the loader got its workers. It restarts when
            `num_workers`, `prefetch_factor` or `prefetch_bytes` is changed.
        explanation: which engine reads, as `DataLoader.explain` returns it.

    Examples:
        >>> import torch
        >>> from sluicegate import DataLoader
        >>> loader = DataLoader(torch.zeros(64, 256), batch_size=8, num_workers=2, prefetch_bytes=20_000)
        >>> sum(len(batch) for batch in loader)
        64
        >>> stats = loader.stats()
        >>> stats.prefetch_bytes, stats.largest_batch_bytes, stats.batches_ahead, stats.bytes_ahead
        (20000, 8192, 0, 0)
        >>> stats.bytes_ahead_high_water <= stats.prefetch_bytes
        True
    """

    prefetch_bytes: int
    largest_batch_bytes: int
    batches_ahead: int
    bytes_ahead: int
    bytes_ahead_high_water: int
    explanation: Explanation


def stats_of(ahead: _core.BytesAhead, explanation: Explanation) -> LoaderStats:
    """Return the statistics of the batches that are `ahead` now."""
    return LoaderStats(ahead.bound, ahead.largest, ahead.batches, ahead.bytes, ahead.high_water, explanation)
