"""`LoaderOrder`: the order of a loader's epochs, for code that iterates its samplers instead of the loader."""

from __future__ import annotations

import copy
import dataclasses
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler

from sluicegate import _torch
from sluicegate.order.loader_arguments import LoaderArguments
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.plan import Ordering, has_order, make_plan, planned_len, resolved_shard
from sluicegate.order.requests import Planned, array_of, indices_of
from sluicegate.order.sharded_twice import refuse_second_shard
from sluicegate.rng.stream_seeding import sampler_seeding

from .ordered_sampler import OrderedBatchSampler, OrderedSampler, inner_of, order_of, show, without_view

# Indices that are converted to Python integers in one call.
_AT_ONCE = 4096


@dataclass(frozen=True)
class OrderSettings:
    """The arguments of a loader that determine its order, in addition to its sampler.

    Attributes:
        seed, shard, remainder: the loader's arguments.
        batch_size: the batch size of a loader that cuts a sampler's indices into batches; otherwise 1.
    """

    seed: int | None
    shard: tuple[int, int] | str | None
    remainder: str
    batch_size: int

    @classmethod
    def of(cls, loader: LoaderArguments) -> OrderSettings:
        """Return the current settings of `loader`."""
        return cls(loader.seed, loader.shard, loader.remainder, loader.batch_size or 1)

    def ordering(self, sampler: Any, auto_collation: bool) -> Ordering:
        """Return how the loader orders the indices or batches of `sampler`."""
        return Ordering(sampler, auto_collation, self.seed, self.shard, self.remainder)


class LoaderOrder:
    """Gives the order of a loader's epochs to the samplers that the loader shows to other code.

    Each pass is an epoch of the loader: from its first `next` on, it has the number that the loader's next iterator
    would have, and later epochs count up from there. The settings are read when a pass begins.

    The order outlives its loader: `accelerate.skip_first_batches` keeps only the batch sampler.

    Args:
        loader: the loader whose order it is.
        progress: how far the loader is.
    """

    def __init__(self, loader: LoaderArguments, progress: LoaderProgress) -> None:
        self._loader: weakref.ref[Any] | None = weakref.ref(loader)
        # Weak, because the running iterator refers to the samplers, and these refer to this order.
        self._progress: weakref.ref[LoaderProgress] | None = weakref.ref(progress)
        self._epochs = progress.epochs
        self._settings = OrderSettings.of(loader)
        self._passes = 0
        # The last views that were given out, so that a loader always returns the same object.
        self._sampler: Any = None
        self._batch_sampler: Any = None

    def is_of(self, loader: LoaderArguments) -> bool:
        """Return True if this is the order of `loader`, and not of the one that it was copied from."""
        return self._loader is not None and self._loader() is loader

    @property
    def settings(self) -> OrderSettings:
        """The current settings that determine the order."""
        loader = None if self._loader is None else self._loader()
        if loader is not None:
            self._settings = OrderSettings.of(loader)
        return self._settings

    @property
    def next_epoch(self) -> int:
        """The epoch of the next pass."""
        return self._epochs.next

    @property
    def is_being_read(self) -> bool:
        """True while other code is in the middle of a pass."""
        return self._passes > 0

    def sampler(self, loader: LoaderArguments, given: Any) -> Any:
        """Return `loader.sampler` as other code sees it; `given` is what the loader itself reads."""
        has_batch_sampler = loader.batch_size is None and loader._auto_collation
        if has_batch_sampler or not _is_shaped(loader, given):
            return given
        if self._sampler is None or inner_of(self._sampler) is not given:
            self._sampler = OrderedSampler(given, self)
        return self._sampler

    def batch_sampler(self, loader: LoaderArguments, given: Any) -> Any:
        """Return `loader.batch_sampler` as other code sees it; `given` is what the loader itself reads, or shows."""
        if loader.batch_size is not None and type(given) is BatchSampler:
            # Trainers rebuild subclasses and replace the inner sampler, so the order is put there.
            sampler = self.sampler(loader, inner_of(given.sampler))
            if given.sampler is not sampler:
                show(given, sampler)
            return given
        if not _is_shaped(loader, given):
            return given
        if self._batch_sampler is None or inner_of(self._batch_sampler) is not given:
            self._batch_sampler = OrderedBatchSampler(given, self)
        return self._batch_sampler

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, for the loader too."""
        self._epochs.next = int(epoch)

    def length(self, sampler: Any, auto_collation: bool) -> int:
        """Return the number of requests in a pass."""
        ordering = self.settings.ordering(sampler, auto_collation)
        if ordering.is_arithmetic:
            return planned_len(ordering, self._epochs.next)
        return len(sampler)

    def requests(self, sampler: Any, auto_collation: bool) -> Iterator[Any]:
        """Yield one pass, which begins with the first `next`: the items of `sampler`, in the loader's order.

        Args:
            sampler: the sampler that the loader reads.
            auto_collation: True if it yields batches.

        Raises:
            ValueError: an order alone cannot express what the loader does in this epoch: see `_check`.
        """
        settings = self.settings
        epoch = self._begin(settings)
        self._passes += 1
        try:
            ordering = settings.ordering(sampler, auto_collation)
            if ordering.is_arithmetic:
                yield from _planned(ordering, epoch)
            elif settings.seed is None:
                yield from sampler
            else:
                at_once = 1 if auto_collation else settings.batch_size
                yield from _seeded(sampler, settings.seed, epoch, at_once)
        finally:
            self._passes -= 1

    def _begin(self, settings: OrderSettings) -> int:
        epoch = self._epochs.next
        loader = None if self._loader is None else self._loader()
        progress = None if self._progress is None else self._progress()
        if loader is not None and progress is not None:
            _check(progress, type(loader).__name__, epoch)
        if settings.shard is not None and resolved_shard(settings.shard)[1] > 1:
            refuse_second_shard()
        self._epochs.next = epoch + 1
        return epoch

    def __getstate__(self) -> dict[str, Any]:
        """Return everything except the loader: a copy counts its own epochs."""
        own = {"_loader": None, "_progress": None, "_passes": 0, "_sampler": None, "_batch_sampler": None}
        return vars(self) | own | {"_settings": self.settings, "_epochs": copy.copy(self._epochs)}


def unwrapped_samplers(sampler: Any, batch_sampler: Any) -> tuple[Any, Any, LoaderOrder | None]:
    """Return samplers that were given to a loader, without views, and the order of the loader they come from, if any.

    Without the order they are ordinary samplers: a loader that is built from another one's attributes must not shard or
    seed its order twice.
    """
    order: LoaderOrder | None = order_of(sampler) or order_of(batch_sampler)
    if type(batch_sampler) is BatchSampler:
        order = order or order_of(batch_sampler.sampler)
    return inner_of(sampler), without_view(inner_of(batch_sampler)), order


def _is_shaped(loader: LoaderArguments, given: Any) -> bool:
    """Return True if the loader's order differs from that of its sampler alone."""
    if loader._dataset_kind != _torch.DatasetKind.Map:
        return False
    if loader.shard is not None:
        return True
    if loader.seed is not None:
        return not isinstance(given, (list, tuple, range, np.ndarray, torch.Tensor))
    return has_order(given)


