"""pin_memory on a machine without an accelerator: a warning and unpinned batches."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from checks.equality import assert_same
from doubles.datasets import Point, Rows

pytestmark = [
    pytest.mark.skipif(torch.accelerator.is_available(), reason="an accelerator pins for real"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

NO_ACCELERATOR = "'pin_memory' argument is set as true but no accelerator is found"


@pytest.mark.parametrize("workers", [{}, {"num_workers": 3}, {"num_workers": 1, "persistent_workers": True}])
@pytest.mark.parametrize("native", [False, True])
def test_pin_memory_without_an_accelerator_warns_in_iter_and_pins_nothing(
    data: ModuleType, native: bool, workers: dict[str, Any]
) -> None:
    dataset: Any = Rows(5)
    if native:
        dataset = data.TensorDataset(dataset.values, torch.arange(5))
    loader = data.DataLoader(dataset, batch_size=2, pin_memory=True, **workers)
    with pytest.warns(UserWarning, match=NO_ACCELERATOR) as caught:
        batches = list(loader)
    assert sum(NO_ACCELERATOR in str(one.message) for one in caught) == 1
    assert_same(batches, list(torch.utils.data.DataLoader(dataset, batch_size=2)))
    assert not any(part.is_pinned() for batch in batches for part in batch)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_pin_memory_works_with_every_start_method(data: ModuleType, method: str) -> None:
    loader = data.DataLoader(Rows(3), 3, num_workers=1, pin_memory=True, multiprocessing_context=method)
    with pytest.warns(UserWarning, match=NO_ACCELERATOR):
        ((rows, labels),) = list(loader)
    assert torch.equal(rows, Rows(3).values)
    assert labels.tolist() == [0, 1, 2]


def test_the_device_alone_pins_nothing_and_warns_of_nothing(data: ModuleType) -> None:
    loader = data.DataLoader(data.TensorDataset(torch.arange(2)), 2, pin_memory_device="cuda")
    assert_same(list(loader), [[torch.tensor([0, 1])]])


def test_the_device_with_pin_memory_is_deprecated(data: ModuleType) -> None:
    loader = data.DataLoader(data.TensorDataset(torch.arange(2)), 2, pin_memory=True, pin_memory_device="cuda")
    with pytest.warns(UserWarning, match="pin_memory") as caught:
        list(loader)
    assert [str(one.message).split(",")[0] for one in caught] == ["pin_memory_device is deprecated", NO_ACCELERATOR]


def test_containers_and_strings_are_left_alone(data: ModuleType) -> None:
    samples = [Point({"a": torch.tensor([1])}, "text")]
    loader = data.DataLoader(samples, batch_size=1, pin_memory=True)
    with pytest.warns(UserWarning, match=NO_ACCELERATOR):
        (batch,) = list(loader)
    assert_same(batch, Point({"a": torch.tensor([[1]])}, ("text",)))


def test_pin_memory_of_a_batch_is_not_called_without_an_accelerator(data: ModuleType) -> None:
    class Own(list):
        def pin_memory(self) -> None:
            raise AssertionError("nothing can be pinned here")

    loader = data.DataLoader([1, 2], batch_size=2, collate_fn=Own, pin_memory=True)
    with pytest.warns(UserWarning, match=NO_ACCELERATOR):
        assert_same(list(loader), [Own([1, 2])])
