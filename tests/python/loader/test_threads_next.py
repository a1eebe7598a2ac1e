"""Several threads that read one iterator: they take turns, and each batch goes to one of them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.data

from checks.programs import Run
from sluicegate import DataLoader, IterableDataset, TensorDataset
from sluicegate.loader.resources import share_resources

# How often all threads read each kind of iterator.
EPOCHS = int(os.environ.get("SLUICEGATE_THREAD_EPOCHS", "2"))
SAMPLES, BATCH, THREADS = 600, 3, 6


class Slow(torch.utils.data.Dataset[int]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        time.sleep(0.0002)
        return index


class SlowStream(IterableDataset[int]):
    def __iter__(self) -> Any:
        info = torch.utils.data.get_worker_info()
        for index in range(SAMPLES)[0 if info is None else info.id :: 1 if info is None else info.num_workers]:
            time.sleep(0.0002)
            yield index


def native() -> Any:
    return TensorDataset(torch.arange(SAMPLES))


KINDS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "processes": (Slow, {"num_workers": 2}),
    "persistent processes": (Slow, {"num_workers": 2, "persistent_workers": True}),
    "out of order": (Slow, {"num_workers": 2, "in_order": False}),
    "threads": (Slow, {"num_workers": 2, "worker_type": "thread"}),
    "no workers": (Slow, {}),
    "a stream in processes": (SlowStream, {"num_workers": 2}),
    "a stream": (SlowStream, {}),
    "native": (native, {}),
    "native threads": (native, {"num_workers": 2}),
    "native, shuffled": (native, {"num_workers": 2, "shuffle": True}),
}


def received(iterator: Any) -> tuple[list[int], list[str]]:
    """Return the batches that all threads received, and their errors."""
    found: list[int] = []
    errors: list[str] = []

    def ask() -> None:
        try:
            for batch in iterator:
                found.extend((batch[0] if isinstance(batch, (list, tuple)) else batch).tolist())
        except BaseException as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        assert not thread.is_alive(), "a thread waits"
    return found, errors


@pytest.mark.parametrize("kind", KINDS)
def test_each_batch_is_delivered_to_one_thread(kind: str) -> None:
    make, options = KINDS[kind]
    loader: Any = DataLoader(make(), batch_size=BATCH, **options)
    for _ in range(EPOCHS):
        found, errors = received(iter(loader))
        assert errors == []
        assert sorted(found) == list(range(SAMPLES))


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent(run: Run) -> None:
    source = """
    loader = data.DataLoader(faulty.Stuck(100, 1, os.open("/dev/null", os.O_WRONLY)), batch_size=None, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    threading.Thread(target=lambda: next(iterator), daemon=True).start()
    time.sleep(0.5)  # It has its turn, and waits for a worker that sleeps.
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        try:
            next(iterator)
        except RuntimeError as error:
            os._exit(0 if "belongs to process" in str(error) else 2)
        os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    """
    run(source).check(stderr=None, within=12.0)


def test_ctrl_c_reaches_a_thread_that_waits_for_its_turn(run: Run) -> None:
    source = """
    loader = data.DataLoader(faulty.Stuck(100, 1, os.open("/dev/null", os.O_WRONLY)), batch_size=None, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    threading.Thread(target=lambda: next(iterator), daemon=True).start()
    time.sleep(0.5)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        next(iterator)
    except KeyboardInterrupt:
        print(time.monotonic() - began < 2.5, flush=True)
    """
    ended = run(source)
    ended.check(stderr=None, within=12.0)
    assert ended.stdout == "True\n"


def test_a_signal_handler_may_request_a_batch_while_its_thread_waits() -> None:
    iterator = iter(DataLoader(Slow(), batch_size=BATCH, num_workers=2))
    found: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda *_: found.extend(next(iterator).tolist()))
    try:
        for number, batch in enumerate(iterator):
            found.extend(batch.tolist())
            if number == 5:
                os.kill(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert sorted(found) == list(range(SAMPLES))


def test_shared_workers_get_requests_while_another_thread_waits() -> None:
    """A request of one thread must not wait until a different thread has received its batch."""
    first: Any = DataLoader(Slow(), batch_size=BATCH, num_workers=2)
    second: Any = DataLoader(first.dataset, batch_size=BATCH, num_workers=2)
    share_resources(second, first)
    began = time.monotonic()
    results: list[tuple[list[int], list[str]]] = []

    def ask(loader: Any) -> None:
        results.append(received(iter(loader)))

    threads = [threading.Thread(target=ask, args=(loader,)) for loader in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [errors for _, errors in results] == [[], []]
    assert all(sorted(found) == list(range(SAMPLES)) for found, _ in results)
    assert time.monotonic() - began < 30
