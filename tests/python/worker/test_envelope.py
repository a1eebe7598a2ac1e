"""The parts of a batch arrive from a worker as from torch's: layout, sharing, and kinds of tensors."""

from __future__ import annotations

import gc
import warnings
import weakref
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same, error_of
from sluicegate import DataLoader


class Marked(torch.Tensor):
    """A user-defined class."""


class Eager:
    """A batch sampler that draws when its iterator is requested."""

    def __iter__(self) -> Any:
        return iter(torch.randperm(8).split(3))

    def __len__(self) -> int:
        return 3


def delivered(data: ModuleType, make: Any, **arguments: Any) -> Any:
    """Return the batch that arrives when a worker calls `make`."""
    (batch,) = data.DataLoader([0], num_workers=1, collate_fn=lambda _: make(), **arguments)
    return batch


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, 1, 4, 4).to(memory_format=torch.channels_last),
        lambda: torch.arange(4).view(4, 1).t(),
        lambda: torch.empty(0, 3).t(),
        lambda: torch.arange(24).view(2, 3, 4).permute(2, 0, 1),
        lambda: torch.zeros(1).expand(5, 3),
        lambda: torch.arange(10)[3:7],
        lambda: torch.arange(10)[10:],
        lambda: [torch.zeros(5, 3)[:, 3:], torch.zeros(0, 2).t(), torch.zeros(3)[3:][::2]],
        lambda: torch.arange(10)[::3],
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.tensor(5, dtype=torch.bfloat16),
        lambda: torch.zeros(3, dtype=torch.uint16),
        lambda: torch.zeros(2, dtype=torch.float8_e5m2),
        lambda: torch.arange(6, dtype=torch.uint8).view(torch.bits8).view(2, 3).t(),
        lambda: torch.arange(6, dtype=torch.int16).view(torch.bits16),
        list,
        lambda: {"a": [torch.ones(2), "b", 3], "c": (np.float32(2), None)},
    ],
)
def test_tensors_arrive_with_their_layout(make: Any) -> None:
    torch.manual_seed(1)
    assert_same(delivered(sluicegate, make), delivered(torch.utils.data, make))


def test_tensors_that_share_a_storage_share_one_and_others_do_not(data: ModuleType) -> None:
    def make() -> list[torch.Tensor]:
        table = torch.arange(40.0)
        array = np.arange(40.0)
        whole, part = torch.from_numpy(array), torch.from_numpy(array[:5])
        return [table, table[10:20], table.view(4, 10).t(), part, whole]

    table, part, turned, first, second = delivered(data, make)
    part[0] = -1
    assert (table[10], turned[0, 1]) == (-1, -1)
    first[0] = -2
    assert second[0] == 0


def test_an_object_that_comes_twice_is_one_object(data: ModuleType) -> None:
    def make() -> list[Any]:
        tensor, array = torch.ones(2), np.ones(2)
        return [tensor, array, tensor, array]

    a, b, c, d = delivered(data, make)
    assert a is c
    assert b is d


def test_sparse_quantized_nested_and_derived_tensors(data: ModuleType) -> None:
    def make() -> dict[str, torch.Tensor]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {
                "coo": torch.eye(3).to_sparse(),
                "csr": torch.eye(3).to_sparse_csr(),
                "parameter": torch.nn.Parameter(torch.ones(2)),
                "marked": torch.ones(3).as_subclass(Marked),
            }

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = delivered(data, make)
    assert torch.equal(batch["coo"].to_dense(), torch.eye(3))
    assert torch.equal(batch["csr"].to_dense(), torch.eye(3))
    assert type(batch["parameter"]) is torch.nn.Parameter
    assert type(batch["marked"]) is Marked


def test_a_sparse_batch_is_let_go_of(data: ModuleType) -> None:
    """Torch's own unpickling would keep it until the next call of `torch.load`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = delivered(data, lambda: torch.eye(3).to_sparse())
    gone = weakref.ref(batch)
    del batch
    gc.collect()
    assert gone() is None


def test_arrays_arrive_writable_with_type_and_order(data: ModuleType) -> None:
    def make() -> list[Any]:
        frozen = np.arange(3)
        frozen.flags.writeable = False
        pair = np.zeros(2, np.dtype([("a", "u1"), ("b", "<f8")], align=True))
        return [
            frozen,
            np.ones((2, 3), order="F"),
            pair,
            np.arange(6)[::2],
            np.array(["2026-01-01"], "M8[D]"),
            np.ones(0),
        ]

    batch = delivered(data, make)
    for array, original in zip(batch, make(), strict=True):
        assert (array.dtype, array.shape, array.flags.writeable) == (original.dtype, original.shape, True)
        assert array.flags.f_contiguous == original.flags.f_contiguous or not original.flags.c_contiguous
        assert np.array_equal(array, original)
        array[...] = array


def test_a_tensor_with_a_graph_is_refused() -> None:
    error = error_of(lambda: delivered(sluicegate, graph))
    assert "Cowardly refusing to serialize non-leaf tensor" in str(error)


def graph() -> torch.Tensor:
    return torch.ones(2, requires_grad=True) * 2


def test_rows_of_a_large_table_do_not_bring_it_along() -> None:
    table = torch.arange(1_000_000.0).view(1000, 1000)
    for index, row in enumerate(DataLoader(table, batch_size=None, num_workers=1, sampler=range(3))):
        assert torch.equal(row, table[index])
        assert row.untyped_storage().nbytes() < 100_000
    column = delivered(sluicegate, lambda: table[:, 5])
    assert torch.equal(column, table[:, 5])
    assert column.untyped_storage().nbytes() < 100_000


def test_indices_may_be_views_of_a_large_permutation() -> None:
    order = torch.randperm(300_000)
    batch = next(iter(DataLoader(torch.arange(300_000), batch_size=64, num_workers=1, sampler=order, collate_fn=list)))
    assert [int(value) for value in batch] == order[:64].tolist()


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_sampler_that_draws_at_once_draws_as_often_as_under_torch(num_workers: int) -> None:
    def read(loader_cls: Any) -> Any:
        torch.manual_seed(3)
        loader = loader_cls(list(range(8)), batch_sampler=Eager(), num_workers=num_workers, collate_fn=list)
        return [list(loader), list(loader), torch.rand(1)]

    assert_same(read(DataLoader), read(torch.utils.data.DataLoader))


@pytest.mark.parametrize("kind", ["python", "native"])
def test_loaders_read_side_by_side_draw_in_torchs_order(kind: str) -> None:
    def read(loader_cls: Any) -> Any:
        torch.manual_seed(3)
        dataset = list(range(8)) if kind == "python" else torch.utils.data.TensorDataset(torch.arange(8))
        weights = torch.utils.data.WeightedRandomSampler([1.0] * 8, 8)
        loaders = [
            loader_cls(dataset, shuffle=True, num_workers=1),
            loader_cls(dataset, sampler=weights, num_workers=1),
        ]
        return [list(zip(*loaders, strict=True)), torch.rand(1)]

    assert_same(read(DataLoader), read(torch.utils.data.DataLoader))


def test_a_default_device_does_not_reach_the_batch() -> None:
    iterator = iter(DataLoader([0], num_workers=1, collate_fn=lambda _: torch.ones(3, 4).t()))
    with torch.device("meta"):
        assert next(iterator).device.type == "cpu"
