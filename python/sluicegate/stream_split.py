"""How a native stream is split among workers, and how what is left of it is split among another number of them."""

from __future__ import annotations

import bisect
import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# What was read under another split, as a state keeps it: [num_workers, run, by worker the ordinal below which all of
# its samples were read, those of them that shuffle buffers held: ascending].
Consumed = list[Any]

# A place in a stream, as the core has it: ordinal, source, ordinal of the source's first sample, offset.
START = (0, 0, 0, 0)


@dataclass(frozen=True)
class StreamSplit:
    """Who reads which samples of a stream: ranks differ sample by sample, and a rank's workers take runs of its own.

    Args:
        rank: the training process, from 0.
        world_size: the number of training processes.
        num_workers: the number of workers of each rank, at least 1.
        run: how many samples of the rank in a row belong to one worker, at least 1.

    Examples:
        >>> split = StreamSplit(rank=0, world_size=1, num_workers=2, run=3)
        >>> [split.worker_of(ordinal) for ordinal in range(7)]
        [0, 0, 0, 1, 1, 1, 0]
    """

    rank: int
    world_size: int
    num_workers: int
    run: int

    def worker_of(self, ordinal: int) -> int | None:
        """Whose the sample is; None where it is another rank's."""
        if ordinal % self.world_size != self.rank:
            return None
        return ordinal // self.world_size // self.run % self.num_workers

    def next_of(self, worker: int, ordinal: int) -> int:
        """The first ordinal of `worker` that is not below `ordinal`."""
        place = max(-(-(ordinal - self.rank) // self.world_size), 0)
        run = place // self.run
        if behind := (worker - run) % self.num_workers:
            place = (run + behind) * self.run
        return place * self.world_size + self.rank

    def count(self, worker: int, stop: int) -> int:
        """How many ordinals of `worker` are below `stop`."""
        of_rank = max(-(-(stop - self.rank) // self.world_size), 0)
        rounds, rest = divmod(of_rank, self.run * self.num_workers)
        return rounds * self.run + min(max(rest - worker * self.run, 0), self.run)

    def has_read(self, consumed: Consumed, ordinal: int) -> bool:
        """Whether the sample was read under another split of the same rank."""
        num_workers, run, until, held = consumed
        worker = StreamSplit(self.rank, self.world_size, num_workers, run).worker_of(ordinal)
        return worker is not None and ordinal < until[worker] and not _is_in(held, ordinal)


class Reached(NamedTuple):
    """Where a worker is in its part of a native stream.

    Attributes:
        state: of the stream, at a place that lies before all that is left of the part.
        until: of the part, what lies below this ordinal was read.
        held: the ordinals below it that a shuffle buffer holds, and nobody got: ascending.
    """

    state: dict[str, Any]
    until: int
    held: list[int]


def in_full(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a native stream, with what those that were written before there were runs do not say."""
    return {"run": 1, "consumed": [], **state}


def split_anew(workers: Sequence[Reached | None], num_workers: int, run: int) -> list[dict[str, Any]]:
    """The states of a native stream for other workers, who go on with what is left of it: each sample has one owner.

    They begin at the last place before which all is known to have been read. What lies behind it and was read all the
    same, for the workers before were not equally far, is passed over. So the samples that are left come in the order in
    which these workers would have given them, had they read from the start.

    Args:
        workers: of a rank, by number; None of one that had read nothing. Not all are None.
        num_workers: how many go on, at least 1.
        run: how many samples in a row belong to one of them.
    """
    known = [worker for worker in workers if worker is not None]
    first = known[0].state
    consumer = first["consumer"]
    rank, world_size = consumer["rank"], consumer["world_size"]
    there = StreamSplit(rank, world_size, len(workers), first["run"])
    here = StreamSplit(rank, world_size, num_workers, run)
    until = [0 if worker is None else worker.until for worker in workers]
    held = sorted(ordinal for worker in known for ordinal in worker.held)
    left = min([*held[:1], *(there.next_of(worker, ordinal) for worker, ordinal in enumerate(until))])
    places = [START if worker is None else worker.state["inner"] or START for worker in workers]
    # One lies before it: that of whoever is behind all others.
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
    """Where a worker is whose samples go through a shuffle buffer.

    Args:
        state: of the stream, when `since` samples had been read.
        since: how many were, not more than the least of `held`.
        read: how many have been read by now.
        held: which of them the buffer holds, counted as they were read.
    """
    state = in_full(state)
    consumer, place = state["consumer"], state["inner"] or START
    split = StreamSplit(consumer["rank"], consumer["world_size"], consumer["num_workers"], state["run"])
    ordinals: list[int] = []
    ordinal = place[0]
    while len(ordinals) < read - since:
        ordinal = split.next_of(consumer["worker"], ordinal)
        if not any(split.has_read(each, ordinal) for each in state["consumed"]):
            ordinals.append(ordinal)
        ordinal += 1
    return Reached(state, ordinal, sorted(ordinals[number - since] for number in held))


def still_ahead(consumed: Sequence[Consumed], ordinal: int) -> list[Consumed]:
    """What of `consumed` is of any use to one who has come to `ordinal`."""
    return [list(each) for each in consumed if max(each[2]) > ordinal]


def _is_in(ascending: Sequence[int], number: int) -> bool:
    place = bisect.bisect_left(ascending, number)
    return place < len(ascending) and ascending[place] == number


def _count_consumed(split: StreamSplit, worker: int, start: int, consumed: list[Consumed]) -> int:
    """How many samples of `worker` from `start` on were read before."""
    count, stop = 0, max((max(each[2]) for each in consumed), default=start)
    ordinal = split.next_of(worker, start)
    while ordinal < stop:
        count += any(split.has_read(each, ordinal) for each in consumed)
        ordinal = split.next_of(worker, ordinal + 1)
    return count


class _Splitting(threading.local):
    """How many samples in a row belong to a worker, of the stream that this thread begins."""

    run = 1


_splitting = _Splitting()


def current_run() -> int:
    """How many samples of a rank in a row belong to one worker, in a native stream that begins now."""
    return _splitting.run


@contextlib.contextmanager
def in_runs(run: int) -> Iterator[None]:
    """Around `iter` of a native stream: so many samples of a rank in a row belong to one worker."""
    before, _splitting.run = _splitting.run, run
    try:
        yield
    finally:
        _splitting.run = before
