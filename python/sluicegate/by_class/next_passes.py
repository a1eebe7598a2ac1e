"""Which passes come next over the stream of a `split_by_class`, also if a loader reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.utils.data

from sluicegate.loader.dataloader import DataLoader, progress_of
from sluicegate.stream.resumable import next_passes_of_streams, read_by, set_next_passes_of_streams


def next_passes(iterable: Any) -> dict[str, Any]:
    """Return the next pass of everything in `iterable` that counts its passes, as a part of a state.

    Of each loader it has the next epoch, the one that was set last, and the passes of our own streams in its dataset.
    """
    loaders: list[list[Any]] = []
    for loader in _loaders(iterable):
        epochs = progress_of(loader).epochs if isinstance(loader, DataLoader) else None
        counted = [None, None] if epochs is None else [epochs.next, epochs.last_set]
        loaders.append([*counted, next_passes_of_streams(loader.dataset)])
    return {"streams": next_passes_of_streams(iterable), "loaders_read": loaders}


def set_next_passes(iterable: Any, state: Mapping[str, Any]) -> None:
    """Make `iterable` continue from a result of `next_passes` in `state`; older states lack parts of it."""
    set_next_passes_of_streams(iterable, state.get("streams", ()))
    for loader, (epoch, told, streams) in zip(_loaders(iterable), state.get("loaders_read", ()), strict=False):
        if isinstance(loader, DataLoader) and epoch is not None:
            # Only if one was set: samplers and datasets may never have been given an epoch.
            if told is not None:
                loader.set_epoch(told)
            progress_of(loader).epochs.next = epoch
        set_next_passes_of_streams(loader.dataset, streams)


def _loaders(iterable: Any) -> list[torch.utils.data.DataLoader[Any]]:
    return [each for each in read_by(iterable) if isinstance(each, torch.utils.data.DataLoader)]
