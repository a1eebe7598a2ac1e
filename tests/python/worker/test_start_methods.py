"""Every start method gives torch's results for the same arguments."""

from __future__ import annotations

import atexit
import functools
import gc
import multiprocessing
import os
import pickle
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing
import torch.utils.data

import sluicegate
from checks.endings import ended_workers, story
from checks.equality import assert_same, error_of
from checks.programs import Run
from doubles import faulty
from doubles.faulty import Nest, NestedDataset

pytestmark = [pytest.mark.filterwarnings("ignore:This DataLoader will create"), pytest.mark.timeout(45)]

CONTEXTS: dict[str, Any] = {
    "fork": "fork",
    "spawn": "spawn",
    "forkserver": "forkserver",
    "fork context": multiprocessing.get_context("fork"),
    "multiprocessing's forkserver context": multiprocessing.get_context("forkserver"),
    "torch's forkserver context": torch.multiprocessing.get_context("forkserver"),
}


CASES: dict[str, dict[str, Any]] = {
    "map": {
        "dataset": faulty.Draws(11),
        "batch_size": 3,
        "shuffle": True,
        "worker_init_fn": faulty.tagged,
    },
    "sets when unpickled": {"dataset": faulty.SetsWhenUnpickled(7), "batch_size": 3},
    "iterable": {
        "dataset": faulty.DrawsStream(11),
        "batch_size": 2,
        "collate_fn": faulty.sums,
        "worker_init_fn": faulty.tagged,
    },
}


def epoch(package: ModuleType, seed: int = 5, **arguments: Any) -> tuple[list[Any], list[Any]]:
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    loader = package.DataLoader(num_workers=2, generator=generator, **arguments)
    return list(loader), [torch.rand(1), torch.rand(1, generator=generator)]


@pytest.mark.parametrize(
    ("context", "case"),
    # A spawned worker has to import torch, so few cases use one; it receives the same data as one of a fork server.
    [(context, case) for context in CONTEXTS for case in CASES if case == "map" or context in ("fork", "forkserver")],
)
def test_the_batches_are_torchs(context: str, case: str) -> None:
    # Torch's batches and seeds do not depend on the start method; forking is the fastest.
    expected = epoch(torch.utils.data, multiprocessing_context="fork", **CASES[case])
    assert_same(epoch(sluicegate, multiprocessing_context=CONTEXTS[context], **CASES[case]), expected)


@pytest.mark.parametrize("case", CASES)
def test_torchs_batches_do_not_depend_on_the_start_method(case: str) -> None:
    expected = epoch(torch.utils.data, multiprocessing_context="fork", **CASES[case])
    assert_same(epoch(torch.utils.data, multiprocessing_context="forkserver", **CASES[case]), expected)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_persistent_workers_and_an_epoch_resumed_after_a_break(method: str) -> None:
    def read(package: ModuleType, method: str) -> list[Any]:
        torch.manual_seed(3)
        loader = package.DataLoader(
            faulty.Draws(8), 2, shuffle=True, num_workers=2, persistent_workers=True, multiprocessing_context=method
        )
        epochs: list[Any] = []
        iterator = iter(loader)
        epochs.append([next(iterator)])
        pids = [worker.pid for worker in iterator._workers]
        epochs.append(list(iterator))  # the rest of it
        epochs.append(list(loader))
        for batch in loader:
            epochs.append([batch])
            break
        # The random numbers of a persistent epoch that starts before the last one has ended depend on its progress.
        epochs.append([[batch[0], batch[1]] for batch in loader])
        assert [worker.pid for worker in loader._iterator._workers] == pids
        return epochs

    assert_same(read(sluicegate, method), read(torch.utils.data, "fork"))


def note_at_exit(folder: str, worker: int) -> None:
    """Write, at the end of the interpreter of this worker, if it still has to search everything for cycles."""
    note = Path(folder, str(worker))
    atexit.register(lambda: note.write_text("frozen" if gc.get_freeze_count() > 100_000 else "searched"))


