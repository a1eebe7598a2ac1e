"""Worker processes: their information, what they inherit, and how their errors and deaths are reported."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import signal
import threading
import time
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate
from checks.equality import assert_same, error_of, outcome_of
from checks.programs import Run
from doubles.datasets import Failing, Growing, Rows, WorkerProbe, broken_init

pytestmark = [pytest.mark.slots, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

PERSISTENT = pytest.mark.parametrize("persistent_workers", [False, True])
needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="inherits by fork")


class InfoProbe:
    """Returns the result of get_worker_info while a sample is read."""

    tag = "main"

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        info = torch.utils.data.get_worker_info()
        if info is None:
            return (index, None)
        try:
            info.id = 7
            frozen = False
        except (AttributeError, TypeError, RuntimeError):
            frozen = True
        same_seed = info.seed == torch.initial_seed()
        names = [name for name in ("id=", "num_workers=", "seed=", "dataset=") if name in repr(info)]
        return (index, info.id, info.num_workers, same_seed, info.dataset is self, frozen, len(names), self.tag)

    def __len__(self) -> int:
        return 4


def test_there_is_no_worker_info_in_the_main_process(data: ModuleType) -> None:
    assert data.get_worker_info() is None
    assert list(data.DataLoader(InfoProbe(), batch_size=None)) == [[index, None] for index in range(4)]
    list(data.DataLoader(InfoProbe(), batch_size=None, num_workers=1))
    assert data.get_worker_info() is None
    assert torch.utils.data.get_worker_info() is None


def test_torchs_own_function_answers_in_a_worker(data: ModuleType) -> None:
    samples = list(data.DataLoader(InfoProbe(), batch_size=None, num_workers=2))
    assert samples == [[index, index % 2, 2, True, True, True, 4, "main"] for index in range(4)]


@needs_fork
def test_worker_init_fn_changes_the_workers_copy_only(data: ModuleType) -> None:
    dataset = InfoProbe()
    seen: list[int] = []

    def tag(worker_id: int) -> None:
        info = data.get_worker_info()
        assert info is not None
        assert info.id == worker_id
        assert info.seed == torch.initial_seed()
        info.dataset.tag = f"worker {worker_id}"
        seen.append(worker_id)

    for init in (tag, lambda worker_id: tag(worker_id)):
        loader = data.DataLoader(
            dataset, batch_size=None, num_workers=2, worker_init_fn=init, multiprocessing_context="fork"
        )
        assert [sample[-1] for sample in loader] == ["worker 0", "worker 1"] * 2
    assert (dataset.tag, seen) == ("main", [])


def test_worker_init_fn_never_runs_without_workers(data: ModuleType) -> None:
    assert len(list(data.DataLoader([1, 2], worker_init_fn=broken_init))) == 2


@needs_fork
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_an_affinity_set_in_worker_init_fn_stays(data: ModuleType) -> None:
    chosen = max(os.sched_getaffinity(0))

    class Affinity:
        def __getitem__(self, index: int) -> list[int]:
            return sorted(os.sched_getaffinity(0))

        def __len__(self) -> int:
            return 2

    def pin(worker_id: int) -> None:
        os.sched_setaffinity(0, {chosen})

    loader = data.DataLoader(
        Affinity(), batch_size=None, num_workers=1, worker_init_fn=pin, multiprocessing_context="fork"
    )
    assert list(loader) == [[chosen], [chosen]]


class Rendezvous:
    """Every sample waits until all workers have arrived."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.size = size
        self.arrived, self.gate = context.Value("i", 0), context.Semaphore(0)

    def __getitem__(self, index: int) -> int:
        with self.arrived.get_lock():
            self.arrived.value += 1
            if self.arrived.value == self.size:
                for _ in range(self.size):
                    self.gate.release()
        assert self.gate.acquire(timeout=60)
        return index

    def __len__(self) -> int:
        return self.size


