"""After a signal's exception at any call, threads continue: a batch may be lost, but nothing waits forever.

`SLUICEGATE_INTERRUPTS=1` interrupts every call; the default is every 23rd, starting differently in each run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch.utils.data import Dataset

from checks import drawn
from doubles.interrupted_call import Interrupt, InterruptedCall
from sluicegate import DataLoader, split_by_class
from sluicegate.loader.resources import share_resources

STRIDE = int(os.environ.get("SLUICEGATE_INTERRUPTS", "23"))
SAMPLES = 24
NEVER = -1


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return index


def loader_of(numbers: Numbers, **arguments: Any) -> DataLoader[Any]:
    return DataLoader(numbers, batch_size=2, num_workers=2, worker_type="thread", **arguments)


def values(batches: Any) -> list[int]:
    return [value for batch in batches for value in batch.tolist()]


def received(iterator: Iterator[Any], interrupted: InterruptedCall) -> list[Any]:
    """Read every batch, continuing after the exception."""
    batches: list[Any] = []
    with interrupted.armed():
        while True:
            try:
                batches.append(next(iterator))
            except Interrupt:
                pass
            except StopIteration:
                return batches


def check_threads(interrupted: InterruptedCall) -> None:
    seen = values(received(iter(loader_of(Numbers())), interrupted))
    assert seen == sorted(set(seen)), interrupted.place


def check_persistent_threads(interrupted: InterruptedCall) -> None:
    loader = loader_of(Numbers(), persistent_workers=True)
    received(iter(loader), interrupted)
    assert values(loader) == list(range(SAMPLES)), interrupted.place


def check_shared_threads(interrupted: InterruptedCall) -> None:
    numbers = Numbers()
    loader, other = loader_of(numbers), loader_of(numbers)
    share_resources(other, loader)
    others = iter(other)
    next(others)
    found: list[int] = []
    reading = threading.Thread(target=lambda: found.extend(values(others)), daemon=True)
    iterator = iter(loader)
    reading.start()
    received(iterator, interrupted)
    reading.join(30)
    assert found == list(range(2, SAMPLES)), interrupted.place


def check_split(interrupted: InterruptedCall) -> None:
    stream = [("ab"[number % 2], number) for number in range(SAMPLES)]
    split = split_by_class(stream, label=0, classes=["a", "b"], batch_size=None, buffer_size=SAMPLES)
    found: list[int] = []
    others = iter(split["b"])
    reading = threading.Thread(target=lambda: found.extend(number for _, number in others), daemon=True)
    iterator = iter(split["a"])
    reading.start()
    received(iterator, interrupted)
    reading.join(30)
    assert not reading.is_alive(), interrupted.place
    assert found == sorted(set(found)), interrupted.place


@pytest.mark.timeout(900 if STRIDE < 23 else 120)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("check", [check_threads, check_persistent_threads, check_shared_threads, check_split])
def test_no_thread_waits_forever_after_an_interrupt(check: Callable[[InterruptedCall], None]) -> None:
    counting = InterruptedCall(NEVER)
    check(counting)
    assert counting.calls > 100
    (start,) = drawn.numbers(1)
    # The number of calls in the wait itself varies.
    for number in range(1 + start % STRIDE, counting.calls + 1, STRIDE):
        check(InterruptedCall(number))


def test_after_more_interrupts_than_requests_ahead_the_rest_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between taking a batch and requesting the next one: the batch is lost, and its request is made up for."""
    iterator: Any = iter(loader_of(Numbers(), prefetch_factor=1))
    is_left_out, left = iterator._is_left_out, [1, 2, 3, 4, 5]

    def interrupted(*arguments: Any) -> bool:
        if left:
            left.pop()
            raise Interrupt
        return is_left_out(*arguments)

    monkeypatch.setattr(iterator, "_is_left_out", interrupted)
    for _ in range(5):
        with pytest.raises(Interrupt):
            next(iterator)
    assert values(iterator) == list(range(10, SAMPLES))
