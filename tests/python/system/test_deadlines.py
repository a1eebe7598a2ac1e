"""When their iterator is closed, workers get the full grace period that `deadlines` sets."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
from torch.utils.data import Dataset

import sluicegate
from sluicegate.system import deadlines


class Busy(Dataset[int]):
    """The worker reports through a pipe that it is reading sample 1, which takes `seconds`."""

    def __init__(self, told: int, seconds: float, ignored: int | None = None) -> None:
        self.told, self.seconds, self.ignored = told, seconds, ignored

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 1:
            if self.ignored is not None:
                signal.signal(self.ignored, signal.SIG_IGN)
            os.write(self.told, b".")
            time.sleep(self.seconds)
        return index


def close_while_busy(seconds: float, ignored: int | None = None, **options: Any) -> tuple[Any, float]:
    """Close an iterator whose worker is busy for `seconds`; return the worker and the time that closing took."""
    reader, writer = os.pipe()
    loader = sluicegate.DataLoader(Busy(writer, seconds, ignored), batch_size=None, num_workers=1, **options)
    iterator = iter(loader)
    assert next(iterator) == 0
    os.read(reader, 1)
    (worker,) = iterator._workers
    began = time.monotonic()
    iterator._shutdown_workers()
    took = time.monotonic() - began
    os.close(reader)
    os.close(writer)
    return worker, took


def test_a_worker_that_ends_within_the_grace_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "GRACE", 40.0)
    monkeypatch.setattr(deadlines, "TERMINATION", 0.1)
    worker, _ = close_while_busy(0.3, signal.SIGTERM)
    assert worker.exitcode == 0


def test_a_worker_that_takes_longer_is_terminated_after_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "GRACE", 0.3)
    monkeypatch.setattr(deadlines, "TERMINATION", 40.0)
    worker, took = close_while_busy(60.0)
    assert worker.exitcode == 0  # set by torch's handler of SIGTERM; a killed worker has a different code
    assert took >= 0.3


def test_a_worker_that_cannot_be_terminated_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "GRACE", 0.1)
    monkeypatch.setattr(deadlines, "TERMINATION", 0.2)
    worker, took = close_while_busy(60.0, signal.SIGTERM)
    worker.join(10)
    assert worker.exitcode == -signal.SIGKILL
    assert took >= 0.3


def test_a_thread_is_waited_for_as_long_and_then_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "GRACE", 0.1)
    thread, took = close_while_busy(0.6, worker_type="thread")
    assert thread.is_alive()
    assert took >= 0.1
    thread.join(10)
    monkeypatch.setattr(deadlines, "GRACE", 40.0)
    thread, _ = close_while_busy(0.3, worker_type="thread")
    assert not thread.is_alive()
