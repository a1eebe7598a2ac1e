"""The two doors every behaviour is tested through: torch's own module and ours, by the same test."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
import torch.utils.data

import sluicegate
from programs import Run, zygote

DOORS = {"torch": torch.utils.data, "sluicegate": sluicegate}


@pytest.fixture(params=DOORS.values(), ids=DOORS.keys())
def data(request: pytest.FixtureRequest) -> ModuleType:
    """The module from which loader, samplers and datasets are taken."""
    return request.param


@pytest.fixture
def loader_cls(data: ModuleType) -> type[torch.utils.data.DataLoader]:
    return data.DataLoader


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_workers_left() -> Iterator[None]:
    """An iterator that a traceback keeps alive would otherwise be collected in the next test's forked worker."""
    yield
    if multiprocessing.active_children():
        gc.collect()


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Runs a program in a process group of its own and tells how it ended."""
    yield from zygote()
