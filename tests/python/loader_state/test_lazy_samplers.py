"""Samplers that draw in the middle of an epoch, while the training loop draws from the same generator."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.utils.data

from cases.pairs import in_pairs
from doubles.stateful import Indices
from sluicegate import DataLoader

SIZE = 36


class OfEach:
    """Draws each index separately."""

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        for _ in range(SIZE):
            yield int(torch.randint(SIZE, ()))


class Endless:
    """Draws a new permutation whenever one has been read."""

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from torch.randperm(SIZE // 3).tolist()


class Episodes:
    """Batches of random samples of random classes, as few-shot training takes them."""

    def __len__(self) -> int:
        return 12

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(12):
            yield (torch.randperm(9)[:2] + 9 * torch.randint(4, ())).tolist()


class Leftovers:
    """Draws from the remaining indices: each depends on all earlier ones."""

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        left = [*range(SIZE)]
        while left:
            yield left.pop(int(torch.randint(len(left), ())))


GIVEN: dict[str, Callable[[], dict[str, Any]]] = {
    "of each": lambda: {"sampler": OfEach(), "batch_size": 3},
    "endless": lambda: {"sampler": Endless(), "batch_size": 3},
    "episodes": lambda: {"batch_sampler": Episodes()},
    "leftovers": lambda: {"sampler": Leftovers(), "batch_size": 3},
    "single": lambda: {"sampler": OfEach(), "batch_size": None},
}


def loader(name: str, workers: int) -> Any:
    return DataLoader(Indices(SIZE), num_workers=workers, **GIVEN[name]())


def read(iterator: Iterator[Any], count: int, draws: bool) -> list[Any]:
    batches = []
    for _ in range(count):
        batches.append(torch.as_tensor(next(iterator)).tolist())
        if draws:
            torch.rand(3)  # as a loop with dropout does
    return batches


def interrupted(name: str, workers: int, received: int, draws: bool) -> tuple[Any, list[Any]]:
    """Return the state of a loader that has yielded some batches, and the rest of its first twelve."""
    torch.manual_seed(1)
    made = loader(name, workers)
    iterator = iter(made)
    assert len(read(iterator, received, draws)) == received
    state = json.loads(json.dumps(made.state_dict()))
    return state, read(iterator, 12 - received, draws)


# Every two values of different parameters occur together; workers are slow to start.
@pytest.mark.parametrize(
    ("name", "workers", "draws", "stop"),
    [
        *itertools.product(GIVEN, [0], [False, True], [1, 4, 7]),
        *((name, 2, draws, stop) for name, stop, draws in in_pairs(GIVEN, [1, 4, 7], [False, True])),
    ],
)
def test_the_rest_of_an_epoch_is_the_uninterrupted_one_or_a_warning(
    name: str, workers: int, draws: bool, stop: int
) -> None:
    state, rest = interrupted(name, workers, stop, draws)
    torch.manual_seed(2)
    resumed = loader(name, workers)
    resumed.load_state_dict(state)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = read(iter(resumed), 12 - stop, draws)
    warned = [str(warning.message) for warning in caught if "does not yield the same indices" in str(warning.message)]
    # Their indices depend on earlier ones, which can't be redrawn if the loop draws between them.
    depends = name in ("endless", "leftovers") and draws
    assert found == rest or (depends and warned)
    assert draws or not warned


def test_a_sampler_that_yields_other_indices_is_named() -> None:
    state, _ = interrupted("leftovers", 0, 5, draws=True)
    resumed = loader("leftovers", 0)
    resumed.load_state_dict(state)
    with pytest.warns(
        UserWarning, match="Leftovers does not yield .* define state_dict .* or give it its own generator"
    ):
        next(iter(resumed))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_is_dropped_is_drawn_once(workers: int) -> None:
    def make() -> Any:
        return DataLoader(Indices(SIZE), 5, sampler=OfEach(), drop_last=True, num_workers=workers)

    def epoch(batches: Any) -> list[Any]:
        return [batch.tolist() for batch in batches]

    torch.manual_seed(1)
    made = make()
    iterator = iter(made)
    for _ in range(5):  # With workers, the end has been found by now.
        next(iterator)
    state = json.loads(json.dumps(made.state_dict()))
    expected = [epoch(iterator), epoch(made)]
    torch.manual_seed(2)
    resumed = make()
    resumed.load_state_dict(state)
    assert [epoch(resumed), epoch(resumed)] == expected


class CountsEpochs:
    """Has an order for each epoch, and counts epochs where no state sees it."""

    def __init__(self) -> None:
        self.epoch = 0

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter(torch.randperm(SIZE, generator=torch.Generator().manual_seed(self.epoch)).tolist())


@pytest.mark.parametrize("seed", [None, 7])
def test_a_sampler_that_counts_its_own_epochs_is_named(seed: int | None) -> None:
    def make() -> Any:
        return DataLoader(Indices(SIZE), 3, sampler=CountsEpochs(), seed=seed)

    made = make()
    next(iter(made))
    for epoch, is_other in enumerate((False, True)):
        state = made.state_dict()
        resumed = make()
        resumed.load_state_dict(json.loads(json.dumps(state)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            next(iter(resumed))
        assert [str(warning.message).split(":")[0] for warning in caught] == ["load_state_dict"] * is_other, epoch
        list(made)
        next(iter(made))


def test_a_state_of_a_resumed_loader_keeps_the_requests_ahead() -> None:
    state, rest = interrupted("episodes", 2, 3, draws=True)
    for taken in range(1, 4):
        resumed = loader("episodes", 2)
        resumed.load_state_dict(json.loads(json.dumps(state)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "load_state_dict: Episodes does not yield")
            assert read(iter(resumed), taken, draws=True) == rest[:taken]
        state, rest = resumed.state_dict(), rest[taken:]
        assert len(state["requests_ahead"]) == min(4, len(rest))


def test_a_sampler_that_waits_for_its_epoch_has_them_in_the_state_before_its_first_batch() -> None:
    class WithEpochs(Episodes):
        def set_epoch(self, epoch: int) -> None:
            pass

    def make() -> Any:
        return DataLoader(Indices(SIZE), batch_sampler=WithEpochs(), num_workers=2)

    torch.manual_seed(1)
    made = make()
    iterator = iter(made)
    read(iterator, 3, draws=True)
    state = json.loads(json.dumps(made.state_dict()))
    assert len(state["requests_ahead"]) == 4
    resumed = make()
    resumed.load_state_dict(state)
    iter(resumed)
    again = resumed.state_dict()
    assert [again[name] for name in ("requests_ahead", "requests_checksum")] == [
        state[name] for name in ("requests_ahead", "requests_checksum")
    ]


@pytest.mark.parametrize("name", ["of each", "leftovers"])
def test_an_older_state_that_has_none_of_them_is_no_warning(name: str) -> None:
    torch.manual_seed(1)
    made = loader(name, 2)
    iterator = iter(made)
    for taken in (0, 3):
        read(iterator, taken, draws=False)
        state = made.state_dict()
        state.pop("requests_checksum", None)
        state.pop("requests_ahead")
        resumed = loader(name, 2)
        resumed.load_state_dict(state)
        resumed_iterator = iter(resumed)
        assert len(resumed.state_dict()["requests_ahead"]) == 4
        assert torch.is_tensor(next(resumed_iterator))


@pytest.mark.parametrize("items", [[0, "a"], [1, [2]], [3, {"x": 4}], ["a", "b"], [0, None], [], [True, False]])
def test_items_of_other_types_are_no_part_of_a_state(items: list[Any]) -> None:
    class Anything:
        def __iter__(self) -> Iterator[Any]:
            for _ in range(200):
                yield items

    class AnythingGoes(torch.utils.data.Dataset):
        def __getitem__(self, index: Any) -> int:
            return 0

    made = DataLoader(AnythingGoes(), batch_sampler=Anything(), collate_fn=len, num_workers=1)
    iterator = iter(made)
    assert [next(iterator) for _ in range(150)] == [len(items)] * 150
    state = made.state_dict()
    if items:
        assert not {"requests_ahead", "requests_checksum"} & state.keys()
    made.load_state_dict(json.loads(json.dumps(state)))
    assert len(list(made)) == 50


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("requests_ahead", [["x"]], "should be an integer, or a list of them"),
        ("requests_ahead", 3, "should be a list"),
        ("requests_ahead", [[1]] * 99, "`requests_ahead` has 99 requests"),
        ("requests_checksum", "x", "should be an integer"),
    ],
)
def test_a_changed_value_in_a_state_is_named(key: str, value: Any, words: str) -> None:
    made = loader("of each", 2)
    next(iter(made))
    state = made.state_dict()
    state[key] = value
    with pytest.raises(ValueError, match=words):
        loader("of each", 2).load_state_dict(state)
