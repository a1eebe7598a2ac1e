"""Streams with every kind of state that users write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from sluicegate import IterableDataset


class Plain(IterableDataset[int]):
    """Has no state."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        yield from range(self.length)


class GeneratorStream(IterableDataset[int]):
    """Stateful, with a generator that starts at the first sample; until then, its state is the previous epoch's."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.place = self.given = 0
        self.resume: int | None = None

    def __iter__(self) -> Iterator[int]:
        self.place = 0
        if self.resume is not None:
            self.place, self.resume = self.resume, None
        while self.place < self.length:
            self.place += 1
            self.given += 1
            yield self.place - 1

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.resume = state["place"]


class ResettingStream(IterableDataset[Any]):
    """Stateful, with different epochs; its state at the end of one is the start of the next."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.state = {"place": 0, "epoch": 0}

    def __iter__(self) -> Iterator[Any]:
        while self.state["place"] < self.length:
            self.state["place"] += 1
            yield self.state["epoch"] * 1000 + self.state["place"] - 1
        self.state["place"] = 0
        self.state["epoch"] += 1

    def state_dict(self) -> dict[str, Any]:
        return self.state  # its live object, on purpose

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


class MappedStream(ResettingStream):
    """The same, with its generator hidden inside a `map`."""

    def __iter__(self) -> Iterator[Any]:
        return map(int, super().__iter__())


class ClosingStream(ResettingStream):
    """Starts a new epoch when its generator is closed, and thus also when an epoch is left early."""

    def __iter__(self) -> Iterator[Any]:
        try:
            while self.state["place"] < self.length:
                self.state["place"] += 1
                yield self.state["epoch"] * 1000 + self.state["place"] - 1
        finally:
            self.state["place"] = 0
            self.state["epoch"] += 1


class CountingStream(IterableDataset[int]):
    """Counts an epoch when it begins, unless a state was loaded since: the next generator starts from that."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = self.place = 0
        self.resume: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[int]:
        if self.resume is not None:
            self.epoch, self.place = self.resume["epoch"], self.resume["place"]
            self.resume = None
        else:
            self.epoch, self.place = self.epoch + 1, 0
        while self.place < self.length:
            self.place += 1
            yield self.epoch * 1000 + self.place - 1

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.resume = dict(state)


class IteratorStream(IterableDataset[int]):
    """Has no state, but its iterators do."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Any:
        return _Counter(self.length)


class _Counter:
    def __init__(self, length: int) -> None:
        self.length = length
        self.place = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.place >= self.length:
            raise StopIteration
        self.place += 1
        return self.place - 1

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


class RandomStream(IteratorStream):
    """Its iterators also save torch's global generator."""

    def __iter__(self) -> Any:
        return _Dice(self.length)


class _Dice(_Counter):
    def __next__(self) -> int:
        return super().__next__() * 1000 + int(torch.randint(1000, (1,)).item())

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "generator": torch.get_rng_state().tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        torch.set_rng_state(torch.tensor(state["generator"], dtype=torch.uint8))


class OwnIterator(_Counter, IterableDataset[int]):  # type: ignore[misc]
    """Its own iterator, whose state depends on objects that `__iter__` creates."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Any:
        self.place = 0
        return self
