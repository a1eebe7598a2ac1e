"""Splitting a native stream among workers, and splitting the rest of it among a different number of them."""

from __future__ import annotations

import bisect
import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sluicegate import _core

# The samples read under an earlier split, as a state keeps it: [num_workers, run, until, held]. `until` has, by worker,
# the ordinal below which all of its samples were read; `held` has the ordinals of those that shuffle buffers held,
# ascending.
Consumed = list[Any]

# A position in a stream, as the core has it: ordinal, source, ordinal of the source's first sample, offset.
START = (0, 0, 0, 0)


@dataclass(frozen=True)
class WorkerSplit:
    """Who reads which samples of a stream: ranks alternate by sample, and the workers of a rank by runs of its samples.

    Args:
        rank: the training process, from 0.
        world_size: the number of training processes.
        num_workers: the number of workers of each rank, at least 1.
        run: the number of consecutive samples of the rank that belong to one worker, at least 1.

    Examples:
        >>> split = WorkerSplit(rank=0, world_size=1, num_workers=2, run=3)
        >>> [split.worker_of(ordinal) for ordinal in range(7)]
        [0, 0, 0, 1, 1, 1, 0]
    """

    rank: int
    world_size: int
    num_workers: int
    run: int

    def worker_of(self, ordinal: int) -> int | None:
        """Return the worker that owns the sample; None if it belongs to another rank."""
        if ordinal % self.world_size != self.rank:
            return None
        return ordinal // self.world_size // self.run % self.num_workers

    def next_of(self, worker: int, ordinal: int) -> int:
        """Return the first ordinal of `worker` that is at least `ordinal`."""
        place = max(-(-(ordinal - self.rank) // self.world_size), 0)
        run = place // self.run
        if behind := (worker - run) % self.num_workers:
            place = (run + behind) * self.run
        return place * self.world_size + self.rank

    def count(self, worker: int, stop: int) -> int:
        """Return the number of ordinals of `worker` below `stop`."""
        of_rank = max(-(-(stop - self.rank) // self.world_size), 0)
        rounds, rest = divmod(of_rank, self.run * self.num_workers)
        return rounds * self.run + min(max(rest - worker * self.run, 0), self.run)

    def has_read(self, consumed: Consumed, ordinal: int) -> bool:
        """Return True if the sample was read under an earlier split of the same rank."""
        num_workers, run, until, held = consumed
        worker = WorkerSplit(self.rank, self.world_size, num_workers, run).worker_of(ordinal)
        return worker is not None and ordinal < until[worker] and not _is_in(held, ordinal)


class Reached(NamedTuple):
    """The progress of a worker in its part of a native stream.

    Attributes:
        state: the stream's state, at a position before everything that is left of the part.
        until: all samples of the part below this ordinal were read.
        held: the ordinals below `until` that a shuffle buffer holds and has not delivered, ascending.
    """

    state: dict[str, Any]
    until: int
    held: list[int]


def with_run_keys(state: Mapping[str, Any]) -> dict[str, Any]:
    """Add the keys that states of a native stream lack if they were written before runs existed."""
    return {"run": 1, "consumed": [], **state}


def split_again(workers: Sequence[Reached | None], num_workers: int, run: int) -> list[dict[str, Any]]:
    """Return states of a native stream for a different number of workers to read the rest: each sample has one owner.

    The workers start at the last position before which everything is known to have been read. Samples after it that
    were already read, because the previous workers were not equally far, are skipped. So the remaining samples come in
    the order in which these workers would have delivered them, had they read from the start.

    Args:
        workers: the workers of a rank, by number; None for one that had read nothing. Not all are None.
        num_workers: the new number of workers, at least 1.
        run: the number of consecutive samples that belong to one of the new workers.
    """
    known = [worker for worker in workers if worker is not None]
    first = known[0].state
    consumer = first["consumer"]
    rank, world_size = consumer["rank"], consumer["world_size"]
    there = WorkerSplit(rank, world_size, len(workers), first["run"])
    here = WorkerSplit(rank, world_size, num_workers, run)
    until = [0 if worker is None else worker.until for worker in workers]
    held = sorted(ordinal for worker in known for ordinal in worker.held)
    left = min([*held[:1], *(there.next_of(worker, ordinal) for worker, ordinal in enumerate(until))])
    places = [START if worker is None else worker.state["inner"] or START for worker in workers]
    # At least one position qualifies: that of the worker furthest behind.
    start = max((place for place in places if place[0] <= left), key=lambda place: place[0])
    consumed: list[Consumed] = [[there.num_workers, there.run, until, held]]
    for worker in known:
        consumed += [list(each) for each in worker.state["consumed"] if list(each) not in consumed]
    consumed = still_ahead(consumed, start[0])
    shared = {**first, "inner": list(start), "run": run, "consumed": consumed}
    shared["ended"] = not held and all(worker is not None and worker.state["ended"] for worker in workers)
    return [
        {**shared, "consumer": {**consumer, "worker": worker, "num_workers": num_workers}}
        | {"read": here.count(worker, start[0]) + _count_consumed(here, worker, start[0], consumed)}
        for worker in range(num_workers)
    ]


def reached_with_buffer(state: dict[str, Any], since: int, read: int, held: Sequence[int]) -> Reached:
    """Return the progress of a worker whose samples go through a shuffle buffer.

    Args:
        state: the stream's state after `since` samples.
        since: the number of samples read then, at most the smallest of `held`.
        read: the number of samples read by now.
        held: the samples that the buffer holds, numbered in the order in which they were read.
    """
    state = with_run_keys(state)
    consumer, place = state["consumer"], state["inner"] or START
    split = WorkerSplit(consumer["rank"], consumer["world_size"], consumer["num_workers"], state["run"])
    ordinals: list[int] = []
    ordinal = place[0]
    while len(ordinals) < read - since:
        ordinal = split.next_of(consumer["worker"], ordinal)
        if not any(split.has_read(each, ordinal) for each in state["consumed"]):
            ordinals.append(ordinal)
        ordinal += 1
    return Reached(state, ordinal, sorted(ordinals[number - since] for number in held))


def still_ahead(consumed: Sequence[Consumed], ordinal: int) -> list[Consumed]:
    """Return the entries of `consumed` that still matter to a reader at `ordinal`."""
    return [list(each) for each in consumed if max(each[2]) > ordinal]


def _is_in(ascending: Sequence[int], number: int) -> bool:
    place = bisect.bisect_left(ascending, number)
    return place < len(ascending) and ascending[place] == number


def _count_consumed(split: WorkerSplit, worker: int, start: int, consumed: list[Consumed]) -> int:
    """Return the number of samples of `worker` from `start` on that were read before."""
    count, stop = 0, max((max(each[2]) for each in consumed), default=start)
    ordinal = split.next_of(worker, start)
    while ordinal < stop:
        count += any(split.has_read(each, ordinal) for each in consumed)
        ordinal = split.next_of(worker, ordinal + 1)
    return count


class _Splitting(threading.local):
    """How the stream that this thread starts is split, and with whom it is read."""

    # The number of consecutive samples per worker.
    run = 1
    # The pass that all workers of this process share.
    shared: _core.StreamPass | None = None


_splitting = _Splitting()


def current_run() -> int:
    """Return the number of a rank's consecutive samples per worker in a native stream that starts now."""
    return _splitting.run


@contextlib.contextmanager
def in_runs(run: int) -> Iterator[None]:
    """Set the number of a rank's consecutive samples per worker, around `iter` of a native stream."""
    before, _splitting.run = _splitting.run, run
    try:
        yield
    finally:
        _splitting.run = before


def current_pass() -> _core.StreamPass | None:
    """Return the pass that a native stream which starts now shares with other workers; None if it reads by itself."""
    return _splitting.shared


@contextlib.contextmanager
def sharing(shared: _core.StreamPass | None) -> Iterator[None]:
    """Let native streams share a pass with those of other workers of this process, around `iter`."""
    before, _splitting.shared = _splitting.shared, shared
    try:
        yield
    finally:
        _splitting.shared = before
