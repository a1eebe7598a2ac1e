"""Batches in pinned memory and on a simulated device, whose copies finish late, on machines without a real one."""

from __future__ import annotations

import dataclasses
import functools
import gc
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from checks.equality import assert_same
from doubles.datasets import Rows
from doubles.stand_in_device import StandInDevice, StandInMemory, use_device, use_pinned_memory
from sluicegate import DataLoader, NpyDataset, TensorDataset, _torch
from sluicegate.device import accelerator
from sluicegate.device.containers import hides_tensors, moved, tensors_of
from sluicegate.device.copies import DeviceCopies

pytestmark = [pytest.mark.slots, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

WORKERS: list[dict[str, Any]] = [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "worker_type": "thread"},
    {"num_workers": 2, "in_order": False},
    {"num_workers": 1, "persistent_workers": True, "prefetch_factor": 4},
]


class Mixed(torch.utils.data.Dataset[dict[str, Any]]):
    """Samples of large and small tensors, an array, a number, and a text."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "image": torch.full((3, 40, 40), float(index)),
            "mask": np.full((4, 4), index, np.int16),
            "pair": (index, torch.tensor([index], dtype=torch.complex64)),
            "name": f"sample {index}",
        }


class Stream(torch.utils.data.IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (torch.full((500,), index) for index in range(first, 40, step))


def dataset_of(kind: str, folder: Path) -> Any:
    if kind == "native":
        generator = torch.Generator().manual_seed(3)
        return TensorDataset(torch.rand(60, 50, 20, generator=generator), torch.arange(60))
    if kind == "npy":
        np.save(folder / "rows.npy", np.arange(60 * 1000, dtype=np.float32).reshape(60, 1000))
        return NpyDataset(folder / "rows.npy")
    return {"python": Mixed(), "stream": Stream()}[kind]


def ordered(batches: list[Any], workers: dict[str, Any]) -> list[Any]:
    """Return copies of the batches, sorted if workers return them in any order."""
    batches = [moved(batch, torch.clone, lambda each: each) for batch in batches]
    return batches if workers.get("in_order", True) else sorted(batches, key=str)


@functools.cache
def batches_of_torch(kind: str, num_workers: int) -> list[Any]:
    """Return the batches of torch's loader, which depend on the number of workers only for a stream."""
    with tempfile.TemporaryDirectory() as folder:
        dataset = dataset_of(kind, Path(folder))
        return list(torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=num_workers))


