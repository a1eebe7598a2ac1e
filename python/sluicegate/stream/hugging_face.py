"""Streams of Hugging Face's `datasets`: how they are split among ranks, and the content of their shuffle buffers."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from sluicegate.state.hugging_face_state import parts_of


def is_hugging_face(stream: Any) -> bool:
    """Return True if `stream` is a `datasets.IterableDataset`; the package is not imported for that."""
    cls = getattr(sys.modules.get("datasets"), "IterableDataset", None)
    return cls is not None and isinstance(stream, cls)


def split_of(stream: Any) -> tuple[int, int] | None:
    """Return the (rank, world_size) for which a Hugging Face stream was split; None for a whole one."""
    split = stream._distributed
    return None if split is None or split.world_size == 1 else (split.rank, split.world_size)


def split_among_ranks(stream: Any, rank: int, world_size: int) -> Any:
    """Return the part of a Hugging Face stream that belongs to a rank.

    Raises:
        ValueError: it was split already, for another rank or another number of ranks.
    """
    split = split_of(stream)
    if split == (rank, world_size) or (split is None and world_size == 1):
        return stream
    if split is not None:
        raise ValueError(
            f"shard: the stream was split before, for rank {split[0]} of {split[1]}, got {(rank, world_size)}; leave "
            "out shard= or split_dataset_by_node"
        )
    part = importlib.import_module("datasets.distributed").split_dataset_by_node(stream, rank, world_size)
    part.set_epoch(stream.epoch)
    return part


def own_epoch(stream: Any) -> None:
    """Give a Hugging Face stream an epoch number that only this process uses.

    By default, processes share the number, and `set_epoch` adds the difference to it. If several workers do so at once,
    it may be advanced twice, and they read the wrong shards.
    """
    stream._epoch = stream.epoch


def buffered(stream: Any) -> int:
    """Return how many samples the shuffle buffers of a Hugging Face stream hold, which are not in its state."""
    buffers = (part for part in parts_of(stream) if type(part).__name__ == "BufferShuffledExamplesIterable")
    return sum(buffer.buffer_size for buffer in buffers)