@needs_fork
def test_multiprocessing_primitives_reach_workers_that_really_run_at_once(data: ModuleType) -> None:
    loader = data.DataLoader(Rendezvous(3), batch_size=None, num_workers=3, multiprocessing_context="fork")
    assert list(loader) == list(range(3))


def test_two_live_loaders_are_read_in_turns_and_dropped_half_way(data: ModuleType) -> None:
    first = iter(data.DataLoader(Rows(20), batch_size=2, num_workers=1))
    second = iter(data.DataLoader(Rows(20), batch_size=2, num_workers=2))
    for number in range(3):
        for iterator in (first, second):
            assert next(iterator)[1].tolist() == [2 * number, 2 * number + 1]
    workers = [*first._workers, *second._workers]
    del first, second, iterator
    gc.collect()
    for worker in workers:
        worker.join(20)
    assert not any(worker.is_alive() for worker in workers)


def test_torchs_own_loader_works_afterwards(data: ModuleType) -> None:
    batches = list(data.DataLoader(Rows(6), batch_size=2, num_workers=1))
    assert_same(list(torch.utils.data.DataLoader(Rows(6), batch_size=2, num_workers=1)), batches)


def test_forking_after_threaded_work_does_not_break_the_worker(data: ModuleType) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        torch.nn.functional.conv2d(torch.randn(1, 3, 32, 32), torch.randn(4, 3, 3, 3))
        list(data.DataLoader(data.TensorDataset(torch.randn(64, 64)), batch_size=8, num_workers=1))
        assert len(list(data.DataLoader(Rows(4), batch_size=2, num_workers=1))) == 2
    finally:
        torch.set_num_threads(threads)


def test_workers_are_process_objects_that_end_with_exit_code_zero(data: ModuleType) -> None:
    iterator = iter(data.DataLoader(Rows(6), batch_size=2, num_workers=2))
    workers = list(iterator._workers)
    assert len({worker.pid for worker in workers}) == 2
    assert all(worker.is_alive() and callable(worker.terminate) for worker in workers)
    assert len(list(iterator)) == 3
    del iterator
    for worker in workers:
        worker.join(20)
    assert [worker.exitcode for worker in workers] == [0, 0]


@PERSISTENT
def test_the_dataset_is_copied_when_iteration_starts(data: ModuleType, persistent_workers: bool) -> None:
    dataset = Growing(4)
    loader = data.DataLoader(
        dataset, batch_size=None, num_workers=1, persistent_workers=persistent_workers, sampler=range(4)
    )
    dataset.items = [10, 11, 12, 13]
    assert list(loader) == [10, 11, 12, 13]
    for epoch in range(10 if persistent_workers else 2):
        dataset.items = [epoch] * 4
        assert list(loader) == ([10, 11, 12, 13] if persistent_workers else [epoch] * 4)


def test_persistent_workers_are_kept_over_epochs(data: ModuleType) -> None:
    loader = data.DataLoader(WorkerProbe(4), batch_size=1, num_workers=2, persistent_workers=True, shuffle=True)
    epochs, workers = [], []
    for _ in range(3):
        iterator = iter(loader)
        workers.append([worker.pid for worker in iterator._workers])
        epochs.append([batch[0].item() for batch in iterator])
    assert workers[0] == workers[1] == workers[2]
    assert all(sorted(epoch) == [0, 1, 2, 3] for epoch in epochs)
    assert loader._iterator is iterator
    assert iter(loader) is iterator


