"""Doubles with their own states, of each kind that resuming distinguishes.

They are in a separate module so that spawned workers can import them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info


def own_items(sizes: list[int]) -> list[int]:
    """Return the items of this worker: its number times 1000 plus a position."""
    info = get_worker_info()
    worker = 0 if info is None else info.id
    return [worker * 1000 + position for position in range(sizes[worker])]


class StatefulIterator:
    """An iterator whose state is its position."""

    def __init__(self, items: list[int]) -> None:
        self.items, self.position = items, 0

    def __iter__(self) -> StatefulIterator:
        return self

    def __next__(self) -> int:
        if self.position >= len(self.items):
            raise StopIteration
        self.position += 1
        return self.items[self.position - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class PlainStream(IterableDataset):
    """Neither it nor its iterator has a state."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes

    def __iter__(self) -> Iterator[int]:
        yield from own_items(self.sizes)


class IteratorStream(PlainStream):
    """Its iterator is stateful; the stream is not."""

    def __iter__(self) -> Iterator[int]:
        return StatefulIterator(own_items(self.sizes))


class OwnIteratorStream(PlainStream):
    """It is its own iterator; `load_state_dict` needs attributes that `__iter__` creates."""

    def __iter__(self) -> OwnIteratorStream:
        self.position = 0
        self.items = own_items(self.sizes)
        self.limit = len(self.items)
        return self

    def __next__(self) -> int:
        if self.position >= self.limit:
            raise StopIteration
        self.position += 1
        return self.items[self.position - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "limit": self.limit}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state["limit"] == len(self.items)
        self.position, self.limit = state["position"], state["limit"]


class RearmedStream(PlainStream):
    """Its own iterator, which has no position from its end until `iter` is called; it counts its epochs."""

    position: int | None = None
    epoch = 0

    def __iter__(self) -> RearmedStream:
        if self.position is None:
            self.position = 0
            self.epoch += 1
        return self

    def __next__(self) -> tuple[int, int]:
        items = own_items(self.sizes)
        if self.position >= len(items):  # type: ignore[operator]
            self.position = None
            raise StopIteration
        self.position += 1  # type: ignore[operator]
        return self.epoch, items[self.position - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.epoch = state["position"], state["epoch"]


class GeneratorStream(PlainStream):
    """Stateful, with a plain generator that reads the state when `__iter__` is called, not at the first item."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__(sizes)
        self.position = self.start = 0

    def __iter__(self) -> Iterator[int]:
        start, self.start = self.start, 0
        self.position = start
        return self.items_from(start)

    def items_from(self, start: int) -> Iterator[int]:
        for item in own_items(self.sizes)[start:]:
            self.position += 1
            yield item
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = self.start = state["position"]


class CallCounter:
    """Mixin for streams: every item becomes a tuple with the number of calls of `__iter__` so far."""

    calls = 0

    def __iter__(self) -> Any:
        self.calls += 1
        return super().__iter__()  # type: ignore[misc]


class CountedPlainStream(CallCounter, PlainStream):
    def __iter__(self) -> Iterator[Any]:
        return ((self.calls, item) for item in super().__iter__())


class CountedGeneratorStream(CallCounter, GeneratorStream):
    def items_from(self, start: int) -> Iterator[Any]:
        return ((self.calls, item) for item in super().items_from(start))


class CountedOwnIteratorStream(CallCounter, OwnIteratorStream):
    def __next__(self) -> Any:
        return self.calls, super().__next__()


class EpochStream(PlainStream):
    """Counts its epochs in its state: items are epoch * 10_000 + worker * 1000 + position."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__(sizes)
        self.epoch = self.position = 0

    def __iter__(self) -> Iterator[int]:
        items = own_items(self.sizes)
        while self.position < len(items):
            self.position += 1
            yield self.epoch * 10_000 + items[self.position - 1]
        self.position = 0
        self.epoch += 1

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]


