"""The batches of one epoch that follow from arithmetic, and those of a stream, without skipped ones."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from sluicegate import _torch
from sluicegate.rng.global_generators import keeping_generators
from sluicegate.rng.stream_seeding import Seeding
from sluicegate.state.sampler_place import SamplerPlace

from .draws import put_own, take_own
from .epoch_progress import EpochProgress
from .ids import BatchIds
from .plan import Ordering, make_plan
from .requests import planned_of, without
from .sampler_stream import SamplerStream, leave_epoch


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
            requests_it = not (left_out.is_something or ahead) or is_wanted(self._progress, ids)
            # Last: if a signal handler raises before this, the batch is made again.
            self._batch = batch + 1
            if requests_it:
                return ids
        raise StopIteration

    def _begin(self) -> None:
        progress, ordering = self._progress, self._ordering
        self._epoch = begin_epoch(progress, self._seeding)
        received = progress.received
        if ordering.seed is not None and ordering.lists_sampler:
            restore_own(progress, ordering.index_sampler)
        ask = functools.partial(_listed, progress, ordering.index_sampler)
        self._plan = make_plan(ordering, self._epoch, received.start, ask)
        received.set_plan(self._plan)
        self._first, self._is_single = received.count, ordering.is_single
        self._stop = len(self._plan)


def restore_own(progress: EpochProgress, index_sampler: Any) -> None:
    """Restore the generators that a sampler owns, and keep their states: a seed sets only the global ones."""
    _put_own(progress, index_sampler)
    progress.draws.generators = take_own(index_sampler)


def _put_own(progress: EpochProgress, index_sampler: Any) -> None:
    if progress.resumed.draws is not None:
        put_own(index_sampler, progress.resumed.draws)


def leave_epoch_before(progress: EpochProgress, index_sampler: Any, before: SamplerPlace) -> None:
    """Bring a stateful sampler to `before`, where the previous epoch left it.

    To see the end of that epoch, the sampler may draw, from global generators and from those that it owns. These draws
    are not part of this epoch.
    """
    with keeping_generators():
        leave_epoch(index_sampler, before)
    _put_own(progress, index_sampler)


def _listed(progress: EpochProgress, index_sampler: Any, sampler: Any) -> Iterator[Any]:
    """Iterate over a user-defined sampler, the loader's or the one that it cuts, and materialize its whole epoch.

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
        leave_epoch_before(progress, index_sampler, before)
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


def begin_epoch(progress: EpochProgress, seeding: Seeding | None) -> int:
    """Note that the first batch is requested, for `seeding` too, and return the epoch's number."""
    epoch = progress.begin()
    if seeding is not None:
        seeding.begin(epoch)
    return epoch


def is_wanted(progress: EpochProgress, ids: BatchIds) -> bool:
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
