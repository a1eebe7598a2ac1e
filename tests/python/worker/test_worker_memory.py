"""Workers keep the memory of samples for the next ones, and return it when they are idle."""

from __future__ import annotations

import ctypes
import os
import resource
import time
from typing import Any

import pytest
import torch

from sluicegate import DataLoader, _core, default_collate

SHAPE = (3, 512, 512)  # 3 MB: glibc maps each by default.
SAMPLE_PAGES = 3 * 512 * 512 * 4 // resource.getpagesize()
BATCH_SIZE = 8

has_glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc can keep memory")


class Photographs(torch.utils.data.Dataset[Any]):
    """Large samples, with the page faults of the worker so far and its process."""

    def __len__(self) -> int:
        return 30 * BATCH_SIZE

    def __getitem__(self, index: int) -> Any:
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return torch.full(SHAPE, float(index)), faults, os.getpid()


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def largest_resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


def collated(samples: list[Any]) -> Any:
    return default_collate(samples)


def faults_per_sample(**arguments: Any) -> float:
    faults = []
    for number, (images, counts, _) in enumerate(DataLoader(Photographs(), BATCH_SIZE, num_workers=1, **arguments)):
        assert images[:, 0, 0, 0].tolist() == list(range(number * BATCH_SIZE, (number + 1) * BATCH_SIZE))
        faults += counts.tolist()
    # The first third allocates the memory that is kept, and the slots of batches.
    return (faults[-1] - faults[len(faults) // 3]) / (len(faults) * 2 / 3)


@has_glibc
def test_samples_reuse_memory() -> None:
    assert faults_per_sample() < SAMPLE_PAGES / 10


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_an_allocator_that_the_environment_sets_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "")
    assert not _core.WorkerEnd.keep_freed_memory()


@has_glibc
def test_a_worker_that_waits_returns_it() -> None:
    # Torch's default collate function releases large samples as they arrive: there would be nothing to return.
    loader = DataLoader(Photographs(), BATCH_SIZE, num_workers=1, persistent_workers=True, collate_fn=collated)
    for _ in range(2):
        for _, _, pids in loader:
            pid = int(pids[0])
        # The kernel's figure: on a busy machine, this process would read the memory too late to see its peak.
        largest = largest_resident_bytes(pid)
        deadline = time.monotonic() + 60
        while largest - resident_bytes(pid) < BATCH_SIZE * SAMPLE_PAGES * resource.getpagesize() / 2:
            assert time.monotonic() < deadline, (largest, resident_bytes(pid))
            time.sleep(0.05)