class DrawingStream(PlainStream):
    """Its iterator keeps torch's global RNG in its state and draws every item from it."""

    def __iter__(self) -> Iterator[float]:
        return DrawingIterator(own_items(self.sizes))


class DrawingIterator(StatefulIterator):
    def __next__(self) -> Any:
        return super().__next__(), torch.rand(1).item()

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "rng": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        torch.set_rng_state(state["rng"])


class Indices(Dataset):
    """Map-style and without state; a sample is its index."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __getitem__(self, index: int) -> Any:
        return index

    def __len__(self) -> int:
        return self.size


class CongruentRows(Indices):
    """Map-style with its own generator, whose state is one integer."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.value = 1

    def __getitem__(self, index: int) -> Any:
        self.value = (self.value * 48271 + 11) % 2147483647
        return index, self.value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


class GeneratorRows(Indices):
    """Map-style with its own `torch.Generator`, whose state is a tensor."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.draws = torch.Generator().manual_seed(3)

    def __getitem__(self, index: int) -> Any:
        return index, torch.rand(1, generator=self.draws).item()

    def state_dict(self) -> dict[str, Any]:
        return {"draws": self.draws.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.draws.set_state(state["draws"])

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "draws": self.draws.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.size, self.draws = state["size"], torch.Generator()
        self.draws.set_state(state["draws"])


class GlobalRngRows(Indices):
    """Map-style; keeps torch's global RNG in its state and draws from it."""

    def __getitem__(self, index: int) -> Any:
        return index, torch.rand(1).item()

    def state_dict(self) -> dict[str, Any]:
        return {"rng": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["rng"])


class DrawingRows(Indices):
    """Map-style and without state; draws from all three global generators."""

    def __getitem__(self, index: int) -> Any:
        return index, random.random(), float(numpy.random.rand()), torch.rand(2)


class GrowingRows(Indices):
    """Its state grows and changes its shape with every sample; it returns its live lists and dicts."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.seen: list[int] = []
        self.state: dict[Any, Any] = {"seen": self.seen, "nested": {"deep": {}}}

    def __getitem__(self, index: int) -> Any:
        self.seen.append(index)
        count = len(self.seen)
        self.state[count] = {"index": index, 0: [torch.tensor(self.seen)]}
        self.state["nested"]["deep"][-count] = [index] * count
        return index, count

    def state_dict(self) -> dict[Any, Any]:
        return self.state

    def load_state_dict(self, state: dict[Any, Any]) -> None:
        assert set(state["nested"]["deep"]) == {-count for count in range(1, len(state["seen"]) + 1)}
        for count, index in enumerate(state["seen"], start=1):
            assert state[count]["index"] == index
            assert state[count][0][0].tolist() == state["seen"][:count]
        self.state, self.seen = state, state["seen"]


class StatefulSampler(Sampler):
    """Stateful itself, with a plain generator that reads the state when `__iter__` is called."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.position = self.start = 0

    def __iter__(self) -> Iterator[int]:
        start, self.start = self.start, 0
        self.position = start
        return self.indices_from(start)

    def indices_from(self, start: int) -> Iterator[int]:
        for index in reversed(range(self.size - start)):
            self.position += 1
            yield index

    def __len__(self) -> int:
        return self.size

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = self.start = state["position"]


class IteratorSampler(Sampler):
    """Its iterator is stateful; the sampler is not."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        return StatefulIterator([(7 * index) % self.size for index in range(self.size)])

    def __len__(self) -> int:
        return self.size


class StatefulBatchSampler(StatefulSampler):
    """Stateful; batches of two and three, in alternation."""

    def indices_from(self, start: int) -> Iterator[Any]:
        batches = [[0, 1], [2, 3, 4], [5, 6], [7, 8, 9], [10]]
        for batch in batches[start:]:
            self.position += 1
            yield batch

    def __len__(self) -> int:
        return 5
