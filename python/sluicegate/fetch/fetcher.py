"""`make_fetcher`: makes the fetcher of batches in Python, with torch's semantics.

The same fetchers run on the calling thread, in worker processes and in worker threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sluicegate import _torch
from sluicegate.rng.stream_seeding import Seeding
from sluicegate.state.place_state import PlaceState

from .map_fetcher import MapFetcher
from .stream_fetcher import StreamFetcher


def make_fetcher(
    kind: int,
    dataset: Any,
    auto_collation: bool,
    collate_fn: Callable[[Any], Any],
    drop_last: bool,
    sampler: str,
    seeding: Seeding | None = None,
    resumed: PlaceState | None = None,
    sample_id: Any = None,
    before: PlaceState | None = None,
    run: int = 1,
    reads_heads: bool = False,
) -> MapFetcher | StreamFetcher:
    """Return a fetcher for `dataset`; calls `iter()` of a stream.

    Args:
        kind: torch's kind of dataset, map-style or iterable-style.
        dataset: the dataset.
        auto_collation: whether a request is a batch of indices, or the index of one ready-made batch.
        collate_fn: makes a batch of samples.
        drop_last: whether a stream's last batch is left out if it is smaller.
        sampler: the name of the sampler, for messages.
        seeding: sets the generators for each sample.
        resumed: an earlier result of `place.state()` of such a fetcher, to resume from.
        sample_id: what identifies a sample: a function of it, or the name or position of a field.
        before: where the last epoch of a stream was left, if known.
        run: for a stream that the core reads, how many consecutive samples belong to one worker.
        reads_heads: True if the first transforms of image files may run in Rust: on a thread that alone draws from
            torch's default generator.
    """
    if kind == _torch.DatasetKind.Map:
        return MapFetcher(dataset, sampler, auto_collation, collate_fn, seeding, resumed, sample_id, reads_heads)
    return StreamFetcher(dataset, auto_collation, collate_fn, drop_last, seeding, resumed, sample_id, before, run)
