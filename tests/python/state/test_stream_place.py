"""Epochs of stateful streams that ended, or were left in the middle: what the next epoch finds after a resume."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler

import sluicegate
from cases.loader_kinds import take
from checks.programs import Run
from doubles import streams
from doubles.stateful import CongruentRows
from doubles.stateful import GeneratorStream as EagerStream
from doubles.streams import ClosingStream, CountingStream, GeneratorStream, MappedStream, ResettingStream

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

LENGTH = 11
# These start over, wherever the previous epoch was left.
STARTING_OVER: dict[str, Callable[[], Any]] = {
    "takes a state up when it runs": lambda: GeneratorStream(LENGTH),
    "runs at iter": lambda: EagerStream([LENGTH, LENGTH]),
}
# What these do next depends on where the previous epoch ended.
LAZY: dict[str, Callable[[], Any]] = {
    **STARTING_OVER,
    "restarts at its end": lambda: ResettingStream(LENGTH),
    "restarts when it is closed": lambda: ClosingStream(LENGTH),
    "counts epochs": lambda: CountingStream(LENGTH),
    "a generator in a map": lambda: MappedStream(LENGTH),
}
INNER = {name: LAZY[name] for name in ("takes a state up when it runs", "restarts at its end", "a generator in a map")}


STREAMS: dict[str, Callable[[], Any]] = {
    **LAZY,
    **{f"shuffled: {name}": lambda make=make: sluicegate.ShuffleBuffer(make(), 3, 5) for name, make in INNER.items()},
    **{f"sharded: {name}": lambda make=make: sluicegate.shard_iterable(make()) for name, make in INNER.items()},
}
WITHIN_OTHERS = [stream for stream in STREAMS if stream not in LAZY]


class ShuffledStream(IterableDataset[tuple[int, float]]):
    """Has no state; draws its order when it begins, and with every sample."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[tuple[int, float]]:
        for index in random.sample(range(self.length), self.length):
            yield index, random.random()


def make(stream: str, num_workers: int, **arguments: Any) -> Any:
    arguments = {"batch_size": 2, "persistent_workers": num_workers > 0, **arguments}
    return sluicegate.DataLoader(STREAMS[stream](), num_workers=num_workers, **arguments)


