"""`BatchInspector`: inspects single batches of an order: returns their samples' indices, and loads one again."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sluicegate.fetch.collate import stacking
from sluicegate.fetch.fetch_settings import FetchSettings
from sluicegate.fetch.map_fetcher import MapFetcher
from sluicegate.fetch.messages import sampler_name
from sluicegate.order import draws
from sluicegate.order.loader_progress import LoaderProgress
from sluicegate.order.plan import Ordering, make_plan
from sluicegate.order.requests import Planned, indices_of, without
from sluicegate.order.sampler_stream import SamplerStream
from sluicegate.order.settings import LoaderSettings
from sluicegate.order.torch_order import is_known, is_torchs, known_requests
from sluicegate.rng.global_generators import keeping_generators
from sluicegate.rng.sample import SampleSeeding

from .resources import LoaderResources


@dataclass(frozen=True)
class BatchInspector:
    """Looks at the batches of one loader without disturbing its running epoch.

    Attributes:
        settings: of the loader.
        progress: how far it is.
        resources: provide slots and threads.
    """

    settings: LoaderSettings
    progress: LoaderProgress
    resources: LoaderResources

    def request(self, batch_index: int, epoch: int) -> Any:
        """Return the request of batch `batch_index` of `epoch`, without the samples that are left out.

        Raises:
            IndexError: the epoch has no such batch, or nothing of it is left.
            ValueError: the order of that epoch cannot be known, or the dataset has none.
        """
        if self.settings.is_stream:
            raise ValueError(
                "samples_of: the order of an IterableDataset is unknown; iterate over with_ids() to see the ids of "
                "each batch"
            )
        if epoch < 0 or batch_index < 0:
            raise IndexError(f"batch_index, epoch: must be at least 0, got batch {batch_index} of epoch {epoch}")
        ordering = self.settings.ordering
        if ordering is not None:
            request = self._planned(ordering, batch_index, epoch)
        else:
            request = self._drawn(batch_index, epoch)
        if request is not None and (samples := self.progress.left_out.samples):
            request = without(request, samples)
        if request is None:
            raise IndexError(f"batch_index: epoch {epoch} has no batch {batch_index}, or all its samples are skipped")
        return request

    def replayed(self, batch_index: int, epoch: int) -> Any:
        """Fetch batch `batch_index` of `epoch` on the calling thread, and return it."""
        request = self.request(batch_index, epoch)
        settings, seeding = self.settings, None
        if settings.seed is not None:
            seeding = SampleSeeding(settings.seed, settings.seed_samples)
            seeding.begin(epoch)
        collate_fn: Any = settings.collate_fn
        if settings.auto_collation:
            collate_fn = stacking(collate_fn, self.resources.engine(settings), in_worker=settings.num_workers > 0)
        fetching = FetchSettings(settings.auto_collation, collate_fn, sampler_name(settings.index_sampler))
        fetcher = MapFetcher(settings.dataset, fetching, seeding)
        if seeding is None:
            with self._undisturbed():
                return fetcher.fetch(indices_of(request))
        with seeding.batch():
            return fetcher.fetch(indices_of(request))

    def _planned(self, ordering: Ordering, batch_index: int, epoch: int) -> Any:
        latest, pending = self.progress.latest, self.progress.pending
        plan, first = None, 0
        # After a resume with different ranks or batch size, numbering continues from there.
        if pending is not None and pending.in_epoch and pending.epoch == epoch:
            first = pending.batches_received
            plan = make_plan(ordering, epoch, pending.position, _given)
        elif latest is not None and latest.epoch == epoch:
            plan, first = latest.received.plan, latest.received.plan_first
        if plan is None or batch_index < first:
            plan, first = make_plan(ordering, epoch, 0, _given), 0
        is_there = batch_index - first < len(plan)
        return Planned(plan, batch_index - first, ordering.is_single) if is_there else None

    def _drawn(self, batch_index: int, epoch: int) -> Any:
        sampler = self.settings.index_sampler
        inner = getattr(sampler, "sampler", sampler)
        latest, running = self.progress.latest, self.progress.running
        if not is_known(sampler) and not _is_given(inner):
            last = None if latest is None else latest.received.last_ids
            if last is not None and (last.epoch, last.batch_index) == (epoch, batch_index):
                return last.request
            raise _unknown_batch_error(inner)
        draws_nothing = _is_given(inner) or is_torchs(inner, torch.utils.data.SequentialSampler)
        if is_torchs(inner, torch.utils.data.DistributedSampler):
            # It draws from its own seed and epoch, which is set before each as that of the loader is counted.
            draws_nothing = True
            sampler, inner = copy.copy(sampler), copy.copy(inner)
            sampler.sampler = inner
            if epoch != self.progress.epoch:
                inner.set_epoch(epoch)
        drawn = running.draws if running is not None and running.epoch == epoch else None
        if not draws_nothing and (drawn is None or drawn.generators is None):
            raise ValueError(
                "samples_of: without a seed, an epoch's order is known only while it is running, and epoch "
                f"{epoch} is not running; pass seed= to the loader to make every epoch's order known at any time"
            )
        with self._undisturbed():
            if drawn is not None and drawn.generators is not None:
                draws.put(self.settings, drawn.generators.as_text())
                if drawn.begins_iterator:
                    # As torch does for workers.
                    torch.empty((), dtype=torch.int64).random_(generator=self.settings.generator)
            order = None if latest is None else latest.draws.order
            requests = known_requests(sampler, self.resources.engine(self.settings), batch_index, order)
            if requests is None:  # Torch's sampler with replacement, or a user-supplied iterable.
                requests = SamplerStream(sampler, iter(sampler), None, batch_index, order)
            return next(iter(requests), None)

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Restore all generators afterwards, so that draws inside have no effect."""
        given = draws.take(self.settings).as_text()
        with keeping_generators():
            try:
                yield
            finally:
                draws.put(self.settings, given)


def _is_given(sampler: Any) -> bool:
    """Return True if these are indices, or batches of them, that can be iterated at any time."""
    return isinstance(sampler, (list, tuple, range, np.ndarray, torch.Tensor))


def _given(sampler: Any) -> Iterator[Any]:
    """Return an iterator over user-supplied indices or batches of them; raise ValueError for anything else."""
    if not _is_given(sampler):
        raise ValueError(
            "samples_of: with shard= only the batches of the running epoch are known, because asking "
            f"{type(sampler).__name__} about a different epoch would change its position; use one of sluicegate's "
            "samplers with seed="
        )
    return iter(sampler)


def _unknown_batch_error(sampler: Any) -> ValueError:
    return ValueError(
        f"samples_of: only the last received batch is known, because asking {type(sampler).__name__} about others "
        "would change its position; iterate over with_ids() to see the ids of each batch, or use one of sluicegate's "
        "samplers with seed="
    )