@pytest.fixture(params=["native", "npy", "python", "stream"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def dataset(kind: str, tmp_path: Path) -> Any:
    return dataset_of(kind, tmp_path)


@pytest.fixture
def expected(kind: str, workers: dict[str, Any]) -> list[Any]:
    return batches_of_torch(kind, workers.get("num_workers", 0) if kind == "stream" else 0)


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_arrive_on_the_device_as_torch_makes_them(
    monkeypatch: pytest.MonkeyPatch, dataset: Any, workers: dict[str, Any], expected: list[Any]
) -> None:
    device = StandInDevice(StandInMemory())
    use_device(monkeypatch, device)
    loader = DataLoader(dataset, batch_size=4, device="cuda", **workers)
    for _ in range(2):
        assert_same(ordered(list(loader), workers), ordered(expected, workers))
    assert device.copied() > 0
    assert len(device.memory.blocks) < device.memory.given, "blocks are used again"


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_are_made_in_pinned_memory(
    monkeypatch: pytest.MonkeyPatch, dataset: Any, workers: dict[str, Any], expected: list[Any]
) -> None:
    memory = StandInMemory()
    use_pinned_memory(monkeypatch, memory)
    elsewhere: list[torch.Tensor] = []

    def pin(batch: Any, _: str) -> Any:
        elsewhere.extend(tensor for tensor in tensors_of(batch) if memory.block_of(tensor) is None)
        return batch

    monkeypatch.setattr(_torch, "pin_memory", pin)
    batches = list(DataLoader(dataset, batch_size=4, pin_memory=True, **workers))
    assert_same(ordered(batches, workers), ordered(expected, workers))
    # Torch pins batches that its own functions collate: tensors of less than 16 KiB, in the training process.
    processes = workers.get("num_workers", 0) > 0 and "worker_type" not in workers
    small = 16 << 10 if isinstance(dataset, (Mixed, Stream)) and not processes else 0
    assert not [tensor for tensor in elsewhere if tensor.numel() * tensor.element_size() // 4 >= small]


def test_late_copies_are_protected_by_the_pinned_allocator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = torch.arange(300.0).reshape(300, 1).expand(300, 6000).contiguous()
    wrong = []
    for waits in (True, False):
        memory = StandInMemory(waits_for_copies=waits)
        device = StandInDevice(memory)
        use_pinned_memory(monkeypatch, memory)
        monkeypatch.setattr(_torch, "pin_memory", lambda batch, _: batch)
        there = []
        for batch in DataLoader(TensorDataset(rows), batch_size=1, num_workers=2, pin_memory=True):
            there.append(device.copy(batch[0]))  # `batch` is dropped, as with `non_blocking=True`.
            del batch
            if len(there) % 50 == 0:  # Reuses some blocks, however fast batches arrive.
                device.hand_over(device.copied(), there)
        device.hand_over(device.copied(), there)
        wrong.append(sum(bool((row != place).any()) for place, row in enumerate(there)))
        assert len(memory.blocks) < 300
    assert wrong[0] == 0
    assert wrong[1] > 0


def test_the_state_counts_delivered_batches_and_not_copied_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, StandInDevice(StandInMemory()))
    for dataset in (TensorDataset(torch.arange(40)), Rows(40)):
        arguments: dict[str, Any] = {"batch_size": 2, "shuffle": True, "num_workers": 2, "device": "cuda"}
        loader = DataLoader(dataset, device_prefetch=3, **arguments)
        torch.manual_seed(5)
        iterator = loader.with_ids()
        received = [next(iterator) for _ in range(7)]
        state = loader.state_dict()
        rest = list(iterator)
        assert [ids.batch_index for _, ids in received + rest] == list(range(20))
        again = DataLoader(dataset, **arguments)
        again.load_state_dict(state)
        assert_same(ordered([batch for batch, _ in again.with_ids()], {}), ordered([batch for batch, _ in rest], {}))


def test_no_more_batches_are_drawn_ahead_for_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, StandInDevice(StandInMemory()))

    class Counting(torch.utils.data.SequentialSampler):
        asked = 0

        def __iter__(self) -> Iterator[int]:
            for index in super().__iter__():
                self.asked += 1
                yield index

    for dataset in (TensorDataset(torch.arange(64)), Rows(64)):
        asked: list[list[int]] = []
        for device in (None, "cuda"):
            sampler = Counting(range(64))
            loader = DataLoader(dataset, 2, sampler=sampler, num_workers=2, device=device)
            asked.append([sampler.asked for _ in loader])
        assert asked[0] == asked[1]


def test_the_transform_runs_there_and_its_error_is_its_batchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def halves(batch: list[torch.Tensor]) -> torch.Tensor:
        (rows,) = batch
        device.hand_over(device.copied(), [])  # On a stream, this would run after the copies.
        if rows[0] == 6:
            raise ValueError("no six")
        return rows / 2

    device = StandInDevice(StandInMemory())
    use_device(monkeypatch, device)
    loader = DataLoader(TensorDataset(torch.arange(12.0)), 3, num_workers=1, device="cuda", device_transform=halves)
    iterator = iter(loader)
    assert [next(iterator).tolist() for _ in range(2)] == [[0, 0.5, 1], [1.5, 2, 2.5]]
    with pytest.raises(ValueError, match="no six"):
        next(iterator)
    assert [batch.tolist() for batch in iterator] == [[4.5, 5, 5.5]]


def test_an_error_of_a_sample_comes_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Rows):
        def __getitem__(self, index: int) -> Any:
            if index == 5:
                raise KeyError("sample 5")
            return super().__getitem__(index)

    use_device(monkeypatch, StandInDevice(StandInMemory()))
    for worker_type in ("process", "thread"):
        iterator = iter(DataLoader(Broken(8), 1, num_workers=2, worker_type=worker_type, device="cuda"))
        received = []
        for _ in range(8):
            try:
                received.append(int(next(iterator)[1]))
            except KeyError:
                received.append(-1)
        assert received == [0, 1, 2, 3, 4, -1, 6, 7]


