"""Random loaders, resumed at every position: the remaining batches are those of an uninterrupted run."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import torch

import sluicegate
from cases.loader_kinds import plain, take
from checks import drawn
from checks.global_draws import seed_globals
from doubles.stateful import CongruentRows, DrawingRows, Indices, IteratorSampler, StatefulSampler

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

DRAWS = 30
DRAWS_WITH_WORKERS = 4
SAMPLERS = ["none", "none", "list", "stateful", "iterator", "random", "replacement", "batches"]


class Draw:
    """One random loader, determined by its number; `str()` describes it."""

    def __init__(self, number: int, num_workers: int) -> None:
        choose = random.Random(number)
        self.number = number
        self.size = choose.choice([0, 1, 2, 3, 5, 8, 13])
        self.seed = choose.choice([None, choose.randrange(2**64)])
        self.dataset = choose.choice(["native", "indices", "drawing", "stateful"])
        self.sampler = choose.choice(SAMPLERS)
        self.num_workers = num_workers
        # The number of workers must not change if each has its own state, or if draws are not seeded.
        may_move = self.dataset in ("native", "indices") or (self.dataset == "drawing" and self.seed is not None)
        self.resumed_workers = choose.choice([num_workers, 0, 2]) if num_workers and may_move else num_workers
        self.generator_seed = choose.choice([None, 5]) if self.seed is None else None
        self.arguments: dict[str, Any] = {"seed": self.seed}
        if self.sampler != "batches":
            self.arguments["batch_size"] = choose.choice([None, 1, 2, 3, 20])
            self.arguments["drop_last"] = choose.random() < 0.3 and self.arguments["batch_size"] is not None
        if self.sampler == "none":
            self.arguments["shuffle"] = choose.random() < 0.7 and self.size > 0  # otherwise torch refuses
        if num_workers:
            self.arguments["prefetch_factor"] = choose.choice([None, 1, 3])
            self.arguments["persistent_workers"] = choose.random() < 0.3
        self.arguments["snapshot_every_n_steps"] = choose.choice([1, 1, 0, 3])
        # Without a seed, each epoch begins with a draw, except with persistent workers: if these are not resumed, later
        # orders that are drawn from the same generator differ.
        is_drawn = self.arguments.get("shuffle", self.sampler in ("random", "replacement") and not self.generator_seed)
        stops_persisting = self.arguments.get("persistent_workers", False) and self.resumed_workers == 0
        self.knows_later_epochs = self.seed is not None or not (is_drawn and stops_persisting)

    def __str__(self) -> str:
        return str(vars(self))

    def loader(self, num_workers: int) -> Any:
        size = self.size
        arguments = dict(self.arguments)
        if not num_workers:
            arguments.pop("prefetch_factor", None)
            arguments.pop("persistent_workers", None)
        if self.generator_seed is not None:
            arguments["generator"] = torch.Generator().manual_seed(self.generator_seed)
        dataset: Any = {
            "native": lambda: torch.arange(size),
            "indices": lambda: Indices(size),
            "drawing": lambda: DrawingRows(size),
            "stateful": lambda: CongruentRows(size),
        }[self.dataset]()
        if self.sampler not in ("none", "batches"):
            arguments["sampler"] = (
                {
                    "list": lambda: list(range(size - 1, -1, -1)),
                    "stateful": lambda: StatefulSampler(size),
                    "iterator": lambda: IteratorSampler(size),
                    "random": lambda: torch.utils.data.RandomSampler(range(size)),
                    "replacement": lambda: sluicegate.RandomSampler(range(size), True, size + 2),
                }[self.sampler]()
                if size
                else []
            )
        elif self.sampler == "batches":
            arguments["batch_sampler"] = [list(range(start, min(start + 2, size))) for start in range(0, size, 2)]
        return sluicegate.DataLoader(dataset, num_workers=num_workers, **arguments)


def check(draw: Draw) -> None:
    """Save at every position of three epochs, and check that each state restores the batches that followed."""
    seed_globals(1)
    loader = draw.loader(draw.num_workers)
    epochs: list[list[Any]] = []
    states = [(0, 0, loader.state_dict())]
    for number in range(3):
        epoch: list[Any] = []
        epochs.append(epoch)
        for batch in loader:
            epoch.append(plain(batch))
            states.append((number, len(epoch), loader.state_dict()))
        states.append((number + 1, 0, loader.state_dict()))
    if draw.num_workers:
        states = random.Random(draw.size).sample(states, min(len(states), 3))
    for number, batches, state in states:
        seed_globals(1000 + number)
        fresh = draw.loader(draw.resumed_workers)
        fresh.load_state_dict(json.loads(json.dumps(state)))
        expected = [epoch[batches:] if skipped == 0 else epoch for skipped, epoch in enumerate(epochs[number:])]
        expected = expected if draw.knows_later_epochs else expected[:1]
        assert [take(fresh) for _ in expected] == expected, (str(draw), number, batches, state)


def test_random_loaders_resume_everywhere() -> None:
    for number in drawn.numbers(DRAWS):
        check(Draw(number, 0))


def test_random_loaders_with_workers_resume_anywhere() -> None:
    for number in drawn.numbers(DRAWS_WITH_WORKERS):
        check(Draw(number, 1 + number % 2))


@pytest.mark.parametrize("number", range(6))
def test_random_loaders_out_of_order_lose_and_repeat_nothing(number: int) -> None:
    choose = random.Random(number)
    size, seed = choose.choice([7, 12, 21]), choose.choice([None, number])
    stop = choose.randrange(size // 2)

    def loader() -> Any:
        return sluicegate.DataLoader(Indices(size), 2, True, num_workers=2, in_order=False, seed=seed)

    source = loader()
    iterator = iter(source)
    seen = take(iterator, stop)
    state = source.state_dict()
    del iterator
    torch.manual_seed(number)
    fresh = loader()
    fresh.load_state_dict(state)
    rest = take(fresh)
    assert sorted(index for batch in seen + rest for index in batch) == list(range(size))
    assert sorted(index for batch in take(fresh) for index in batch) == list(range(size))
