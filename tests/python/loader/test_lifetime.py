"""Batches belong to their holder: writable, never shared, and valid while they are held."""

from __future__ import annotations

import gc
import io
import pickle
import threading
import weakref
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

from checks.equality import assert_same, bits
from checks.programs import Run

pytestmark = pytest.mark.slots

NUM_WORKERS = pytest.mark.parametrize("num_workers", [0, 1])


def source(size: int = 40, width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(size * width, dtype=torch.float32).view(size, width), torch.arange(size)


@NUM_WORKERS
@pytest.mark.parametrize("kind", ["tensors", "tensor", "array", "scalars"])
def test_writing_to_a_batch_changes_only_that_batch(data: ModuleType, kind: str, num_workers: int) -> None:
    rows, labels = source()
    dataset: Any = {
        "tensors": data.TensorDataset(rows, labels),
        "tensor": rows,
        "array": rows.numpy(),
        "scalars": labels.numpy(),
    }[kind]
    before = [bits(rows), bits(labels)]
    loader = data.DataLoader(dataset, batch_size=7, num_workers=num_workers)
    expected = list(loader)
    untouched = list(loader)
    for position, batch in enumerate(loader):
        for part in batch if isinstance(batch, list) else [batch]:
            part.fill_(-1)
        assert_same(untouched[position], expected[position])
    assert_same(untouched, expected)
    assert [bits(rows), bits(labels)] == before
    assert_same(list(loader), expected)


@NUM_WORKERS
def test_kept_batches_stay_valid_over_more_epochs(data: ModuleType, num_workers: int) -> None:
    rows, labels = source()
    loader = data.DataLoader(data.TensorDataset(rows, labels), batch_size=3, num_workers=num_workers)
    kept = list(loader)
    copies = [[part.clone() for part in batch] for batch in kept]
    kept_too = [list(loader) for _ in range(3)]
    for batch in loader:
        batch[0].fill_(float("nan"))
    for epoch in (kept, *kept_too):
        assert_same(epoch, copies)
    starts = [part.data_ptr() for epoch in (kept, *kept_too) for batch in epoch for part in batch]
    assert len(set(starts)) == len(starts)


@NUM_WORKERS
def test_a_kept_slice_keeps_its_batch(data: ModuleType, num_workers: int) -> None:
    rows, labels = source()
    loader = data.DataLoader(data.TensorDataset(rows, labels), batch_size=4, num_workers=num_workers)
    slices = [batch[0][1:2, 3] for batch in loader]
    for _ in range(3):
        for batch in loader:
            batch[0].zero_()
    gc.collect()
    assert_same(
        [part.clone() for part in slices], [rows[start + 1 : start + 2, 3].clone() for start in range(0, 40, 4)]
    )


@NUM_WORKERS
def test_views_outlive_the_loader_and_its_dataset(data: ModuleType, num_workers: int) -> None:
    rows, labels = source()
    expected = rows[:4].clone()
    loader = data.DataLoader(data.TensorDataset(rows, labels), batch_size=4, num_workers=num_workers)
    iterator = iter(loader)
    batch = next(iterator)
    array, view = batch[0].numpy(), batch[0].view(-1)[::2]
    del loader, iterator, batch, rows, labels
    gc.collect()
    assert_same(torch.from_numpy(array.copy()), expected)
    assert_same(view.clone(), expected.view(-1)[::2].clone())


@NUM_WORKERS
def test_batches_may_be_dropped_on_other_threads(data: ModuleType, num_workers: int) -> None:
    rows, labels = source(400)
    loader = data.DataLoader(data.TensorDataset(rows, labels), batch_size=4, num_workers=num_workers)
    for _ in range(3):
        handed: list[Any] = []
        sums: list[float] = []
        ready = threading.Semaphore(0)

        def consume(handed: list[Any] = handed, sums: list[float] = sums, ready: Any = ready) -> None:
            for _ in range(100):
                ready.acquire()
                batch = handed.pop(0)
                sums.append(batch[1].sum().item())
                del batch

        consumer = threading.Thread(target=consume)
        consumer.start()
        for batch in loader:
            handed.append(batch)
            del batch
            ready.release()
        consumer.join(60)
        assert sums == [labels[start : start + 4].sum().item() for start in range(0, 400, 4)]


def test_loaders_on_several_threads_do_not_disturb_each_other(data: ModuleType) -> None:
    rows, labels = source(200)
    dataset = data.TensorDataset(rows, labels)
    expected = list(data.DataLoader(dataset, batch_size=16))
    found: dict[int, list[Any]] = {}

    def read(number: int) -> None:
        loader = data.DataLoader(dataset, batch_size=16)
        for _ in range(5):
            found[number] = list(loader)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(4):
        assert_same(found[number], expected)


@NUM_WORKERS
def test_a_batch_pickles_and_saves_by_value_and_without_its_neighbors(data: ModuleType, num_workers: int) -> None:
    rows, labels = source()
    loader = data.DataLoader(data.TensorDataset(rows, labels), batch_size=4, num_workers=num_workers)
    batch = next(iter(loader))
    expected = [rows[:4].clone(), labels[:4].clone()]
    file, reference = io.BytesIO(), io.BytesIO()
    torch.save(batch, file)
    torch.save(expected, reference)
    assert len(file.getvalue()) == len(reference.getvalue())
    file.seek(0)
    assert_same(torch.load(file), expected)
    assert_same(pickle.loads(pickle.dumps(batch)), expected)
    for part in batch:
        assert part.untyped_storage().nbytes() == part.numel() * part.element_size()


def test_a_batch_behaves_as_any_tensor(data: ModuleType) -> None:
    rows, labels = source()
    batch, _ = next(iter(data.DataLoader(data.TensorDataset(rows, labels), batch_size=4)))
    batch.requires_grad_()
    (batch * 2).sum().backward()
    assert_same(batch.grad, torch.full((4, 8), 2.0))
    plain = next(iter(data.DataLoader(rows, batch_size=4)))
    plain.resize_(2, 8)
    plain.share_memory_()
    assert torch.equal(plain, rows[:2])
    assert weakref.ref(plain)() is plain
    assert numpy.shares_memory(plain.numpy(), plain.numpy())


def test_an_epoch_of_dropped_batches_does_not_grow_memory(data: ModuleType) -> None:
    rows = torch.zeros(64, 125_000)  # 32 MB; if it were never freed, ten epochs would take ten times that
    loader = data.DataLoader(data.TensorDataset(rows), batch_size=4)

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for _ in loader:
        pass
    before = resident()
    for _ in range(10):
        for _ in loader:
            pass
    assert resident() - before < 48 * 1024 * 1024


EXITS = {
    "live batches": "kept = list(loader)",
    "half-read iterator": "iterator = iter(loader); batch = next(iterator)",
    "untouched iterator": "iterator = iter(loader)",
    "batch in a thread": (
        "import threading, time; batch = next(iter(loader))\n"
        "threading.Thread(target=lambda b: time.sleep(30), args=(batch,), daemon=True).start(); del batch"
    ),
    "batch in a cycle": "cycle = [next(iter(loader))]; cycle.append(cycle)",
    "batch in a module": "import torch; torch.kept = list(loader); torch.kept_iterator = iter(loader)",
}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_interpreter_exits_quietly_with_live_loaders_and_batches(
    run: Run, data: ModuleType, num_workers: int
) -> None:
    # One process for all cases.
    lines = [
        "warnings.simplefilter('error')",
        "dataset = data.TensorDataset(torch.zeros(40, 8), torch.arange(40))",
    ]
    for number, statement in enumerate(EXITS.values()):
        lines.append(f"loader = data.DataLoader(dataset, batch_size=4, num_workers={num_workers}, shuffle=True)")
        lines += statement.splitlines()
        lines.append(f"held_{number} = (loader, globals().get('kept'), globals().get('iterator'))")
    run("\n".join(lines), data.__name__.partition(".")[0], is_finalized=True).check()
