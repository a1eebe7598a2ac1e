"""Draws of streams in a loader with a seed, when they are prefetched and, after a resume, partly read again."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from cases.loader_kinds import take
from checks.global_draws import public_states
from doubles.streams import GeneratorStream, IteratorStream, Plain, RandomStream, ResettingStream

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*has no state_dict and load_state_dict, so resuming"),
]

LENGTH = 13


def drawn() -> list[Any]:
    return [random.random(), random.gauss(0.0, 1.0), float(numpy.random.standard_normal()), torch.randn(1).item()]


class DrawingPlain(Plain):
    """Has no state; draws its order at the first sample, and more for each sample."""

    def __iter__(self) -> Iterator[Any]:
        order = random.sample(range(self.length), self.length)
        for place in order:
            yield place, drawn()


class DrawingAtIter(Plain):
    """Has no state; draws its order in `iter` itself."""

    def __iter__(self) -> Iterator[Any]:
        return iter([(place, drawn()) for place in torch.randperm(self.length).tolist()])


class DrawingState(ResettingStream):
    """Stateful, with a generator."""

    def __iter__(self) -> Iterator[Any]:
        for sample in super().__iter__():
            yield sample, drawn()


class DrawingIterators(IteratorStream):
    """Its iterators are stateful, but do not save the generators."""

    def __iter__(self) -> Any:
        return _Drawing(super().__iter__())


class _Drawing:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.state_dict, self.load_state_dict = inner.state_dict, inner.load_state_dict

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self.inner), drawn()


class OwnGenerators(GeneratorStream):
    """Draws from its samples' own generators, which also works in threads."""

    def __iter__(self) -> Iterator[Any]:
        for sample in super().__iter__():
            generators = sluicegate.sample_rng()
            yield sample, generators.python.random(), torch.rand(1, generator=generators.torch).item()


INNER: dict[str, Callable[[], Any]] = {
    "no state": lambda: DrawingPlain(LENGTH),
    "drawn by iter": lambda: DrawingAtIter(LENGTH),
    "state": lambda: DrawingState(LENGTH),
    "stateful iterators": lambda: DrawingIterators(LENGTH),
    "a state that holds a generator": lambda: RandomStream(LENGTH),
    "own generators": lambda: OwnGenerators(LENGTH),
}
AROUND: dict[str, Callable[[Any], Any]] = {
    "shuffled": lambda inner: sluicegate.ShuffleBuffer(inner, 4, seed=5),
    "shuffled without a seed": lambda inner: sluicegate.ShuffleBuffer(inner, 4),
    "sharded": lambda inner: sluicegate.shard_iterable(inner),
    "shuffled twice": lambda inner: sluicegate.ShuffleBuffer(sluicegate.ShuffleBuffer(inner, 3, seed=2), 4, seed=5),
    "a shuffled shard": lambda inner: sluicegate.ShuffleBuffer(sluicegate.shard_iterable(inner), 4, seed=5),
}


def make(inner: str, around: str, num_workers: int = 0, **arguments: Any) -> Any:
    arguments = {"batch_size": 2, "seed": 7, **arguments}
    return sluicegate.DataLoader(AROUND[around](INNER[inner]()), num_workers=num_workers, **arguments)


def check_resumes(make: Callable[[], Any], stops: Collection[int] | None = None, epochs: int = 3) -> None:
    """Assert that the loader resumes from every state of the second epoch, or from those at these stops."""
    loader = make()
    take(loader)
    iterator = iter(loader)
    states, batches = [loader.state_dict()], []
    for batch in iterator:
        batches.append(take([batch])[0])
        states.append(json.loads(json.dumps(loader.state_dict())))
    later = [take(loader) for _ in range(epochs - 2)]
    assert batches
    assert batches != later[0]
    for number, state in enumerate(states):
        if stops is not None and number not in stops:
            continue
        random.seed(number)
        numpy.random.seed(number)
        torch.manual_seed(number)
        resumed = make()
        resumed.load_state_dict(state)
        before = public_states()
        assert take(resumed) == batches[number:], number
        assert public_states() == before, "the consumer's generators were not left where they were"
        assert [take(resumed) for _ in later] == later, number


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("inner", INNER)
def test_samples_that_are_read_again_draw_the_same(inner: str, around: str) -> None:
    check_resumes(lambda: make(inner, around))


@pytest.mark.parametrize("persistent_workers", [False, True])
@pytest.mark.parametrize("inner", ["no state", "stateful iterators"])
def test_streams_that_draw_resume_in_worker_processes(inner: str, persistent_workers: bool) -> None:
    # Four batches of each worker: before the first, after one of each worker, in the middle, and after the last.
    stops = (0, 2, 5, 8)
    check_resumes(lambda: make(inner, "shuffled", 2, batch_size=4, persistent_workers=persistent_workers), stops)


@pytest.mark.parametrize("around", ["shuffled", "sharded"])
def test_streams_with_own_generators_resume_in_a_worker_thread(around: str) -> None:
    check_resumes(lambda: make("own generators", around, 1, batch_size=3, worker_type="thread"))


def test_draws_do_not_depend_on_the_size_of_the_shuffle_buffer() -> None:
    def by_sample(size: int) -> Any:
        dataset = sluicegate.ShuffleBuffer(DrawingState(LENGTH), size, seed=1)
        return sorted(take(sluicegate.DataLoader(dataset, None, seed=7)))

    assert by_sample(1) == by_sample(5) == by_sample(100)


class Chained(sluicegate.IterableDataset[Any]):
    """One stream after another."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain(*self.parts)


def test_buffers_side_by_side_draw_differently_and_each_as_it_did() -> None:
    def parts() -> list[Any]:
        return [sluicegate.ShuffleBuffer(DrawingState(5), 3, seed=2) for _ in range(2)]

    loader = sluicegate.DataLoader(Chained(parts()), None, seed=7)
    samples = take(loader)
    assert [sample[0] for sample in samples[:5]] == [sample[0] for sample in samples[5:]]
    assert len({sample[1][0] for sample in samples}) == 10
    # The second buffer's state contains its number, so it resumes even when read alone.
    alone = sluicegate.DataLoader(parts()[1], None, seed=7)
    state = Chained(parts())
    running = sluicegate.DataLoader(state, None, seed=7)
    take(iter(running), 7)
    told = state.parts[1].state_dict()
    assert told["reader"] == 1
    alone.dataset.load_state_dict(told)
    assert take(alone) == samples[7:]


def test_without_seeding_of_samples_the_global_generators_are_left_alone() -> None:
    torch.manual_seed(4)
    expected = [torch.randint(1000, (1,)).item() for _ in range(LENGTH)]
    torch.manual_seed(4)
    loader = make("a state that holds a generator", "sharded", batch_size=None, seed_samples=False)
    assert [sample % 1000 for sample in take(loader)] == expected


def test_an_error_of_the_stream_leaves_the_generators_in_place() -> None:
    def failing() -> Iterator[int]:
        yield int(torch.randint(10, (1,)).item())
        raise ValueError("torn")

    loader = sluicegate.DataLoader(sluicegate.shard_iterable(failing()), None, seed=7)
    before = public_states()
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(ValueError, match="torn"):
        next(iterator)
    assert public_states() == before


def test_a_buffer_gets_its_epoch_although_one_was_abandoned_before_its_first_batch() -> None:
    def second(leaves: bool) -> list[Any]:
        loader = make("no state", "shuffled", 1, persistent_workers=True)
        take(loader)
        if leaves:
            iter(loader)
        return take(loader)

    assert second(leaves=True) == second(leaves=False)
