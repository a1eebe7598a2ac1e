"""Attributes, subscripting and length."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest
import torch

from doubles.datasets import Growing, Rows, SizedStream, Stream


@pytest.mark.parametrize(
    "name", ["batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_fixed_attributes_cannot_be_assigned_after_construction(data: ModuleType, name: str) -> None:
    loader = data.DataLoader([0, 1, 2])
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
        setattr(loader, name, getattr(loader, name))


def test_a_subclass_is_named_in_the_assignment_error(data: ModuleType) -> None:
    class Renamed(data.DataLoader):
        pass

    with pytest.raises(ValueError, match="after Renamed is initialized"):
        Renamed([0]).batch_size = 2


def test_a_subclass_may_use_its_sampler_before_the_constructor(data: ModuleType) -> None:
    class Sampled(data.DataLoader):
        def __init__(self) -> None:
            self.sampler = data.SubsetRandomSampler([3, 1])
            super().__init__(range(4), sampler=self.sampler)

    class Batched(data.DataLoader):
        def __init__(self) -> None:
            self.batch_sampler = [[2, 0], [1]]
            super().__init__(range(4), batch_sampler=self.batch_sampler)

    assert sorted(batch.item() for batch in Sampled()) == [1, 3]
    assert [batch.tolist() for batch in Batched()] == [[2, 0], [1]]


@pytest.mark.parametrize("dataset", [torch.arange(4), range(4)])
def test_without_workers_an_iterator_has_none_to_end(data: ModuleType, dataset: Any) -> None:
    """Ultralytics' loader ends an iterator that has the attribute, in a copy of the loader, too."""
    assert not hasattr(iter(data.DataLoader(dataset)), "_workers")


@pytest.mark.parametrize("name", ["num_workers", "collate_fn", "worker_init_fn", "generator", "own"])
def test_other_attributes_can_be_assigned(data: ModuleType, name: str) -> None:
    loader = data.DataLoader([0, 1, 2])
    setattr(loader, name, 0)
    assert getattr(loader, name) == 0


def test_arguments_read_back_as_attributes(data: ModuleType) -> None:
    dataset = Rows(5)
    loader = data.DataLoader(dataset, batch_size=3)
    assert loader.dataset is dataset
    assert loader.batch_size == 3
    assert loader.drop_last is False
    assert isinstance(loader.sampler, data.SequentialSampler)
    assert type(loader.batch_sampler) is torch.utils.data.BatchSampler
    assert loader.batch_sampler.sampler is loader.sampler


def test_batch_size_is_none_in_unbatched_mode_and_with_a_batch_sampler(data: ModuleType) -> None:
    unbatched = data.DataLoader([0, 1], batch_size=None)
    assert unbatched.batch_size is None
    assert unbatched.batch_sampler is None
    assert unbatched._auto_collation is False
    assert unbatched.collate_fn is torch.utils.data.default_convert
    own = data.DataLoader([0, 1], batch_sampler=[[0, 1]])
    assert own.batch_size is None
    assert own.drop_last is False
    assert own._auto_collation is True
    assert own.collate_fn is torch.utils.data.default_collate


def test_shuffle_makes_a_random_sampler_with_the_generator(data: ModuleType) -> None:
    generator = torch.Generator()
    sampler = data.DataLoader([0, 1], shuffle=True, generator=generator).sampler
    assert isinstance(sampler, torch.utils.data.RandomSampler)
    assert sampler.generator is generator
    assert (sampler.data_source, sampler.replacement, sampler._num_samples) == ([0, 1], False, None)


def test_loader_and_dataset_can_be_subscripted(data: ModuleType) -> None:
    assert data.DataLoader[int] is not None

    class Typed(data.Dataset[tuple[int, str]]):
        def __getitem__(self, index: int) -> tuple[int, str]:
            return index, str(index)

        def __len__(self) -> int:
            return 2

    assert list(data.DataLoader[tuple[int, str]](Typed(), batch_size=None)) == [[0, "0"], [1, "1"]]


@pytest.mark.parametrize("size", [1, 6, 7])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 10])
@pytest.mark.parametrize("drop_last", [False, True])
def test_len_of_a_map_style_loader_is_the_number_of_batches(
    data: ModuleType, size: int, batch_size: int, drop_last: bool
) -> None:
    loader = data.DataLoader(Rows(size), batch_size=batch_size, drop_last=drop_last)
    assert len(loader) == (size // batch_size if drop_last else math.ceil(size / batch_size))
    assert len(list(loader)) == len(loader)


def test_unbatched_length_is_that_of_the_sampler(data: ModuleType) -> None:
    assert len(data.DataLoader(Rows(7), batch_size=None)) == 7
    assert len(data.DataLoader(Rows(7), batch_size=None, sampler=range(4))) == 4


def test_length_comes_from_the_own_sampler(data: ModuleType) -> None:
    loader = data.DataLoader(Rows(100), sampler=range(10), batch_size=2)
    assert len(loader) == len(list(loader)) == 5
    loader = data.DataLoader(Rows(100), batch_sampler=[(index,) for index in range(8)])
    assert len(loader) == len(list(loader)) == 8


@pytest.mark.parametrize("replacement", [False, True])
def test_length_follows_a_random_sampler_beyond_the_dataset(data: ModuleType, replacement: bool) -> None:
    sampler = data.RandomSampler(range(10), replacement=replacement, num_samples=25)
    loader = data.DataLoader(range(10), sampler=sampler, batch_size=4)
    assert len(loader) == len(list(loader)) == 7


@pytest.mark.parametrize("shuffle", [False, True])
def test_len_follows_a_dataset_that_grows(data: ModuleType, shuffle: bool) -> None:
    dataset = Growing(4)
    loader = data.DataLoader(dataset, batch_size=2, shuffle=shuffle)
    assert len(loader) == 2
    dataset.items += [4, 5]
    assert len(loader) == 3
    assert sorted(item for batch in loader for item in batch.tolist()) == list(range(6))


LENGTHS = [(1, False, 10), (2, False, 5), (3, False, 4), (1, True, 10), (2, True, 5), (3, True, 3)]


@pytest.mark.parametrize(("batch_size", "drop_last", "expected"), LENGTHS)
def test_length_of_a_sized_iterable_dataset(data: ModuleType, batch_size: int, drop_last: bool, expected: int) -> None:
    loader = data.DataLoader(SizedStream(10), batch_size=batch_size, drop_last=drop_last)
    assert len(loader) == expected
    assert len(list(loader)) == expected


@pytest.mark.parametrize("num_workers", [0, 2])
def test_unbatched_length_of_an_iterable_dataset_is_the_datasets(data: ModuleType, num_workers: int) -> None:
    assert len(data.DataLoader(SizedStream(10), batch_size=None, num_workers=num_workers)) == 10


@pytest.mark.parametrize("arguments", [{}, {"batch_size": None}])
def test_length_without_one_is_a_type_error(data: ModuleType, arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        len(data.DataLoader(Stream(3), **arguments))
    with pytest.raises(TypeError):
        len(data.DataLoader([0, 1], sampler=iter([0, 1]), **arguments))


def test_length_of_the_iterator_is_that_of_the_loader(data: ModuleType) -> None:
    loader = data.DataLoader(data.TensorDataset(torch.zeros(5, 2)), batch_size=2)
    assert len(iter(loader)) == 3
