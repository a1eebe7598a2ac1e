"""Samplers with their own generator, of any library and under any name: resuming restores it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler

from doubles.stateful import Indices
from sluicegate import DataLoader

SIZE = 12
GENERATORS: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch.Generator().manual_seed(3),
    "python": lambda: random.Random(3),
    "numpy": lambda: np.random.default_rng(3),
    "philox": lambda: np.random.Generator(np.random.Philox(3)),
    "old numpy": lambda: np.random.RandomState(3),
}


class Shuffling:
    def __init__(self, name: str, generator: Any) -> None:
        setattr(self, name, generator)
        self._name = name

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        generator = getattr(self, self._name)
        order = list(range(SIZE))
        if isinstance(generator, torch.Generator):
            order = torch.randperm(SIZE, generator=generator).tolist()
        else:
            generator.shuffle(order)
        yield from order


# Every two values of different parameters occur together, and all combinations of the last three.
@pytest.mark.parametrize(
    ("kind", "name", "workers", "seed", "received"),
    [
        ("torch", "generator", 2, None, None),
        ("torch", "rng", 0, None, 0),
        ("torch", "_g", 0, 7, 2),
        ("python", "generator", 0, 7, 0),
        ("python", "rng", 2, None, 2),
        ("python", "_g", 0, 7, None),
        ("numpy", "generator", 0, 7, 2),
        ("numpy", "rng", 2, 7, None),
        ("numpy", "_g", 2, None, 0),
        ("philox", "generator", 2, 7, None),
        ("philox", "rng", 0, None, 0),
        ("philox", "_g", 0, None, 2),
        ("old numpy", "generator", 2, 7, 0),
        ("old numpy", "rng", 2, 7, 2),
        ("old numpy", "_g", 0, None, None),
    ],
)
def test_the_epochs_after_a_resume_have_their_order(
    kind: str, name: str, workers: int, seed: int | None, received: int | None
) -> None:
    def make() -> Any:
        sampler = Shuffling(name, GENERATORS[kind]())
        return DataLoader(Indices(SIZE), 4, sampler=sampler, num_workers=workers, seed=seed)

    check_epochs_after_a_resume(make, received)


class Reversed(BatchSampler):
    def __iter__(self) -> Iterator[list[int]]:
        return iter([batch[::-1] for batch in super().__iter__()])


@pytest.mark.parametrize("received", [None, 0, 2])
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("shard", [(0, 1), (1, 2)])
@pytest.mark.parametrize("makes_batches", [False, True])
def test_samplers_with_their_own_generator_resume_with_a_shard(
    makes_batches: bool, shard: tuple[int, int], seed: int | None, received: int | None
) -> None:
    def make() -> Any:
        generator = torch.Generator().manual_seed(3)
        chosen: dict[str, Any] = {"sampler": Shuffling("rng", generator), "batch_size": 3}
        if makes_batches:
            chosen = {"batch_sampler": Reversed(RandomSampler(range(SIZE), generator=generator), 3, False)}
        return DataLoader(Indices(SIZE), seed=seed, shard=shard, **chosen)

    check_epochs_after_a_resume(make, received)


class Counting(Shuffling):
    """Its state is its position; the order follows from its generator."""

    position = 0

    def __iter__(self) -> Iterator[int]:
        order = [*super().__iter__()]
        while self.position < SIZE:
            self.position += 1
            yield order[self.position - 1]
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


@pytest.mark.parametrize("received", [None, 0, 2])
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("shard", [None, (1, 2)])
def test_a_sampler_with_a_state_draws_nothing_from_its_generator_to_resume(
    shard: tuple[int, int] | None, seed: int | None, received: int | None
) -> None:
    def make() -> Any:
        sampler = Counting("generator", torch.Generator().manual_seed(3))
        return DataLoader(Indices(SIZE), 2, sampler=sampler, seed=seed, shard=shard)

    check_epochs_after_a_resume(make, received)


def check_epochs_after_a_resume(make: Callable[[], Any], received: int | None) -> None:
    def numbers(batches: Any) -> list[int]:
        return [number for batch in batches for number in batch.tolist()]

    made = make()
    first = numbers(made)
    iterator = iter(made) if received is not None else None
    for _ in range(received or 0):
        assert iterator is not None
        next(iterator)
    state = json.loads(json.dumps(made.state_dict()))
    rest = [numbers(made if iterator is None else iterator), numbers(made)]
    assert rest[1] != first
    resumed = make()
    resumed.load_state_dict(state)
    assert [numbers(resumed), numbers(resumed)] == rest


def test_a_state_of_another_bit_generator_is_named() -> None:
    made = DataLoader(Indices(SIZE), 4, sampler=Shuffling("rng", np.random.default_rng(3)))
    next(iter(made))
    resumed = DataLoader(Indices(SIZE), 4, sampler=Shuffling("rng", np.random.Generator(np.random.Philox(3))))
    resumed.load_state_dict(made.state_dict())
    with pytest.raises(ValueError, match="the state of a Generator: expected a state of Philox, but got"):
        next(iter(resumed))


class DrawnAtOnce:
    """A sampler that draws as soon as `iter` is called, from its own generator or the global one."""

    def __init__(self, generator: random.Random | None) -> None:
        self.generator = generator

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(SIZE))
        if self.generator is None:
            order = torch.randperm(SIZE).tolist()
        else:
            self.generator.shuffle(order)
        return iter([[index] for index in order])


# Every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("is_native", "is_own", "there", "here", "epochs", "persistent"),
    [
        (False, False, 0, 2, 1, False),
        (True, True, 0, 2, 0, True),
        (False, False, 2, 0, 0, True),
        (True, True, 2, 0, 1, False),
        (False, True, 2, 1, 1, False),
        (True, False, 2, 1, 0, True),
        (False, True, 2, 2, 1, True),
        (True, False, 2, 2, 0, False),
        (False, False, 0, 0, 1, True),
        (True, True, 0, 0, 0, False),
    ],
)
def test_an_order_that_iter_draws_is_the_same_with_other_workers(
    is_native: bool, is_own: bool, there: int, here: int, epochs: int, persistent: bool
) -> None:
    def make(workers: int) -> Any:
        sampler = DrawnAtOnce(random.Random(3) if is_own else None)
        dataset: Any = torch.arange(SIZE) if is_native else Indices(SIZE)
        keeps = persistent and workers > 0
        return DataLoader(dataset, batch_sampler=sampler, num_workers=workers, persistent_workers=keeps)

    torch.manual_seed(0)
    original = make(there)
    for _ in range(epochs):
        list(original)
    iterator = iter(original)
    for _ in range(4):
        next(iterator)
    state = json.loads(json.dumps(original.state_dict()))
    rest = [batch.tolist() for batch in iterator]
    torch.manual_seed(1)
    resumed = make(here)
    resumed.load_state_dict(state)
    assert [batch.tolist() for batch in resumed] == rest
