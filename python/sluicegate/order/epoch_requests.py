"""The batches of one epoch in request order: numbered, with positions, and without skipped ones."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

from sluicegate import _core, _torch
from sluicegate.rng.global_generators import keeping_generators
from sluicegate.rng.stream_seeding import Seeding, StreamSeeding, sampler_seeding

from .draws import put_own, take_own
from .epoch_progress import EpochProgress
from .ids import BatchIds
from .plan import Ordering, make_plan
from .requests import Slice, planned_of, size_of, without
from .sampler_stream import SamplerStream, leave_epoch, requested_sampler_name
from .torch_order import known_requests
from .yielded_requests import YieldedRequests


class PlannedRequests:
    """Yields the batches of an arithmetic order, from the position of `progress` on.

    Not a generator, which would end the epoch if a signal handler raises in it.
    """

    def __init__(self, progress: EpochProgress, seeding: Seeding | None, ordering: Ordering) -> None:
        self._progress, self._seeding, self._ordering = progress, seeding, ordering
        self._has_begun = False
        self._batch = self._stop = 0

    def __iter__(self) -> PlannedRequests:
        return self

    def __next__(self) -> BatchIds:
        if not self._has_begun:
            self._has_begun = True  # As a generator, it does not begin again after an error.
            self._begin()
        left_out, ahead = self._progress.left_out, self._progress.received.ahead
        while (batch := self._batch) < self._stop:
            request = planned_of((self._plan, batch, self._is_single))
            position = self._plan.position_after(batch) + self._plan.rank
            ids = BatchIds(self._first + batch, self._epoch, position, request)
            is_wanted = not (left_out.is_something or ahead) or _is_wanted(self._progress, ids)
            # Last: if a signal handler raises before this, the batch is made again.
            self._batch = batch + 1
            if is_wanted:
                return ids
        raise StopIteration

    def _begin(self) -> None:
        progress, ordering = self._progress, self._ordering
        self._epoch = _begin(progress, self._seeding)
        received = progress.received
        if ordering.seed is not None and ordering.lists_sampler:
            _restore_own(progress, ordering.index_sampler)
        self._plan = make_plan(ordering, self._epoch, received.start, functools.partial(_listed, progress))
        received.set_plan(self._plan)
        self._first, self._is_single = received.count, ordering.is_single
        self._stop = len(self._plan)


def _restore_own(progress: EpochProgress, index_sampler: Any) -> None:
    """Restore the generators that a sampler owns, and keep their states: a seed sets only the global ones."""
    if progress.resumed.draws is not None:
        put_own(index_sampler, progress.resumed.draws)
    progress.draws.generators = take_own(index_sampler)


def _listed(progress: EpochProgress, sampler: Any) -> Iterator[Any]:
    """Iterate over a user-defined sampler and materialize its whole epoch.

    The sampler's state in the middle of this means nothing. To list the epoch again, the sampler is brought to where
    the previous epoch left it, so states record that place until the epoch ends.

    Raises:
        ValueError: the state was saved while the sampler was asked batch by batch.
    """
    if progress.sampler_place() is not None:
        raise ValueError(
            f"shard: the state was saved without a shard in the middle of an epoch of {type(sampler).__name__}, and "
            "with shard= the sampler is read to its end at once; resume without shard= to the end of this epoch"
        )
    if (before := progress.sampler.place_before()) is not None:
        with keeping_generators():
            leave_epoch(sampler, before)
    else:
        progress.sampler.untold = before = progress.sampler.left_before()
    stream = SamplerStream(sampler, iter(sampler), None, 0, None, before)
    if not stream.is_stateful:
        return stream.indices
    progress.sampler.stream = stream
    return _recording_end(progress, stream, len(sampler))


def _recording_end(progress: EpochProgress, stream: SamplerStream, length: int) -> Iterator[Any]:
    yield from itertools.islice(stream, length)
    # Before the next item is requested from the sampler, which may start over when it notices its end.
    progress.sampler.end = stream.state()
    yield from stream


def of_stream(progress: EpochProgress, index_sampler: Any) -> Iterator[BatchIds]:
    """Yield requests that only give the size of a batch: the stream knows its own position."""
    size = _torch.constant_batch_size(index_sampler)
    # Torch's sampler makes the same list again for every batch, which takes as long as a small batch.
    requests = iter(index_sampler) if size is None else itertools.repeat([None] * size)
    return _of_stream(progress, requests)


def _of_stream(progress: EpochProgress, requests: Iterator[Any]) -> Iterator[BatchIds]:
    epoch = progress.begin()
    for request in requests:
        yield BatchIds(0, epoch, 0, request)


def drawn(
    progress: EpochProgress,
    seed: int | None,
    seeding: Seeding | None,
    index_sampler: Any,
    sampler_iter: Iterator[Any],
    engine: _core.Engine,
    auto_collation: bool,
    is_drawn: bool,
) -> Iterator[BatchIds]:
    """Yield the batches of a sampler, from the position of `progress` on; draws happen when torch's do.

    Args:
        progress: the consumer's position.
        seed: the loader's seed.
        seeding: its `begin` is called with the epoch; None without one.
        index_sampler: the loader's batch sampler, or its sampler if there are no batches.
        sampler_iter: `iter(index_sampler)`, not started; with a seed, `iter` is called here.
        engine: owns the memory of permutations.
        auto_collation: True if a request is a batch of indices.
        is_drawn: True if the order was already drawn when the state was taken: the same part of it is then drawn first,
            and `BEGUN` is yielded.
    """
    epoch = _begin(progress, seeding)
    received, sampler, drawing = progress.received, progress.sampler, progress.draws
    past, position = received.count, received.start
    # The requests yielded again of those that were yielded before.
    again = YieldedRequests()
    left_out, ahead = progress.left_out, received.ahead
    stream: Any = None if seed is not None else known_requests(index_sampler, engine, past, drawing.order)
    is_known = stream is not None
    # In seed mode, the draws of a user-defined sampler are determined by the seed too.
    draws = None if seed is None else sampler_seeding(seed, epoch)
    if draws is not None:
        _restore_own(progress, index_sampler)
    if not is_known:
        with contextlib.nullcontext() if draws is None else draws.batch():
            if (before := sampler.place_before()) is not None:
                with keeping_generators():  # The draws of the previous epoch are not part of this one.
                    leave_epoch(index_sampler, before)
            if before is not None or draws is not None:
                sampler_iter = iter(index_sampler)  # Torch called `iter` too early, or, with a seed, not at all.
            state = progress.sampler_place() if past else None
            before = sampler.left_before()
            see_past = functools.partial(again.add, received=past)
            stream = SamplerStream(index_sampler, sampler_iter, state, past, drawing.order, before, see_past)
            sampler.stream = stream if stream.is_stateful else None
    requests: Iterator[Any] = stream if draws is None else _seeded(stream, draws)
    # The draws of a stateful sampler are determined by its state, so its requests are not counted.
    is_counted = draws is None and not is_known and not stream.is_stateful
    if is_drawn:
        # Now, not at the first `next`: the generators are where they were when this was drawn. Torch's samplers draw
        # at the first index; others may draw at each, so only requests that had been made are repeated.
        count = int(not past and (is_known or not stream.is_stateful))
        if is_counted and drawing.requests is not None:
            count = max(drawing.requests - past, 0)
        first = [_own(request) for request in itertools.islice(requests, count)]
        if is_counted:
            yielded = drawing.yielded
            for number, request in enumerate(first, past):
                again.add(number, request, past)
            if not yielded.is_like(again, past):
                _warn_of_other_requests(index_sampler)
            first = yielded.ahead(past) or first
            for number, request in enumerate(first, past):
                yielded.add(number, request, past)
        requests = itertools.chain(first, requests)
        yield BEGUN
    for number, request in enumerate(requests, past):
        if type(request) is list:
            request = _own(request)
        if is_counted:
            drawing.requests = max(drawing.requests or 0, number + 1)
            drawing.yielded.add(number, request, received.count)
        if type(request) is Slice:  # Same as `size_of`, without the call.
            end = position + request.stop - request.start
        else:
            end = position + (size_of(request) if auto_collation else 1)
        ids = BatchIds(number, epoch, position, request, end)
        position = end
        if not is_known:
            ids.sampler_state = sampler.end = stream.state()
        if not (left_out.is_something or ahead) or _is_wanted(progress, ids):
            yield ids


def _warn_of_other_requests(index_sampler: Any) -> None:
    warnings.warn(
        f"load_state_dict: {requested_sampler_name(index_sampler)} does not yield the same indices as before the state "
        "was saved: it draws in the middle of an epoch, and other code draws from the same generator; if its indices "
        "depend on earlier ones, the rest of the epoch may repeat some samples and leave others out; give it its own "
        "generator, or define state_dict and load_state_dict in it",
        UserWarning,
        stacklevel=10,
    )


def _own(request: Any) -> Any:
    """Copy a list: a sampler may reuse it before this batch is fetched, or before its ids are read."""
    return request.copy() if type(request) is list else request


def _seeded(stream: Iterator[Any], draws: StreamSeeding) -> Iterator[Any]:
    while True:
        with draws.batch():
            request = next(stream, _END)
        if request is _END:
            return
        yield request


_END = object()
# Yielded by `drawn` after the draws that come before the first batch.
BEGUN: Any = object()


def _begin(progress: EpochProgress, seeding: Seeding | None) -> int:
    epoch = progress.begin()
    if seeding is not None:
        seeding.begin(epoch)
    return epoch


def _is_wanted(progress: EpochProgress, ids: BatchIds) -> bool:
    """Return True if this batch should be fetched; skipped samples are removed from it."""
    left_out = progress.left_out
    if ids.batch_index in progress.received.ahead:
        ids.request = None  # It was received out of order, before the state was taken.
    elif left_out.has_batch(ids.epoch, ids.batch_index):
        ids.request = None
    elif left_out.samples:
        ids.request = without(ids.request, left_out.samples)
    if ids.request is None:
        progress.received.skip(ids)
    return ids.request is not None