def left(stream: str, stops: list[int], num_workers: int, **arguments: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the state before the first batch of an epoch, after those that were left, and the batches that follow."""
    loader = make(stream, num_workers, **arguments)
    for stop in stops:
        assert len(take(iter(loader), stop)) <= stop
    iterator = iter(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    return state, [take(iterator), take(loader), take(loader)]


def resumed(stream: str, state: dict[str, Any], num_workers: int, **arguments: Any) -> list[Any]:
    loader = make(stream, num_workers, **arguments)
    loader.load_state_dict(state)
    return [take(loader) for _ in range(3)]


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("stops", [[2], [6, 2], [2, 0], [3, 0, 2], [1, 1]], ids=str)
@pytest.mark.parametrize("stream", [stream for stream in STREAMS if stream.endswith(tuple(STARTING_OVER))])
def test_streams_that_start_over_resume_as_they_would_have_gone_on(
    stream: str, stops: list[int], seed: int | None
) -> None:
    state, expected = left(stream, stops, 0, seed=seed)
    assert resumed(stream, state, 0, seed=seed) == expected


@pytest.mark.parametrize(("num_workers", "batch_size"), [(0, 2), (0, None), (1, 2), (2, 1)])
@pytest.mark.parametrize("stops", [[1], [30, 1], [1, 1, 0], [0, 1]], ids=str)
@pytest.mark.parametrize("stream", LAZY)
def test_an_epoch_left_in_the_middle_starts_over_after_a_resume(
    stream: str, stops: list[int], num_workers: int, batch_size: int | None
) -> None:
    arguments = {"batch_size": batch_size, "prefetch_factor": 1 if num_workers else None}
    state, _ = left(stream, stops, num_workers, **arguments)
    assert resumed(stream, state, num_workers, **arguments)[0] == take(make(stream, num_workers, **arguments))


@pytest.mark.parametrize("stops", [[2], [2, 0]], ids=str)
@pytest.mark.parametrize("stream", WITHIN_OTHERS)
def test_streams_within_others_start_over_after_a_resume(stream: str, stops: list[int]) -> None:
    state, _ = left(stream, stops, 0, batch_size=1)
    assert sorted(resumed(stream, state, 0, batch_size=1)[0]) == [[sample] for sample in range(LENGTH)]


# Every two values of different parameters occur together, where what is around a stream is a parameter, too.
STOPS = [[20], [20, 20], [20, 20, 20]]
PERSISTENT = [
    (stream, stops, (1, 0, 3)[(row + column) % 3], 1 + (row + column) % 2)
    for row, stream in enumerate(LAZY)
    for column, stops in enumerate(STOPS)
]
PERSISTENT += [
    (f"{around}: {stream}", STOPS[(row + column) % 3], (1, 0, 3)[(column - row) % 3], 2)
    for row, around in enumerate(["shuffled", "sharded"])
    for column, stream in enumerate(INNER)
]


@pytest.mark.parametrize(("stream", "stops", "every", "num_workers"), PERSISTENT, ids=str)
def test_persistent_workers_are_where_their_streams_ended(
    stream: str, stops: list[int], every: int, num_workers: int
) -> None:
    # The second worker has a part of the stream, or its own stream.
    arguments = {"snapshot_every_n_steps": every, "prefetch_factor": 1}
    state, expected = left(stream, stops, num_workers, **arguments)
    assert resumed(stream, state, num_workers, **arguments) == expected


@pytest.mark.parametrize(("num_workers", "every"), [(1, 1), (2, 0), (2, 3)])
@pytest.mark.filterwarnings("ignore:.*read again:UserWarning")
def test_a_stream_that_draws_its_order_at_first_draws_it_again_in_any_epoch(num_workers: int, every: int) -> None:
    def make() -> Any:
        return sluicegate.DataLoader(
            ShuffledStream(7),
            2,
            num_workers=num_workers,
            persistent_workers=True,
            snapshot_every_n_steps=every,
            generator=torch.Generator().manual_seed(3),
        )

    loader = make()
    take(loader)
    iterator = iter(loader)
    states, expected = [], []
    while batch := take(iterator, 1):
        expected += batch
        states.append(json.loads(json.dumps(loader.state_dict())))
    following = take(loader)
    # With one worker, after each batch; with two, after one of them, one of each, in the middle, and at the end.
    for received in range(1, len(states) + 1) if num_workers == 1 else (1, 2, 5, len(states)):
        resumed = make()
        resumed.load_state_dict(states[received - 1])
        iterator = iter(resumed)
        rest = take(iterator, 1)
        later = json.loads(json.dumps(resumed.state_dict()))
        assert rest + take(iterator) == expected[received:]
        assert take(resumed) == following
        # The states of a resumed loader, in the middle and at the end.
        if received % 4 == 1 or not rest:
            again = make()
            again.load_state_dict(later)
            assert take(again) == (expected[received + 1 :] if rest else following)


@pytest.mark.parametrize(("stream", "every"), [*zip(STREAMS, itertools.cycle([1, 0, 3]), strict=False)])
def test_a_resumed_worker_reads_again_from_a_state_of_this_epoch(stream: str, every: int) -> None:
    loader = make(stream, 1, snapshot_every_n_steps=every)
    take(loader)
    iterator = iter(loader)
    take(iterator, 1)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [take(iterator), take(loader)]
    assert resumed(stream, state, 1, snapshot_every_n_steps=every)[:2] == expected


def test_a_generator_that_was_left_is_closed_when_the_next_epoch_begins() -> None:
    # As with torch, which drops it: its `finally` must not run in the middle of the next epoch.
    loader = sluicegate.DataLoader(ClosingStream(6), batch_size=2)
    assert take(iter(loader), 1) == [[0, 1]]
    assert take(loader) == [[1000, 1001], [1002, 1003], [1004, 1005]]


class Untellable(GeneratorStream):
    """Can't return its state, but yields its samples."""

    def state_dict(self) -> dict[str, Any]:
        raise LookupError("place unknown")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_stream_whose_state_dict_fails_still_yields_its_samples(num_workers: int) -> None:
    loader = sluicegate.DataLoader(Untellable(6), 2, num_workers=num_workers, persistent_workers=num_workers > 0)
    take(iter(loader), 1)
    assert take(loader) == [[0, 1], [2, 3], [4, 5]]
    take(iter(loader), 1)
    with pytest.raises((LookupError, RuntimeError), match="place unknown"):
        loader.state_dict()


class Silent(sluicegate.IterableDataset[int]):
    """Can't return its state, not even at the start of an epoch; its iterator has its own."""

    def __iter__(self) -> Iterator[int]:
        return streams._Counter(6)  # type: ignore[return-value]

    def state_dict(self) -> dict[str, Any]:
        raise LookupError("place unknown")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_a_state_dict_that_fails_at_the_start_raises_the_users_error(
    worker_type: str, persistent_workers: bool
) -> None:
    loader = sluicegate.DataLoader(
        Silent(),
        2,
        num_workers=1,
        snapshot_every_n_steps=2,
        worker_type=worker_type,
        persistent_workers=persistent_workers,
    )
    for _ in range(2):
        iterator = iter(loader)
        with pytest.raises(LookupError, match="place unknown") as caught:
            next(iterator)
        if worker_type == "process":
            # As with any other error, it names the worker and has the traceback.
            assert "in DataLoader worker process 0" in str(caught.value.__cause__)
            assert "in state_dict" in str(caught.value.__cause__)
        assert take(iterator) == [[0, 1], [2, 3], [4, 5]]


PROGRAM = """
import json
from test_stream_place import resumed

for name, (stream, state, num_workers) in json.loads(cases).items():
    print(json.dumps([name, resumed(stream, state, num_workers)]))
"""


def test_another_process_resumes_streams_where_they_ended(run: Run) -> None:
    cases, expected = {}, {}
    for stream in STREAMS:
        for num_workers in (0, 2):
            name = f"{stream}, {num_workers} workers"
            state, expected[name] = left(stream, [20, 20], num_workers)
            cases[name] = (stream, state, num_workers)
    output = run('warnings.simplefilter("ignore")\n' + PROGRAM, cases=json.dumps(cases), deadline=60)
    output.check(stderr=None)
    assert dict(json.loads(line) for line in output.stdout.splitlines()) == expected


class Drawing(ResettingStream):
    """Draws from its samples' own generators."""

    def __iter__(self) -> Iterator[Any]:
        for sample in super().__iter__():
            yield sample, sluicegate.sample_rng().python.random()


def test_samples_that_are_read_again_have_their_generators() -> None:
    loaders = [
        sluicegate.DataLoader(Drawing(LENGTH), 2, num_workers=1, snapshot_every_n_steps=0, seed=3) for _ in range(2)
    ]
    iterator = iter(loaders[0])
    take(iterator, 3)
    state = loaders[0].state_dict()
    loaders[1].load_state_dict(state)
    assert take(loaders[1]) == take(iterator)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("stream", ["counts epochs", "restarts at its end", "runs at iter"])
def test_a_thread_begins_an_epoch_where_the_last_one_ended(
    stream: str, persistent_workers: bool, seed: int | None
) -> None:
    arguments = {"worker_type": "thread", "persistent_workers": persistent_workers, "seed": seed}
    loader = make(stream, 1, **arguments)
    epochs, states = [], []
    for _ in range(4):
        epochs.append(take(loader))
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert any(epochs)
    for number, state in enumerate(states[:-1], 1):
        other = make(stream, 1, **arguments)
        other.load_state_dict(state)
        assert [take(other) for _ in epochs[number:]] == epochs[number:]


class AsSampler(Sampler[Any]):
    """A stream of numbers as a sampler."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.state_dict, self.load_state_dict = stream.state_dict, stream.load_state_dict

    def __iter__(self) -> Iterator[Any]:
        return iter(self.stream)

    def __len__(self) -> int:
        return LENGTH


class Echo(Dataset[Any]):
    """A dataset whose sample is its index."""

    def __getitem__(self, index: int) -> int:
        return index


def sampled(stream: str, num_workers: int, **arguments: Any) -> Any:
    return sluicegate.DataLoader(Echo(), 2, sampler=AsSampler(LAZY[stream]()), num_workers=num_workers, **arguments)


def check_left_untouched(made: Callable[[], Any], stop: int) -> None:
    loader = made()
    take(loader)
    take(iter(loader), stop)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [take(loader), take(loader)]
    resumed = made()
    resumed.load_state_dict(state)
    iter(resumed)
    # Its state has not changed, and a loader resumed from that behaves the same.
    again = made()
    again.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
    iter(again)
    iterator = iter(again)
    later = json.loads(json.dumps(again.state_dict()))
    assert [take(iterator), take(again)] == expected
    assert [take(resumed), take(resumed)] == expected
    last = made()
    last.load_state_dict(later)
    assert [take(last), take(last)] == expected


@pytest.mark.parametrize("seed", [None, 7])
def test_stateful_map_style_dataset_left_untouched_resumes(seed: int | None) -> None:
    def made() -> Any:
        return sluicegate.DataLoader(CongruentRows(20), 2, num_workers=2, persistent_workers=True, seed=seed)

    check_left_untouched(made, 3)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("asked", [0, 1, 2], ids="{} times".format)
@pytest.mark.parametrize("is_begun", [False, True])
def test_epochs_without_requests_keep_the_state_of_the_sampler(seed: int | None, asked: int, is_begun: bool) -> None:
    def make() -> Any:
        return sampled("restarts at its end", 0, seed=seed)

    loader = make()
    for _ in range(2):
        take(loader)
    if is_begun:
        iter(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [take(loader), take(loader)]
    resumed = make()
    resumed.load_state_dict(state)
    for _ in range(asked):
        iter(resumed)
    again = make()
    again.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
    assert [take(resumed), take(resumed)] == expected
    assert [take(again), take(again)] == expected
