"""Native datasets nested in torch's combinators, odd indices, and sources that change under the loader."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

import sluicegate
from checks.equality import assert_same
from checks.native import Build, array_of, assert_as_torch
from doubles.datasets import Plain

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def pairs(package: ModuleType, size: int = 6) -> Any:
    return package.TensorDataset(torch.randn(size, 2), torch.arange(size))


NESTED: dict[str, Build] = {
    "subset of list": lambda d: d.Subset(pairs(d), [5, 0, 3]),
    "subset of range": lambda d: d.Subset(pairs(d), range(5, 0, -2)),
    "subset of tensor": lambda d: d.Subset(pairs(d), torch.tensor([5, 0, 3])),
    "subset of ndarray": lambda d: d.Subset(pairs(d), numpy.array([5, 0, 3])),
    "subset of tuple": lambda d: d.Subset(pairs(d), (5, 0, 3)),
    "subset of negatives": lambda d: d.Subset(pairs(d), [-1, -6, 2]),
    "subset of bools": lambda d: d.Subset(pairs(d), [True, False]),
    "subset of a bool tensor": lambda d: d.Subset(pairs(d), torch.tensor([True, False, True])),
    "subset of numpy ints": lambda d: d.Subset(pairs(d), list(numpy.array([4, 1], "u1"))),
    "subset past the end": lambda d: d.Subset(pairs(d), [0, 6]),
    "subset before the start": lambda d: d.Subset(pairs(d), [0, -7]),
    "subset of floats": lambda d: d.Subset(pairs(d), [0, 1.0]),
    "subset of strings": lambda d: d.Subset(pairs(d), {0: 1, 1: 0}),
    "subset of nothing": lambda d: d.Subset(pairs(d), []),
    "subset of subset": lambda d: d.Subset(d.Subset(pairs(d), [5, 4, 3, 2]), [3, 0, -1]),
    "subset of an array": lambda d: d.Subset(array_of("f4", 6, 2), [5, 0, 3]),
    "subset of a scalar array": lambda d: d.Subset(array_of("f4", 6), [5, 0, 3]),
    "subset of a tensor source": lambda d: d.Subset(torch.randn(6, 2), [5, 0, 3]),
    "random split": lambda d: d.random_split(pairs(d, 9), [5, 4])[0],
    "random split of fractions": lambda d: d.random_split(array_of("i2", 9, 2), [0.5, 0.5])[1],
    "concat": lambda d: d.ConcatDataset([pairs(d, 4), pairs(d, 1), pairs(d, 3)]),
    "concat with an empty part": lambda d: d.ConcatDataset([pairs(d, 2), pairs(d, 0), pairs(d, 3)]),
    "concat of tensors": lambda d: d.ConcatDataset([torch.randn(3, 2), torch.randn(2, 2)]),
    "concat of arrays": lambda d: d.ConcatDataset([array_of("f4", 3, 2), array_of("f4", 2, 2)]),
    "concat of scalar arrays": lambda d: d.ConcatDataset([array_of("f4", 3), array_of("f8", 2), array_of("i8", 2)]),
    "concat of array dtypes": lambda d: d.ConcatDataset([array_of("f4", 3, 2), array_of("f8", 2, 2)]),
    "concat of array and tensor": lambda d: d.ConcatDataset([array_of("f4", 3, 2), torch.randn(2, 2)]),
    "concat of tensor and array": lambda d: d.ConcatDataset([torch.randn(3, 2), array_of("f4", 2, 2)]),
    "concat of shapes": lambda d: d.ConcatDataset([torch.randn(2, 2), torch.randn(3, 3), torch.randn(3, 2)]),
    "concat of ranks": lambda d: d.ConcatDataset([torch.randn(2, 2), torch.randn(3, 2, 1)]),
    "concat of dtypes": lambda d: d.ConcatDataset([torch.randn(2, 2), torch.arange(6).view(3, 2)]),
    "concat of dtypes widening": lambda d: d.ConcatDataset([torch.randn(2, 2).half(), torch.randn(3, 2).double()]),
    "concat of integer first": lambda d: d.ConcatDataset([torch.arange(6).view(3, 2), torch.randn(2, 2)]),
    "concat of arities": lambda d: d.ConcatDataset([pairs(d, 2), d.TensorDataset(torch.randn(3, 2))]),
    "concat of layouts": lambda d: d.ConcatDataset(
        [torch.randn(3, 2, 4, 2, 3).permute(0, 1, 4, 2, 3), torch.randn(3, 2, 3, 4, 2)]
    ),
    "concat of native and plain": lambda d: d.ConcatDataset([torch.arange(4), Plain(3)]),
    "concat of native and list": lambda d: d.ConcatDataset([array_of("i8", 4), [7, 8, 9]]),
    "stack": lambda d: d.StackDataset(pairs(d), array_of("f4", 6, 2), torch.randn(6)),
    "stack of names": lambda d: d.StackDataset(image=array_of("u1", 6, 3, 2), label=array_of("i8", 6)),
    "stack of one": lambda d: d.StackDataset(torch.randn(6)),
    "stack of native and plain": lambda d: d.StackDataset(torch.randn(6, 2), Plain(6)),
    "stack of concat and subset": lambda d: d.StackDataset(
        a=d.ConcatDataset([pairs(d, 2), pairs(d, 3)]), b=d.Subset(torch.randn(9), range(5))
    ),
    "concat of subsets": lambda d: d.ConcatDataset([d.Subset(pairs(d), [1, 2]), d.Subset(pairs(d), [5])]),
    "subset of concat from its end": lambda d: d.Subset(d.ConcatDataset([pairs(d, 2), pairs(d, 3)]), [-1, -5, 2]),
    "subset of stack": lambda d: d.Subset(d.StackDataset(x=torch.randn(6, 2), y=torch.arange(6)), [4, 4, 1]),
    "added": lambda d: pairs(d, 2) + pairs(d, 3),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_native_datasets_give_torchs_batches(kind: str) -> None:
    assert_as_torch(sluicegate, NESTED[kind], batch_size=4)
    assert_as_torch(sluicegate, NESTED[kind], batch_size=2, drop_last=True, epochs=2)
    assert_as_torch(sluicegate, NESTED[kind], batch_size=None)


SHUFFLED = ["subset of range", "random split", "concat", "concat of dtypes", "stack of names", "subset of stack"]


@pytest.mark.parametrize("kind", SHUFFLED)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_nested_native_datasets_shuffle_as_torchs(kind: str, num_workers: int) -> None:
    assert_as_torch(sluicegate, NESTED[kind], batch_size=2, shuffle=True, epochs=2, num_workers=num_workers)


WORKER_KINDS = ["concat of dtypes widening", "concat of integer first", "concat of array dtypes", "concat of shapes"]
WORKER_KINDS += ["concat of layouts", "concat of scalar arrays", "subset past the end", "stack", "concat of arities"]


@pytest.mark.parametrize("kind", WORKER_KINDS)
def test_with_workers_mixed_parts_match_torchs_workers(kind: str) -> None:
    assert_as_torch(sluicegate, NESTED[kind], batch_size=6, num_workers=1)


PARTS: dict[str, Build] = {
    "tensors": lambda d: d.TensorDataset(torch.randn(5, 2), torch.arange(5)),
    "tensor": lambda d: torch.randn(5, 2),
    "scalars": lambda d: array_of("f4", 5),
    "array": lambda d: array_of("f4", 5, 2),
    "subset": lambda d: d.Subset(pairs(d, 9), [8, 1, 3, 0, 5]),
    "subset of range": lambda d: d.Subset(pairs(d, 9), range(2, 7)),
    "subset of tensor": lambda d: d.Subset(pairs(d, 9), torch.arange(2, 7)),
    "subset of stack": lambda d: d.Subset(d.StackDataset(torch.randn(9), array_of("i8", 9)), [8, 1, 3, 0, 5]),
    "concat": lambda d: d.ConcatDataset([torch.randn(3, 2), torch.randn(2, 2)]),
    "stack": lambda d: d.StackDataset(a=torch.randn(5), b=array_of("i8", 5)),
}
INDICES: dict[str, list[Any]] = {
    "negative": [-1, -5, 2],
    "past the end": [0, 5],
    "far past the end": [10**12],
    "before the start": [1, -6],
    "beyond 64 bits": [0, 2**63],
    "least 64 bits": [-(2**63)],
    "numpy ints": [numpy.int64(1), numpy.int8(-1), numpy.uint64(2)],
    "tensors": [torch.tensor(1), torch.tensor(-1, dtype=torch.int32)],
    "bools": [True, True],
    "mixed bools": [True, False],
    "numpy bool": [numpy.True_],
    "tensor bool": [torch.tensor(True)],
    "floats": [1.0],
    "one-element tensor": [torch.tensor([1])],
    "one-element array": [numpy.array(1)],
    "none": [None],
    "slice": [slice(0, 2)],
    "lists": [[0, 1], [2, 3]],
    "repeated": [3, 3, 3],
    "good then bad then worse": [0, 7, -9],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", INDICES)
def test_any_index_from_a_sampler_is_read_as_torch_reads_it(part: str, kind: str) -> None:
    indices = INDICES[kind]
    assert_as_torch(sluicegate, PARTS[part], batch_size=3, sampler=indices)
    assert_as_torch(sluicegate, PARTS[part], batch_size=None, sampler=indices)
    assert_as_torch(sluicegate, PARTS[part], batch_sampler=[[0, 1], indices, [2]])


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("container", [tuple, torch.tensor, numpy.array, iter, lambda indices: []])
def test_any_container_of_indices_is_read_as_torch_reads_it(
    data: ModuleType, part: str, container: Callable[[list[int]], Any]
) -> None:
    outcomes = [data, torch.utils.data]
    for position, package in enumerate(outcomes):
        torch.manual_seed(5)
        loader = package.DataLoader(PARTS[part](package), batch_sampler=[container([3, 1])])
        try:
            outcomes[position] = list(loader)
        except Exception as error:  # whatever torch raises is right
            outcomes[position] = error.with_traceback(None)
    assert_same(*outcomes)


def test_an_out_of_range_index_ends_only_its_batch(data: ModuleType) -> None:
    iterator = iter(data.DataLoader(torch.arange(4), batch_sampler=[[0, 1], [9], [2, 3]]))
    assert_same(next(iterator), torch.tensor([0, 1]))
    with pytest.raises(IndexError, match="9"):
        next(iterator)
    assert_same(next(iterator), torch.tensor([2, 3]))
    with pytest.raises(StopIteration):
        next(iterator)


def replace(dataset: Any) -> None:
    dataset.tensors = (torch.full((9, 3), 5.0), dataset.tensors[1])


CHANGES: dict[str, Callable[[Any], None]] = {
    "written in place": lambda dataset: dataset.tensors[0].mul_(-1),
    "reassigned": replace,
    "set to other memory": lambda dataset: dataset.tensors[0].set_(torch.full((6, 2), 7.0)),
    "resized": lambda dataset: dataset.tensors[0].resize_(4, 2),
    "resized to nothing": lambda dataset: dataset.tensors[0].resize_(0),
    "transposed in place": lambda dataset: dataset.tensors[0].t_(),
    "made to require grad": lambda dataset: dataset.tensors[0].requires_grad_(),
    "data swapped": lambda dataset: setattr(dataset.tensors[0], "data", torch.zeros(6, 5, dtype=torch.float64)),
    "an instance method": lambda dataset: setattr(dataset, "__getitems__", lambda indices: [len(indices)] * 2),
    "another class": lambda dataset: setattr(dataset, "__class__", torch.utils.data.Subset),
    "tensors gone": lambda dataset: delattr(dataset, "tensors"),
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_source_changed_between_batches_is_seen_as_torch_sees_it(kind: str, nested: bool) -> None:
    traces = []
    for package in (sluicegate, torch.utils.data):
        dataset = package.TensorDataset(torch.arange(12.0).view(6, 2), torch.arange(6))
        loader = package.DataLoader(package.Subset(dataset, [5, 4, 3, 2, 1, 0]) if nested else dataset, batch_size=2)
        iterator = iter(loader)
        trace: list[Any] = [next(iterator)]
        CHANGES[kind](dataset)
        for _ in range(3):
            try:
                trace.append(next(iterator))
            except Exception as error:  # whatever torch raises is right
                trace.append(error.with_traceback(None))
        traces.append(trace)
    assert_same(traces[0], traces[1])


def test_parts_and_indices_changed_between_batches_are_seen(data: ModuleType) -> None:
    subset = data.Subset(torch.arange(10), [0, 1, 2, 3])
    joined = data.ConcatDataset([subset, torch.arange(90, 94)])
    iterator = iter(data.DataLoader(joined, batch_size=2))
    assert_same(next(iterator), torch.tensor([0, 1]))
    subset.indices[2] = 9
    joined.datasets[1] = torch.arange(70, 74)
    assert_same(list(iterator), [torch.tensor([9, 3]), torch.tensor([70, 71]), torch.tensor([72, 73])])


def test_the_loaders_fields_changed_between_epochs_are_seen(data: ModuleType) -> None:
    loader = data.DataLoader(torch.arange(4), batch_size=2)
    assert_same(list(loader), [torch.tensor([0, 1]), torch.tensor([2, 3])])
    loader.collate_fn = sum
    assert_same(list(loader), [torch.tensor(1), torch.tensor(5)])
