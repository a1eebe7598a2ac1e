"""Shards: every rank gets the same number of batches, of the same sizes, and together they read the epoch."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate
from cases.loader_kinds import plain, take
from checks.orders import merged
from doubles.stateful import Indices

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

REMAINDERS = ["pad", "drop", "exact"]
SIZES = [*range(14), 15, 16, 17, 31, 32, 33, 40]


def loader(size: int, shard: Any = None, **changes: Any) -> Any:
    arguments = {"batch_size": 3, "shuffle": size > 0, "seed": 11} | changes  # torch can't shuffle 0 samples
    return sluicegate.DataLoader(Indices(size), shard=shard, **arguments)


def read(made: Any) -> tuple[list[list[int]], list[list[bool]]]:
    """Return the indices and the marks of every batch, after checking that the indices are those of its samples."""
    batches, marks = [], []
    for batch, ids in made.with_ids():
        assert plain(batch) == ids.sample_indices.tolist()
        batches.append(plain(batch))
        marks.append(ids.valid.tolist())
    return batches, marks


@functools.cache
def whole_order(size: int) -> list[int]:
    return take(loader(size, batch_size=None))


@pytest.mark.parametrize("remainder", REMAINDERS)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5])
def test_ranks_have_equal_batches_and_cover_the_epoch(world_size: int, remainder: str) -> None:
    for size, batch_size in product(SIZES, [1, 3, 4]):
        # Every size with both, but not every size with every batch size and both.
        drop_last = (size // 3 + batch_size + world_size) % 2 > 0
        changes = {"batch_size": batch_size, "drop_last": drop_last, "remainder": remainder}
        ranks, marks = [], []
        for rank in range(world_size):
            made = loader(size, (rank, world_size), **changes)
            batches, mark = read(made)
            assert len(made) == len(batches)
            ranks.append(batches)
            marks.append(mark)
        length = size // world_size if remainder == "drop" else -(-size // world_size)
        if drop_last:
            length -= length % batch_size
        expected = [batch_size] * (length // batch_size) + [length % batch_size] * (length % batch_size > 0)
        for batches in ranks:
            assert [len(batch) for batch in batches] == expected
        order = merged(ranks)
        whole = whole_order(size)
        assert sorted(whole) == list(range(size))
        assert order == [whole[position % size] for position in range(length * world_size)]
        valid = merged(marks)
        assert valid == [remainder != "exact" or position < size for position in range(length * world_size)]


@pytest.mark.parametrize("remainder", REMAINDERS)
def test_without_shuffle_torch_mode_has_the_same_arithmetic(remainder: str) -> None:
    for size, world_size in product(range(12), [1, 2, 3]):
        for rank in range(world_size):
            arguments = {"remainder": remainder, "shuffle": False}
            found = read(loader(size, (rank, world_size), seed=None, **arguments))
            assert found == read(loader(size, (rank, world_size), **arguments))


def test_padding_equals_that_of_torchs_distributed_sampler() -> None:
    for size, world_size in product([1, 2, 5, 9, 10], [2, 3, 4]):
        for rank in range(world_size):
            sampler = torch.utils.data.DistributedSampler(range(size), world_size, rank, shuffle=False)
            found, _ = read(loader(size, (rank, world_size), shuffle=False))
            assert [index for batch in found for index in batch] == list(sampler)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_positions_are_global(num_workers: int) -> None:
    whole = take(loader(26, batch_size=None))
    for rank in range(3):
        for number, (_, ids) in enumerate(loader(26, (rank, 3), num_workers=num_workers).with_ids()):
            assert ids.position == (number * 3) * 3 + rank
            assert ids.sample_indices.tolist()[0] == whole[ids.position % 26]
            assert ids.batch_index == number


@pytest.mark.parametrize("dataset", [Indices(23), torch.arange(23)], ids=["python", "native"])
def test_epochs_and_workers_do_not_change_whose_a_sample_is(dataset: Any) -> None:
    for num_workers in (0, 2):
        arguments = {"batch_size": 4, "shuffle": True, "seed": 3, "remainder": "exact", "num_workers": num_workers}
        made = [sluicegate.DataLoader(dataset, shard=(rank, 2), **arguments) for rank in range(2)]
        for epoch in range(3):
            ranks, marks = zip(*[read(one) for one in made], strict=True)
            counted = [index for index, is_valid in zip(merged(ranks), merged(marks), strict=True) if is_valid]
            assert sorted(counted) == list(range(23))
            single = loader(23, batch_size=None, seed=3)
            single.set_epoch(epoch)
            assert counted == take(single)


def test_samplers_are_sharded_by_position() -> None:
    order = [8, 3, 3, 1, 0, 9, 2]
    found = [read(loader(10, (rank, 2), shuffle=None, sampler=order))[0] for rank in range(2)]
    assert merged(found) == [*order, 8]
    seeded = sluicegate.RandomSampler(range(10), seed=4)
    found = [read(loader(10, (rank, 2), shuffle=None, seed=None, sampler=seeded))[0] for rank in range(2)]
    assert merged(found) == list(seeded)
    subset = torch.utils.data.SubsetRandomSampler([1, 5, 7, 8])
    found = [read(loader(10, (rank, 2), shuffle=None, sampler=subset))[0] for rank in range(2)]
    assert sorted(merged(found)) == [1, 5, 7, 8]


def test_ranks_that_would_shuffle_in_different_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="seed"):
        take(loader(10, (0, 2), seed=None))


@pytest.mark.parametrize("wrap", [False, True])
def test_sharding_twice_is_an_error(wrap: bool) -> None:
    sampler = torch.utils.data.DistributedSampler(range(10), 2, 0)
    arguments: dict[str, Any] = {"sampler": sampler}
    if wrap:
        arguments = {"batch_size": 1, "batch_sampler": torch.utils.data.BatchSampler(sampler, 2, False)}
    with pytest.raises(ValueError, match="shard"):
        take(loader(10, (0, 2), shuffle=None, **arguments))


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 0), (0, -1), "all", (1,), 3])
def test_invalid_shards_are_refused(shard: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="shard"):
        loader(10, shard)


def test_other_remainders_are_refused() -> None:
    with pytest.raises(ValueError, match="remainder"):
        loader(10, (0, 2), remainder="wrap")


def test_auto_without_a_process_group_is_one_rank_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)
    assert read(loader(17, "auto")) == read(loader(17))


@pytest.mark.parametrize("remainder", REMAINDERS)
def test_a_shard_knows_its_batches_without_loading_them(remainder: str) -> None:
    for rank in range(3):
        made = loader(22, (rank, 3), remainder=remainder)
        made.set_epoch(2)
        for number, (_, ids) in enumerate(made.with_ids()):
            assert loader(22, (rank, 3), remainder=remainder).samples_of(number, epoch=2).tolist() == list(
                ids.sample_indices
            )


def test_a_distributed_sampler_of_nothing_gives_nothing_with_a_seed_too() -> None:
    sampler = torch.utils.data.DistributedSampler(Indices(0), 2, 0)
    loader = sluicegate.DataLoader(Indices(0), 2, sampler=sampler, seed=1)
    loader.load_state_dict(loader.state_dict())
    assert list(loader) == []
