"""Datasets, samplers, and exceptions that fail when asked for attributes that torch never reads, as with torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import outcome_of

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

WORKERS = pytest.mark.parametrize("num_workers", [0, 1])


@pytest.mark.parametrize("in_order", [1, 0, None])
def test_in_order_may_be_anything_that_is_true_or_false(data: ModuleType, in_order: Any) -> None:
    loader = data.DataLoader(torch.arange(4), batch_size=2, num_workers=1, in_order=in_order)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]


@dataclass(frozen=True)
class FrozenError(Exception):
    """Notes can't be added to it."""

    name: str


class BadNotesError(Exception):
    __notes__ = 7


class BadRepr:
    def __repr__(self) -> str:
        raise AssertionError("it must not be called")


class Raising(torch.utils.data.Dataset[int]):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> int:
        if not isinstance(index, int) or index == 1:
            raise self.error
        return index


@pytest.mark.parametrize("error", [FrozenError("a.jpg"), BadNotesError("x")], ids=lambda error: type(error).__name__)
def test_an_exception_that_takes_no_notes_is_raised_without(data: ModuleType, error: Exception) -> None:
    iterator = iter(data.DataLoader(Raising(error), batch_size=None))
    assert next(iterator) == 0
    with pytest.raises(type(error)) as found:
        next(iterator)
    assert found.value is error
    assert next(iterator) == 2


def test_an_index_that_can_not_be_shown_hides_no_error(data: ModuleType) -> None:
    loader = data.DataLoader(Raising(KeyError("a")), batch_size=None, sampler=[BadRepr()])
    with pytest.raises(KeyError, match="a"):
        next(iter(loader))


class Untellable(torch.utils.data.Sampler[int]):
    """Has a state that can't be pickled."""

    def __iter__(self) -> Iterator[int]:
        return iter([2, 0, 1])

    def __len__(self) -> int:
        return 3

    def state_dict(self) -> dict[str, Any]:
        return {"function": lambda: None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError("it must not be called")


@WORKERS
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_failing_state_dict_is_an_error_only_when_requested(
    data: ModuleType, num_workers: int, batch_size: int | None
) -> None:
    loader = data.DataLoader([10, 11, 12], batch_size, sampler=Untellable(), num_workers=num_workers)
    epochs = [list(map(str, loader)) for _ in range(4)]
    assert epochs[1:] == epochs[:1] * 3
    if data is sluicegate:
        next(iter(loader))
        with pytest.raises(RuntimeError, match="the sampler did not return its state"):
            loader.state_dict()


class Attributes(dict[Any, Any]):
    """Has only its own attributes; others raise KeyError."""

    __getattr__ = dict.__getitem__


class NoState(torch.utils.data.IterableDataset[int]):
    @property
    def state_dict(self) -> Any:
        raise RuntimeError("it was closed")

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


class NoGenerator(torch.utils.data.Sampler[int]):
    @property
    def generator(self) -> Any:
        raise RuntimeError("it was closed")

    sampler = set_epoch = generator

    def __iter__(self) -> Iterator[int]:
        return iter([1, 0])

    def __len__(self) -> int:
        return 2


def test_attributes_that_raise_are_none(data: ModuleType) -> None:
    assert list(data.DataLoader(Attributes({0: "a", 1: "b"}), batch_size=None)) == ["a", "b"]
    assert torch.cat(list(data.DataLoader(NoState()))).tolist() == [1, 2]
    assert torch.cat(list(data.DataLoader([5, 6], sampler=NoGenerator()))).tolist() == [6, 5]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [0, -1, None, 3])
def test_the_size_of_batches_may_be_set_to_anything(shuffle: bool, size: int | None) -> None:
    outcomes = []
    for module in (torch.utils.data, sluicegate):
        loader: Any = module.DataLoader([1] * 4, batch_size=2, shuffle=shuffle)
        loader.batch_sampler.batch_size = size
        iterator = iter(loader)
        outcomes.append([outcome_of(lambda: next(iterator)) for _ in range(3)])  # noqa: B023
    assert repr(outcomes[0]) == repr(outcomes[1])


class Lines(torch.utils.data.IterableDataset[int]):
    """Has one position, which its iterators share, and which each of them moves when it is deleted."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Any:
        return LinesIterator(self)


class LinesIterator:
    def __init__(self, lines: Lines) -> None:
        self.lines, self.left = lines, 2

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        self.lines.place += 1
        return self.lines.place - 1

    def __del__(self) -> None:
        self.lines.place += 100


def test_a_persistent_worker_closes_the_last_epoch_when_the_next_has_begun(data: ModuleType) -> None:
    loader = data.DataLoader(Lines(), batch_size=None, num_workers=1, persistent_workers=True)
    # If it were closed earlier, the second epoch would begin 100 further; torch closes it after `iter`.
    assert [list(loader) for _ in range(2)] == [[0, 1], [102, 103]]


def _fail(worker: int) -> None:
    raise OSError("the license server is away")


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_a_failure_to_start_a_worker_is_raised_in_every_epoch(worker_type: str) -> None:
    loader = sluicegate.DataLoader(
        [1, 2], num_workers=1, persistent_workers=True, worker_init_fn=_fail, worker_type=worker_type
    )
    iter(loader)
    for _ in range(2):
        with pytest.raises(OSError, match="the license server is away"):
            next(iter(loader))


class Trainer(sluicegate.DataLoader[Any]):
    """Has attributes whose names could be a loader's."""

    def __init__(self, *arguments: Any) -> None:
        self._progress = "a bar"
        super().__init__(*arguments)
        self._pending = self._epochs = self._left_out = self._current = self._kept = self._started = ["mine"]


def test_a_subclass_may_have_names_of_its_own() -> None:
    loader = Trainer(torch.arange(4), 2)
    assert [batch.tolist() for _ in range(2) for batch in loader] == [[0, 1], [2, 3]] * 2
    loader.load_state_dict(loader.state_dict())
    assert (loader._progress, loader._pending) == ("a bar", ["mine"])
