"""The number of threads does not exceed the one requested, in this process and in workers."""

from __future__ import annotations

import gc
import os
import time
from types import ModuleType
from typing import Any

import pytest
import torch

from sluicegate import DataLoader, TensorDataset

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


class Threads(torch.utils.data.Dataset[Any]):
    """Samples with torch's number of threads in the process that reads them."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return torch.get_num_threads()


def fetching_threads() -> int:
    gc.collect()
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                names.append(file.read())
        except OSError:
            continue
    return sum(name.startswith("sluice-fetch") for name in names)


def test_torch_computes_with_one_thread_in_a_worker_process(data: ModuleType) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        found = [batch.tolist() for batch in data.DataLoader(Threads(), 2, num_workers=2)]
        assert found == [[1, 1], [1, 1]]
        assert [batch.tolist() for batch in data.DataLoader(Threads(), 4)] == [[3] * 4]
    finally:
        torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _others_have_ended() -> None:
    deadline = time.monotonic() + 5
    while fetching_threads() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_num_workers_threads_fetch(num_workers: int) -> None:
    before = fetching_threads()
    loader = DataLoader(TensorDataset(torch.ones(64, 10_000)), 8, num_workers=num_workers)
    iterator = iter(loader)
    next(iterator)
    deadline = time.monotonic() + 5  # a thread gets its name when it first runs
    while fetching_threads() - before < num_workers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fetching_threads() - before == num_workers
    assert len(list(iterator)) == 7
    assert fetching_threads() - before == num_workers


def test_without_workers_no_thread_fetches() -> None:
    before = fetching_threads()
    assert len(list(DataLoader(TensorDataset(torch.ones(64, 10_000)), 8))) == 8
    assert fetching_threads() == before
