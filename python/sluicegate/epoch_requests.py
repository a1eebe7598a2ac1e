"""The batches of one epoch that are asked for, one after the other: numbered, placed, and without what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _core
from .fetch import Seeding
from .ids import BatchIds
from .plan import Ordering, make_plan
from .progress import Progress
from .requests import Planned, size_of, without
from .sampler_stream import SamplerStream
from .torch_order import known_requests


def planned(progress: Progress, seeding: Seeding | None, ordering: Ordering) -> Iterator[BatchIds]:
    """The batches of an order that is arithmetic, from where `progress` is on."""
    epoch = _begin(progress, seeding)
    plan = make_plan(ordering, epoch, progress.start)
    progress.set_plan(plan)
    first, rank = progress.received, plan.rank
    for batch in range(len(plan)):
        request = Planned(plan, batch, not ordering.auto_collation)
        ids = BatchIds(first + batch, epoch, plan.position_after(batch) + rank, request)
        if _is_wanted(progress, ids):
            yield ids


def of_stream(progress: Progress, sampler_iter: Iterator[Any]) -> Iterator[BatchIds]:
    """Requests that say no more than how large a batch is to be: the stream knows where it is."""
    epoch = progress.begin()
    for request in sampler_iter:
        yield BatchIds(0, epoch, 0, request)


def drawn(
    progress: Progress,
    seeding: Seeding | None,
    index_sampler: Any,
    sampler_iter: Iterator[Any],
    engine: _core.Engine,
    auto_collation: bool,
) -> Iterator[BatchIds]:
    """The batches that a sampler yields, from where `progress` is on; drawn when torch draws.

    Args:
        progress: where the consumer is.
        seeding: what is told which epoch it is.
        index_sampler: the loader's batch sampler, or its sampler when batches are not made.
        sampler_iter: `iter(index_sampler)`, not begun.
        engine: where permutations live.
        auto_collation: whether a request is a batch of indices.
    """
    epoch = _begin(progress, seeding)
    past, position = progress.received, progress.start
    stream: Any = known_requests(index_sampler, engine, past, progress.order)
    is_known = stream is not None
    if not is_known:
        stream = SamplerStream(index_sampler, sampler_iter, progress.sampler_state() if past else None, past)
    for number, request in enumerate(stream, past):
        ids = BatchIds(number, epoch, position, request)
        position += size_of(request) if auto_collation else 1
        if not is_known:
            ids.sampler_state = stream.state()
        if _is_wanted(progress, ids):
            yield ids


def _begin(progress: Progress, seeding: Seeding | None) -> int:
    epoch = progress.begin()
    if seeding is not None:
        seeding.begin(epoch)
    return epoch


def _is_wanted(progress: Progress, ids: BatchIds) -> bool:
    """Whether this batch is to be fetched; samples that are left out are taken out of it."""
    if ids.batch_index in progress.ahead:
        return False  # It was received out of turn, before the state was taken.
    left_out = progress.left_out
    if not left_out:
        return True
    if left_out.has_batch(ids.epoch, ids.batch_index):
        return False
    if left_out.samples:
        ids.request = without(ids.request, left_out.samples)
    return ids.request is not None
