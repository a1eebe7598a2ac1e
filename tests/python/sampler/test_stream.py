"""User-defined samplers with a state: at the end of an epoch, and after one that was left early."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch.utils.data import Sampler

import sluicegate
from cases.loader_kinds import take
from doubles.stateful import Indices, StatefulBatchSampler

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

BATCHES = [[0, 1], [2], [3, 4, 5], [6, 7]]


class Restarting(Sampler[Any]):
    """Its state after the last item equals that at the start, so the next epoch starts over."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.place = self.given = 0

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        for _ in range(len(self.items) - self.place):
            item = self.items[self.place]
            self.place = (self.place + 1) % len(self.items)
            yield item

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


class Ending(Restarting):
    """Starts over when an item after the last one is requested."""

    def __iter__(self) -> Iterator[Any]:
        while self.place < len(self.items):
            self.place += 1
            yield self.items[self.place - 1]
        self.place = 0


class Taking(Restarting):
    """Starts over in every epoch, except in the first one after `load_state_dict`."""

    resume: int | None = None

    def __iter__(self) -> Iterator[Any]:
        self.place, self.resume = self.resume or 0, None
        while self.place < len(self.items):
            self.place += 1
            yield self.items[self.place - 1]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.resume = state["place"]


LOADERS: dict[str, Callable[[type[Restarting]], dict[str, Any]]] = {
    "batch sampler": lambda cls: {"batch_sampler": cls(BATCHES)},
    "sampler": lambda cls: {"sampler": cls([5, 3, 1, 2, 0, 4]), "batch_size": 2},
    "sampler, smaller last batch": lambda cls: {"sampler": cls([5, 3, 1, 2, 0]), "batch_size": 2},
    "sampler, drop_last": lambda cls: {"sampler": cls([5, 3, 1, 2, 0]), "batch_size": 2, "drop_last": True},
    "sampler of samples": lambda cls: {"sampler": cls([5, 3, 1, 2, 0]), "batch_size": None},
}


def make(kind: str, cls: type[Restarting], num_workers: int = 0) -> Any:
    return sluicegate.DataLoader(Indices(8), num_workers=num_workers, **LOADERS[kind](cls))


def resumed(state: dict[str, Any], kind: str, cls: type[Restarting], num_workers: int = 0) -> Any:
    loader = make(kind, cls, num_workers)
    loader.load_state_dict(json.loads(json.dumps(state)))
    return loader


def with_workers(classes: list[type[Restarting]]) -> list[tuple[str, type[Restarting], int]]:
    """Return every kind of loader with each class without workers, and with one class per kind in workers."""
    with_none = [(kind, cls, 0) for kind in LOADERS for cls in classes]
    return with_none + [(kind, classes[number % len(classes)], 1 + number % 2) for number, kind in enumerate(LOADERS)]


@pytest.mark.parametrize(("kind", "cls", "num_workers"), with_workers([Restarting, Ending, Taking]))
def test_after_the_last_batch_nothing_is_left_and_then_comes_an_epoch(
    kind: str, cls: type[Restarting], num_workers: int
) -> None:
    loader = make(kind, cls, num_workers)
    whole = []
    for batch in loader:
        whole.append(batch.tolist() if hasattr(batch, "tolist") else batch)
        state = loader.state_dict()
    assert take(loader) == whole
    again = resumed(state, kind, cls, num_workers)
    # Workers are slow to start.
    epochs = [whole] if num_workers else [whole, whole]
    assert take(again) == []
    assert [take(again) for _ in epochs] == epochs
    for state in (loader.state_dict(), again.state_dict()):
        again = resumed(state, kind, cls, num_workers)
        assert [take(again) for _ in epochs] == epochs


@pytest.mark.parametrize(("kind", "cls", "num_workers"), with_workers([Ending, Taking]))
def test_a_sampler_left_in_the_middle_starts_over_after_a_resume(
    kind: str, cls: type[Restarting], num_workers: int
) -> None:
    loader = make(kind, cls, num_workers)
    whole = [take(make(kind, cls, num_workers))] * 2
    take(iter(loader), 2)
    iterator = iter(loader)
    state = loader.state_dict()
    if cls is Taking:  # It starts over in any case.
        assert [take(iterator), take(loader)] == whole
    again = resumed(state, kind, cls, num_workers)
    assert [take(again) for _ in range(2)] == whole


@pytest.mark.parametrize("cls", [Restarting, Ending, Taking])
def test_batches_that_are_left_out_at_the_end_are_passed_all_the_same(cls: type[Restarting]) -> None:
    loader = make("batch sampler", cls)
    loader.skip([2, 3])
    assert take(loader) == BATCHES[:2]
    again = resumed(loader.state_dict(), "batch sampler", cls)
    assert take(again) == BATCHES


def test_a_resumed_sampler_has_the_state_of_the_resumed_epoch() -> None:
    loaders = [sluicegate.DataLoader(Indices(11), batch_sampler=StatefulBatchSampler(11)) for _ in range(3)]
    expected = take(loaders[0])
    loaders[1].load_state_dict(loaders[0].state_dict())
    assert take(iter(loaders[1]), 1) == expected[:1]
    loaders[2].load_state_dict(loaders[1].state_dict())
    assert take(loaders[2]) == expected[1:]
