"""The slots and threads of a loader, which outlive an epoch."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from sluicegate import _core

if TYPE_CHECKING:
    from .dataloader import DataLoader

# Slots and threads outlive an epoch, but not their loader. They are kept outside it because trainers copy, pickle and
# rebuild loaders by their attributes.
_engines: dict[int, tuple[weakref.ref[Any], tuple[int, int, int | None], _core.Engine]] = {}

# Slots in addition to those being filled: the batch in use, the one before it, and two for a consumer that looks ahead.
_SPARE_SLOTS = 4

# More than any machine has, and within the core's range.
_MOST_BYTES = 2**62


def engine_of(loader: DataLoader[Any]) -> _core.Engine:
    """Return the slots and threads of `loader`, made on first use and kept as long as it exists."""
    size = _size(loader)
    known = _engines.get(id(loader))
    if known is not None and known[0]() is loader and known[1] == size:
        return known[2]
    engine = _core.Engine(*size)
    _keep(loader, size, engine)
    return engine


def share_engine(loader: DataLoader[Any], other: DataLoader[Any]) -> None:
    """Let `loader` use the slots and threads of `other`, until the number of workers of one of them changes."""
    if _size(loader) == _size(other):
        _keep(loader, _size(loader), engine_of(other))


def checked_prefetch_bytes(prefetch_bytes: int | None) -> int | None:
    """Return `prefetch_bytes` if it is a bound in bytes or None.

    Raises:
        ValueError: not an integer, or less than 1.
    """
    if prefetch_bytes is None:
        return None
    if type(prefetch_bytes) is bool or not hasattr(prefetch_bytes, "__index__") or prefetch_bytes < 1:
        raise ValueError(f"prefetch_bytes option should be a positive integer or None, but got {prefetch_bytes!r}")
    return min(int(prefetch_bytes), _MOST_BYTES)


def _size(loader: DataLoader[Any]) -> tuple[int, int, int | None]:
    slots = (loader.prefetch_factor or 1) * max(loader.num_workers, 1) + _SPARE_SLOTS
    return loader.num_workers or 0, slots, loader.prefetch_bytes  # Torch accepts 0.0 workers, too.


def _keep(loader: DataLoader[Any], size: tuple[int, int, int | None], engine: _core.Engine) -> None:
    key = id(loader)
    _engines[key] = (weakref.ref(loader, lambda _: _engines.pop(key, None)), size, engine)
