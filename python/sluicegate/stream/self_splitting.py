"""Streams of other packages that split themselves among ranks and workers."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from sluicegate import _torch

from .consumer import Consumer
from .hugging_face import buffered, is_hugging_face, split_of
from .resumable import ResumableStream, read_by
from .whole import nothing_hidden

_HUGGING_FACE = (
    "datasets.IterableDataset splits its shards among workers itself; pass it to the DataLoader without "
    "shard_iterable, and split it among ranks with shard= of that loader, or, if something else reads it, with "
    "datasets.distributed.split_dataset_by_node(dataset, rank, world_size)"
)
_WEBDATASET = (
    "webdataset splits its shards itself; pass it to the DataLoader without shard_iterable and shard=, with "
    "nodesplitter=webdataset.split_by_node for several ranks (its default workersplitter splits among workers)"
)

# The stages of a webdataset pipeline that split by rank, that refuse several ranks, and that split by worker.
_BY_RANK, _BY_NO_RANK, _BY_WORKER = "split_by_node", "single_node_only", "split_by_worker"


def remedy_of(stream: Any) -> str | None:
    """Return the remedy for a stream that another package splits; None for other streams.

    Args:
        stream: the stream, or one of this package's streams or a `ChainDataset` that reads it.
    """
    for inner in read_by(stream):
        if is_hugging_face(inner):
            return _HUGGING_FACE
        if _is_webdataset(inner):
            return _WEBDATASET
    return None


def share_of(stream: Any, consumer: Consumer) -> Consumer:
    """Return which part of what a stream yields here is this consumer's: all of what the stream itself has split.

    Args:
        stream: the stream, or one of this package's streams or a `ChainDataset` that reads it.
        consumer: who reads it.

    Raises:
        ValueError: samples would be lost or read twice; the message says how to split the stream once.
    """
    streams = read_by(stream)
    for inner in streams:
        if is_hugging_face(inner):
            split, by_worker, remedy = split_of(inner), True, _HUGGING_FACE
        elif _is_webdataset(inner):
            stages = {getattr(stage, "__name__", "") for stage in inner.pipeline}
            asks_for_rank = consumer.world_size > 1 and bool(stages & {_BY_RANK, _BY_NO_RANK})
            split = _rank_of_webdataset() if asks_for_rank else None
            by_worker, remedy = _BY_WORKER in stages, _WEBDATASET
        else:
            continue
        by_rank = split is not None and consumer.world_size > 1
        by_worker = by_worker and consumer.num_workers > 1
        is_another = by_rank and split != (consumer.rank, consumer.world_size)
        if is_another or ((by_rank or by_worker) and len(streams) > 1) or (by_worker and _is_in_thread()):
            raise ValueError(f"shard_iterable: the stream would be split twice, and most samples lost; {remedy}")
        rank, world_size = (0, 1) if by_rank else (consumer.rank, consumer.world_size)
        worker, num_workers = (0, 1) if by_worker else (consumer.worker, consumer.num_workers)
        return Consumer(rank, world_size, worker, num_workers)
    return consumer


def warn_of_lost_buffer(stream: Any, num_workers: int) -> None:
    """Warn if a stream that resumes within an epoch has lost what its shuffle buffer held.

    Args:
        stream: the dataset of a loader.
        num_workers: how many workers read it, each with its own buffer.
    """
    count = sum(buffered(inner) for inner in read_by(stream) if is_hugging_face(inner))
    if count:
        each = f" in each of {num_workers} workers" if num_workers > 1 else ""
        warnings.warn(
            f"load_state_dict: the states of datasets.IterableDataset do not hold its shuffle buffer, so up to {count} "
            f"samples that were in it{each} are left out of the rest of this epoch; in place of "
            f"dataset.shuffle(buffer_size={count}), pass sluicegate.ShuffleBuffer(dataset, {count}, seed) to the "
            "DataLoader, which resumes with the same samples",
            UserWarning,
            stacklevel=3,
        )


def name_of(stream: Any) -> str:
    """Return the class name of a stream, and for this package's streams also that of the stream it reads."""
    name = type(stream).__name__
    return f"{name} over {name_of(stream.iterable)}" if isinstance(stream, ResumableStream) else name


def in_words(stream: Any) -> str:
    """Return the `repr` of this package's streams; for any other, which may hold millions of samples, its class."""
    return repr(stream) if isinstance(stream, ResumableStream) else f"<{type(stream).__name__}>"


def _is_in_thread() -> bool:
    """Return True in a worker thread: other threads read the same object, which keeps one state."""
    info = _torch.worker_info()
    return info is not None and not _torch.is_worker_info_of_process(info)


def _is_webdataset(stream: Any) -> bool:
    cls = getattr(sys.modules.get("webdataset"), "DataPipeline", None)
    return cls is not None and isinstance(stream, cls)


def _rank_of_webdataset() -> tuple[int, int] | None:
    """Return the rank by which webdataset splits, and their number; None if it knows of one rank only."""
    with nothing_hidden():
        rank, world_size, _, _ = sys.modules["webdataset"].utils.pytorch_worker_info()
    return None if world_size == 1 else (rank, world_size)