@pytest.mark.parametrize(("method", "count"), [("spawn", 1), ("forkserver", 2)])
def test_workers_of_other_start_methods_are_processes_that_end(tmp_path: Path, method: str, count: int) -> None:
    at_start = functools.partial(note_at_exit, str(tmp_path))
    numbers = faulty.Numbers(40)
    iterator = iter(
        sluicegate.DataLoader(numbers, 2, num_workers=count, multiprocessing_context=method, worker_init_fn=at_start)
    )
    workers = list(iterator._workers)
    # One batch of each worker: a worker that is still importing may exceed the grace period.
    assert [int(next(iterator)[0, 0]) for _ in range(count)] == [0, 2][:count]
    assert all(worker.is_alive() and worker.pid for worker in workers)
    del iterator
    assert ended_workers(workers)
    assert [worker.exitcode for worker in workers] == [0] * count
    # Before Python 3.13, processes of a fork server end without the interpreter's end.
    noted = count if method == "spawn" or sys.version_info >= (3, 13) else 0
    assert [note.read_text() for note in tmp_path.iterdir()] == ["frozen"] * noted


def test_two_loaders_of_different_methods_are_read_in_turns() -> None:
    iterators = [
        iter(sluicegate.DataLoader(faulty.Numbers(6), num_workers=1, multiprocessing_context=method))
        for method in ("fork", "forkserver", "spawn")
    ]
    for index in range(6):
        assert [int(next(iterator)[0, 0]) for iterator in iterators] == [index] * 3


def unpicklable(kind: str) -> tuple[Any, str, str]:
    """Return a dataset, the path of the object in it that can't be pickled, and what the error must call that."""
    function = lambda x: x  # noqa: E731
    line = function.__code__.co_firstlineno

    def local(x: Any) -> Any:
        return x

    lock = __import__("threading").Lock()
    where = rf"lambda at \S*test_start_methods\.py:{line}"
    return {
        "an attribute": (NestedDataset(function), "dataset.transform", where),
        "in a list": (
            NestedDataset(Nest(transforms=[Nest(fn=1), Nest(fn=abs), Nest(fn=function)])),
            "dataset.transform.transforms[2].fn",
            where,
        ),
        "in a dict": (NestedDataset({"train": (1, function)}), "dataset.transform['train'][1]", where),
        "a local function": (NestedDataset(Nest(fn=local)), "dataset.transform.fn", "local"),
        "a lock": (NestedDataset(Nest(lock=lock)), "dataset.transform.lock", "lock"),
        "a file": (NestedDataset(Nest(file=__import__("sys").stdout)), "dataset.transform.file", "file|TextIO|IO"),
        "in a subset": (
            torch.utils.data.Subset(NestedDataset(Nest(fn=function)), [0, 1]),
            "dataset.dataset.transform.fn",
            where,
        ),
    }[kind]


UNPICKLABLE = ["an attribute", "in a list", "in a dict", "a local function", "a lock", "a file", "in a subset"]


def loader_error(package: ModuleType, method: str, **arguments: Any) -> Exception:
    def read() -> None:
        loader = package.DataLoader(num_workers=1, multiprocessing_context=method, **arguments)
        list(loader)

    return error_of(read)


@pytest.mark.parametrize("kind", UNPICKLABLE)
def test_an_unpicklable_dataset_fails_by_torchs_type(data: ModuleType, kind: str) -> None:
    dataset, _, _ = unpicklable(kind)
    error = loader_error(data, "spawn", dataset=dataset)
    assert isinstance(error, pickle.PicklingError | AttributeError | TypeError)


@pytest.mark.parametrize("kind", UNPICKLABLE)
def test_the_error_names_the_path_to_an_unpicklable_object(kind: str) -> None:
    dataset, path, name = unpicklable(kind)
    expected = loader_error(torch.utils.data, "spawn", dataset=dataset)
    error = loader_error(sluicegate, "spawn", dataset=dataset)
    assert type(error) is type(expected)
    said = story(error)
    assert path in said.replace('"', "'")
    assert re.search(name, said)
    # The remedy.
    assert re.search(r"module|top level|__getstate__|fork", said)


@pytest.mark.parametrize("argument", ["collate_fn", "worker_init_fn"])
def test_the_error_names_an_argument_that_does_not_pickle(argument: str) -> None:
    arguments: dict[str, Any] = {"dataset": faulty.Numbers(4), argument: lambda given: None}
    line = arguments[argument].__code__.co_firstlineno
    error = loader_error(sluicegate, "spawn", **arguments)
    assert type(error) is type(loader_error(torch.utils.data, "spawn", **arguments))
    assert argument in story(error)
    assert f"test_start_methods.py:{line}" in story(error)


