"""A resume goes on with the draws, lists and epochs of objects that draw, change and count in unusual places."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from resuming import take
from stateful import Indices

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def through_json(loader: Any) -> Any:
    return json.loads(json.dumps(loader.state_dict()))


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
    """What follows the first epoch follows its state in a process that draws something else."""
    loader = make()
    take(loader)
    state = through_json(loader)
    expected = [take(loader) for _ in range(2)]
    torch.manual_seed(99)
    resumed = make()
    resumed.load_state_dict(state)
    assert [take(resumed) for _ in range(2)] == expected


class OrderIterator:
    """It knows its order, which was drawn when it was made."""

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


def test_a_stream_that_draws_when_it_is_iterated_over_goes_on_in_persistent_workers() -> None:
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
    """It yields one list, and goes on changing it."""

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
def test_a_list_that_a_sampler_uses_again_is_what_it_was(workers: dict[str, Any]) -> None:
    loader = sluicegate.DataLoader(Indices(20), batch_sampler=OneList(), **workers)
    pairs = [(batch.tolist(), ids) for batch, ids in loader.with_ids()]
    assert [batch for batch, _ in pairs] == [[2 * number, 2 * number + 1] for number in range(10)]
    assert [ids.sample_indices.tolist() for _, ids in pairs] == [batch for batch, _ in pairs]
    loader.skip_samples([8])
    assert [batch.tolist() for batch in loader][3:6] == [[6, 7], [9], [10, 11]]