def test_a_graph_that_is_captured_refuses_a_batch_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    device = StandInDevice(StandInMemory())
    use_device(monkeypatch, device)
    for dataset in (TensorDataset(torch.arange(6)), Rows(6)):
        for workers in ({}, {"num_workers": 1}):
            iterator = iter(DataLoader(dataset, 2, device="cuda", **workers))
            first = next(iterator)
            device.is_capturing_now = True
            with pytest.raises(RuntimeError, match="Get the batch before the capture"):
                next(iterator)
            device.is_capturing_now = False
            assert_same(ordered([first, *iterator], {}), list(torch.utils.data.DataLoader(dataset, 2)))


def test_prefetch_bytes_includes_batches_ahead_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, StandInDevice(StandInMemory()))
    size = 4 * 4096
    for dataset in (TensorDataset(torch.zeros(40, 4096)), Rows(40)):
        loader = DataLoader(dataset, 1, num_workers=2, prefetch_factor=8, prefetch_bytes=3 * size, device="cuda")
        for _ in loader:
            assert loader.stats().bytes_ahead <= 3 * size


class Pair(NamedTuple):
    first: torch.Tensor
    second: str


@dataclasses.dataclass
class Record:
    values: torch.Tensor
    number: int


class Poisoned:
    """A batch of one number; the batch of number 3 can't be unpickled."""

    def __init__(self, numbers: list[int]) -> None:
        (self.number,) = numbers

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["number"] == 3:
            raise ValueError("it does not want to be read")
        self.__dict__ |= state


class Own:
    """A batch with its own `to` method."""

    def __init__(self, values: torch.Tensor, place: str = "host") -> None:
        self.values, self.place = values, place

    def to(self, device: Any) -> Own:
        return Own(self.values, str(device))


def test_batches_of_every_structure_are_moved() -> None:
    device = StandInDevice(StandInMemory())
    copies = DeviceCopies(device, None)  # type: ignore[arg-type]
    values = torch.arange(6.0)
    batch = {
        "pair": Pair(values, "text"),
        "record": Record(values.double(), 3),
        "list": [values.bool(), (values.half(), None)],
        "large": torch.rand(100, 100),
        "channels last": torch.rand(2, 3, 64, 64).to(memory_format=torch.channels_last),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(5),
        "strided": torch.rand(100, 100)[:, ::2],
    }
    there = copies.begin(batch).finish()
    assert_same(*([moved(each | {"record": None}, torch.clone, lambda each: each)] for each in (there, batch)))
    assert there["channels last"].is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(there["record"].values, values.double())
    assert there["record"].number == 3
    before = {tensor.data_ptr() for tensor in tensors_of(batch)}
    assert not before & {tensor.data_ptr() for tensor in tensors_of(there) if tensor.numel()}
    small = [there["pair"].first, there["list"][0], there["scalar"]]
    assert len({tensor.untyped_storage().data_ptr() for tensor in small}) == 1, "small ones are copied together"
    assert device.copied() == 4


class Limits(Mapping[str, int]):
    """Cannot be made from its items."""

    def __init__(self, *, low: int, high: int) -> None:
        self._limits = {"low": low, "high": high}

    def __getitem__(self, name: str) -> int:
        return self._limits[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._limits)

    def __len__(self) -> int:
        return len(self._limits)


@pytest.mark.parametrize("batch", [Limits(low=1, high=2), range(3), MappingProxyType({"x": [range(2)]})])
def test_containers_that_cannot_be_made_from_their_items_become_those_of_torch(batch: Any) -> None:
    found = moved(batch, torch.clone, lambda each: each)
    assert_same(found, torch.utils.data._utils.pin_memory.pin_memory(batch))


def test_objects_move_themselves_and_the_device_is_careful_with_their_memory() -> None:
    device = StandInDevice(StandInMemory())
    copies = DeviceCopies(device, None)  # type: ignore[arg-type]
    for _ in range(3):
        assert copies.begin([Own(torch.zeros(3))]).finish()[0].place == "cpu"
    assert device.waits_for_consumer == 3
    # Its memory may be in use when a later batch is copied, even one of a different loader.
    DeviceCopies(device, None).begin([torch.zeros(3)]).finish()  # type: ignore[arg-type]
    copies.begin([torch.zeros(3)]).finish()
    assert device.waits_for_consumer == 5
    assert hides_tensors({"sparse": torch.eye(3).to_sparse()})
    device = StandInDevice(StandInMemory())
    copies = DeviceCopies(device, None)  # type: ignore[arg-type]
    for _ in range(3):
        copies.begin([torch.zeros(3)]).finish()
    assert device.waits_for_consumer == 1, "without such objects for what was made before the first batch"


