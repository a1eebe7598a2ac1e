"""`LoaderResources`: the resources that a loader keeps from one epoch to the next."""

from __future__ import annotations

import os
import weakref
from typing import Any

from sluicegate import _core
from sluicegate.order.loader_arguments import LoaderArguments
from sluicegate.order.settings import LoaderSettings
from sluicegate.worker.memory import WorkerMemory
from sluicegate.worker.shared_workers import SharedWorkers

# Slots in addition to those being filled: the current batch, the previous one, and two for a consumer that prefetches.
_SPARE_SLOTS = 4

# More than any machine has, and within the core's range.
_MOST_BYTES = 2**62


class LoaderResources:
    """What outlives an epoch of a loader: slots and threads, the memory of worker processes, and shared workers.

    Attributes:
        worker_memory: lends what worker processes write batches to.
        shared_workers: the workers that several loaders share; None if the loader shares none.
    """

    def __init__(self) -> None:
        self._engine: _core.Engine | None = None
        self._size: tuple[int, int, int | None] | None = None
        self.worker_memory = WorkerMemory()
        self.shared_workers: SharedWorkers | None = None

    def engine(self, settings: LoaderSettings) -> _core.Engine:
        """Return the loader's slots and threads, which are made again if `settings` need another number of them."""
        size = _size(settings)
        if self._engine is None or self._size != size:
            self._engine, self._size = _core.Engine(*size), size
        return self._engine

    def share(self, settings: LoaderSettings, other: LoaderResources, others: LoaderSettings) -> None:
        """Use the slots, threads and workers of `other`.

        The slots and threads are shared until the number of workers of one of the loaders changes.

        Args:
            settings: of the loader.
            other: the resources of another loader over the same dataset.
            others: the settings of that loader.
        """
        if _size(settings) == _size(others):
            self._engine, self._size = other.engine(others), _size(settings)
        if other.shared_workers is None:
            other.shared_workers = SharedWorkers()
        self.shared_workers = other.shared_workers

    def forget_parent(self) -> None:
        """Drop the resources that a forked child must not use: it must not write to memory of its parent's workers."""
        # A new object: a thread that was not forked may hold the lock of this one.
        self.worker_memory = WorkerMemory()


# By id of a loader: the loader, and its resources. Kept outside the loader because trainers copy, pickle and rebuild
# loaders by their attributes. Not a `WeakKeyDictionary`, because subclasses may define when loaders are equal.
_resources: dict[int, tuple[weakref.ref[Any], LoaderResources]] = {}


def resources_of(loader: LoaderArguments) -> LoaderResources:
    """Return the resources of `loader`, which are kept as long as it exists."""
    key = id(loader)
    known = _resources.get(key)
    if known is not None and known[0]() is loader:
        return known[1]
    resources = LoaderResources()
    _resources[key] = (weakref.ref(loader, lambda _: _resources.pop(key, None)), resources)
    return resources


def share_resources(loader: LoaderArguments, other: LoaderArguments) -> None:
    """Let `loader` use the slots, threads and workers of `other`, a different loader of the same dataset, or itself."""
    settings, others = LoaderSettings.of(loader), LoaderSettings.of(other)
    resources_of(loader).share(settings, resources_of(other), others)


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


def _size(settings: LoaderSettings) -> tuple[int, int, int | None]:
    slots = (settings.prefetch_factor or 1) * max(settings.num_workers, 1) + _SPARE_SLOTS
    return settings.num_workers or 0, slots, settings.prefetch_bytes  # Torch accepts 0.0 workers, too.


def _enter_child() -> None:
    for _, resources in list(_resources.values()):
        resources.forget_parent()


os.register_at_fork(after_in_child=_enter_child)
