"""The slots and threads of a loader, which outlive an epoch."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    from .dataloader import DataLoader

# Slots and threads outlive an epoch, but not their loader. They are kept beside it and not on it: trainers copy, pickle
# and rebuild loaders by their attributes.
_engines: dict[int, tuple[weakref.ref[Any], tuple[int, int], _core.Engine]] = {}

# Slots kept beyond those that are being filled: the batch in use, the one before it, and two for a consumer that
# looks ahead.
_SPARE_SLOTS = 4


def engine_of(loader: DataLoader[Any]) -> _core.Engine:
    """The slots and threads of `loader`, made on first use and kept until it dies."""
    size = (loader.num_workers, (loader.prefetch_factor or 1) * max(loader.num_workers, 1) + _SPARE_SLOTS)
    key = id(loader)
    known = _engines.get(key)
    if known is not None and known[0]() is loader and known[1] == size:
        return known[2]
    engine = _core.Engine(*size)
    _engines[key] = (weakref.ref(loader, lambda _: _engines.pop(key, None)), size, engine)
    return engine
