"""`make_fetcher`: makes the fetcher of batches in Python, with torch's semantics.

The same fetchers run on the calling thread, in worker processes and in worker threads.
"""

from __future__ import annotations

from typing import Any

from sluicegate import _torch
from sluicegate.rng.stream_seeding import Seeding
from sluicegate.state.place_state import PlaceState

from .fetch_settings import FetchSettings
from .map_fetcher import MapFetcher
from .stream_fetcher import StreamFetcher


def make_fetcher(
    kind: int,
    dataset: Any,
    settings: FetchSettings,
    seeding: Seeding | None = None,
    resumed: PlaceState | None = None,
    before: PlaceState | None = None,
) -> MapFetcher | StreamFetcher:
    """Return a fetcher for `dataset`; calls `iter()` of a stream.

    Args:
        kind: torch's kind of dataset, map-style or iterable-style.
        dataset: the dataset.
        settings: how batches are made.
        seeding: sets the generators for each sample.
        resumed: an earlier result of `place.state()` of such a fetcher, to resume from.
        before: where the last epoch of a stream was left, if known.
    """
    if kind == _torch.DatasetKind.Map:
        return MapFetcher(dataset, settings, seeding, resumed)
    return StreamFetcher(dataset, settings, seeding, resumed, before)
