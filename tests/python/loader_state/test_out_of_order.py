"""States of epochs whose batches were received out of order, resumed several times."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import Dataset, Sampler

import sluicegate
from cases.loader_kinds import take

pytestmark = pytest.mark.prefetch
LENGTH = 10


class Holding(Dataset[int]):
    """Keeps the reader of one sample waiting until `released` is set."""

    def __init__(self, held: int | None = None) -> None:
        self.held = held
        self.released = threading.Event()

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        if index == self.held:
            assert self.released.wait(30)
        return index


class EpochSampler(Sampler[int]):
    """Stateful; has another order in every epoch."""

    def __init__(self) -> None:
        self.place = self.epoch = 0

    def __len__(self) -> int:
        return LENGTH

    def __iter__(self) -> Iterator[int]:
        order = numpy.random.RandomState(self.epoch).permutation(LENGTH).tolist()
        while self.place < LENGTH:
            self.place += 1
            yield order[self.place - 1]
        self.place = 0
        self.epoch += 1

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place, self.epoch = state["place"], state["epoch"]


KINDS: dict[str, Any] = {
    "stateful": lambda: {"sampler": EpochSampler()},
    "stateful, seed": lambda: {"sampler": EpochSampler(), "seed": 7},
    "listed": lambda: {"sampler": [3, 1, 4, 5, 9, 2, 6, 8, 7, 0]},
    "shuffled": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(5)},
    "shuffled, seed": lambda: {"shuffle": True, "seed": 7},
}


def make(kind: str, held: int | None, num_workers: int, **arguments: Any) -> Any:
    arguments = {"worker_type": "thread", "in_order": False, **KINDS[kind](), **arguments}
    return sluicegate.DataLoader(Holding(held), batch_size=1, num_workers=num_workers, **arguments)


def received(loader: Any, count: int) -> tuple[list[Any], dict[str, Any]]:
    """Return as many batches of an epoch while one is held, and the state after them."""
    iterator = iter(loader)
    batches = take(iterator, count)
    state = json.loads(json.dumps(loader.state_dict()))
    loader.dataset.released.set()
    return batches, state


# Each step: the number of the batch that is held, the number of workers, and how many batches are received.
@pytest.mark.parametrize(
    "steps",
    [
        [(0, 2, 2)],
        [(0, 2, 2), (0, 2, 1)],
        [(2, 2, 3), (2, 2, 1)],
        [(2, 2, 4), (5, 2, 1)],
        [(2, 2, 4), (None, 0, 2)],
        [(0, 2, 4), (None, 0, 1), (None, 1, 2)],
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_batch_comes_once_over_several_resumes(kind: str, steps: list[tuple[int | None, int, int]]) -> None:
    first = make(kind, None, 0)
    take(first)
    order = [index for [index] in take(first)]
    state, found = None, []
    for held, num_workers, count in steps:
        loader = make(kind, None, num_workers)
        if state is None:
            take(loader)
        else:
            loader.load_state_dict(state)
        loader.dataset.held = None if held is None else order[held]
        batches, state = received(loader, count)
        found += [index for [index] in batches]
    last = make(kind, None, 0)
    last.load_state_dict(state)
    rest = [(batch.tolist(), ids.batch_index) for batch, ids in last.with_ids()]
    assert rest == [([index], number) for number, index in enumerate(order) if index not in found]


@pytest.mark.parametrize("seed", [None, 7])
def test_a_state_with_batches_ahead_belongs_to_its_rank(seed: int | None) -> None:
    def of_rank(rank: int, held: int | None) -> Any:
        return make("listed", held, 2, seed=seed, shard=(rank, 2))

    batches, state = received(of_rank(0, 3), 2)
    assert batches == [[4], [6]]
    with pytest.raises(ValueError, match=r"\(batch_size, ranks, rank\): expected \(1, 2, 0\), got \(1, 2, 1\)"):
        of_rank(1, None).load_state_dict(state)
    resumed = of_rank(0, None)
    resumed.load_state_dict(state)
    assert sorted(take(resumed)) == [[3], [7], [9]]
