"""Iterators under disturbance: replaced parts, signals, threads, patched classes, and unchanged errors."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same, error_of
from sluicegate import DataLoader, TensorDataset

pytestmark = pytest.mark.slots


def numbers(batches: Any) -> list[list[int]]:
    return [batch[0].tolist() for batch in batches]


def swap_sampler(data: ModuleType, batch_sampler: Any) -> None:
    batch_sampler.sampler = data.SubsetRandomSampler(range(5))


def swap_batch_size(data: ModuleType, batch_sampler: Any) -> None:
    batch_sampler.batch_size = 5


def swap_drop_last(data: ModuleType, batch_sampler: Any) -> None:
    batch_sampler.drop_last = True


def swap_replacement(data: ModuleType, batch_sampler: Any) -> None:
    batch_sampler.sampler.replacement = True


@pytest.mark.parametrize("swap", [swap_sampler, swap_batch_size, swap_drop_last, swap_replacement])
def test_parts_swapped_between_iter_and_the_first_batch_are_used(swap: Any) -> None:
    results = []
    for data in (torch.utils.data, sys.modules["sluicegate"]):
        torch.manual_seed(1)
        loader = data.DataLoader(data.TensorDataset(torch.arange(10)), batch_size=3, shuffle=True)
        iterator = iter(loader)
        swap(data, loader.batch_sampler)
        results.append(numbers(iterator))
    assert results[0] == results[1]


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_batch_size_swapped_within_an_epoch_counts_as_in_torch(drop_last: bool) -> None:
    results = []
    for data in (torch.utils.data, sys.modules["sluicegate"]):
        loader = data.DataLoader(data.TensorDataset(torch.arange(10)), batch_size=3, drop_last=drop_last)
        iterator = iter(loader)
        next(iterator)
        loader.batch_sampler.batch_size = 4
        results.append(numbers(iterator))
    assert results[0] == results[1]


def test_a_sampler_class_patched_by_the_user_iterates_as_patched(
    data: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both loaders create exactly this class for a `batch_size`, because trainers check for it.
    monkeypatch.setattr(torch.utils.data.BatchSampler, "__iter__", lambda self: iter([[1, 2], [3]]))
    assert numbers(data.DataLoader(data.TensorDataset(torch.arange(5)), batch_size=2)) == [[1, 2], [3]]


PATCHED_BEFORE = """
import torch
import torch.utils.data as data
from torch.utils.data._utils import collate
collate.default_collate_fn_map[torch.Tensor] = lambda batch, *, collate_fn_map=None: -torch.stack(batch)
import sluicegate
print(next(iter(sluicegate.DataLoader(data.TensorDataset(torch.arange(4)), batch_size=2)))[0].tolist())
"""


def test_patches_made_before_the_import_are_used() -> None:
    run = subprocess.run([sys.executable, "-c", PATCHED_BEFORE], capture_output=True, text=True, check=True)
    assert run.stdout == "[0, -1]\n"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # torch's, in __del__
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_prefetch_factor_of_zero_is_an_error_and_not_an_empty_epoch(data: ModuleType, num_workers: int) -> None:
    dataset = data.TensorDataset(torch.arange(4))
    loader = data.DataLoader(dataset, num_workers=num_workers, prefetch_factor=0)
    assert isinstance(error_of(lambda: list(loader)), AssertionError)
    changed = data.DataLoader(dataset)
    changed.num_workers = num_workers
    assert isinstance(error_of(lambda: list(changed)), TypeError)


def test_an_error_is_not_its_own_cause(data: ModuleType) -> None:
    class Broken(data.Dataset):  # type: ignore[name-defined, misc]
        def __len__(self) -> int:
            raise NotImplementedError("no length")

        def __getitem__(self, index: int) -> Any:
            raise IndexError("mine")

    error = error_of(lambda: list(data.DataLoader(Broken(), sampler=range(3))))
    assert (type(error), str(error), error.__cause__) == (IndexError, "mine", None)

    def collate(samples: Any) -> Any:
        raise RuntimeError("mine too")

    error = error_of(lambda: list(data.DataLoader([1, 2], collate_fn=collate)))
    assert (str(error), error.__cause__) == ("mine too", None)


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")  # NumPy 2.5; the array still changes.
def test_an_array_that_is_resized_or_retyped_between_batches_is_seen(data: ModuleType) -> None:
    array = np.zeros((10, 4))
    iterator = iter(data.DataLoader(array, batch_size=2))
    next(iterator)
    array.resize((1_000, 4), refcheck=False)
    array[2:4] = 7
    assert_same(next(iterator), torch.full((2, 4), 7.0, dtype=torch.float64))
    array.shape = (2_000, 2)
    assert next(iterator).shape == (2, 2)
    array.dtype = np.dtype("int64")
    assert next(iterator).dtype == torch.int64


DISTURBED_EPOCHS = 12


class TickError(Exception):
    """Raised by the signal handler."""


def test_a_signal_that_raises_while_threads_read_costs_a_batch_at_most() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(200, 100_000)), batch_size=8, num_workers=2)

    ticks = 0
    is_waiting = False

    def tick(*_: Any) -> None:
        nonlocal ticks
        ticks += 1
        if is_waiting:
            raise TickError

    main = threading.main_thread().ident
    assert main is not None
    epoch_begun = threading.Semaphore(0)

    def send_ticks() -> None:
        for delay in range(DISTURBED_EPOCHS):
            epoch_begun.acquire()
            time.sleep(delay / 4_000)
            signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=send_ticks, daemon=True)
    sender.start()
    before = signal.signal(signal.SIGUSR1, tick)
    try:
        for _ in range(DISTURBED_EPOCHS):
            iterator = iter(loader)
            next(iterator)
            batches = ticks = 0
            has_ended = False
            epoch_begun.release()
            while not (has_ended and ticks):
                try:
                    is_waiting = True
                    next(iterator)
                    batches += 1
                except TickError:
                    pass
                except StopIteration:
                    has_ended = True
                finally:
                    is_waiting = False
            assert ticks == 1
            assert batches in (23, 24)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_iterator_that_threads_share_ends_for_all() -> None:
    iterator = iter(DataLoader(TensorDataset(torch.arange(400)), batch_size=4, num_workers=2))
    seen: list[int] = []

    def read() -> None:
        for (batch,) in iterator:
            seen.extend(batch.tolist())

    threads = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(seen) == list(range(400))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_request_is_made_once_when_an_exception_comes_before_or_after_the_core_takes_it(
    is_taken: bool, error: type[BaseException]
) -> None:
    """Such as an exception from a signal handler."""

    class Waiting(list[int]):
        def set_epoch(self, epoch: int) -> None:
            """Makes the order be read at the first `next`."""

    iterator = iter(DataLoader(TensorDataset(torch.arange(6)), batch_size=2, num_workers=1, sampler=Waiting(range(6))))
    window = iterator._window

    class Raising:
        def push(self, *arguments: Any) -> bool:
            if is_taken:
                assert window.push(*arguments)
            raise error("threads could not be started")

        def __len__(self) -> int:
            return len(window)

    iterator._window = Raising()
    with pytest.raises(error, match="could not be started"):
        next(iterator)
    iterator._window = window
    assert numbers(iterator) == [[0, 1], [2, 3], [4, 5]]


def test_an_iterator_that_is_shut_down_has_ended() -> None:
    iterator = iter(DataLoader(TensorDataset(torch.arange(6)), batch_size=2, num_workers=1))
    next(iterator)
    iterator._shutdown_workers()
    assert list(iterator) == []


def test_the_dataset_goes_when_everything_is_dropped_while_threads_read() -> None:
    for _ in range(5):
        array = np.zeros((200, 50_000))
        alive = weakref.ref(array)
        iterator = iter(DataLoader(array, batch_size=50, num_workers=2))
        next(iterator)
        del array, iterator
        gc.collect()
        deadline = time.monotonic() + 10
        while alive() is not None and time.monotonic() < deadline:
            time.sleep(0.005)
        assert alive() is None


def test_a_compiled_function_reads_a_loader(data: ModuleType) -> None:
    loader = data.DataLoader(data.TensorDataset(torch.arange(6.0)), 2)

    @torch.compile(backend="eager")
    def total() -> torch.Tensor:
        found = torch.zeros(())
        for (batch,) in loader:
            found = found + batch.sum()
        return found

    assert [total().item() for _ in range(3)] == [15.0] * 3
