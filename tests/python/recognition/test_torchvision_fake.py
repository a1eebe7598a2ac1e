"""torchvision's `FakeData`, whose samples the core makes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, Subset

from checks import epochs
from checks.equality import assert_same
from sluicegate import DataLoader

pytest.importorskip("torchvision")

from torchvision import transforms as v1
from torchvision.datasets import FakeData

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

assert_as_torch = functools.partial(epochs.assert_as_torch, batch_size=4, shuffle=True)
RANDOM = v1.Compose([v1.RandomCrop(5, padding=2), v1.ColorJitter(0.3), v1.ToTensor()])


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("size", [(3, 7, 9), (1, 8, 8), (3, 2, 2), (1, 3, 5), (1, 1, 16), (3, 1, 11)])
def test_every_size_matches_torch(size: tuple[int, int, int], num_workers: int) -> None:
    # Torch draws fewer than 16 values one by one, and the last of others again.
    assert_as_torch(FakeData(21, size, 10, v1.ToTensor()), num_workers=num_workers)
    assert_as_torch(FakeData(9, size, 1, RANDOM, random_offset=1 << 40), num_workers=num_workers)


def test_the_default_size_matches_torch() -> None:
    assert_as_torch(FakeData(10, transform=v1.Compose([v1.RandomResizedCrop(32), v1.ToTensor()])))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_parts_of_datasets(num_workers: int) -> None:
    one, two = FakeData(9, (3, 6, 6), 7, RANDOM), FakeData(9, (3, 6, 6), 7, RANDOM, random_offset=3)
    assert_as_torch(ConcatDataset([Subset(one, [5, 2, 2]), two]), num_workers=num_workers)


def test_indices_that_the_core_does_not_take() -> None:
    dataset = FakeData(9, (3, 6, 6), 7, RANDOM, random_offset=3)
    assert_as_torch(dataset, shuffle=False, sampler=[0, -1, 8, 9, 3], batch_size=1)


def test_with_a_seed_batches_are_those_that_python_makes() -> None:
    dataset = FakeData(9, (3, 6, 6), 7, RANDOM)
    whole = [[*DataLoader(dataset, 4, True, seed=3, num_workers=workers)] for workers in (0, 2)]
    expected = [*DataLoader(dataset, 4, True, seed=3, native=False)]
    assert_same(whole, [expected, expected])


class Own(FakeData):
    pass


REASONS: dict[str, tuple[Callable[[], Any], str]] = {
    "two channels": (lambda: FakeData(5, (2, 6, 6), 7, v1.ToTensor()), "1 or 3 channels"),
    "two axes": (lambda: FakeData(5, (6, 6), 7, v1.ToTensor()), "a tuple of three lengths"),  # type: ignore[arg-type]
    "a list": (lambda: FakeData(5, [3, 6, 6], 7, v1.ToTensor()), "a tuple of three lengths"),  # type: ignore[arg-type]
    "an empty image": (lambda: FakeData(5, (3, 0, 6), 7, v1.ToTensor()), "a tuple of three lengths"),
    "no samples": (lambda: FakeData(0, (3, 6, 6), 7, v1.ToTensor()), "size=0"),
    "no classes": (lambda: FakeData(5, (3, 6, 6), 0, v1.ToTensor()), "num_classes=0"),
    "a number of NumPy's": (lambda: FakeData(5, (3, 6, 6), np.int64(7), v1.ToTensor()), "num_classes="),
    "a negative seed": (lambda: FakeData(5, (3, 6, 6), 7, v1.ToTensor(), random_offset=-1), "random_offset=-1"),
    "labels": (lambda: FakeData(5, (3, 6, 6), 7, v1.ToTensor(), int), "called with tensors"),
    "no transform": (lambda: FakeData(5, (3, 6, 6), 7), "Pillow images"),
    "its own class": (lambda: Own(5, (3, 6, 6), 7, v1.ToTensor()), "Own"),
}


@pytest.mark.parametrize("name", REASONS)
def test_explain_names_why_python_makes_the_samples(name: str) -> None:
    make, reason = REASONS[name]
    found = DataLoader(make()).explain()
    assert found.engine == "python"
    assert reason in str(found)


def test_seeding_a_device_is_left_to_python_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    dataset = FakeData(5, (3, 6, 6), 7, v1.ToTensor())
    assert "seeds the generators of the devices" in str(DataLoader(dataset).explain())
    assert DataLoader(dataset, num_workers=1).explain().engine == "rust"


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(
    ("name", "value"),
    [("num_classes", 3), ("random_offset", 9), ("image_size", (3, 9, 6)), ("transform", v1.ToTensor())],
)
def test_changes_in_the_middle_of_an_epoch_are_seen_as_with_torch(name: str, value: Any, num_workers: int) -> None:
    seen = []
    for kind in (torch.utils.data.DataLoader, DataLoader):
        dataset = FakeData(16, (3, 6, 6), 7, RANDOM)

        def change(count: int, dataset: Any = dataset) -> None:
            if count == 2:
                setattr(dataset, name, value)

        seen.append(epochs.seen_by(kind, dataset, change, batch_size=4, num_workers=num_workers))
    assert_same(seen[1], seen[0])