def _check(progress: LoaderProgress, name: str, epoch: int) -> None:
    """Refuse a pass that would differ from that of the loader called `name`.

    Raises:
        ValueError: batches or samples of the epoch are skipped, or the loader is to resume in its middle.
    """
    left_out, pending = progress.left_out, progress.pending
    if left_out.samples or left_out.batches.get(epoch):
        raise ValueError(
            f"skip: batches or samples of epoch {epoch} are left out, which only the loader itself can do; iterate "
            f"over the {name}, not over its sampler or batch_sampler"
        )
    if pending is not None and pending.in_epoch and (pending.drawn or pending.batches_received):
        raise ValueError(
            f"load_state_dict: the loaded state is in the middle of epoch {pending.epoch}, and only the loader "
            f"itself can resume there; iterate over the {name}, not over its sampler or batch_sampler, or skip batches "
            "of a loader without a loaded state"
        )


def _planned(ordering: Ordering, epoch: int) -> Iterator[Any]:
    if not ordering.is_single:
        plan = make_plan(ordering, epoch, 0, iter)
        yield from (indices_of(Planned(plan, batch)) for batch in range(len(plan)))
        return
    # Single indices come from the same part of the order however it is cut; many at once cost less.
    cut = BatchSampler(ordering.index_sampler, _AT_ONCE, False)
    plan = make_plan(dataclasses.replace(ordering, index_sampler=cut, auto_collation=True), epoch, 0, iter)
    for batch in range(len(plan)):
        yield from array_of(Planned(plan, batch)).tolist()


def _seeded(sampler: Any, seed: int, epoch: int, at_once: int) -> Iterator[Any]:
    """Yield the items of a user-defined sampler, whose draws depend on the seed and the epoch, as in the loader."""
    draws = sampler_seeding(seed, epoch)
    with draws.batch():
        iterator = iter(sampler)
    while True:
        with draws.batch():
            some = list(map(next, [iterator] * at_once))  # Not `islice`, which calls `iter` again.
        if not some:
            return
        yield from some
