"""Samplers by themselves and in a loader."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
import torch

from checks.equality import assert_same, outcome_of


def test_random_sampler_permutes(data: ModuleType) -> None:
    assert sorted(data.RandomSampler(range(50))) == list(range(50))
    assert list(data.RandomSampler(range(50))) != list(range(50))


@pytest.mark.parametrize(("num_samples", "counts"), [(9, {1: 9}), (11, {1: 9, 2: 1}), (20, {2: 10})])
def test_random_sampler_without_replacement_repeats_only_past_the_dataset(
    data: ModuleType, num_samples: int, counts: dict[int, int]
) -> None:
    drawn = list(data.RandomSampler(range(10), num_samples=num_samples))
    assert Counter(Counter(drawn).values()) == counts
    assert set(drawn) <= set(range(10))


def test_random_sampler_with_replacement_repeats(data: ModuleType) -> None:
    drawn = list(data.RandomSampler(range(10), replacement=True, num_samples=11))
    assert len(drawn) == 11
    assert set(drawn) <= set(range(10))
    assert len(set(drawn)) < 11


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("num_samples", [None, 3, 10, 33, 64])
def test_len_of_a_random_sampler_is_the_number_of_indices(
    data: ModuleType, replacement: bool, num_samples: int | None
) -> None:
    sampler = data.RandomSampler(range(10), replacement=replacement, num_samples=num_samples)
    assert len(sampler) == sampler.num_samples == len(list(sampler)) == (num_samples or 10)


def test_random_sampler_refuses_bad_arguments(data: ModuleType) -> None:
    with pytest.raises(TypeError, match="replacement should be a boolean value, but got replacement=0"):
        data.RandomSampler(range(3), replacement=0)
    for num_samples in (0, -1, 1.5):
        with pytest.raises(ValueError, match="num_samples should be a positive integer value"):
            data.RandomSampler(range(3), num_samples=num_samples)


def test_samplers_are_built_from_plain_arguments(data: ModuleType) -> None:
    assert list(data.SequentialSampler(range(3))) == [0, 1, 2]
    assert list(data.BatchSampler([4, 5, 6], 2, False)) == [[4, 5], [6]]
    assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert sorted(data.SubsetRandomSampler(range(3, 6))) == [3, 4, 5]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 5)) == {1}
    assert sorted(data.WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize(("drop_last", "expected"), [(False, 4), (True, 3)])
def test_len_of_a_batch_sampler_is_the_number_of_batches(data: ModuleType, drop_last: bool, expected: int) -> None:
    sampler = data.BatchSampler(data.SequentialSampler(range(10)), 3, drop_last)
    assert len(sampler) == len(list(sampler)) == expected


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, True])
def test_batch_sampler_refuses_a_bad_batch_size(data: ModuleType, batch_size: Any) -> None:
    with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
        data.BatchSampler(range(3), batch_size, False)


@pytest.mark.parametrize("arguments", [{"num_samples": 0}, {"num_samples": True}, {"replacement": 1}])
def test_weighted_sampler_refuses_bad_arguments(data: ModuleType, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        data.WeightedRandomSampler([1.0, 2.0], **{"num_samples": 2, **arguments})


def test_weighted_sampler_refuses_nested_weights(data: ModuleType) -> None:
    with pytest.raises(ValueError, match="weights should be a 1d sequence"):
        data.WeightedRandomSampler(torch.ones(2, 2), 2)


@pytest.mark.parametrize("rank", [3, -1])
def test_distributed_sampler_refuses_a_rank_outside_the_replicas(data: ModuleType, rank: int) -> None:
    with pytest.raises(ValueError, match="Invalid rank"):
        data.DistributedSampler(range(10), num_replicas=3, rank=rank)


def test_distributed_ranks_with_padding_share_no_value_when_the_loader_drops_the_last_batch(data: ModuleType) -> None:
    dataset = data.TensorDataset(torch.arange(9))
    seen: list[int] = []
    for rank in range(4):
        sampler = data.DistributedSampler(dataset, num_replicas=4, rank=rank)
        for (values,) in data.DataLoader(dataset, batch_size=2, sampler=sampler, drop_last=True):
            seen += values.tolist()
    assert len(seen) == len(set(seen)) == 8


def test_distributed_epochs_differ_and_repeat(data: ModuleType) -> None:
    dataset = data.TensorDataset(torch.arange(20))
    sampler = data.DistributedSampler(dataset, num_replicas=2, rank=1, seed=3)
    loader = data.DataLoader(dataset, batch_size=4, sampler=sampler)
    epochs = []
    for epoch in (0, 0, 1):
        sampler.set_epoch(epoch)
        epochs.append([values.tolist() for (values,) in loader])
    assert epochs[0] == epochs[1] != epochs[2]


class Indices:
    """A sampler that yields its arguments."""

    def __init__(self, *indices: Any) -> None:
        self.indices = indices

    def __iter__(self) -> Any:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


def test_a_sampler_without_length_is_enough_to_iterate(data: ModuleType) -> None:
    loader = data.DataLoader(data.TensorDataset(torch.arange(6)), batch_size=2, sampler=iter([5, 3, 1]))
    assert_same(list(loader), [[torch.tensor([5, 3])], [torch.tensor([1])]])
    assert list(loader) == []


def test_a_sampler_may_change_between_epochs(data: ModuleType) -> None:
    indices = [0, 1]
    loader = data.DataLoader(data.TensorDataset(torch.arange(6)), batch_size=2, sampler=indices)
    assert_same(list(loader), [[torch.tensor([0, 1])]])
    indices += [4]
    assert_same(list(loader), [[torch.tensor([0, 1])], [torch.tensor([4])]])


def test_an_error_of_the_sampler_passes_through_at_its_position(data: ModuleType) -> None:
    def failing() -> Any:
        yield from (0, 1, 2)
        raise LookupError("no more indices")

    outcome = outcome_of(lambda: data.DataLoader(data.TensorDataset(torch.arange(6)), 2, sampler=failing()))
    assert_same(outcome.values, [[torch.tensor([0, 1])]])
    assert type(outcome.error) is LookupError
    assert "no more indices" in str(outcome.error)


def test_a_sampler_is_read_one_batch_at_a_time_without_workers(data: ModuleType) -> None:
    read: list[int] = []

    def counting() -> Any:
        for index in range(6):
            read.append(index)
            yield index

    iterator = iter(data.DataLoader(data.TensorDataset(torch.arange(6)), batch_size=2, sampler=counting()))
    assert read == []
    next(iterator)
    assert read == [0, 1]
    next(iterator)
    assert read == [0, 1, 2, 3]


def test_an_own_batch_sampler_is_read_one_batch_at_a_time_and_not_through_its_sampler(data: ModuleType) -> None:
    class Own(data.BatchSampler):
        def __iter__(self) -> Any:
            yield from ([5, 4], [0])

    loader = data.DataLoader(data.TensorDataset(torch.arange(6)), batch_sampler=Own(range(6), 3, False))
    assert_same(list(loader), [[torch.tensor([5, 4])], [torch.tensor([0])]])


def test_a_subclass_of_random_sampler_determines_the_order(data: ModuleType) -> None:
    class Backwards(data.RandomSampler):
        def __iter__(self) -> Any:
            return iter(range(len(self.data_source) - 1, -1, -1))

    dataset = data.TensorDataset(torch.arange(5))
    loader = data.DataLoader(dataset, batch_size=3, sampler=Backwards(dataset))
    assert_same(list(loader), [[torch.tensor([4, 3, 2])], [torch.tensor([1, 0])]])


def test_a_method_set_on_a_sampler_instance_is_not_looked_up(data: ModuleType) -> None:
    dataset = data.TensorDataset(torch.arange(3))
    sampler = data.SequentialSampler(dataset)
    sampler.__iter__ = lambda: iter([2, 1, 0])  # Python looks dunder methods up on the type
    assert_same(list(data.DataLoader(dataset, batch_size=3, sampler=sampler)), [[torch.tensor([0, 1, 2])]])
