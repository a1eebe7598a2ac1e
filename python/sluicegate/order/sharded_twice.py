"""Refuses a shard of a shard, when other code shards the order that it reads from a loader's samplers."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

_is_sharding: ContextVar[bool] = ContextVar("_is_sharding", default=False)


@contextlib.contextmanager
def sharding() -> Iterator[None]:
    """While a loader lists a sampler to give each rank a part of it."""
    token = _is_sharding.set(True)
    try:
        yield
    finally:
        _is_sharding.reset(token)


def refuse_second_shard() -> None:
    """Raise an error if this rank's part of an order would be split again by other code.

    Raises:
        ValueError: a sharded loader, or Accelerate's `BatchSamplerShard` or `DataLoaderDispatcher`, is reading.
    """
    by = "another loader with shard=" if _is_sharding.get() else _accelerates()
    if by is not None:
        raise ValueError(
            f"shard: the order is sharded twice, by the loader's shard= and again by {by}; "
            "prepare the loader with sluicegate.accelerate.Accelerator, or build it without shard="
        )


def _accelerates() -> str | None:
    """Return the name of Accelerate's class that is reading on this thread, or None.

    Accelerate passes nothing to the samplers that it reads, so the call stack is the only place where it shows. This
    runs once per epoch.
    """
    module = sys.modules.get("accelerate.data_loader")
    classes = tuple(
        each
        for name in ("BatchSamplerShard", "DataLoaderDispatcher")
        if isinstance(each := getattr(module, name, None), type)
    )
    frame: FrameType | None = sys._getframe() if classes else None
    while frame is not None:
        reader = frame.f_locals.get("self")
        if type(reader) in classes:
            return f"Accelerate's {type(reader).__name__}"
        frame = frame.f_back
    return None