def test_keeping_a_small_tensor_of_a_batch_frees_the_large_ones() -> None:
    copies = DeviceCopies(StandInDevice(StandInMemory()), None)  # type: ignore[arg-type]
    _, labels = copies.begin([torch.zeros(100, 100), torch.arange(10)]).finish()
    assert labels.untyped_storage().nbytes() == 128


def test_a_batch_that_can_not_be_unpickled_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    use_device(monkeypatch, StandInDevice(StandInMemory()))
    iterator = iter(DataLoader(range(6), 1, num_workers=1, prefetch_factor=6, collate_fn=Poisoned, device="cuda"))
    received = []
    for _ in range(6):
        time.sleep(0.05)
        try:
            received.append(next(iterator).number)
        except ValueError:
            received.append(-1)
    assert received == [0, 1, 2, -1, 4, 5]


def test_packed_sequences_move_by_their_own_method() -> None:
    packed = pack_sequence([torch.zeros(3), torch.zeros(2)])
    asked: list[Any] = []
    moved({"packed": packed}, lambda tensor: tensor, asked.append)
    assert len(asked) == 1
    assert isinstance(asked[0], PackedSequence)


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), "auto"])
@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}])
def test_device_cpu_only_applies_the_transform(device: Any, workers: dict[str, Any]) -> None:
    if device == "auto" and torch.accelerator.is_available():
        pytest.skip("there is an accelerator")
    dataset = TensorDataset(torch.arange(8))
    plain = DataLoader(dataset, 2, device=device, **workers)
    assert_same(list(plain), list(torch.utils.data.DataLoader(dataset, 2)))
    doubled = DataLoader(dataset, 2, device=device, device_transform=lambda batch: 2 * batch[0], **workers)
    assert [batch.tolist() for batch in doubled] == [[0, 2], [4, 6], [8, 10], [12, 14]]


def test_a_device_without_streams_gets_batches_in_their_turn() -> None:
    (batch,) = DataLoader(TensorDataset(torch.arange(3)), 3, device="meta", num_workers=1)
    assert batch[0].device.type == "meta"


def test_arguments_that_make_no_sense_are_refused() -> None:
    dataset = TensorDataset(torch.arange(3))
    with pytest.raises(TypeError, match="device option should be a torch"):
        DataLoader(dataset, device=3.5)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="device"):
        DataLoader(dataset, device="no device")
    with pytest.raises(ValueError, match="device_prefetch option should be a non-negative integer"):
        DataLoader(dataset, device="cpu", device_prefetch=-1)
    with pytest.raises(ValueError, match="pass device= too"):
        DataLoader(dataset, device_transform=lambda batch: batch)
    with pytest.raises(TypeError, match="should be a function"):
        DataLoader(dataset, device="cpu", device_transform=3)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named_in_iter() -> None:
    loader = DataLoader(TensorDataset(torch.arange(3)), device="cuda:1")
    with pytest.raises(RuntimeError, match=r"device='cuda:1'.*finds 0 devices.*device='auto'"):
        iter(loader)


@pytest.mark.parametrize("workers", WORKERS)
def test_an_iterator_dropped_half_way_keeps_no_pinned_block(
    monkeypatch: pytest.MonkeyPatch, dataset: Any, workers: dict[str, Any]
) -> None:
    memory = StandInMemory()
    use_device(monkeypatch, StandInDevice(memory))
    loader = DataLoader(dataset, batch_size=2, device="cuda", **workers)
    iterator = iter(loader)
    kept = [next(iterator) for _ in range(3)]
    del iterator, loader
    deadline = time.monotonic() + 20
    # Threads in the middle of a read end on their own, and release their batches at any time.
    while len(memory.free) < len(memory.blocks) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert len(memory.free) == len(memory.blocks)
    assert_same(ordered(kept, {}), [moved(each, torch.clone, lambda each: each) for each in kept])


def test_only_a_device_with_streams_and_events_has_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ("Stream", "Event", "stream", "current_stream", "device", "current_device")
    module = SimpleNamespace(**dict.fromkeys(needs))
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    monkeypatch.setattr(accelerator, "Accelerator", lambda device: device)
    device = torch.device("cuda", 1)
    assert accelerator.accelerator_of(device) == device
    for name in needs:
        monkeypatch.delattr(module, name)
        assert accelerator.accelerator_of(device) is None
        monkeypatch.setattr(module, name, None, raising=False)
