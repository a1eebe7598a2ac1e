"""`LoaderOrder`: the order of a loader's epochs, for code that iterates its samplers instead of the loader."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import BatchSampler

from . import _torch
from .ordered_sampler import OrderedBatchSampler, OrderedSampler, inner_of, order_of, show, without_view
from .plan import Ordering, make_plan, planned_len, resolved_shard
from .requests import Planned, array_of, indices_of
from .sharded_twice import refuse_second_shard
from .stream_seeding import sampler_seeding

if TYPE_CHECKING:
    from .dataloader import DataLoader
    from .progress import Epochs

# Indices that become Python integers in one call.
_AT_ONCE = 4096


@dataclass(frozen=True)
class Settings:
    """The arguments of a loader that shape its order, next to its sampler.

    Attributes:
        seed, shard, remainder: the loader's arguments.
        batch_size: of a loader that cuts a sampler's indices into batches; else 1.
    """

    seed: int | None
    shard: tuple[int, int] | str | None
    remainder: str
    batch_size: int

    @classmethod
    def of(cls, loader: DataLoader[Any]) -> Settings:
        """The settings of `loader`, now."""
        return cls(loader.seed, loader.shard, loader.remainder, loader.batch_size or 1)

    def ordering(self, sampler: Any, auto_collation: bool) -> Ordering:
        """How the loader orders what `sampler` stands for."""
        return Ordering(sampler, auto_collation, self.seed, self.shard, self.remainder)


class LoaderOrder:
    """Gives the order of a loader's epochs to the samplers that the loader shows to other code.

    Each pass is an epoch of the loader: it has the number that the loader's next iterator would have, from its first
    `next` on, and the epochs after it count up from there. The settings are read when a pass begins.

    The order outlives its loader: `accelerate.skip_first_batches` keeps nothing but the batch sampler.

    Args:
        loader: whose order it is.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader: weakref.ref[Any] | None = weakref.ref(loader)
        self._epochs: Epochs = loader._loader_epochs
        self._settings = Settings.of(loader)
        self._passes = 0
        # The views that were given out last: asked twice, a loader answers with the same object.
        self._sampler: Any = None
        self._batch_sampler: Any = None

    def is_of(self, loader: DataLoader[Any]) -> bool:
        """True if this is the order of `loader`, and not of the one that it was copied from."""
        return self._loader is not None and self._loader() is loader

    @property
    def settings(self) -> Settings:
        """The settings that shape the order now."""
        loader = None if self._loader is None else self._loader()
        if loader is not None:
            self._settings = Settings.of(loader)
        return self._settings

    @property
    def next_epoch(self) -> int:
        """The epoch that the next pass gives."""
        return self._epochs.next

    @property
    def is_being_read(self) -> bool:
        """True while other code is in the middle of a pass."""
        return self._passes > 0

    def sampler(self, loader: DataLoader[Any], given: Any) -> Any:
        """`loader.sampler`, as other code sees it; `given` is what the loader itself reads."""
        has_batch_sampler = loader._auto_collation and loader.batch_size is None
        if has_batch_sampler or not _is_shaped(loader, given):
            return given
        if self._sampler is None or inner_of(self._sampler) is not given:
            self._sampler = OrderedSampler(given, self)
        return self._sampler

    def batch_sampler(self, loader: DataLoader[Any], given: Any) -> Any:
        """`loader.batch_sampler`, as other code sees it; `given` is what the loader itself reads, or shows."""
        if loader.batch_size is not None and type(given) is BatchSampler:
            # Trainers rebuild subclasses, and replace the sampler inside: that is where the order is put.
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
        """Makes the epoch that begins next number `epoch`, for the loader too."""
        self._epochs.next = int(epoch)

    def length(self, sampler: Any, auto_collation: bool) -> int:
        """How many requests a pass gives."""
        ordering = self.settings.ordering(sampler, auto_collation)
        if ordering.is_arithmetic:
            return planned_len(ordering, self._epochs.next)
        return len(sampler)

    def requests(self, sampler: Any, auto_collation: bool) -> Iterator[Any]:
        """One pass, which begins with the first `next`: what `sampler` yields, in the loader's order.

        Args:
            sampler: what the loader reads.
            auto_collation: True if it yields batches.

        Raises:
            ValueError: the loader has more to say about this epoch than an order can: see `_check`.
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

    def _begin(self, settings: Settings) -> int:
        epoch = self._epochs.next
        loader = None if self._loader is None else self._loader()
        if loader is not None:
            _check(loader, epoch)
        if settings.shard is not None and resolved_shard(settings.shard)[1] > 1:
            refuse_second_shard()
        self._epochs.next = epoch + 1
        return epoch

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the loader: a copy counts its own epochs."""
        own = {"_loader": None, "_passes": 0, "_sampler": None, "_batch_sampler": None}
        return vars(self) | own | {"_settings": self.settings, "_epochs": copy.copy(self._epochs)}


