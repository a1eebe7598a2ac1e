"""The batches of one epoch that are asked for, one after the other: numbered, placed, and without what is left out."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import Any

from . import _core
from .global_generators import keeping_generators
from .ids import BatchIds
from .plan import Ordering, make_plan
from .progress import Progress
from .requests import Slice, planned_of, size_of, without
from .sampler_stream import SamplerStream, leave_epoch
from .stream_seeding import Seeding, StreamSeeding, sampler_seeding
from .torch_order import known_requests


def planned(progress: Progress, seeding: Seeding | None, ordering: Ordering) -> Iterator[BatchIds]:
    """The batches of an order that is arithmetic, from where `progress` is on."""
    epoch = _begin(progress, seeding)
    plan = make_plan(ordering, epoch, progress.start, functools.partial(_listed, progress))
    if progress.sampler_stream is not None:
        progress.sampler_end = progress.sampler_stream.state()
    progress.set_plan(plan)
    first, rank, is_single = progress.received, plan.rank, ordering.is_single
    left_out, ahead = progress.left_out, progress.ahead
    for batch in range(len(plan)):
        request = planned_of((plan, batch, is_single))
        ids = BatchIds(first + batch, epoch, plan.position_after(batch) + rank, request)
        if not (left_out.is_something or ahead) or _is_wanted(progress, ids):
            yield ids


def _listed(progress: Progress, sampler: Any) -> Iterator[Any]:
    """A pass over a sampler of the user's that is asked for its whole epoch at once.

    Where it is in the midst of that says nothing then: to list it again it is brought to where the epoch before left
    it, which is what states say of it until the epoch ends.

    Raises:
        ValueError: the state was saved where the sampler was asked batch by batch.
    """
    if progress.sampler_state() is not None:
        raise ValueError(
            f"the state was saved without a shard, in the midst of what {type(sampler).__name__} yields, and with one "
            "it is asked for its whole epoch at once: go on without a shard to the end of this epoch"
        )
    if (before := progress.sampler_state_before()) is not None:
        with keeping_generators():
            leave_epoch(sampler, before)
    else:
        progress.sampler_untold = before = progress.what_sampler_left()
    stream = SamplerStream(sampler, iter(sampler), None, 0, None, before)
    if not stream.is_stateful:
        return stream.indices
    progress.sampler_stream = stream
    return stream


def of_stream(progress: Progress, sampler_iter: Iterator[Any]) -> Iterator[BatchIds]:
    """Requests that say no more than how large a batch is to be: the stream knows where it is."""
    epoch = progress.begin()
    for request in sampler_iter:
        yield BatchIds(0, epoch, 0, request)


def drawn(
    progress: Progress,
    seed: int | None,
    seeding: Seeding | None,
    index_sampler: Any,
    sampler_iter: Iterator[Any],
    engine: _core.Engine,
    auto_collation: bool,
    is_drawn: bool,
) -> Iterator[BatchIds]:
    """The batches that a sampler yields, from where `progress` is on; drawn when torch draws.

    Args:
        progress: where the consumer is.
        seed: the loader's.
        seeding: what is told which epoch it is.
        index_sampler: the loader's batch sampler, or its sampler when batches are not made.
        sampler_iter: `iter(index_sampler)`, not begun; with a seed it is called here.
        engine: where permutations live.
        auto_collation: whether a request is a batch of indices.
        is_drawn: whether the order was drawn when the state was taken: first, as much of it is drawn then, and `BEGUN`
            yielded.
    """
    epoch = _begin(progress, seeding)
    past, position = progress.received, progress.start
    left_out, ahead = progress.left_out, progress.ahead
    stream: Any = None if seed is not None else known_requests(index_sampler, engine, past, progress.order)
    is_known = stream is not None
    # What a sampler of the user's draws in seed mode follows from the seed too.
    draws = None if seed is None else sampler_seeding(seed, epoch)
    if not is_known:
        with contextlib.nullcontext() if draws is None else draws.batch():
            if (before := progress.sampler_state_before()) is not None:
                with keeping_generators():  # What the epoch before has drawn is no part of this one.
                    leave_epoch(index_sampler, before)
            if before is not None or draws is not None:
                sampler_iter = iter(index_sampler)  # Torch has called it before that; or not at all, with a seed.
            state = progress.sampler_state() if past else None
            before = progress.what_sampler_left()
            stream = SamplerStream(index_sampler, sampler_iter, state, past, progress.order, before)
            progress.sampler_stream = stream if stream.is_stateful else None
    requests: Iterator[Any] = stream if draws is None else _seeded(stream, draws)
    # What a sampler draws that says where it is follows from that.
    is_counted = draws is None and not is_known and not stream.is_stateful
    if is_drawn:
        # Now, and not at the first `next`: the generators are where they were when this was drawn. Torch's samplers
        # draw when they are asked for the first index; others for every one, so none is asked for that had not been.
        count = int(not past and (is_known or not stream.is_stateful))
        if is_counted and progress.requests_drawn is not None:
            count = max(progress.requests_drawn - past, 0)
        first = [_own(request) for request in itertools.islice(requests, count)]
        requests = itertools.chain(first, requests)
        yield BEGUN
    for number, request in enumerate(requests, past):
        if type(request) is list:
            request = _own(request)
        if is_counted:
            progress.requests_drawn = max(progress.requests_drawn or 0, number + 1)
        if type(request) is Slice:  # What `size_of` says, without the call.
            end = position + request.stop - request.start
        else:
            end = position + (size_of(request) if auto_collation else 1)
        ids = BatchIds(number, epoch, position, request, end)
        position = end
        if not is_known:
            ids.sampler_state = progress.sampler_end = stream.state()
        if not (left_out.is_something or ahead) or _is_wanted(progress, ids):
            yield ids


def _own(request: Any) -> Any:
    """A sampler may use its list again before this batch is fetched, or its ids are asked for."""
    return request.copy() if type(request) is list else request


def _seeded(stream: Iterator[Any], draws: StreamSeeding) -> Iterator[Any]:
    while True:
        with draws.batch():
            request = next(stream, _END)
        if request is _END:
            return
        yield request


_END = object()
# What `drawn` yields when it has done all that comes before the first batch.
BEGUN: Any = object()


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
    if left_out.has_batch(ids.epoch, ids.batch_index):
        ids.request = None
    elif left_out.samples:
        ids.request = without(ids.request, left_out.samples)
    if ids.request is None:
        progress.pass_over(ids)
    return ids.request is not None
