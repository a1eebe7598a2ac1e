"""Streams of other packages that split themselves among ranks and workers."""

from __future__ import annotations

import sys
from typing import Any

import torch.utils.data

from .consumer import Consumer
from .resumable import ResumableStream

_HUGGING_FACE = (
    "datasets.IterableDataset splits its shards among workers itself; pass it to the DataLoader without shard_iterable "
    "and shard=, and split it among ranks with datasets.distributed.split_dataset_by_node(dataset, rank, world_size)"
)
_WEBDATASET = (
    "webdataset splits its shards itself; pass it to the DataLoader without shard_iterable and shard=, with "
    "nodesplitter=webdataset.split_by_node for several ranks (its default workersplitter splits among workers)"
)

# The stages of a webdataset pipeline that split by rank, and by worker.
_BY_RANK = {"split_by_node"}
_BY_WORKER = {"split_by_worker"}


def remedy_of(stream: Any) -> str | None:
    """Return what to do with a stream that another package splits; None for other streams.

    Args:
        stream: the stream, or one of this package's streams or a `ChainDataset` that reads it.
    """
    for inner in _inner(stream):
        if _is_hugging_face(inner):
            return _HUGGING_FACE
        if _is_webdataset(inner):
            return _WEBDATASET
    return None


def refuse_self_splitting(stream: Any, consumer: Consumer) -> None:
    """Refuse a stream that splits itself if `consumer` takes a share of it.

    Raises:
        ValueError: samples would be lost; the message says how to split the stream once.
    """
    for inner in _inner(stream):
        if _is_hugging_face(inner):
            by_rank, by_worker, remedy = inner._distributed is not None, True, _HUGGING_FACE
        elif _is_webdataset(inner):
            stages = {getattr(stage, "__name__", "") for stage in inner.pipeline}
            by_rank, by_worker, remedy = bool(stages & _BY_RANK), bool(stages & _BY_WORKER), _WEBDATASET
        else:
            continue
        if (by_rank and consumer.world_size > 1) or (by_worker and consumer.num_workers > 1):
            raise ValueError(f"shard_iterable: the stream would be split twice, and most samples lost; {remedy}")


def name_of(stream: Any) -> str:
    """Return the class name of a stream, and for this package's streams also that of the stream it reads."""
    name = type(stream).__name__
    return f"{name} over {name_of(stream.iterable)}" if isinstance(stream, ResumableStream) else name


def in_words(stream: Any) -> str:
    """Return the `repr` of this package's streams; for any other, which may hold millions of samples, its class."""
    return repr(stream) if isinstance(stream, ResumableStream) else f"<{type(stream).__name__}>"


def _inner(stream: Any) -> list[Any]:
    if isinstance(stream, ResumableStream):
        return _inner(stream.iterable)
    if isinstance(stream, torch.utils.data.ChainDataset):
        return [inner for each in stream.datasets for inner in _inner(each)]
    return [stream]


def _is_hugging_face(stream: Any) -> bool:
    cls = getattr(sys.modules.get("datasets"), "IterableDataset", None)
    return cls is not None and isinstance(stream, cls)


def _is_webdataset(stream: Any) -> bool:
    cls = getattr(sys.modules.get("webdataset"), "DataPipeline", None)
    return cls is not None and isinstance(stream, cls)
