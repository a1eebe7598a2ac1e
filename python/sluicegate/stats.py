"""`LoaderStats`: what a loader holds ahead of its consumer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from .engine import engine_of
from .epoch_iterator import EpochIterator
from .explanation import Explanation, explained

if TYPE_CHECKING:
    from .dataloader import DataLoader


@dataclass(frozen=True)
class LoaderStats:
    """What a `DataLoader` holds ahead, of all its iterators together; those of `class_loaders` are counted as one.

    Attributes:
        prefetch_bytes: the bound in force on what is ahead, in bytes.
        largest_batch_bytes: the size of the largest batch that workers have made; 0 before the first. As many batches
            are under way as fit into the bound if they are as large.
        batches_ahead: batches that are ready, and that nobody has received.
        bytes_ahead: their bytes; of batches that Python made in threads, those of their tensors, arrays and texts.
        bytes_ahead_high_water: the most that `bytes_ahead` ever was, since the loader had its workers: when another
            number of them, `prefetch_factor` or `prefetch_bytes` is set, it is counted anew.
        explanation: which engine reads, as `DataLoader.explain` says.

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


def stats_of(loader: DataLoader[Any]) -> LoaderStats:
    """What `loader` holds ahead now. Starts nothing and waits for nothing."""
    running = loader._iterator
    if isinstance(running, EpochIterator):
        running._count_ready()
    # Of the running epoch, should another number of workers have been set since it began.
    engine: _core.Engine | None = getattr(running, "_engine", None)
    ahead = (engine or engine_of(loader)).bytes_ahead
    return LoaderStats(ahead.bound, ahead.largest, ahead.batches, ahead.bytes, ahead.high_water, explained(loader))
