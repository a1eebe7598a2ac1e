"""`set_epoch` reaches datasets and samplers, wherever they are; and only where torch's users would not be surprised."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from sluicegate import DataLoader, Dataset, IterableDataset, RandomSampler, ShuffleBuffer


class EpochRows(Dataset[Any]):
    """Its samples say which epoch it was told."""

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
def test_a_dataset_is_told_of_the_epoch_that_was_set(dataset: Any, arguments: dict[str, Any]) -> None:
    loader = DataLoader(dataset(), batch_size=2, **arguments)
    for epoch in (5, 3):
        loader.set_epoch(epoch)
        assert seen(loader) == {epoch}


@WORKERS
@pytest.mark.parametrize("dataset", [EpochRows, EpochStream])
def test_with_a_seed_it_is_told_of_every_epoch(dataset: Any, arguments: dict[str, Any]) -> None:
    loader = DataLoader(dataset(), batch_size=2, seed=1, **arguments)
    assert [seen(loader) for _ in range(3)] == [{0}, {1}, {2}]


@WORKERS
@pytest.mark.parametrize("dataset", [EpochRows, EpochStream])
def test_without_either_it_is_told_nothing_as_in_torch(dataset: Any, arguments: dict[str, Any]) -> None:
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
def test_what_is_left_of_an_epoch_is_done_before_the_next_one_is_told(arguments: dict[str, Any]) -> None:
    loader = DataLoader(SlowEpochRows(), 1, seed=1, num_workers=2, persistent_workers=True, **arguments)
    for epoch in range(3):
        assert next(iter(loader)).tolist() == [epoch]


def test_a_sampler_is_told_too() -> None:
    sampler = RandomSampler(range(20), seed=3)
    loader = DataLoader(torch.arange(20), batch_size=5, sampler=sampler)
    loader.set_epoch(4)
    assert sampler.epoch == 4
    assert torch.cat(list(loader)).tolist() == list(sampler)
