"""Collation through a loader."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

from checks.equality import assert_same, error_of
from doubles.datasets import Nested, Point, Record, clone_all

pytestmark = pytest.mark.slots

NESTED_IS_NEW = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
NOT_WRITABLE = "ignore:The given NumPy array is not writable"


class Shared:
    """Yields True if torch's function collates in shared memory in the current process."""

    def __getitem__(self, index: int) -> bool:
        return torch.utils.data.default_collate([torch.zeros(2), torch.zeros(2)]).is_shared()

    def __len__(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([1, 2], torch.tensor([1, 2])),
        ([1.5, 2], torch.tensor([1.5, 2.0], dtype=torch.float64)),
        ([True, False], torch.tensor([True, False])),
        (["a", "b"], ["a", "b"]),
        ([b"a", b"b"], [b"a", b"b"]),
        ([(1, "a"), (2, "b")], [torch.tensor([1, 2]), ("a", "b")]),
        ([[1, 2], [3, 4]], [torch.tensor([1, 3]), torch.tensor([2, 4])]),
        ([range(2), range(2, 4)], [torch.tensor([0, 2]), torch.tensor([1, 3])]),
        ([torch.tensor(1), torch.tensor(2)], torch.tensor([1, 2])),
        ([{"a": 1}, {"a": 2}], {"a": torch.tensor([1, 2])}),
        ([numpy.array([1.0, 2.0])], torch.tensor([[1.0, 2.0]], dtype=torch.float64)),
    ],
)
def test_collates_plain_values(data: ModuleType, samples: list[Any], expected: Any) -> None:
    assert_same(list(data.DataLoader(samples, batch_size=len(samples))), [expected])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_arrays_of_doubles_make_a_double_tensor(data: ModuleType, num_workers: int) -> None:
    samples = [numpy.full((2, 3), float(index)) for index in range(4)]
    (batch,) = data.DataLoader(samples, batch_size=4, num_workers=num_workers)
    assert isinstance(batch, torch.DoubleTensor)
    assert tuple(batch.shape) == (4, 2, 3)


@pytest.mark.filterwarnings(NOT_WRITABLE)
def test_rows_of_a_read_only_memmap_are_copied(data: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    numpy.arange(12, dtype=numpy.float32).tofile(path)
    rows = numpy.memmap(path, dtype=numpy.float32, mode="r", shape=(4, 3))
    batches = list(data.DataLoader(rows, batch_size=2))
    rows._mmap.close()
    path.unlink()
    expected = torch.arange(12, dtype=torch.float32).view(2, 2, 3).unbind()
    assert_same(batches, [half.clone() for half in expected])


@pytest.mark.parametrize("num_workers", [0, 1])
def test_namedtuples_stay_namedtuples(data: ModuleType, num_workers: int) -> None:
    samples = [Point(index, Point(float(index), "z")) for index in range(2)]
    (batch,) = data.DataLoader(samples, batch_size=2, num_workers=num_workers)
    assert_same(batch, Point(torch.tensor([0, 1]), Point(torch.tensor([0.0, 1.0], dtype=torch.float64), ("z", "z"))))
    assert_same(list(data.DataLoader(samples, batch_size=None, num_workers=num_workers)), samples)


def test_dataclasses_are_refused_in_batches_and_passed_on_alone(data: ModuleType) -> None:
    record = Record(torch.zeros(1))
    with pytest.raises(TypeError, match="default_collate: batch must contain"):
        list(data.DataLoader([record, record], batch_size=2))
    assert list(data.DataLoader([record], batch_size=None)) == [record]


@NESTED_IS_NEW
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_nested_tensors_pass_a_collate_fn_that_clones(data: ModuleType, method: str) -> None:
    loader = data.DataLoader(
        Nested(), batch_size=2, collate_fn=clone_all, num_workers=1, multiprocessing_context=method
    )
    (batch,) = list(loader)
    assert [part.is_nested for part in batch] == [True, True]
    assert torch.equal(batch[1].unbind()[0], torch.full((2,), 1.0))


@NESTED_IS_NEW
@pytest.mark.parametrize("num_workers", [0, 1])
def test_nested_tensors_are_refused_by_the_default(data: ModuleType, num_workers: int) -> None:
    loader = data.DataLoader(Nested(), batch_size=2, num_workers=num_workers)
    error = error_of(lambda: list(loader))
    assert type(error) is RuntimeError
    assert "not currently supported by the default collate_fn" in str(error)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_sparse_tensors_are_refused_by_the_default(data: ModuleType, num_workers: int) -> None:
    samples = [torch.eye(2).to_sparse()] * 2
    loader = data.DataLoader(samples, batch_size=2, num_workers=num_workers)
    assert "Batches of sparse tensors are not currently supported" in str(error_of(lambda: list(loader)))


def test_tensors_are_shared_from_a_worker_and_ordinary_outside(data: ModuleType) -> None:
    assert list(data.DataLoader(Shared(), batch_size=None)) == [False, False]
    assert list(data.DataLoader(Shared(), batch_size=None, num_workers=1)) == [True, True]


def test_the_collate_map_can_be_changed_in_place(data: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils.collate import default_collate_fn_map

    def negative(batch: list[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
        return -torch.stack(batch)

    loader = data.DataLoader(data.TensorDataset(torch.arange(4)), batch_size=2)
    assert_same(next(iter(loader)), [torch.tensor([0, 1])])
    iterator = iter(loader)
    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, negative)
    assert_same(list(iterator), [[torch.tensor([0, -1])], [torch.tensor([-2, -3])]])


def test_an_error_of_collate_is_raised_and_iteration_continues(data: ModuleType) -> None:
    def picky(samples: list[int]) -> list[int]:
        if 2 in samples:
            raise KeyError("two")
        return samples

    iterator = iter(data.DataLoader([0, 1, 2, 3, 4], batch_size=2, collate_fn=picky))
    assert next(iterator) == [0, 1]
    with pytest.raises(KeyError, match="two"):
        next(iterator)
    assert list(iterator) == [[4]]
