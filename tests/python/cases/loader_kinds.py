"""Loaders of every kind that resuming distinguishes, and reading them step by step."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy
import torch
from torch.utils.data import RandomSampler

import sluicegate
from doubles.stateful import (
    CongruentRows,
    GeneratorRows,
    GeneratorStream,
    Indices,
    IteratorSampler,
    IteratorStream,
    OwnIteratorStream,
    PlainStream,
    StatefulBatchSampler,
    StatefulSampler,
)

SIZE = 11
BATCH_SIZE = 2
SIZES = [9, 0, 4]

MAP_KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "sequential": lambda: {"dataset": Indices(SIZE)},
    "native": lambda: {"dataset": torch.arange(SIZE), "shuffle": True},
    "shuffle": lambda: {"dataset": Indices(SIZE), "shuffle": True},
    "shuffle, drop_last": lambda: {"dataset": Indices(SIZE), "shuffle": True, "drop_last": True},
    "shuffle, generator": lambda: {
        "dataset": Indices(SIZE),
        "shuffle": True,
        "generator": torch.Generator().manual_seed(8),
    },
    "unbatched": lambda: {"dataset": Indices(SIZE), "shuffle": True, "batch_size": None},
    "dataset state": lambda: {"dataset": CongruentRows(SIZE), "shuffle": True},
    "dataset state with tensors": lambda: {"dataset": GeneratorRows(SIZE)},
    "own order": lambda: {"dataset": Indices(SIZE), "sampler": [(5 * index) % SIZE for index in range(SIZE)]},
    "reseeded sampler": lambda: {
        "dataset": Indices(SIZE),
        "sampler": RandomSampler(range(SIZE), generator=torch.Generator().manual_seed(2)),
    },
    "stateful sampler": lambda: {"dataset": Indices(SIZE), "sampler": StatefulSampler(SIZE)},
    "stateful sampler iterator": lambda: {"dataset": Indices(SIZE), "sampler": IteratorSampler(SIZE)},
    "batch sampler": lambda: {"dataset": Indices(SIZE), "batch_sampler": [[0, 1], (2,), [5, 4, 3], [9, 8], [10]]},
    "stateful batch sampler": lambda: {"dataset": Indices(SIZE), "batch_sampler": StatefulBatchSampler(SIZE)},
}
STREAM_KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "stateful iterator": lambda: {"dataset": IteratorStream(SIZES)},
    "own iterator": lambda: {"dataset": OwnIteratorStream(SIZES)},
    "stateful stream": lambda: {"dataset": GeneratorStream(SIZES)},
    "stream without state": lambda: {"dataset": PlainStream(SIZES)},
    "unbatched stream": lambda: {"dataset": GeneratorStream(SIZES), "batch_size": None},
}
KINDS = MAP_KINDS | STREAM_KINDS


def make(kind: str, num_workers: int = 0, **changes: Any) -> Any:
    """Return a loader of this kind, with its own dataset and samplers."""
    arguments = KINDS[kind]() | changes
    if "batch_sampler" not in arguments:
        arguments.setdefault("batch_size", BATCH_SIZE)
    return sluicegate.DataLoader(num_workers=num_workers, **arguments)


def plain(value: Any) -> Any:
    """Return a batch with its tensors as lists."""
    if isinstance(value, torch.Tensor | numpy.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def take(iterator: Any, count: int | None = None) -> list[Any]:
    """Return the next `count` batches of an iterator or loader, or all."""
    return [plain(batch) for batch in islice(iterator, count)]


def through_json(loader: Any) -> Any:
    """Return the loader's state after a round trip through JSON."""
    return json.loads(json.dumps(loader.state_dict()))


def ends(kind: str, num_workers: int, **changes: Any) -> Iterator[tuple[int, dict[str, Any], list[Any]]]:
    """Yield, for each point between the batches of an epoch, its number, the state, and the batches still to come."""
    states, batches = read(make(kind, num_workers, **changes)) if changes else copy.deepcopy(_read(kind, num_workers))
    for number, state in enumerate(states):
        yield number, state, batches[number:]


@functools.cache
def _read(kind: str, num_workers: int) -> tuple[list[dict[str, Any]], list[Any]]:
    return read(make(kind, num_workers))


def read(loader: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the states before the first batch of an epoch and after each, and the batches."""
    iterator = iter(loader)
    states, batches = [loader.state_dict()], []
    for batch in iterator:
        batches.append(plain(batch))
        states.append(loader.state_dict())
    return states, batches