def test_an_epoch_left_half_way_starts_again_with_persistent_workers(data: ModuleType) -> None:
    loader = data.DataLoader(Rows(8), batch_size=2, num_workers=2, persistent_workers=True)
    next(iter(loader))
    assert [batch[1].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


@PERSISTENT
def test_an_error_keeps_its_type_and_text_and_iteration_continues(data: ModuleType, persistent_workers: bool) -> None:
    loader = data.DataLoader(Failing(6, bad={2}), batch_size=2, num_workers=2, persistent_workers=persistent_workers)
    for _ in range(2):
        iterator = iter(loader)
        assert next(iterator).tolist() == [0, 1]
        error = error_of(lambda iterator=iterator: next(iterator))
        assert type(error) is ValueError
        assert "sample 2 is broken" in str(error)
        assert next(iterator).tolist() == [4, 5]
        with pytest.raises(StopIteration):
            next(iterator)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("error", [ValueError, KeyError, IndexError, NotImplementedError, OSError])
def test_every_failing_batch_gives_its_error_and_then_the_epoch_ends(
    data: ModuleType, num_workers: int, error: type[Exception]
) -> None:
    iterator = iter(data.DataLoader(Failing(7, error=error), batch_size=2, num_workers=num_workers))
    errors = [error_of(lambda: next(iterator)) for _ in range(5)]
    assert [type(one) for one in errors] == [error] * 4 + [StopIteration]
    for number, one in enumerate(errors[:4]):
        assert f"sample {2 * number} is broken" in str(one)


@pytest.mark.parametrize("error", [StopIteration, GeneratorExit])
def test_a_stray_stop_iteration_ends_the_loop_as_in_torch(data: ModuleType, error: Any) -> None:
    def read(package: ModuleType) -> Any:
        collected = []
        try:
            for batch in package.DataLoader(Failing(4, bad={2}, error=error), batch_size=1):
                collected.append(batch)
        except BaseException as raised:  # whatever torch raises is right
            collected.append(type(raised))
        return collected

    assert_same(read(data), read(torch.utils.data))


def test_an_error_in_worker_init_fn_reaches_the_consumer(data: ModuleType) -> None:
    loader = data.DataLoader(Rows(4), num_workers=2, worker_init_fn=broken_init)
    outcome = outcome_of(lambda: loader)
    assert outcome.values == []
    assert type(outcome.error) is ValueError
    assert "worker 0 will not start" in str(outcome.error)


class Sleeper:
    def __getitem__(self, index: int) -> int:
        time.sleep(3)
        return index

    def __len__(self) -> int:
        return 1


def test_a_worker_that_is_too_slow_times_out_with_whole_seconds(data: ModuleType) -> None:
    error = error_of(lambda: list(data.DataLoader(Sleeper(), num_workers=1, timeout=1)))
    assert type(error) is RuntimeError
    assert "DataLoader timed out after 1 seconds" in str(error)


class Suicidal:
    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index

    def __len__(self) -> int:
        return 1


def test_a_worker_killed_by_a_signal_is_noticed_without_a_timeout(data: ModuleType) -> None:
    error = error_of(lambda: list(data.DataLoader(Suicidal(), num_workers=1)))
    assert type(error) is RuntimeError
    assert re.search(r"DataLoader worker \(pid \d+\) is killed by signal: ", f"{error} {error.__cause__}")


PROGRAM = """
warnings.simplefilter("ignore")
from doubles.datasets import Rows
for batch in data.DataLoader(Rows(40), num_workers=2, persistent_workers=True, pin_memory=True):
    break
"""


def test_leaving_a_persistent_epoch_and_the_program_ends_quietly(run: Run, data: ModuleType) -> None:
    run(PROGRAM, data.__name__.partition(".")[0]).check()


class Stuck:
    """Its second sample blocks until it is released."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 1:
            self.let_go.wait(30)
        return index


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_a_waiting_consumer_ends_when_another_thread_ends_the_workers(worker_type: str) -> None:
    dataset = Stuck() if worker_type == "thread" else Asleep()
    iterator = iter(sluicegate.DataLoader(dataset, 1, num_workers=1, worker_type=worker_type))
    assert next(iterator).tolist() == [0]
    ended: list[Any] = []
    waiting = threading.Thread(target=lambda: ended.append(next(iterator, "nothing")))
    waiting.start()
    time.sleep(0.2)
    iterator._shutdown_workers()
    waiting.join(10)
    assert ended == ["nothing"]
    if isinstance(dataset, Stuck):
        dataset.let_go.set()


class Asleep:
    """Its second sample takes longer than any timeout."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 1:
            time.sleep(30)
        return index
