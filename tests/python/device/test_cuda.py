"""Pinned memory and copies to the device, on a GPU: `make test-cuda` runs these from a wheel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from sluicegate import DataLoader, TensorDataset

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use: make test-cuda"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

WORKERS: list[dict[str, Any]] = [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "worker_type": "thread"},
    {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4},
]


class Rows(torch.utils.data.Dataset[Any]):
    """Python rows: all values of row `index` are `index`."""

    def __init__(self, rows: int, size: int = 30_000) -> None:
        self.rows, self.size = rows, size

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> Any:
        return torch.full((self.size,), float(index)), index


class Stream(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return ((torch.full((5_000,), float(index)), index) for index in range(first, 40, step))


def dataset_of(kind: str, rows: int = 40) -> Any:
    if kind == "native":
        return TensorDataset(torch.arange(float(rows)).reshape(-1, 1).expand(rows, 30_000), torch.arange(rows))
    return Rows(rows) if kind == "python" else Stream()


def parts(batch: Any) -> list[torch.Tensor]:
    return [part.cpu() for part in batch]


@pytest.fixture(params=["native", "python", "stream"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_are_pinned_and_as_torch_makes_them(kind: str, workers: dict[str, Any]) -> None:
    dataset = dataset_of(kind)
    loader = DataLoader(dataset, 4, pin_memory=True, **workers)
    torchs = {name: value for name, value in workers.items() if name != "worker_type"}
    for _ in range(2):
        batches = list(loader)
        assert all(part.is_pinned() for batch in batches for part in batch)
        expected = list(torch.utils.data.DataLoader(dataset, 4, **torchs))
        assert len(batches) == len(expected)
        for batch, other in zip(batches, expected, strict=True):
            assert all(map(torch.equal, parts(batch), parts(other)))


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_arrive_on_the_device_as_torch_makes_them(kind: str, workers: dict[str, Any]) -> None:
    dataset = dataset_of(kind)
    loader = DataLoader(dataset, 4, device="cuda", **workers)
    torchs = {name: value for name, value in workers.items() if name != "worker_type"}
    for _ in range(2):
        batches = list(loader)
        assert all(part.is_cuda for batch in batches for part in batch)
        expected = list(torch.utils.data.DataLoader(dataset, 4, **torchs))
        assert len(batches) == len(expected)
        for batch, other in zip(batches, expected, strict=True):
            assert all(map(torch.equal, parts(batch), parts(other)))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("rows", ["native", "python"])
def test_memory_that_a_late_copy_reads_is_not_used_again(rows: str, workers: dict[str, Any]) -> None:
    # A slow kernel blocks the user's stream; the copies queued after it read 20 batches that the program has dropped,
    # while 1,000 more batches arrive.
    dataset = dataset_of(rows, 1_020)
    stream = torch.cuda.Stream()
    copies = []
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)
    for number, batch in enumerate(DataLoader(dataset, 1, pin_memory=True, **workers)):
        if number < 20:
            with torch.cuda.stream(stream):
                copies.append(batch[0].to("cuda", non_blocking=True))
        del batch
    stream.synchronize()
    assert [copy.unique().tolist() for copy in copies] == [[float(number)] for number in range(20)]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("rows", ["native", "python"])
def test_memory_on_the_device_that_the_consumer_still_reads_is_not_used_again(
    rows: str, workers: dict[str, Any]
) -> None:
    sums = []
    for number, batch in enumerate(DataLoader(dataset_of(rows, 200), 1, device="cuda", **workers)):
        if number % 50 == 0:
            torch.cuda._sleep(200_000_000)
        sums.append(batch[0].mean())
        del batch
    assert torch.stack(sums).cpu().tolist() == [float(number) for number in range(200)]


def test_the_host_does_not_wait_for_the_stream_of_the_consumer() -> None:
    loader = DataLoader(dataset_of("native"), 4, num_workers=2, device="cuda")
    kept = list(loader)  # Allocates all memory in advance: an allocation may make the driver wait.
    del kept
    iterator = iter(loader)
    next(iterator)
    torch.cuda._sleep(4_000_000_000)
    behind = torch.cuda.Event()
    behind.record()
    rows, _ = next(iterator)
    assert not behind.query(), "the consumer's stream was waited for"
    assert rows.mean(dim=1).cpu().tolist() == [4.0, 5.0, 6.0, 7.0]


class Pair(NamedTuple):
    values: torch.Tensor
    name: str


class Own:
    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    def pin_memory(self) -> Own:
        return Own(self.values.pin_memory())

    def to(self, device: Any, non_blocking: bool = False) -> Own:
        return Own(self.values.to(device, non_blocking=non_blocking))


def structures(samples: list[int]) -> Any:
    values = torch.tensor(samples, dtype=torch.float64)
    return {
        "pair": Pair(values, "name"),
        "own": Own(values),
        "packed": pack_sequence([values, values]),
        "large": values.repeat(10_000, 1),
        "numbers": [1, 2.5, None, b"bytes"],
        "bool": values.bool(),
    }


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_every_kind_of_leaf_is_pinned_and_copied(workers: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"batch_size": 2, "collate_fn": structures, **workers}
    for batch in DataLoader(range(6), pin_memory=True, **arguments):  # type: ignore[arg-type]
        assert batch["pair"].values.is_pinned()
        assert batch["own"].values.is_pinned()
        assert batch["packed"].data.is_pinned()
        assert batch["numbers"] == [1, 2.5, None, b"bytes"]
    for number, batch in enumerate(DataLoader(range(6), device="cuda", **arguments)):  # type: ignore[arg-type]
        expected = [2.0 * number, 2.0 * number + 1]
        assert type(batch["pair"]) is Pair
        assert batch["pair"].values.is_cuda
        assert batch["pair"].values.tolist() == batch["own"].values.tolist() == expected
        assert isinstance(batch["packed"], PackedSequence)
        assert batch["packed"].data.is_cuda
        assert not batch["packed"].batch_sizes.is_cuda
        assert torch.equal(batch["large"].cpu(), torch.tensor(expected, dtype=torch.float64).repeat(10_000, 1))
        assert batch["bool"].tolist() == [value > 0 for value in expected]


def test_pixels_go_as_bytes_and_are_normalized_on_the_device() -> None:
    pixels = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8)
    mean = torch.tensor([0.4, 0.5, 0.6], device="cuda").reshape(3, 1, 1)

    def normalized(batch: Any) -> torch.Tensor:
        return (batch[0].float() / 255 - mean) / 0.25

    loader = DataLoader(TensorDataset(pixels), 8, num_workers=2, device="cuda", device_transform=normalized)
    assert torch.equal(torch.cat(list(loader)), normalized([pixels.cuda()]))


def test_a_graph_that_is_captured_refuses_a_batch_and_loses_none() -> None:
    iterator = iter(DataLoader(dataset_of("native"), 4, num_workers=2, device="cuda"))
    next(iterator)
    still = torch.zeros(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        still += 1
        with pytest.raises(RuntimeError, match="Get the batch before the capture"):
            next(iterator)
    graph.replay()
    assert still.tolist() == [1, 1, 1]
    assert len(list(iterator)) == 9


def test_the_memory_does_not_grow_from_epoch_to_epoch() -> None:
    loader = DataLoader(dataset_of("native", 80), 4, num_workers=2, device="cuda")
    reserved = []
    for _ in range(6):
        for batch in loader:
            batch[0].sum()
            torch.cuda.synchronize()
        reserved.append(torch.cuda.memory_reserved())
    # One epoch has 9.6 MB.
    assert reserved[-1] <= reserved[1] + (4 << 20)


def test_the_state_counts_delivered_batches() -> None:
    for kind in ("native", "python"):
        arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 7, "num_workers": 2, "device": "cuda"}
        loader = DataLoader(dataset_of(kind), **arguments)
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
        rest = [batch[1].tolist() for batch in iterator]
        again = DataLoader(dataset_of(kind), **arguments)
        again.load_state_dict(state)
        assert [batch[1].tolist() for batch in again] == rest


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_first_gpu_is_left_alone_when_another_is_named() -> None:
    program = """
import torch
from sluicegate import DataLoader, TensorDataset
dataset = TensorDataset(torch.zeros(40, 30_000))
for arguments in ({}, {"num_workers": 2}):
    for batch in DataLoader(dataset, 4, device="cuda:1", **arguments):
        assert batch[0].device == torch.device("cuda:1")
assert not torch._C._cuda_hasPrimaryContext(0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