def taken_over(sampler: Any, batch_sampler: Any) -> tuple[Any, Any, LoaderOrder | None]:
    """Samplers that were given to a loader, and the order of the loader that they come from, if they come from one.

    Without the order they are samplers as any other: a loader that is built from another one's attributes must not
    shard or seed its order twice.
    """
    order: LoaderOrder | None = order_of(sampler) or order_of(batch_sampler)
    if type(batch_sampler) is BatchSampler:
        order = order or order_of(batch_sampler.sampler)
    return inner_of(sampler), without_view(inner_of(batch_sampler)), order


def _is_shaped(loader: DataLoader[Any], given: Any) -> bool:
    """True if the loader's order is not simply what iterating over its sampler gives."""
    if loader._dataset_kind != _torch.DatasetKind.Map:
        return False
    if loader.shard is not None:
        return True
    if loader.seed is not None:
        return not isinstance(given, (list, tuple, range, np.ndarray, torch.Tensor))
    return Ordering(given, loader._auto_collation, None, None, loader.remainder).is_arithmetic


def _check(loader: DataLoader[Any], epoch: int) -> None:
    """Refuses a pass that would not give what the loader gives.

    Raises:
        ValueError: batches or samples of the epoch are left out, or the loader is to resume in its middle.
    """
    name = type(loader).__name__
    left_out = loader._loader_left_out
    if left_out.samples or left_out.batches.get(epoch):
        raise ValueError(
            f"skip: batches or samples of epoch {epoch} are left out, which only the loader itself can do: iterate "
            f"over the {name}, not over its sampler or batch_sampler"
        )
    pending = loader._loader_pending
    if pending is not None and pending["in_epoch"] and (pending["drawn"] or pending["batches_received"]):
        raise ValueError(
            f"load_state_dict: the loaded state is in the middle of epoch {pending['epoch']}, and only the loader "
            f"itself can resume there: iterate over the {name}, not over its sampler or batch_sampler, or skip batches "
            "of a loader that was given no state"
        )


def _planned(ordering: Ordering, epoch: int) -> Iterator[Any]:
    if not ordering.is_single:
        plan = make_plan(ordering, epoch, 0, iter)
        yield from (indices_of(Planned(plan, batch)) for batch in range(len(plan)))
        return
    # Single indices come from the same stretch of the order however it is cut; many at once cost less.
    cut = BatchSampler(ordering.index_sampler, _AT_ONCE, False)
    plan = make_plan(dataclasses.replace(ordering, index_sampler=cut, auto_collation=True), epoch, 0, iter)
    for batch in range(len(plan)):
        yield from array_of(Planned(plan, batch)).tolist()


def _seeded(sampler: Any, seed: int, epoch: int, at_once: int) -> Iterator[Any]:
    """What a user-defined sampler yields; what it draws follows from the seed and the epoch, as in the loader."""
    draws = sampler_seeding(seed, epoch)
    with draws.batch():
        iterator = iter(sampler)
    while True:
        with draws.batch():
            some = list(itertools.islice(iterator, at_once))
        if not some:
            return
        yield from some
