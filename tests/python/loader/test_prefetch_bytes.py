"""The bound on prefetched bytes: it holds, as seen from outside, and does not change the batches."""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing
import torch.utils.data

from checks.equality import assert_same
from sluicegate import DataLoader, IterableDataset, TensorDataset, class_loaders, sample_rng
from sluicegate.worker.batch_bytes import bytes_of

pytestmark = [pytest.mark.slots, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

MIB = 1 << 20
WORKERS = [
    pytest.param({"worker_type": "process"}, id="processes"),
    pytest.param({"worker_type": "process", "persistent_workers": True}, id="persistent"),
    pytest.param({"worker_type": "thread"}, id="threads"),
]
BOUNDS = [1, 5000]


class Counted(torch.utils.data.Dataset[torch.Tensor]):
    """Samples of a quarter of a MiB; all processes share which ones were requested."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked = torch.zeros(size, dtype=torch.uint8).share_memory_()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> torch.Tensor:
        self.asked[index] = 1
        return torch.full((MIB // 16,), float(index))


class Uneven(IterableDataset[Any]):
    """A stream whose length and sample size differ by worker."""

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        worker = 0 if info is None else info.id
        for number in range([1, 7, 0, 12][worker]):
            yield torch.full((10 * (worker + 1),), number), f"{worker}:{number}"


class Lengths(torch.utils.data.Dataset[Any]):
    """Samples of very different sizes, drawn from their own generators."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        return {"tokens": sample_rng().numpy.random(index * index % 97 + 1), "index": index}


def settled(measure: Any) -> int:
    """Return the result of `measure` once it has not changed for a while."""
    last, since = measure(), time.monotonic()
    while time.monotonic() - since < 0.25:
        time.sleep(0.02)
        if (now := measure()) != last:
            last, since = now, time.monotonic()
    return int(last)


def shared_bytes() -> int:
    """Return the memory used by the unnamed files that this process has open."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if "memfd:" in os.readlink(f"/proc/self/fd/{name}"):
                total += os.stat(f"/proc/self/fd/{name}").st_blocks * 512
        except OSError:
            continue
    return total


def anonymous_bytes() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))


@pytest.mark.parametrize("bound", [0, -1, True, 2.5, "1G"])
def test_invalid_prefetch_bytes_are_refused(bound: Any) -> None:
    with pytest.raises(ValueError, match="prefetch_bytes option should be a positive integer or None, but got"):
        DataLoader([0], prefetch_bytes=bound)


def test_prefetch_bytes_reads_back_and_defaults_to_a_share_of_memory() -> None:
    assert DataLoader([0], prefetch_bytes=np.int64(5)).prefetch_bytes == 5
    assert DataLoader([0], prefetch_bytes=2**80).stats().prefetch_bytes >= 2**60
    assert DataLoader([0]).prefetch_bytes is None
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < DataLoader([0], num_workers=1).stats().prefetch_bytes <= machine // 4


@pytest.mark.prefetch
@pytest.mark.parametrize("bound", [1, 3 * MIB + 1000])
@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_requests_stay_within_prefetch_bytes(worker_type: str, bound: int) -> None:
    dataset = Counted(400)
    before = shared_bytes()
    loader = DataLoader(dataset, 4, num_workers=2, prefetch_factor=8, prefetch_bytes=bound, worker_type=worker_type)
    iterator = iter(loader)
    batch = next(iterator)
    fits = max(bound // MIB, 1)
    assert settled(lambda: int(dataset.asked.sum())) == 4 * (1 + fits)
    stats = loader.stats()
    assert (stats.batches_ahead, stats.prefetch_bytes) == (fits, bound)
    assert MIB <= stats.largest_batch_bytes < 1.01 * MIB
    assert stats.bytes_ahead_high_water >= stats.bytes_ahead >= fits * MIB
    if worker_type == "process":
        # The prefetched batches and the received one.
        assert shared_bytes() - before < max(bound, 1.01 * MIB) + 1.5 * MIB
    del iterator, batch
    gc.collect()
    assert loader.stats().bytes_ahead == loader.stats().batches_ahead == 0


@pytest.mark.prefetch
def test_without_a_low_bound_prefetch_factor_determines_the_requests() -> None:
    dataset = Counted(400)
    iterator = iter(DataLoader(dataset, 4, num_workers=2, prefetch_factor=8, worker_type="thread"))
    next(iterator)
    assert settled(lambda: int(dataset.asked.sum())) == 4 * 17
    del iterator


@pytest.mark.prefetch
def test_threads_of_the_core_hold_no_more_than_fits() -> None:
    dataset = TensorDataset(torch.ones(256, MIB // 16))

    def grown(bound: int | None) -> int:
        loader = DataLoader(dataset, 4, num_workers=2, prefetch_factor=12, prefetch_bytes=bound)
        before = anonymous_bytes()
        iterator = iter(loader)
        batch = next(iterator)
        growth = settled(anonymous_bytes) - before
        assert loader.stats().bytes_ahead <= loader.stats().prefetch_bytes
        del iterator, batch
        return growth

    grown(MIB)  # Allocates the threads, and what Python needs only once.
    assert grown(4 * MIB) < 6 * MIB
    assert grown(None) > 20 * MIB


def test_free_slots_go_back_when_they_are_more_than_the_bound() -> None:
    loader = DataLoader(TensorDataset(torch.ones(64, MIB // 16)), 4, num_workers=2, prefetch_bytes=3 * MIB)
    kept = list(loader)
    before = anonymous_bytes()
    kept.clear()
    gc.collect()
    assert before - anonymous_bytes() > 11 * MIB


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("arguments", WORKERS)
def test_batches_do_not_depend_on_prefetch_bytes(arguments: dict[str, Any], bound: int | None) -> None:
    def epochs(**changes: Any) -> list[Any]:
        loader = DataLoader(Lengths(), 3, shuffle=True, collate_fn=list, seed=5, **changes)
        return [list(loader), list(loader)]

    assert_same(epochs(num_workers=3, prefetch_factor=3, prefetch_bytes=bound, **arguments), epochs())


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("in_order", [True, False])
def test_native_batches_do_not_depend_on_prefetch_bytes(bound: int | None, in_order: bool) -> None:
    dataset = TensorDataset(torch.arange(4000).view(100, 40), torch.arange(100))
    loader = DataLoader(dataset, 7, num_workers=3, prefetch_bytes=bound, in_order=in_order)
    for _ in range(2):
        batches = list(loader) if in_order else sorted(loader, key=lambda batch: int(batch[1][0]))
        assert_same(batches, list(DataLoader(dataset, 7)))


@pytest.mark.parametrize("bound", [1, 700])
@pytest.mark.parametrize("arguments", WORKERS)
def test_streams_that_end_one_after_the_other_come_as_in_torch(arguments: dict[str, Any], bound: int | None) -> None:
    expected = list(torch.utils.data.DataLoader(Uneven(), 2, num_workers=4))
    loader = DataLoader(Uneven(), 2, num_workers=4, prefetch_bytes=bound, **arguments)
    assert_same(list(loader), expected)
    if "persistent_workers" in arguments:
        assert_same(list(loader), expected)


def test_a_state_does_not_depend_on_prefetch_bytes() -> None:
    def loader(bound: int | None) -> DataLoader[Any]:
        return DataLoader(Lengths(), 3, shuffle=True, collate_fn=list, seed=5, num_workers=2, prefetch_bytes=bound)

    expected, states = list(loader(None)), []
    for bound in (1, 2000, None):
        iterator = iter(first := loader(bound))
        for _ in range(7):
            next(iterator)
        states.append(first.state_dict())
        del iterator
        resumed = loader(1)
        resumed.load_state_dict(states[-1])
        assert_same(list(resumed), expected[7:])
    assert states[0] == states[1] == states[2]


@pytest.mark.prefetch
def test_iterators_over_the_same_workers_share_prefetch_bytes() -> None:
    dataset, labels = Counted(80), [0, 1] * 40
    loaders = class_loaders(dataset, labels, batch_size=4, num_workers=2, prefetch_factor=8, prefetch_bytes=4 * MIB)
    pairs = zip(*loaders.values(), strict=True)
    first = next(pairs)
    # Two batches were received; one more of the first class was prefetched while that loader was alone.
    assert settled(lambda: int(dataset.asked.sum())) <= 4 * (2 + 6)
    rest = list(pairs)
    received = torch.cat([torch.cat(pair) for pair in [first, *rest]])[:, 0]
    assert sorted(received.tolist()) == list(range(80))
    assert loaders[0].stats() == loaders[1].stats()


@pytest.mark.prefetch
def test_an_iterator_that_is_done_takes_no_room() -> None:
    dataset = TensorDataset(torch.ones(64, 256))
    loader = DataLoader(dataset, 8, num_workers=2, prefetch_factor=4, prefetch_bytes=4 * 8192)
    kept = [iter(loader) for _ in range(3)]
    for iterator in kept:
        assert sum(1 for _ in iterator) == 8
    iterator = iter(loader)
    assert len(iterator._under_way) == 4
    del kept


def test_bytes_of_python_batches_are_measured() -> None:
    tensor = torch.zeros(1000)
    assert bytes_of(tensor) == bytes_of(tensor.numpy()) == 4000
    assert bytes_of(tensor[:10]) == 40
    assert 8000 < bytes_of([tensor, {"x": tensor}]) < 9000
    assert bytes_of((b"1" * 5000, "2" * 5000)) > 10_000
    many = [torch.zeros(100) for _ in range(10_000)]
    assert 4e6 < bytes_of(many) < 5e6
    endless: list[Any] = []
    endless.append(endless)
    assert bytes_of(endless) < 2**20
    sparse = torch.eye(1000).to_sparse()
    assert bytes_of(sparse) < 2**20

    class Batch:
        def __init__(self) -> None:
            self.pixels = tensor

    assert 4000 < bytes_of(Batch()) < 5000
    assert list(itertools.islice(DataLoader(range(4), worker_type="thread", num_workers=1, prefetch_bytes=1), 2))
