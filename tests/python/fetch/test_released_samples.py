"""A large sample is released as soon as it is in its row of the batch, if nothing else holds it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.data import Dataset, Subset

from doubles.datasets import Tags
from sluicegate import DataLoader
from sluicegate.fetch.early_rows import SMALLEST
from sluicegate.loader.resources import resources_of
from sluicegate.order.settings import LoaderSettings

pytestmark = pytest.mark.slots

FLOATS = SMALLEST // 4


class Counted(Dataset[Any]):
    """Fresh samples, each with the number of bytes allocated before it was created.

    Args:
        wrap: makes a sample from an array and the number of bytes.
        floats: the size of each array.
    """

    def __init__(self, wrap: Callable[[Any, int], Any], floats: int) -> None:
        self.wrap, self.floats = wrap, floats

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Any:
        there = tracemalloc.get_traced_memory()[0]
        return self.wrap(numpy.full(self.floats, index, dtype=numpy.float32), there)


WRAPPED: dict[str, Callable[[Any, int], Any]] = {
    "tuple": lambda array, there: (array, there),
    "list": lambda array, there: [there, array],
    "dict": lambda array, there: {"there": there, "array": array},
    "nested": lambda array, there: {"parts": [(array.reshape(4, -1), "text"), [there]]},
}


def counts_in(batch: Any) -> list[int]:
    if isinstance(batch, torch.Tensor):
        return batch.tolist() if batch.dtype is torch.int64 else []
    parts = batch.values() if isinstance(batch, dict) else batch
    return [count for part in parts if not isinstance(part, str) for count in counts_in(part)]


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("arguments", [{}, {"seed": 3}, {"num_workers": 1}], ids=str)
@pytest.mark.parametrize(
    "combinator", [lambda data: data, lambda data: Subset(data, range(32))], ids=["whole", "subset"]
)
@pytest.mark.parametrize("name", WRAPPED)
def test_a_large_array_is_released_before_the_next_one_comes(
    name: str, combinator: Callable[[Any], Any], arguments: dict[str, Any]
) -> None:
    loader = DataLoader(combinator(Counted(WRAPPED[name], FLOATS)), batch_size=16, **arguments)
    for batch in loader:
        counts = counts_in(batch)
        assert len(counts) == 16
        assert max(counts) - min(counts) < 2 * 4 * FLOATS


@pytest.mark.usefixtures("traced")
def test_a_small_array_is_kept() -> None:
    counts = counts_in(next(iter(DataLoader(Counted(WRAPPED["tuple"], FLOATS - 1), batch_size=16))))
    assert max(counts) - min(counts) > 14 * 4 * (FLOATS - 1)


class Released(Dataset[Any]):
    """Fresh tensors, with True if the memory of the previous one has been released."""

    def __init__(self, floats: int, keeps: bool = False) -> None:
        self.floats = floats
        self.kept: list[Any] | None = [] if keeps else None
        self.before: StorageWeakRef | None = None

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        is_released = self.before is None or self.before.expired()
        tensor = torch.full((self.floats,), float(index))
        self.before = StorageWeakRef(tensor.untyped_storage())
        if self.kept is not None:
            self.kept.append(tensor)
        return tensor, is_released


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_large_tensor_is_released_before_the_next_one_comes(num_workers: int) -> None:
    for _, are_released in DataLoader(Released(FLOATS), batch_size=16, num_workers=num_workers):
        assert are_released.all()
    for _, are_released in DataLoader(Released(FLOATS - 1), batch_size=16, num_workers=num_workers):
        assert not are_released[1:].any()


class Tagged(Released):
    """The same samples, with a user-defined container added."""

    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), Tags(index=index)


def test_a_worker_keeps_samples_with_containers_of_the_users() -> None:
    for _, are_released, tags in DataLoader(Tagged(FLOATS), batch_size=16, num_workers=1):
        assert type(tags) is Tags
        assert not are_released[1:].any()


def test_a_tensor_that_the_dataset_keeps_stays_its_own() -> None:
    data = Released(FLOATS, keeps=True)
    for batch, _ in DataLoader(data, batch_size=16):
        batch.fill_(-1)
    assert data.kept is not None
    assert all((each == index).all() for index, each in enumerate(data.kept))


def test_a_batch_is_a_tensor_like_any_other() -> None:
    batches = [batch for batch, _ in DataLoader(Released(FLOATS), batch_size=16)]
    for number, batch in enumerate(batches):
        assert batch._version == 0
        assert batch._base is None
        assert batch[:, -1].tolist() == list(range(number * 16, number * 16 + 16))
        batch.add_(1).requires_grad_()
    assert len({batch.data_ptr() for batch in batches}) == len(batches)


class Mixed(Dataset[Any]):
    """In every batch of four, the third sample does not fit the others.

    Args:
        error: the error raised instead of it, if any.
    """

    def __init__(self, floats: int, error: type[Exception] | None = None) -> None:
        self.floats, self.error = floats, error

    def __len__(self) -> int:
        return 80

    def __getitem__(self, index: int) -> Any:
        if index % 4 == 2 and self.error is not None:
            raise self.error("sample")
        return torch.zeros(self.floats + index % 4 // 2)


@pytest.mark.parametrize("error", [None, KeyError])
def test_batches_that_fail_hold_no_slots(error: type[Exception] | None) -> None:
    loader = DataLoader(Mixed(FLOATS, error), batch_size=4)
    iterator, mapped = iter(loader), []
    for _ in range(20):
        with pytest.raises((KeyError, RuntimeError)):
            next(iterator)
        mapped.append(resources_of(loader).engine(LoaderSettings.of(loader)).mapped_bytes)
    assert mapped[-1] == mapped[1]
