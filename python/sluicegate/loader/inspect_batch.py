"""Looking at single batches of an order: which samples are in them, and loading one again."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sluicegate import _torch
from sluicegate.fetch.collate import stacking
from sluicegate.fetch.map_fetcher import MapFetcher
from sluicegate.fetch.messages import sampler_name
from sluicegate.order import draws
from sluicegate.order.plan import Ordering, make_plan
from sluicegate.order.requests import Planned, indices_of, without
from sluicegate.order.sampler_stream import SamplerStream
from sluicegate.order.torch_order import is_known, is_torchs, known_requests
from sluicegate.rng.global_generators import keeping_generators
from sluicegate.rng.sample import SampleSeeding

from .engine import engine_of

if TYPE_CHECKING:
    from .dataloader import DataLoader


def request_of(loader: DataLoader[Any], batch_index: int, epoch: int | None) -> Any:
    """What batch `batch_index` of `epoch` asks for, without the samples that are left out.

    Raises:
        IndexError: the epoch has no such batch, or nothing of it is left.
        ValueError: the order of that epoch cannot be known, or the dataset has none.
    """
    if loader._dataset_kind != _torch.DatasetKind.Map:
        raise ValueError("an IterableDataset has no order that could be looked at: only it knows what comes next")
    number = loader._epoch_or_running(epoch)
    if number < 0 or batch_index < 0:
        raise IndexError(f"batch {batch_index} of epoch {number}: both are counted from 0")
    ordering = Ordering.of(loader)
    if ordering is not None:
        request = _planned(loader, ordering, batch_index, number)
    else:
        request = _drawn(loader, batch_index, number)
    if request is not None and loader._loader_left_out.samples:
        request = without(request, loader._loader_left_out.samples)
    if request is None:
        raise IndexError(f"epoch {number} has no batch {batch_index}, or all of its samples are left out")
    return request


def _planned(loader: DataLoader[Any], ordering: Ordering, batch_index: int, epoch: int) -> Any:
    progress = loader._loader_progress
    plan, first = None, 0
    if progress is not None and progress.plan is not None and progress.epoch == epoch:
        # After a resume with other ranks, or another batch size, batches are counted on from there.
        plan, first = progress.plan, progress.plan_first
    if plan is None or batch_index < first:
        plan, first = make_plan(ordering, epoch, 0, _given), 0
    is_there = batch_index - first < len(plan)
    return Planned(plan, batch_index - first, ordering.is_single) if is_there else None


def _drawn(loader: DataLoader[Any], batch_index: int, epoch: int) -> Any:
    sampler = loader._index_sampler
    inner = getattr(sampler, "sampler", sampler)
    progress = loader._loader_progress
    is_running = progress is not None and not progress.finished and progress.epoch == epoch
    if not is_known(sampler) and not _is_given(inner):
        last = None if progress is None else progress.last_ids
        if last is not None and (last.epoch, last.batch_index) == (epoch, batch_index):
            return last.request
        raise _only_it_knows(inner)
    draws_nothing = _is_given(inner) or is_torchs(inner, torch.utils.data.SequentialSampler)
    if is_torchs(inner, torch.utils.data.DistributedSampler):
        # It draws from its own seed and epoch, which is set before each as that of the loader is counted.
        draws_nothing = True
        sampler, inner = copy.copy(sampler), copy.copy(inner)
        sampler.sampler = inner
        if epoch != loader._epoch_or_running(None):
            inner.set_epoch(epoch)
    if not draws_nothing and (not is_running or progress is None or progress.draws is None):
        raise ValueError(
            f"samples_of: without a seed, the order of an epoch is known while it runs, and epoch {epoch} does not: "
            "the generators will say what it is when it begins. Give seed= to the loader, and the order of every epoch "
            "is known at any time"
        )
    with _undisturbed(loader):
        if progress is not None and progress.draws is not None and is_running:
            draws.put(loader, progress.draws.as_text())
            if progress.begins_iterator:
                torch.empty((), dtype=torch.int64).random_(generator=loader.generator)  # As torch does for workers.
        order = None if progress is None else progress.order
        requests = None if _is_given(inner) else known_requests(sampler, engine_of(loader), batch_index, order)
        if requests is None:  # Torch's sampler, with replacement; or what was given as it is.
            requests = SamplerStream(sampler, iter(sampler), None, batch_index)
        return next(iter(requests), None)


def _is_given(sampler: Any) -> bool:
    """Return True if these are indices, or batches of them, that can be iterated at any time."""
    return isinstance(sampler, (list, tuple, range, np.ndarray, torch.Tensor))


def _given(sampler: Any) -> Iterator[Any]:
    """A pass over indices, or batches of them, that were given as they are; ValueError for anything else."""
    if not _is_given(sampler):
        raise ValueError(
            f"samples_of: with a shard, all batches of the running epoch are known, and only {type(sampler).__name__} "
            "knows what it yields in others: asking it would disturb it. Use one of sluicegate's samplers with seed="
        )
    return iter(sampler)


def _only_it_knows(sampler: Any) -> ValueError:
    return ValueError(
        f"samples_of: only {type(sampler).__name__} knows what it yields, and asking it would disturb it, so the "
        "batch that was received last is all that is known: look at with_ids() while the epoch runs, or use one of "
        "sluicegate's samplers with seed="
    )


@contextlib.contextmanager
def _undisturbed(loader: DataLoader[Any]) -> Iterator[None]:
    """Restore all generators afterwards, so that draws inside have no effect."""
    given = draws.take(loader, loader._index_sampler).as_text()
    with keeping_generators():
        try:
            yield
        finally:
            draws.put(loader, given)


def replayed(loader: DataLoader[Any], batch_index: int, epoch: int | None) -> Any:
    """Batch `batch_index` of `epoch`, fetched on the calling thread."""
    request = request_of(loader, batch_index, epoch)
    seeding = None
    if loader.seed is not None:
        seeding = SampleSeeding(loader.seed, loader.seed_samples)
        seeding.begin(loader._epoch_or_running(epoch))
    collate_fn: Any = loader.collate_fn
    if loader._auto_collation:
        collate_fn = stacking(collate_fn, engine_of(loader))
    fetcher = MapFetcher(
        loader.dataset, sampler_name(loader._index_sampler), loader._auto_collation, collate_fn, seeding
    )
    if seeding is None:
        with _undisturbed(loader):
            return fetcher.fetch(indices_of(request))
    with seeding.batch():
        return fetcher.fetch(indices_of(request))
