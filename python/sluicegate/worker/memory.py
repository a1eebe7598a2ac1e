"""The memory that a loader shares with its worker processes, kept from one epoch to the next."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

from sluicegate import _core
from sluicegate.fetch.collate import KINDS

if TYPE_CHECKING:
    from sluicegate.loader.dataloader import DataLoader

# Free slots per worker, in addition to those being filled: for the batch in use and the one before it.
SPARE_SLOTS = 2

# By id of a loader: the loader, and its memory while no iterator uses it. Kept outside the loader, like the engines of
# native datasets.
_free: dict[int, tuple[weakref.ref[Any], _core.Workers]] = {}
# Reentrant: while it is held, garbage collection may end an iterator that gives its memory back.
_lock = threading.RLock()


def lend(loader: DataLoader[Any], workers: int, under_way: int, bytes_ahead: _core.BytesAhead) -> _core.Workers:
    """Return memory for one iterator over `loader`: the previous iterator's, or new. `bytes_ahead` counts answers."""
    with _lock:
        known, memory = _free.pop(id(loader), (None, None))
    if memory is not None and known is not None and known() is loader:
        fits = (memory.layout[0], memory.under_way) == (workers, under_way)
        if fits:
            memory.renew(bytes_ahead)
            return memory
    return _core.Workers(workers, under_way, under_way // workers + SPARE_SLOTS, KINDS, bytes_ahead)


def give_back(loader: Any, memory: _core.Workers) -> None:
    """Keep `memory`, which no worker uses any more, for the next iterator over `loader`, if that still exists."""
    if loader is None:
        return
    memory.forget()
    key = id(loader)
    kept = (weakref.ref(loader, lambda _: _free.pop(key, None)), memory)
    with _lock:
        _free[key] = kept


def _begin_anew() -> None:
    # A forked child must not write where its parent's workers do; the lock may be held by a thread that was not forked.
    global _lock
    _lock = threading.RLock()
    _free.clear()


os.register_at_fork(after_in_child=_begin_anew)
