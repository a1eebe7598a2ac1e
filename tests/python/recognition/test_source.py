"""Datasets and their combinators by themselves; test_native.py tests them in a loader."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import pytest
import torch

from checks.equality import assert_same, error_of
from doubles.datasets import Plain, Rows, SizedStream, Stream


class Batched(list):
    """A list with `__getitems__`, which returns `missing` samples too few."""

    missing = 0
    calls = 0

    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.calls += 1
        return [self[index] for index in indices][: len(indices) - self.missing]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_tensor_dataset_yields_one_entry_per_tensor(data: ModuleType, count: int) -> None:
    tensors = [torch.randn([6] + [2] * ndim) for ndim in range(count)]
    dataset = data.TensorDataset(*tensors)
    assert len(dataset) == 6
    assert dataset.tensors == tuple(tensors)
    assert_same(dataset[4], tuple(tensor[4] for tensor in tensors))
    assert_same(dataset[-1], tuple(tensor[5] for tensor in tensors))
    assert_same(dataset[1:5:2], tuple(tensor[1:5:2] for tensor in tensors))


def test_tensor_dataset_refuses_unequal_lengths(data: ModuleType) -> None:
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(torch.zeros(3), torch.zeros(4))


def test_tensor_dataset_past_the_end_is_an_index_error(data: ModuleType) -> None:
    with pytest.raises(IndexError):
        data.TensorDataset(torch.zeros(3))[3]


def test_stack_dataset_yields_tuples_or_dicts(data: ModuleType) -> None:
    images, labels = data.TensorDataset(torch.arange(4)), [10, 11, 12, 13]
    assert_same(data.StackDataset(images, labels)[2], ((torch.arange(4)[2],), 12))
    assert_same(data.StackDataset(image=images, label=labels)[1], {"image": (torch.arange(4)[1],), "label": 11})
    assert len(data.StackDataset(images, labels)) == len(data.StackDataset(a=labels)) == 4


def test_stack_dataset_refuses_invalid_parts(data: ModuleType) -> None:
    with pytest.raises(ValueError, match="At least one dataset should be passed"):
        data.StackDataset()
    with pytest.raises(ValueError, match="Supported either"):
        data.StackDataset([1], a=[1])
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        data.StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        data.StackDataset(a=[1], b=[1, 2])


def test_stack_dataset_reads_batches_through_the_parts(data: ModuleType) -> None:
    batched, single = Batched([0, 1, 2, 3]), [10, 11, 12, 13]
    assert data.StackDataset(batched, single).__getitems__([3, 0]) == [(3, 13), (0, 10)]
    assert data.StackDataset(a=batched, b=single).__getitems__([3, 0]) == [{"a": 3, "b": 13}, {"a": 0, "b": 10}]
    assert batched.calls == 2


def test_stack_dataset_batch_errors_pass_through(data: ModuleType) -> None:
    batched = Batched([0, 1, 2, 3])
    with pytest.raises(IndexError):
        data.StackDataset(batched, [1, 2, 3, 4]).__getitems__([0, 4])
    batched.missing = 1
    text = r"Nested dataset's output size mismatch\. Expected 4, got 3"
    for stacked in (data.StackDataset(batched), data.StackDataset(a=batched)):
        with pytest.raises(ValueError, match=text):
            stacked.__getitems__([0, 1, 2, 3])
        loader = data.DataLoader(stacked, batch_size=4)
        assert "Expected 4, got 3" in str(error_of(lambda loader=loader: list(loader)))


def test_concat_dataset_follows_its_parts(data: ModuleType) -> None:
    joined = data.ConcatDataset([[1, 2], [], [3], (4, 5)])
    assert [joined[index] for index in range(len(joined))] == [1, 2, 3, 4, 5]
    assert [joined[index] for index in (-1, -5)] == [5, 1]
    assert joined.cumulative_sizes == [2, 2, 3, 5]
    with pytest.raises(IndexError):
        joined[5]
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        joined[-6]


def test_concat_dataset_refuses_nothing_and_streams(data: ModuleType) -> None:
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        data.ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        data.ConcatDataset([[1], SizedStream(2)])


def test_map_style_datasets_add_up(data: ModuleType) -> None:
    joined = data.TensorDataset(torch.arange(2)) + data.TensorDataset(torch.arange(3)) + Rows(2)
    assert isinstance(joined, torch.utils.data.ConcatDataset)
    assert len(joined) == 7
    assert_same(joined[4], (torch.arange(3)[2],))


def test_renamed_cumulative_sizes_warn(data: ModuleType) -> None:
    with pytest.warns(FutureWarning, match="cummulative_sizes"):
        assert data.ConcatDataset([[1], [2, 3]]).cummulative_sizes == [1, 3]


def test_streams_add_up_to_a_chain(data: ModuleType) -> None:
    chained = Stream(2) + Stream(1)
    assert isinstance(chained, torch.utils.data.ChainDataset)
    assert list(chained) == [0, 1, 0]
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(data.ChainDataset([Plain(1)]))


def test_subset_takes_slices_and_lists_on_the_parent(data: ModuleType) -> None:
    parent = torch.arange(10) * 2
    subset = data.Subset(parent, [8, 6, 4, 2])
    assert_same(subset[1], parent[6])
    assert_same(subset[1:3], parent[[6, 4]])
    assert_same(subset[[0, 3]], parent[[8, 2]])
    assert_same(subset[:], parent[[8, 6, 4, 2]])
    inner = data.Subset(subset, [3, 1])
    assert_same([inner[0], inner[1]], [parent[2], parent[6]])
    assert_same(inner[[0, 1]], parent[[2, 6]])
    assert subset.indices[:2] == [8, 6]
    assert len(inner) == 2


def test_subset_reads_batches_through_the_parent(data: ModuleType) -> None:
    parent = Batched([0, 10, 20, 30])
    assert data.Subset(parent, [3, 2, 1]).__getitems__([0, 2]) == [30, 10]
    assert parent.calls == 1
    assert data.Subset([0, 10, 20], [2, 1]).__getitems__([1, 0]) == [10, 20]


def test_a_subset_subclass_must_override_both_reads(data: ModuleType) -> None:
    class Half(data.Subset):
        def __getitem__(self, index: Any) -> Any:
            return -super().__getitem__(index)

    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half([1, 2], [0])

    class Whole(Half):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    loader = data.DataLoader(Whole(torch.arange(4), [3, 2]), batch_size=2)
    assert_same(list(loader), [torch.tensor([-3, -2])])


@pytest.mark.parametrize("lengths", [[1, 2], [0.5, 0.4], [0.9, 0.2], [-0.5, 1.5], [4, 4]])
def test_random_split_refuses_lengths_that_do_not_add_up(data: ModuleType, lengths: list[float]) -> None:
    with pytest.raises(ValueError):
        data.random_split(range(7), lengths)


@pytest.mark.parametrize(
    ("size", "fractions", "expected"),
    [(106, [0.1, 0.2, 0.3, 0.4], [11, 22, 31, 42]), (3, [0.5, 0.5], [2, 1]), (10, [1.0], [10])],
)
def test_random_split_gives_the_remainder_from_the_first_on(
    data: ModuleType, size: int, fractions: list[float], expected: list[int]
) -> None:
    assert [len(part) for part in data.random_split(range(size), fractions)] == expected


def test_an_empty_split_warns(data: ModuleType) -> None:
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.5, 0.5])


def test_random_split_is_disjoint_and_complete(data: ModuleType) -> None:
    parts = data.random_split(range(30), [5, 0, 25])
    assert sorted(itertools.chain.from_iterable(part.indices for part in parts)) == list(range(30))
    assert all(isinstance(part, torch.utils.data.Subset) for part in parts)


def test_random_split_is_pinned_and_repeats(data: ModuleType) -> None:
    for _ in range(2):
        parts = data.random_split(range(10), [3, 7], generator=torch.Generator().manual_seed(1))
        assert [list(part) for part in parts] == [[5, 6, 1], [2, 0, 8, 9, 3, 7, 4]]


def test_random_split_draws_from_the_global_generator_only_without_its_own(data: ModuleType) -> None:
    before = torch.get_rng_state()
    data.random_split(range(10), [3, 7], generator=torch.Generator())
    assert torch.equal(torch.get_rng_state(), before)
    data.random_split(range(10), [3, 7])
    assert not torch.equal(torch.get_rng_state(), before)


def test_the_base_class_has_no_items(data: ModuleType) -> None:
    with pytest.raises(NotImplementedError):
        data.Dataset()[0]
