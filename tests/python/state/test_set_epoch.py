"""`set_epoch` reaches datasets and samplers wherever they are, but only where it does not surprise torch's users."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils.data

from cases.loader_kinds import take, through_json
from sluicegate import DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, ShuffleBuffer


class EpochRows(Dataset[Any]):
    """Its samples are the epoch that was set."""

    def __init__(self) -> None:
        self.epoch = -1

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return self.epoch

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class EpochStream(IterableDataset[Any]):
    def __init__(self) -> None:
        self.epoch = -1

    def __iter__(self) -> Iterator[int]:
        return iter([self.epoch] * 2)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


WORKERS = pytest.mark.parametrize(
    "arguments",
    [
        {"num_workers": 0},
        {"num_workers": 2},
        {"num_workers": 2, "persistent_workers": True},
        {"num_workers": 2, "worker_type": "thread"},
        {"num_workers": 2, "worker_type": "thread", "persistent_workers": True},
    ],
    ids=lambda arguments: "-".join(map(str, arguments.values())),
)


def seen(loader: DataLoader[Any]) -> set[int]:
    return {int(item) for batch in loader for item in batch}


@WORKERS
@pytest.mark.parametrize("dataset", [EpochRows, EpochStream])
def test_set_epoch_reaches_the_dataset(dataset: Any, arguments: dict[str, Any]) -> None:
    loader = DataLoader(dataset(), batch_size=2, **arguments)
    for epoch in (5, 3):
        loader.set_epoch(epoch)
        assert seen(loader) == {epoch}


@WORKERS
@pytest.mark.parametrize("dataset", [EpochRows, EpochStream])
def test_with_a_seed_a_dataset_gets_every_epoch(dataset: Any, arguments: dict[str, Any]) -> None:
    loader = DataLoader(dataset(), batch_size=2, seed=1, **arguments)
    assert [seen(loader) for _ in range(3)] == [{0}, {1}, {2}]


@WORKERS
@pytest.mark.parametrize("dataset", [EpochRows, EpochStream])
def test_without_a_seed_or_set_epoch_a_dataset_gets_no_epoch(dataset: Any, arguments: dict[str, Any]) -> None:
    loader = DataLoader(dataset(), batch_size=2, **arguments)
    assert [seen(loader) for _ in range(2)] == [{-1}, {-1}]


@WORKERS
def test_a_shuffle_buffer_has_another_order_in_every_epoch(arguments: dict[str, Any]) -> None:
    loader = DataLoader(ShuffleBuffer(range(50), 20, seed=1), batch_size=None, **arguments)
    first, second = list(loader), list(loader)
    assert sorted(first) == sorted(second)
    assert first != second
    loader.set_epoch(0)
    assert list(loader) == first


class SlowEpochRows(EpochRows):
    def __getitem__(self, index: int) -> int:
        epoch = self.epoch
        time.sleep(0.05)
        assert self.epoch == epoch, "the epoch changed while a sample was made"
        return epoch


@pytest.mark.parametrize("arguments", [{}, {"worker_type": "thread"}], ids=["processes", "threads"])
def test_an_abandoned_epoch_ends_before_set_epoch_of_the_next_one(arguments: dict[str, Any]) -> None:
    loader = DataLoader(SlowEpochRows(), 1, seed=1, num_workers=2, persistent_workers=True, **arguments)
    for epoch in range(3):
        assert next(iter(loader)).tolist() == [epoch]


def test_set_epoch_reaches_the_sampler() -> None:
    sampler = RandomSampler(range(20), seed=3)
    loader = DataLoader(torch.arange(20), batch_size=5, sampler=sampler)
    loader.set_epoch(4)
    assert sampler.epoch == 4
    assert torch.cat(list(loader)).tolist() == list(sampler)


class EpochSampler(torch.utils.data.Sampler[int]):
    """Its order depends on the epoch that was set."""

    def __init__(self) -> None:
        self.epoch = 0

    def __len__(self) -> int:
        return 12

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(12, generator=torch.Generator().manual_seed(self.epoch)).tolist())

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


SAMPLERS = {
    "torch's": lambda: torch.utils.data.DistributedSampler(range(12), 1, 0),
    "ours": lambda: DistributedSampler(range(12), 1, 0),
    "the user's": EpochSampler,
}


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_state_restores_set_epoch_of_samplers(name: str, seed: int | None) -> None:
    def make() -> Any:
        return DataLoader(torch.arange(12), 3, sampler=SAMPLERS[name](), seed=seed)

    loader = make()
    loader.set_epoch(3)
    expected = [take(loader), take(loader)]
    loader.set_epoch(3)
    iterator = iter(loader)
    for received in range(4):
        resumed = make()
        resumed.load_state_dict(through_json(loader))
        assert [take(resumed), take(resumed)] == [expected[0][received:], expected[1]]
        next(iterator)
    resumed = make()
    resumed.load_state_dict(through_json(loader))
    resumed.set_epoch(3)  # as trainers do: the state belongs to a running epoch, so this sets the number of that epoch
    assert take(resumed) == expected[0][4:]


def test_set_epoch_for_the_next_epoch_does_not_change_the_running_one() -> None:
    def make() -> Any:
        return DataLoader(torch.arange(12), 3, sampler=EpochSampler())

    loader = make()
    iterator = iter(loader)
    batches = [next(iterator)]
    loader.set_epoch(5)
    state = through_json(loader)
    batches += iterator
    resumed = make()
    resumed.load_state_dict(state)
    assert take(resumed) == [batch.tolist() for batch in batches[1:]]


@WORKERS
@pytest.mark.parametrize("dataset", [EpochRows, EpochStream])
@pytest.mark.filterwarnings("ignore:EpochStream has no state_dict")
def test_a_state_restores_set_epoch_of_a_dataset(dataset: Any, arguments: dict[str, Any]) -> None:
    loader: Any = DataLoader(dataset(), **arguments)
    loader.set_epoch(3)
    next(iter(loader))
    resumed: Any = DataLoader(dataset(), **arguments)
    resumed.load_state_dict(through_json(loader))
    assert [seen(resumed), seen(resumed)] == [{3}, {4}]


class DrawingEpochSampler(EpochSampler):
    """Also draws from the global generator with each index."""

    def __iter__(self) -> Iterator[int]:
        for index in list(super().__iter__()):
            yield (index + int(torch.randint(12, ()))) % 12


# As in trainers: load the state of rank 0 on every rank, then `iter`, `set_epoch` of the sampler, and `next`.
RESUMED: dict[str, Any] = {
    "torch's": lambda rank: torch.utils.data.DistributedSampler(range(40), 2, rank),
    "ours": lambda rank: DistributedSampler(range(40), 2, rank),
    "the user's": lambda rank: EpochSampler(),
    "the user's, drawing": lambda rank: DrawingEpochSampler(),
}


# With worker processes, every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("name", "seed", "kind", "arguments", "ranks"),
    [
        *(
            (*each, [0, 1])
            for each in itertools.product(
                RESUMED, [None, 7], ["native", "python"], [{}, {"num_workers": 2, "worker_type": "thread"}]
            )
        ),
        *(
            (name, (None, 7)[number % 2], ("native", "python")[(row + number) % 2], {"num_workers": 1}, [number])
            for row, name in enumerate(RESUMED)
            for number in range(2)
        ),
    ],
)
def test_an_epoch_is_set_between_iter_and_next_of_a_resumed_loader(
    name: str, seed: int | None, kind: str, arguments: dict[str, Any], ranks: list[int]
) -> None:
    dataset: Any = torch.arange(40) if kind == "native" else [*range(40)]

    def make(rank: int) -> Any:
        return DataLoader(dataset, 2, sampler=RESUMED[name](rank), seed=seed, **arguments)

    def begun(loader: Any, epoch: int) -> Iterator[Any]:
        iterator = iter(loader)
        loader.sampler.set_epoch(epoch)
        return iterator

    for rank in ranks:
        torch.manual_seed(5)
        loader = make(rank)
        [*begun(loader, 0)]
        iterator = begun(loader, 1)
        received = [next(iterator) for _ in range(2)]
        state = through_json(loader)
        expected = [[batch.tolist() for batch in iterator], [batch.tolist() for batch in begun(loader, 2)]]
        torch.manual_seed(6)
        resumed = make(rank)
        resumed.load_state_dict(state)
        found = [[batch.tolist() for batch in begun(resumed, 1)], [batch.tolist() for batch in begun(resumed, 2)]]
        assert found == expected
        assert len(received) == 2
