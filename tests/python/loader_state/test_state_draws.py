"""A resumed loader restores the draws, lists, and epochs of objects that draw, change, or count in unusual places."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from cases.loader_kinds import take, through_json
from doubles.stateful import Indices

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.mark.parametrize("batches", [None, 0, 99], ids=["before iter", "before the first batch", "at the end"])
def test_the_epoch_may_be_set_after_a_state_was_loaded(batches: int | None) -> None:
    def make() -> Any:
        return sluicegate.DataLoader(Indices(12), 4, shuffle=True, seed=7)

    loader, expected = make(), make()
    if batches is not None:
        take(iter(loader), batches)
    state = through_json(loader)
    expected.set_epoch(5)
    resumed = make()
    resumed.load_state_dict(state)
    resumed.set_epoch(5)
    assert take(resumed) == take(expected)
    assert take(resumed) == take(expected), "and they count up from there"
    begun = make()
    begun.set_epoch(3)
    take(iter(begun), 1)
    resumed.load_state_dict(through_json(begun))
    resumed.set_epoch(5)
    rest, following = take(resumed), take(resumed)
    begun.set_epoch(3)
    assert rest == take(begun)[1:], "an epoch that has begun is gone on with"
    expected.set_epoch(5)
    assert following == take(expected)


def check_epochs_after_the_first(make: Any) -> None:
    """Assert that later epochs follow from the state after the first, in a process whose generator differs."""
    loader = make()
    take(loader)
    state = through_json(loader)
    expected = [take(loader) for _ in range(2)]
    torch.manual_seed(99)
    resumed = make()
    resumed.load_state_dict(state)
    assert [take(resumed) for _ in range(2)] == expected


class OrderIterator:
    """It keeps its order, which was drawn when it was created."""

    def __init__(self, order: list[int]) -> None:
        self.order, self.place = order, 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.place == len(self.order):
            raise StopIteration
        self.place += 1
        return self.order[self.place - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place, "order": list(self.order)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place, self.order = state["place"], list(state["order"])


class DrawnAtOnce(torch.utils.data.Sampler[int]):
    def __iter__(self) -> Any:
        return OrderIterator(torch.randperm(8).tolist())

    def __len__(self) -> int:
        return 8


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("seed", [None, 7])
def test_a_sampler_that_draws_when_it_is_iterated_over_draws_once(seed: int | None, num_workers: int) -> None:
    def make() -> Any:
        return sluicegate.DataLoader(Indices(8), 4, sampler=DrawnAtOnce(), seed=seed, num_workers=num_workers)

    check_epochs_after_the_first(make)


class DrawnInIter(torch.utils.data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(numpy.random.permutation(6).tolist())


def test_a_stream_that_draws_in_iter_resumes_in_persistent_workers() -> None:
    def make() -> Any:
        return sluicegate.DataLoader(DrawnInIter(), 2, num_workers=1, persistent_workers=True)

    check_epochs_after_the_first(make)


def test_a_length_that_follows_from_draws_refuses_no_state() -> None:
    lengths = [1 + index * 11 % 17 for index in range(47)]

    def make() -> Any:
        sampler = sluicegate.LengthBucketBatchSampler(lengths, max_tokens=40, window=16)
        return sluicegate.DataLoader(Indices(47), batch_sampler=sampler)

    for seed in range(12):
        torch.manual_seed(seed)
        loader = make()
        iterator = iter(loader)
        list(itertools.islice(iterator, 3))
        state = through_json(loader)
        rest = take(iterator)
        take(loader)
        loader.load_state_dict(state)
        assert take(loader) == rest


class OneList(torch.utils.data.Sampler[list[int]]):
    """Yields the same list each time, with new content."""

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for number in range(10):
            batch[:] = [2 * number, 2 * number + 1]
            yield batch

    def __len__(self) -> int:
        return 10


@pytest.mark.parametrize(
    "workers",
    [{}, {"num_workers": 2}, {"num_workers": 2, "worker_type": "thread"}],
    ids=["none", "processes", "threads"],
)
def test_a_list_that_a_sampler_reuses_keeps_its_indices_per_batch(workers: dict[str, Any]) -> None:
    loader = sluicegate.DataLoader(Indices(20), batch_sampler=OneList(), **workers)
    pairs = [(batch.tolist(), ids) for batch, ids in loader.with_ids()]
    assert [batch for batch, _ in pairs] == [[2 * number, 2 * number + 1] for number in range(10)]
    assert [ids.sample_indices.tolist() for _, ids in pairs] == [batch for batch, _ in pairs]
    loader.skip_samples([8])
    assert [batch.tolist() for batch in loader][3:6] == [[6, 7], [9], [10, 11]]


class DrawingStream(torch.utils.data.IterableDataset[int]):
    """Draws its order in `__iter__` itself, which is not a generator function."""

    def __init__(self, draw: str) -> None:
        self.draw = draw

    def __iter__(self) -> Iterator[int]:
        order = numpy.random.permutation(9) if self.draw == "numpy" else torch.randperm(9)
        return iter(order.tolist())


@pytest.mark.filterwarnings("ignore:DrawingStream has no state_dict")
# Every two values of different parameters occur together; workers are slow to start.
@pytest.mark.parametrize(
    ("draw", "num_workers", "left"),
    [
        *itertools.product(["torch", "numpy"], [0], ["", "begun and left", "read in part"]),
        ("torch", 2, ""),
        ("numpy", 2, "begun and left"),
        ("torch", 2, "read in part"),
    ],
)
def test_a_stream_that_draws_its_order_in_iter_draws_it_again(draw: str, num_workers: int, left: str) -> None:
    def make() -> Any:
        return sluicegate.DataLoader(DrawingStream(draw), 2, num_workers=num_workers)

    torch.manual_seed(3)
    numpy.random.seed(3)
    loader = make()
    if left:
        take(iter(loader), 1 if left == "read in part" else 0)
    states, expected = [], []
    iterator = iter(loader)
    while batch := take(iterator, 1):
        states.append(through_json(loader))
        expected += batch
    assert len(states) >= 5
    # With workers, after the first batch, after one of each worker, in the middle, and after the last.
    for received in (1, 2, 5, len(states)) if num_workers else range(1, len(states) + 1):
        torch.manual_seed(99)
        numpy.random.seed(99)
        resumed = make()
        resumed.load_state_dict(states[received - 1])
        assert take(resumed) == expected[received:], received


class DrawingSampler(torch.utils.data.Sampler[Any]):
    """Draws its order in `__iter__` itself: indices, or batches of them."""

    def __init__(self, batched: bool) -> None:
        self.batched = batched
        self.asked = 0

    def __len__(self) -> int:
        return 4 if self.batched else 12

    def __iter__(self) -> Iterator[Any]:
        self.asked += 1
        order = torch.randperm(12).tolist()
        return iter([order[at : at + 3] for at in range(0, 12, 3)] if self.batched else order)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("batched", [False, True], ids=["sampler", "batch_sampler"])
def test_draws_in_the_iter_of_a_sampler_depend_only_on_the_seed(batched: bool, num_workers: int) -> None:
    def make(seed: int = 7) -> Any:
        sampler = DrawingSampler(batched)
        arguments: Any = {"batch_sampler": sampler} if batched else {"batch_size": None, "sampler": sampler}
        return sluicegate.DataLoader(Indices(12), seed=seed, num_workers=num_workers, **arguments)

    def epochs(loader: Any) -> Any:
        return [[torch.as_tensor(batch).tolist() for batch in loader] for _ in range(2)]

    torch.manual_seed(1)
    loader = make()
    first = epochs(loader)
    asked = (loader.batch_sampler if batched else loader.sampler).asked
    assert asked == 2, "once an epoch"
    torch.manual_seed(2)
    assert epochs(make()) == first
    assert torch.as_tensor(next(iter(make(8)))).tolist() != first[0][0]
    assert first[0] != first[1]
    loader = make()
    iterator = iter(loader)
    next(iterator)
    state = through_json(loader)
    torch.manual_seed(3)
    resumed = make()
    resumed.load_state_dict(state)
    assert epochs(resumed) == [first[0][1:], first[1]]


class EachIndexDrawn(torch.utils.data.Sampler[int]):
    """Draws every index when it is requested."""

    def __len__(self) -> int:
        return 20

    def __iter__(self) -> Iterator[int]:
        for _ in range(20):
            yield int(torch.randint(20, ()))


LAYOUTS: dict[str, dict[str, Any]] = {
    "none": {"num_workers": 0},
    "1": {"num_workers": 1},
    "1 far ahead": {"num_workers": 1, "prefetch_factor": 5},
    "2": {"num_workers": 2},
}


def drawing(native: bool, layout: str) -> Any:
    dataset: Any = torch.arange(20) if native else Indices(20)
    return sluicegate.DataLoader(dataset, sampler=EachIndexDrawn(), **LAYOUTS[layout])


@functools.cache
def undisturbed(native: bool, layout: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the states before the first batch and after each, and the batches of two epochs."""
    torch.manual_seed(1)
    loader = drawing(native, layout)
    iterator = iter(loader)
    states, first = [through_json(loader)], []
    while batch := take(iterator, 1):
        first += batch
        states.append(through_json(loader))
    return states, first, take(loader)


