"""A loader's samplers, when other code iterates them, yield the loader's order."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import random
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
import torch.utils.data
from accelerate.data_loader import BatchSamplerShard, DataLoaderDispatcher

import sluicegate
from sluicegate import DataLoader

# The number of random loaders that are tried.
COUNT = int(os.environ.get("SLUICEGATE_RANDOM_LOADERS", "120"))

ORDERS: dict[str, dict[str, Any]] = {
    "unseeded": {},
    "seed": {"seed": 7},
    "seed, shuffled": {"seed": 7, "shuffle": True},
    "shard": {"shard": (1, 3)},
    "seed and shard": {"seed": 7, "shuffle": True, "shard": (0, 2)},
    "drop": {"seed": 7, "shuffle": True, "shard": (1, 2), "remainder": "drop", "drop_last": True},
}
each_order = pytest.mark.parametrize("arguments", ORDERS.values(), ids=ORDERS)


def make(arguments: dict[str, Any], **more: Any) -> DataLoader[Any]:
    return DataLoader(torch.arange(25), **{"batch_size": 4} | arguments | more)


def batches(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def epochs(loader: DataLoader[Any], count: int = 3) -> list[list[list[int]]]:
    return [batches(loader) for _ in range(count)]


def arguments_of(loader: Any) -> dict[str, Any]:
    """Return the attributes from which a trainer rebuilds a loader."""
    names = [name for name in inspect.signature(type(loader).__init__).parameters if name != "self"]
    found = {name: vars(loader)[name] for name in names if name in vars(loader)}
    found["multiprocessing_context"] = loader.multiprocessing_context
    return found


@each_order
def test_each_pass_is_an_epoch_of_the_loader(arguments: dict[str, Any]) -> None:
    expected = epochs(make(arguments))
    assert [list(make_at(arguments, epoch).batch_sampler) for epoch in range(3)] == expected
    loader = make(arguments)
    assert [list(loader.batch_sampler), batches(loader), list(loader.batch_sampler)] == expected
    if not arguments.get("drop_last"):
        loader = make(arguments)
        assert [list(loader.sampler) for _ in range(3)] == [[*chain.from_iterable(epoch)] for epoch in expected]
    assert len(loader.batch_sampler) == len(loader) == len(expected[0])


def make_at(arguments: dict[str, Any], epoch: int, **more: Any) -> DataLoader[Any]:
    loader = make(arguments, **more)
    loader.set_epoch(epoch)
    return loader


@each_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_skip_first_batches_gives_the_rest_of_the_epoch(arguments: dict[str, Any], num_workers: int) -> None:
    expected = epochs(make(arguments))
    for epoch in range(2):
        loader = make_at(arguments, epoch, num_workers=num_workers)
        assert batches(accelerate.skip_first_batches(loader, 2)) == expected[epoch][2:]
        assert batches(loader) == expected[epoch + 1]


def test_an_unseeded_shuffle_is_skipped_as_in_torch() -> None:
    rests = []
    for module in (sluicegate, torch.utils.data):
        torch.manual_seed(3)
        loader = module.DataLoader(torch.arange(25), batch_size=4, shuffle=True)
        rests.append([batches(accelerate.skip_first_batches(loader, 2)), batches(loader)])
    assert rests[0] == rests[1]


@each_order
def test_the_samplers_have_the_types_that_trainers_require(arguments: dict[str, Any]) -> None:
    loader = make(arguments)
    assert type(loader.batch_sampler) is torch.utils.data.BatchSampler
    assert loader.batch_sampler is loader.batch_sampler
    assert loader.batch_sampler.sampler is loader.sampler
    shuffles = bool(arguments.get("shuffle"))
    assert isinstance(loader.sampler, torch.utils.data.RandomSampler) == shuffles
    assert isinstance(loader.sampler, torch.utils.data.SequentialSampler) != shuffles
    assert loader.sampler.data_source is loader.dataset
    if shuffles:
        assert (loader.sampler.replacement, loader.sampler._num_samples, loader.sampler.generator) == (
            False,
            None,
            None,
        )


@each_order
def test_a_rebuilt_loader_is_sharded_and_seeded_once(arguments: dict[str, Any]) -> None:
    expected = epochs(make(arguments))
    loader = make(arguments)
    found = arguments_of(loader)
    found.pop("batch_sampler")
    assert set(found) == set(inspect.signature(DataLoader.__init__).parameters) - {"self", "shuffle", "batch_sampler"}
    for sampler in (loader.sampler, found["sampler"]):
        assert epochs(type(loader)(**found | {"sampler": sampler})) == expected
    for name in ("batch_size", "sampler", "drop_last"):
        found.pop(name)
    assert epochs(type(loader)(**found, batch_sampler=loader.batch_sampler)) == expected


def test_a_loader_of_another_ones_sampler_has_its_order_and_resumes_in_it() -> None:
    arguments = ORDERS["seed and shard"]
    expected = epochs(make(arguments))
    loader = make(arguments)
    batches(loader)
    other = DataLoader(loader.dataset, batch_size=4, sampler=loader.sampler)
    iterator = iter(other)
    next(iterator)
    fresh = DataLoader(loader.dataset, batch_size=4, sampler=make(arguments).sampler)
    fresh.load_state_dict(other.state_dict())
    assert batches(iterator) == batches(fresh) == expected[1][1:]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_copy_counts_its_own_epochs(copied: Callable[[Any], Any]) -> None:
    arguments = ORDERS["seed and shard"]
    expected = epochs(make(arguments))
    loader = make(arguments)
    first = loader.batch_sampler
    assert list(first) == expected[0]
    twin = copied(loader)
    assert twin.batch_sampler is not first
    assert list(twin.batch_sampler) == list(first) == expected[1]
    assert copied(twin.batch_sampler) is not twin.batch_sampler


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))])
def test_a_copied_batch_sampler_continues_the_order_and_counts_its_own_epochs(copied: Callable[[Any], Any]) -> None:
    arguments = ORDERS["seed and shard"]
    expected = epochs(make(arguments))
    loader = make(arguments)
    assert list(loader.batch_sampler) == expected[0]
    twin = copied(loader.batch_sampler)
    assert [list(twin), list(twin)] == expected[1:3]
    assert list(loader.batch_sampler) == expected[1]


def test_the_batch_sampler_outlives_its_loader() -> None:
    arguments = ORDERS["seed and shard"]
    batch_sampler = make(arguments).batch_sampler
    assert list(batch_sampler) == epochs(make(arguments))[0]


def test_trainers_may_replace_the_sampler_and_its_attributes() -> None:
    loader = make({"seed": 7})
    loader.batch_sampler.sampler = range(8, 0, -1)
    assert list(loader.batch_sampler) == batches(loader) == [[8, 7, 6, 5], [4, 3, 2, 1]]
    loader = make({"shard": (1, 2)})
    loader.batch_sampler.sampler = range(8, 0, -1)
    assert list(loader.batch_sampler) == batches(loader) == [[7, 5, 3, 1]]
    loader.batch_sampler.batch_size = 2
    assert list(loader.batch_sampler) == batches(loader) == [[7, 5], [3, 1]]
    loader = make({"shuffle": True})
    loader.sampler.generator = torch.Generator().manual_seed(9)
    loader.seed = 7
    assert list(loader.batch_sampler) == epochs(make({"seed": 7, "shuffle": True}))[0]


@pytest.mark.parametrize("shard", [None, (0, 2)])
def test_the_samplers_set_epoch_is_the_loaders(shard: Any) -> None:
    expected = epochs(make({"seed": 7, "shuffle": True, "shard": shard}))
    loader = make({"seed": 7, "shuffle": True, "shard": shard})
    iterator = iter(loader)
    loader.batch_sampler.sampler.set_epoch(2)
    assert batches(iterator) == expected[2]
    assert loader.state_dict()["epoch"] == 3


def test_a_state_is_refused_in_the_middle_of_a_pass_by_other_code() -> None:
    loader = make({"seed": 7})
    before = loader.state_dict()
    assert before["epoch"] == 0
    iterator = iter(loader.batch_sampler)
    assert loader.state_dict() == before
    next(iterator)
    with pytest.raises(RuntimeError, match=r"other code is iterating .* unknown"):
        loader.state_dict()
    list(iterator)
    assert loader.state_dict()["epoch"] == 1


def test_iterating_over_a_sampler_of_a_loader_that_skips_or_resumes_is_an_error() -> None:
    loader = make({"seed": 7})
    loader.skip(range(2))
    with pytest.raises(ValueError, match="iterate over the DataLoader"):
        list(loader.batch_sampler)
    assert len(batches(loader)) == 5
    assert len(list(loader.batch_sampler)) == 7
    loader.skip_samples([3])
    with pytest.raises(ValueError, match="iterate over the DataLoader"):
        list(loader.sampler)
    loader = make({"seed": 7})
    next(iter(loader))
    fresh = make({"seed": 7})
    fresh.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="middle of epoch 0"):
        list(fresh.batch_sampler)
    assert len(batches(fresh)) == 6
    assert len(list(fresh.batch_sampler)) == 7


def test_sharding_twice_is_an_error() -> None:
    sharded = make({"seed": 7, "shard": (0, 2)})
    with pytest.raises(ValueError, match=r"sharded twice.*sluicegate\.accelerate"):
        list(BatchSamplerShard(sharded.batch_sampler, 2, 0))
    with pytest.raises(ValueError, match=r"sharded twice.*sluicegate\.accelerate"):
        next(iter(DataLoaderDispatcher(sharded.dataset, batch_sampler=sharded.batch_sampler)))
    wrapped = torch.utils.data.BatchSampler(Reversed(sharded.sampler), 4, False)
    with pytest.raises(ValueError, match=r"sharded twice.*sluicegate\.accelerate"):
        list(DataLoader(sharded.dataset, batch_sampler=wrapped, shard=(0, 2)))
    seeded = make({"seed": 7})
    parts = [list(BatchSamplerShard(make({"seed": 7}).batch_sampler, 2, rank)) for rank in range(2)]
    assert {index for part in parts for batch in part for index in batch} == set(range(25))
    assert parts[0][0] == batches(seeded)[0]


@pytest.mark.parametrize("seed", [None, 7])
def test_batch_samplers_without_a_sampler_are_read(seed: int | None) -> None:
    inner = torch.utils.data.BatchSampler(range(24), 4, False)
    for wrapped in (BatchSamplerShard(inner, 2, 1), accelerate.data_loader.SkipBatchSampler(inner, 2)):
        loader = DataLoader(torch.arange(24), batch_sampler=wrapped, seed=seed)
        assert batches(loader) == list(wrapped)
        assert batches(DataLoader(Items(24), batch_sampler=wrapped, num_workers=1)) == list(wrapped)
        repr(loader), len(loader), loader.state_dict()


class Items(torch.utils.data.Dataset[int]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


class Reversed(torch.utils.data.Sampler[int]):
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[int]:
        return reversed(list(self.inner))


class Drawing(torch.utils.data.Sampler[int]):
    """Draws from all global generators."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        for _ in range(self.length):
            part = random.randrange(100) + int(np.random.randint(100)) + int(torch.randint(100, ()))
            yield part % self.length