def test_a_failed_start_leaves_nothing_and_the_loader_can_be_mended(data: ModuleType) -> None:
    dataset, _, _ = unpicklable("an attribute")
    loader = data.DataLoader(dataset, num_workers=2, multiprocessing_context="forkserver")
    error_of(lambda: list(loader))
    assert not [child for child in multiprocessing.active_children() if child.is_alive()]
    dataset.transform = None
    assert [int(batch[0, 0]) for batch in loader] == [0, 1, 2, 3]


def test_forked_workers_accept_unpicklable_objects(data: ModuleType) -> None:
    for kind in UNPICKLABLE[:-1]:
        dataset, _, _ = unpicklable(kind)
        assert len(list(data.DataLoader(dataset, num_workers=1, multiprocessing_context="fork"))) == 4


def leave_early(worker: int) -> None:
    if worker == 1:
        os._exit(3)


def test_a_process_that_has_ended_before_it_is_watched_is_a_death(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork server collects its processes, so that nothing has their number anymore."""
    pidfd_open = os.pidfd_open

    def open_late(pid: int) -> int:
        started = [child for child in multiprocessing.active_children() if child.name not in before]
        if len(started) == 2 and pid == max(started, key=lambda child: child._identity).pid:
            deadline = time.monotonic() + 30
            while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        return pidfd_open(pid)

    before = {child.name for child in multiprocessing.active_children()}
    monkeypatch.setattr(os, "pidfd_open", open_late)
    loader = sluicegate.DataLoader(
        list(range(4)), num_workers=2, multiprocessing_context="forkserver", worker_init_fn=leave_early
    )
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"):
        iter(loader)
    assert {child.name for child in multiprocessing.active_children()} == before


class Arrays:
    """Arrays that torch's loader makes native and writable in a worker that is not forked."""

    def __init__(self) -> None:
        self.big, self.fixed = np.arange(6, dtype=">f4"), np.arange(6.0)
        self.fixed.setflags(write=False)

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        self.fixed[index] += 1.0
        return torch.from_numpy(self.big)[index], torch.from_numpy(self.fixed)[index]


@pytest.mark.parametrize("package", [torch.utils.data, sluicegate])
def test_arrays_are_native_and_writable_in_a_worker(package: Any) -> None:
    loader = package.DataLoader(Arrays(), batch_size=6, num_workers=1, multiprocessing_context="forkserver")
    ((big, fixed),) = loader
    assert big.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert fixed.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


class Log:
    """Its file is open until it is destroyed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        if index == 0:
            self.file = self.path.open("w")
        self.file.write(f"{index}\n")
        return index


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_dataset_is_destroyed_when_its_worker_ends(data: ModuleType, tmp_path: Path, method: str) -> None:
    path = tmp_path / "log"
    assert len(list(data.DataLoader(Log(path), num_workers=1, multiprocessing_context=method))) == 2
    deadline = time.monotonic() + 20
    while path.read_text() != "0\n1\n" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.read_text() == "0\n1\n"


def test_contexts_of_other_packages_pickle_the_dataset(data: ModuleType) -> None:
    loky = pytest.importorskip("joblib.externals.loky.backend")
    loader = data.DataLoader(
        range(4), 2, num_workers=1, collate_fn=lambda samples: samples, multiprocessing_context=loky.get_context("loky")
    )
    assert list(loader) == [[0, 1], [2, 3]]


def test_other_processes_of_the_fork_server_can_be_interrupted(run: Run) -> None:
    ended = run("""
        import multiprocessing
        context = multiprocessing.get_context("forkserver")
        lock = context.Lock()  # Otherwise starting the server starts the resource tracker, which unblocks interrupts.
        print(len(list(data.DataLoader(range(4), num_workers=1, multiprocessing_context="forkserver"))))
        process = context.Process(target=signal.pause)
        process.start()
        for _ in range(100):  # An interrupt that comes too early ends it as well.
            os.kill(process.pid, signal.SIGINT)
            process.join(0.2)
            if process.exitcode is not None:
                break
        print(process.exitcode)
        process.kill()
    """)
    assert ended.stdout.splitlines() == ["4", "1"], ended.stderr
    ended.check(stderr=None)