# Every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("native", "before", "after", "stops"),
    [
        ((row + column) % 2 > 0, before, after, [(0, 18), (3, 20)][(row + column // 2) % 2])
        for row, before in enumerate(LAYOUTS)
        for column, after in enumerate(LAYOUTS)
    ],
)
def test_indices_drawn_ahead_are_drawn_again_for_any_number_of_workers(
    native: bool, before: str, after: str, stops: tuple[int, int]
) -> None:
    states, first, second = undisturbed(native, before)
    for received in stops:
        torch.manual_seed(2)
        resumed = drawing(native, after)
        resumed.load_state_dict(states[received])
        assert [take(resumed), take(resumed)] == [first[received:], second], received


class OwnGenerator(torch.utils.data.Sampler):
    """Draws every order from its own generator, as samplers of other packages do."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(1)

    def __len__(self) -> int:
        return 12

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(12, generator=self.generator).tolist())


class InsideAnother(torch.utils.data.Sampler):
    """Yields the indices of a wrapped sampler."""

    def __init__(self) -> None:
        self.sampler = OwnGenerator()

    def __len__(self) -> int:
        return 12

    def __iter__(self) -> Iterator[int]:
        return iter(self.sampler)


# Every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("sampler", "epochs", "batches", "workers"),
    [
        (OwnGenerator, 0, 2, 2),
        (OwnGenerator, 1, 0, 0),
        (OwnGenerator, 1, 2, 2),
        (OwnGenerator, 2, None, 0),
        (InsideAnother, 0, 2, 0),
        (InsideAnother, 1, 0, 2),
        (InsideAnother, 1, 2, 0),
        (InsideAnother, 2, None, 2),
    ],
)
def test_a_seeded_loader_resumes_a_sampler_with_its_own_generator(
    sampler: Any, epochs: int, batches: int | None, workers: int
) -> None:
    def make() -> Any:
        return sluicegate.DataLoader(Indices(12), 2, sampler=sampler(), num_workers=workers, seed=7)

    loader = make()
    for _ in range(epochs):
        take(loader)
    iterator = None if batches is None else iter(loader)
    if iterator is not None:
        take(iterator, batches)
    state = through_json(loader)
    expected = [take(loader if iterator is None else iterator), take(loader)]
    resumed = make()
    resumed.load_state_dict(state)
    assert [take(resumed), take(resumed)] == expected


@pytest.mark.parametrize(
    ("arguments", "befores"),
    [
        ({}, [*itertools.product([None, 0, 5], [0, 1])]),
        # Every two values of different parameters occur together.
        ({"num_workers": 1}, [(None, 0), (0, 1), (5, 0)]),
        ({"num_workers": 2, "persistent_workers": True}, [(None, 1), (0, 0), (5, 1)]),
    ],
    ids=["none", "workers", "persistent"],
)
@pytest.mark.parametrize("received", [None, 0, 1])
def test_a_seed_that_is_set_for_each_epoch_counts(
    arguments: dict[str, Any], befores: list[tuple[int | None, int]], received: int | None
) -> None:
    """The seed counts between epochs; within an epoch, the state's generators do."""

    def epoch(loader: Any, number: int) -> list[Any]:
        torch.manual_seed(number)
        return [[batch.tolist() for batch in loader], torch.rand(2).tolist()]

    def make() -> Any:
        return sluicegate.DataLoader(Indices(12), batch_size=4, shuffle=True, **arguments)

    original = make()
    epoch(original, 5)
    if received is None:
        state = original.state_dict()
        rest = epoch(original, 6)
    else:
        torch.manual_seed(6)
        iterator = iter(original)
        for _ in range(received):
            next(iterator)
        state = original.state_dict()
        rest = [[batch.tolist() for batch in iterator], torch.rand(2).tolist()]
    following = epoch(original, 7)
    for seed, draws in befores:
        if seed is not None:
            torch.manual_seed(seed)
        torch.rand(draws)
        resumed = make()
        resumed.load_state_dict(state)
        assert epoch(resumed, 6) == rest
        assert epoch(resumed, 7) == following