class DrawingBatches(Drawing):
    """Draws batches of several sizes."""

    def __iter__(self) -> Iterator[Any]:
        indices = list(super().__iter__())
        for first in range(0, self.length, 2):
            yield indices[first : first + random.choice([1, 2])]

    def __len__(self) -> int:
        return -(-self.length // 2)


SAMPLERS: dict[str, Callable[[int], Any]] = {
    "none": lambda length: None,
    "random": lambda length: torch.utils.data.RandomSampler(range(length)),
    "replacement": lambda length: torch.utils.data.RandomSampler(range(length), True, length + 3),
    "sequential": lambda length: torch.utils.data.SequentialSampler(range(length)),
    "subset": lambda length: torch.utils.data.SubsetRandomSampler(range(0, length, 2)),
    "weighted": lambda length: torch.utils.data.WeightedRandomSampler(torch.arange(1.0, length + 1), length),
    "distributed": lambda length: torch.utils.data.DistributedSampler(range(length), 2, 1),
    "own random": lambda length: sluicegate.RandomSampler(range(length)),
    "own random, seeded": lambda length: sluicegate.RandomSampler(range(length), seed=3),
    "own distributed": lambda length: sluicegate.DistributedSampler(range(length), 2, 0),
    "own blocks": lambda length: sluicegate.BlockShuffleSampler(range(length), 3, 2, seed=1),
    "list": lambda length: [(5 * index) % length for index in range(length)],
    "drawing": Drawing,
}
BATCH_SAMPLERS: dict[str, Callable[[Any, int, int, bool], Any]] = {
    "torch's": lambda sampler, length, size, drop: torch.utils.data.BatchSampler(sampler or range(length), size, drop),
    "ours": lambda sampler, length, size, drop: sluicegate.BatchSampler(sampler or range(length), size, drop),
    "lengths": lambda sampler, length, size, drop: sluicegate.LengthBucketBatchSampler(
        [index % 5 + 1 for index in range(length)], batch_size=size
    ),
    "lists": lambda sampler, length, size, drop: [[index, 0] for index in range(length)],
    "drawing": lambda sampler, length, size, drop: DrawingBatches(length),
}


def random_loader(rng: random.Random) -> tuple[dict[str, Any], Callable[[], DataLoader[Any]]]:
    length, size = rng.choice([1, 2, 5, 11, 24, 4100]), rng.choice([1, 2, 3, 8, None])
    drop_last = size is not None and rng.random() < 0.3
    seed, shard = rng.choice([None, 7, 7]), rng.choice([None, None, (0, 1), (0, 2), (1, 2), (2, 3)])
    remainder = rng.choice(["pad", "drop", "exact"])
    kind, batch_kind = rng.choice(list(SAMPLERS)), rng.choice([None, None, *BATCH_SAMPLERS])
    workers, shuffle = rng.choice([0] * 9 + [2]), kind == "none" and batch_kind is None and rng.random() < 0.6
    chosen = {
        name: value
        for name, value in locals().items()
        if name
        in ("length", "size", "drop_last", "seed", "shard", "remainder", "kind", "batch_kind", "workers", "shuffle")
    }

    def build() -> DataLoader[Any]:
        sampler = SAMPLERS[kind](length)
        shape = {"seed": seed, "shard": shard, "remainder": remainder, "num_workers": workers, "worker_type": "thread"}
        if batch_kind is not None:
            shape["batch_sampler"] = BATCH_SAMPLERS[batch_kind](sampler, length, size or 1, drop_last)
        else:
            shape |= {"sampler": sampler, "batch_size": size, "drop_last": drop_last, "shuffle": shuffle or None}
        return DataLoader(Items(length), collate_fn=list if batch_kind or size else None, **shape)

    return chosen, build


def plain(batch: Any) -> Any:
    return [int(index) for index in batch] if isinstance(batch, (list, tuple)) else int(batch)


def seed_globals(number: int) -> None:
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def outcome(number: int, run: Callable[[], Any]) -> Any:
    """Return the result of `run`, or the type of its error, with the generators seeded by `number`."""
    seed_globals(number)
    try:
        return run()
    except (ValueError, TypeError) as error:
        return type(error).__name__


def through(loader: DataLoader[Any], batch_sampler: Any) -> list[Any]:
    """Return what torch's loader reads with `batch_sampler`; it draws the same numbers as ours."""
    reader = torch.utils.data.DataLoader(
        loader.dataset, batch_sampler=batch_sampler, collate_fn=list, num_workers=0, generator=loader.generator
    )
    return [plain(batch) for batch in reader]


def read_by_others(loader: DataLoader[Any], way: str, skipped: int) -> Any:
    if loader.batch_sampler is None:
        reader = torch.utils.data.DataLoader(loader.dataset, batch_size=None, sampler=loader.sampler)
        return [plain(item) for item in reader]
    if way == "batch_sampler":
        return through(loader, loader.batch_sampler)
    if way == "skip_first_batches":
        return [plain(batch) for batch in accelerate.skip_first_batches(loader, skipped)]
    if way == "sampler" and loader.batch_size is None:
        return through(loader, loader.batch_sampler)
    if way == "sampler":
        cut = torch.utils.data.BatchSampler(loader.sampler, loader.batch_size, loader.drop_last)
        return through(loader, cut)
    found = arguments_of(loader)
    unwanted = ("batch_sampler",) if loader.batch_size is not None else ("batch_size", "sampler", "drop_last")
    found = {name: value for name, value in found.items() if name not in unwanted}
    if way == "rebuilt from views":
        found |= {name: getattr(loader, name) for name in ("sampler", "batch_sampler") if name in found}
    return [plain(batch) for batch in type(loader)(**found)]


WAYS = ["batch_sampler", "skip_first_batches", "sampler", "rebuilt", "rebuilt from views"]


@pytest.mark.timeout(3600)
def test_random_loaders_are_read_by_others_as_by_themselves() -> None:
    for number in range(COUNT):
        rng = random.Random(number)
        chosen, build = random_loader(rng)
        if outcome(number, build) in ("ValueError", "TypeError"):
            continue
        way = rng.choice(WAYS)
        skipped = rng.randrange(4) if way == "skip_first_batches" else 0
        epoch = 0 if way.startswith("rebuilt") or chosen["seed"] is None else rng.choice([0, 0, 1, 3])

        def at_epoch(build: Any = build, epoch: int = epoch) -> DataLoader[Any]:
            loader = build()
            if epoch:
                loader.set_epoch(epoch)
            return loader

        expected = outcome(number, lambda at=at_epoch: [plain(batch) for batch in at()])
        if isinstance(expected, list) and (chosen["size"] or chosen["batch_kind"]):
            expected = expected[skipped:]
        found = outcome(number, lambda at=at_epoch, way=way, skipped=skipped: read_by_others(at(), way, skipped))
        assert found == expected, (number, way, skipped, epoch, chosen)
