"""An epoch is freed when the next one has begun, even after states were requested, without the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from cases.loader_kinds import KINDS, make
from sluicegate import DataLoader, TensorDataset


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def epochs(loader: Any) -> list[weakref.ref[Any]]:
    """Run some epochs, and return a weak reference to the progress of each."""
    found = []
    for _ in range(4):
        for _ in loader:
            loader.state_dict()
        found.append(weakref.ref(loader._loader_progress.latest))
    return found


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_of_the_epochs_before_the_last_two_nothing_is_kept(kind: str, num_workers: int) -> None:
    found = epochs(make(kind, num_workers))
    assert [reference() is None for reference in found[:2]] == [True, True]


@pytest.mark.usefixtures("without_collector")
def test_an_iterator_is_freed_when_its_last_user_is() -> None:
    loader = DataLoader(TensorDataset(torch.arange(100)), batch_size=7, shuffle=True)
    iterator = loader.with_ids()
    batch, ids = next(iterator)
    gone = weakref.ref(loader._iterator)
    loader.state_dict()
    del iterator
    assert gone() is None
    assert batch[0].tolist() == ids.sample_indices.tolist()
