"""User-defined samplers with a `shard`: all ranks list the whole order, which is the same, also after a resume."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils.data

from cases.loader_kinds import take, through_json
from doubles.stateful import Indices, StatefulBatchSampler
from sluicegate import DataLoader, LengthBucketBatchSampler, RandomSampler, RepeatSampler
from sluicegate.order.plan import planned_len
from sluicegate.order.settings import LoaderSettings

SIZE = 12


class Drawing(torch.utils.data.Sampler[Any]):
    """Draws from the global generator an order of indices, or of batches in a list that it reuses."""

    def __init__(self, batched: bool = False, *, in_iter: bool = False) -> None:
        self.batched, self.in_iter = batched, in_iter

    def __len__(self) -> int:
        return SIZE // 2 if self.batched else SIZE

    def __iter__(self) -> Iterator[Any]:
        return self._items(torch.randperm(SIZE).tolist() if self.in_iter else None)

    def _items(self, order: list[int] | None) -> Iterator[Any]:
        order = torch.randperm(SIZE).tolist() if order is None else order
        if not self.batched:
            yield from order
            return
        batch: list[int] = []
        for at in range(0, SIZE, 2):
            batch[:] = order[at : at + 2]
            yield batch


class Counting(torch.utils.data.Sampler[int]):
    """Has a state; the order of an epoch depends on the number of earlier epochs."""

    def __init__(self) -> None:
        self.epoch, self.position = -1, 0
        self.loaded: Any = None

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        if self.loaded is None:
            self.epoch, self.position = self.epoch + 1, 0
        else:
            (self.epoch, self.position), self.loaded = self.loaded, None
        order = random.Random(self.epoch).sample(range(SIZE), SIZE)
        while self.position < SIZE:
            self.position += 1
            yield order[self.position - 1]

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loaded = state["epoch"], state["position"]


def arguments_of(kind: str) -> dict[str, Any]:
    if kind == "stateful":
        return {"batch_size": 2, "sampler": Counting()}
    if kind == "batches":
        return {"batch_sampler": Drawing(batched=True)}
    return {"batch_size": 2, "sampler": Drawing(in_iter=kind == "drawn in iter")}


def flat(batches: list[Any]) -> list[int]:
    return [index for batch in batches for index in torch.as_tensor(batch).flatten().tolist()]


KINDS = ["drawn", "drawn in iter", "batches", "stateful"]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_with_a_seed_the_ranks_together_read_the_order_of_one_process(kind: str, num_workers: int) -> None:
    torch.manual_seed(1)
    alone = DataLoader(Indices(SIZE), seed=7, **arguments_of(kind))
    whole = [flat(take(alone)) for _ in range(3)]
    assert whole[0] != whole[1]
    ranks = []
    for rank in range(2):
        torch.manual_seed(2 + rank)
        before = torch.get_rng_state()
        loader = DataLoader(Indices(SIZE), seed=7, shard=(rank, 2), num_workers=num_workers, **arguments_of(kind))
        ranks.append([take(loader) for _ in range(3)])
        assert torch.equal(torch.get_rng_state(), before)
    for epoch, expected in enumerate(whole):
        parts = [rank[epoch] for rank in ranks]
        if kind == "batches":  # Whole batches go to the ranks in turn.
            assert flat([batch for pair in zip(*parts, strict=True) for batch in pair]) == expected
        else:
            assert [index for pair in zip(*map(flat, parts), strict=True) for index in pair] == expected


@pytest.mark.parametrize("received", [0, 1, 2, 3])
@pytest.mark.parametrize("shard", [(0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("kind", [*KINDS, "stateful batches"])
def test_a_sharded_order_is_listed_again_after_a_resume(
    kind: str, seed: int | None, shard: tuple[int, int], received: int
) -> None:
    def make() -> Any:
        if kind == "stateful batches":
            return DataLoader(Indices(SIZE), batch_sampler=StatefulBatchSampler(11), seed=seed, shard=shard)
        return DataLoader(Indices(SIZE), seed=seed, shard=shard, **arguments_of(kind))

    torch.manual_seed(1)
    loader = make()
    take(loader)
    iterator = iter(loader)
    take(iterator, received)
    state = through_json(loader)
    rest = [take(iterator), take(loader), take(loader)]
    for _ in range(2):  # The second time from the state of a resumed loader that has read nothing yet.
        torch.manual_seed(99)
        resumed = make()
        resumed.load_state_dict(state)
        iterator = iter(resumed)
        state = through_json(resumed)
        assert [take(iterator), take(resumed), take(resumed)] == rest


class CountingAtTheEnd:
    """Increments its epoch after the last index, as samplers that set their own epoch do."""

    epoch = 0

    def __len__(self) -> int:
        return SIZE

    def __iter__(self) -> Iterator[int]:
        yield from random.Random(self.epoch).sample(range(SIZE), SIZE)
        self.epoch += 1


@pytest.mark.parametrize("seed", [None, 7])
def test_a_sampler_runs_to_its_end_on_every_rank(seed: int | None) -> None:
    samplers = [CountingAtTheEnd() for _ in range(2)]
    loaders = [DataLoader(Indices(SIZE), 2, sampler=samplers[rank], shard=(rank, 2), seed=seed) for rank in range(2)]
    whole = torch.utils.data.DataLoader(Indices(SIZE), SIZE, sampler=CountingAtTheEnd())
    for _ in range(3):
        (expected,) = [batch.tolist() for batch in whole]
        ranks = [torch.cat(list(loader)).tolist() for loader in loaders]
        assert [index for pair in zip(*ranks, strict=True) for index in pair] == expected


def test_an_epoch_left_in_its_middle_leaves_the_sampler_at_its_end() -> None:
    def make() -> Any:
        return DataLoader(Indices(SIZE), 2, sampler=Counting(), shard=(1, 2))

    expected = [take(loader) for loader in [make()] for _ in range(3)]
    loader = make()
    take(iter(loader), 1)
    iterator = iter(loader)
    assert take(iterator, 1) == expected[1][:1]
    resumed = make()
    resumed.load_state_dict(through_json(loader))
    assert take(resumed) == expected[1][1:]
    assert take(resumed) == expected[2]


def test_a_state_from_the_middle_of_a_sampler_is_refused_with_a_shard() -> None:
    loader = DataLoader(Indices(SIZE), 2, sampler=Counting(), seed=7)
    take(iter(loader), 2)
    sharded = DataLoader(Indices(SIZE), 2, sampler=Counting(), seed=7, shard=(0, 2))
    with pytest.raises(ValueError, match="saved by a different loader"):
        sharded.load_state_dict(loader.state_dict())
    sharded.load_state_dict(loader.state_dict(), strict=False)
    with pytest.raises(ValueError, match="saved without a shard in the middle of an epoch of Counting"):
        next(iter(sharded))


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_does_not_ask_stateful_samplers_of_a_shard(kind: str) -> None:
    loader = DataLoader(Indices(SIZE), seed=7, shard=(0, 2), **arguments_of(kind))
    with pytest.raises(ValueError, match=r"asking (Drawing|Counting) about a different epoch"):
        loader.samples_of(0)
    iterator = iter(loader)
    first = next(iterator)
    assert loader.samples_of(0).tolist() == torch.as_tensor(first).tolist()
    given = DataLoader(Indices(SIZE), 2, sampler=[5, 4, 3, 2], shard=(1, 2))
    assert given.samples_of(0).tolist() == [4, 2]


@pytest.mark.parametrize("loaders", [None, 7])
@pytest.mark.parametrize("own", [None, 11])
def test_batches_are_not_repeated_by_position(own: int | None, loaders: int | None) -> None:
    repeated = RepeatSampler(LengthBucketBatchSampler([1 + i % 5 for i in range(SIZE)], batch_size=4), 2, seed=own)
    loader = DataLoader(Indices(SIZE), batch_sampler=repeated, seed=loaders)
    if own is None and loaders is None:
        assert sorted(flat(take(loader))) == sorted([*range(SIZE), *range(SIZE)])
        return
    with pytest.raises(ValueError, match=r"index samplers, but got LengthBucketBatchSampler"):
        next(iter(loader))


def test_the_seed_of_a_repeat_sampler_applies_to_the_repeated_sampler() -> None:
    def make() -> Any:
        return RepeatSampler(torch.utils.data.RandomSampler(range(SIZE)), 2, seed=11)

    repeated = make()
    first = list(repeated)
    assert list(make()) == first == list(RepeatSampler(RandomSampler(range(SIZE)), 2, seed=11))
    repeated.set_epoch(1)
    assert list(repeated) != first


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("size", [SIZE, SIZE + 3])
def test_the_batches_that_a_distributed_sampler_leaves_with_a_seed(size: int, drops: bool) -> None:
    """A state counts the samples of all ranks, but the sampler's length is that of one rank."""
    for rank in range(2):
        sampler = torch.utils.data.DistributedSampler(range(size), 2, rank, drop_last=drops)
        loader = DataLoader(torch.arange(size), 2, sampler=sampler, seed=7)
        assert len(list(loader)) == len(loader)
        for received, _ in enumerate(loader, start=1):
            state = loader.state_dict()
            ordering = LoaderSettings.of(loader).ordering
            assert ordering is not None
            left = planned_len(ordering, state["epoch"], state["position"])
            assert left == len(loader) - received
