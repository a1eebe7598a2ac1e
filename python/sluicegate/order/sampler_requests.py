"""The batches of one epoch that a sampler determines: by torch's own draws, or because Python code yields them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

from sluicegate import _core
from sluicegate.rng.stream_seeding import Seeding, StreamSeeding, sampler_seeding

from .epoch_progress import EpochProgress
from .epoch_requests import begin_epoch, is_wanted, leave_epoch_before, restore_own
from .ids import BatchIds
from .requests import Slice, size_of
from .sampler_stream import SamplerStream, requested_sampler_name
from .torch_order import known_requests
from .yielded_requests import YieldedRequests

# Yielded after the draws that come before the first batch.
BEGUN: Any = object()

_END = object()


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
    epoch = begin_epoch(progress, seeding)
    past, order = progress.received.count, progress.draws.order
    requests = None if seed is not None else known_requests(index_sampler, engine, past, order)
    if requests is None:
        yield from _yielded(progress, epoch, seed, index_sampler, sampler_iter, auto_collation, is_drawn)
        return
    if is_drawn:
        # Now, not at the first `next`: the generators are where they were when this was drawn, at the first index.
        requests = itertools.chain(list(itertools.islice(requests, int(not past))), requests)
        yield BEGUN
    yield from _numbered(progress, epoch, requests, auto_collation)


def _yielded(
    progress: EpochProgress,
    epoch: int,
    seed: int | None,
    index_sampler: Any,
    sampler_iter: Iterator[Any],
    auto_collation: bool,
    is_drawn: bool,
) -> Iterator[BatchIds]:
    """Yield the batches of a sampler whose Python code yields them."""
    # The requests yielded again of those that were yielded before the state was taken.
    again = YieldedRequests()
    # A seed determines the draws of such a sampler, too.
    draws = None if seed is None else sampler_seeding(seed, epoch)
    if draws is not None:
        restore_own(progress, index_sampler)
    with contextlib.nullcontext() if draws is None else draws.batch():
        stream = _begun_stream(progress, index_sampler, sampler_iter, again, is_seeded=draws is not None)
    requests: Iterator[Any] = stream if draws is None else _seeded(stream, draws)
    # The order of a stateful sampler is determined by its state, so its requests are not counted.
    is_counted = not stream.is_stateful
    if is_drawn:
        first = _drawn_again(progress, requests, again, index_sampler) if is_counted else []
        requests = itertools.chain(first, requests)
        yield BEGUN
    if is_counted:
        requests = _counted(progress, requests, is_seeded=draws is not None)
    yield from _numbered(progress, epoch, requests, auto_collation, stream)


def _begun_stream(
    progress: EpochProgress, index_sampler: Any, sampler_iter: Iterator[Any], again: YieldedRequests, is_seeded: bool
) -> SamplerStream:
    """Return the requests of a sampler that come after those that were received."""
    sampler, past = progress.sampler, progress.received.count
    if (before := sampler.place_before()) is not None:
        leave_epoch_before(progress, index_sampler, before)
    if before is not None or is_seeded:
        sampler_iter = iter(index_sampler)  # Torch called `iter` too early, or, with a seed, not at all.
    state = progress.sampler_place() if past else None
    before = sampler.left_before()
    see_past = functools.partial(again.add, received=past)
    stream = SamplerStream(index_sampler, sampler_iter, state, past, progress.draws.order, before, see_past)
    sampler.stream = stream if stream.is_stateful else None
    return stream


def _drawn_again(
    progress: EpochProgress, requests: Iterator[Any], again: YieldedRequests, index_sampler: Any
) -> list[Any]:
    """Return the requests made ahead when the state was taken, after the sampler has drawn them again.

    It may draw at each request, so only those that had been made are repeated: now, not at the first `next`, because
    the generators are where they were then. With a seed of the loader, only the first one, which needs no generators
    of others.
    """
    past, draws = progress.received.count, progress.draws
    count = int(not past) if draws.requests is None else max(draws.requests - past, 0)
    first = [_own(request) for request in itertools.islice(requests, count)]
    for number, request in enumerate(first, past):
        again.add(number, request, past)
    if not draws.yielded.is_like(again, past):
        _warn_of_other_requests(index_sampler)
    first = draws.yielded.ahead(past) or first
    for number, request in enumerate(first, past):
        draws.yielded.add(number, request, past)
    return first


def _counted(progress: EpochProgress, requests: Iterator[Any], is_seeded: bool) -> Iterator[Any]:
    """Yield `requests`, and keep what a resumed loader needs to know of them: with a seed, only their checksum."""
    received, draws = progress.received, progress.draws
    number = received.count
    while True:
        request = next(requests, _END)
        number += 1
        if not is_seeded:
            # Also for the end: a batch that is dropped there was drawn.
            draws.requests = max(draws.requests or 0, number)
        if request is _END:
            return
        draws.yielded.add(number - 1, request, received.count)
        yield request


def _numbered(
    progress: EpochProgress,
    epoch: int,
    requests: Iterator[Any],
    auto_collation: bool,
    stream: SamplerStream | None = None,
) -> Iterator[BatchIds]:
    """Yield the batches of `requests` that are to be fetched.

    Args:
        progress: the consumer's position.
        epoch: the number of the epoch.
        requests: the first of them is the first batch that was not received.
        auto_collation: True if a request is a batch of indices.
        stream: the sampler that yields them, whose state is kept with each batch; None for torch's own samplers.
    """
    received, left_out = progress.received, progress.left_out
    ahead, position = received.ahead, received.start
    for number, request in enumerate(requests, received.count):
        if type(request) is list:
            request = _own(request)
        if type(request) is Slice:  # Same as `size_of`, without the call.
            end = position + request.stop - request.start
        else:
            end = position + (size_of(request) if auto_collation else 1)
        ids = BatchIds(number, epoch, position, request, end)
        position = end
        if stream is not None:
            ids.sampler_state = progress.sampler.end = stream.state()
        if not (left_out.is_something or ahead) or is_wanted(progress, ids):
            yield ids


def _warn_of_other_requests(index_sampler: Any) -> None:
    warnings.warn(
        f"load_state_dict: {requested_sampler_name(index_sampler)} does not yield the same indices as before the state "
        "was saved: it keeps something from epoch to epoch that the state does not have (a count, or a generator in a "
        "part of it), or it draws in the middle of an epoch, and other code draws from the same generator; the rest of "
        "the epoch may repeat some samples and leave others out; define state_dict and load_state_dict in it, or give "
        "it its own generator as an attribute",
        UserWarning,
        stacklevel=12,
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
