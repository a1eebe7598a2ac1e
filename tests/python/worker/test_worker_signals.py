"""Signals that raise at any moment, and requests that can't be sent: a batch may be lost, but nothing waits forever."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from checks.equality import outcome_of
from doubles.datasets import Rows
from sluicegate import DataLoader

pytestmark = pytest.mark.slots


class Alarm(Exception):
    """Raised by the handler."""


_rings = False


def ring(number: int, frame: Any) -> None:
    if _rings:
        raise Alarm


@pytest.mark.timeout(60)
def test_an_iterator_continues_after_signals_at_any_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    global _rings
    report = sys.unraisablehook

    def report_others(raised: Any) -> None:
        # The handler may raise in a finalizer, and again while pytest describes that.
        if raised.exc_type is not Alarm:
            report(raised)

    monkeypatch.setattr(sys, "unraisablehook", report_others)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for round_ in range(4):
            iterator = iter(DataLoader(Rows(4000), batch_size=4, num_workers=2))
            seen: list[int] = []
            deadline = time.monotonic() + 1.5
            try:
                _rings = True
                signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003 + 0.001 * round_)
                while time.monotonic() < deadline:
                    try:
                        seen.extend(next(iterator)[1].tolist())
                    except Alarm:
                        pass
                    except StopIteration:
                        break
            except Alarm:
                pass
            finally:
                # At first, and without a call, in which the handler could still raise.
                _rings = False
                signal.setitimer(signal.ITIMER_REAL, 0)
            for batch in iterator:
                seen.extend(batch[1].tolist())
            # An exception inside of the sampler, a generator, ends it and the epoch, also with torch's loader.
            assert seen == sorted(set(seen))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupt_while_workers_start_leaves_none_in_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = DataLoader(Rows(20), batch_size=2, num_workers=2)
    process = multiprocessing.get_context("fork").Process
    start = process.start

    def interrupted(self: Any) -> None:
        start(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(torch.multiprocessing, "Process", process)
    monkeypatch.setattr(process, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    monkeypatch.undo()
    for _ in range(2):
        assert [batch[1].tolist() for batch in loader] == [[2 * i, 2 * i + 1] for i in range(10)]


class Unpicklable:
    """A sampler with one index that can't be pickled."""

    def __iter__(self) -> Iterator[Any]:
        yield from (0, 1, lambda: 2, 3, 4, 5)

    def __len__(self) -> int:
        return 6


def test_an_unpicklable_index_is_an_error_and_the_epoch_continues() -> None:
    loader = DataLoader(list(range(6)), batch_size=None, num_workers=1, sampler=Unpicklable(), prefetch_factor=1)
    iterator = iter(loader)
    seen: list[Any] = []
    for _ in range(7):
        try:
            seen.append(next(iterator))
        except StopIteration:
            break
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            seen.append(type(error))
    assert seen[-1] == 5
    assert any(isinstance(value, type) for value in seen)


def test_an_exit_of_worker_init_fn_in_a_thread_is_not_waited_for() -> None:
    loader = DataLoader(Rows(4), num_workers=1, worker_type="thread", worker_init_fn=lambda _: sys.exit(3))
    with pytest.raises(SystemExit):
        list(loader)


class Sleepy:
    """Samples that take too long, in a nested call."""

    def __getitem__(self, index: int) -> int:
        return self.dive(60)

    def dive(self, depth: int) -> int:
        if depth == 0:
            time.sleep(1.5)
            return 0
        return self.dive(depth - 1)

    def __len__(self) -> int:
        return 4


def test_many_reports_stay_in_their_place() -> None:
    iterator = iter(DataLoader(Sleepy(), batch_size=1, num_workers=2, timeout=0.02))
    texts = []
    for _ in range(8):
        # A batch arrives if this process itself was suspended for longer than a sample takes.
        error = outcome_of(lambda: [next(iterator)]).error
        if isinstance(error, RuntimeError):
            texts.append(str(error))
    assert any("dive" in text for text in texts)
    assert all(text.count("Current thread") + text.count("Stack (most recent") <= 2 for text in texts)
