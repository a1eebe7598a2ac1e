"""Errors in a worker: the same type at the consumer, with the worker's traceback and the index; and time limits."""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch.utils.data

import sluicegate
from checks.endings import ended_workers, read_until_error, story
from checks.equality import assert_same, error_of
from doubles import faulty
from sluicegate.system import deadlines

pytestmark = [
    pytest.mark.slots,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.timeout(45),
]

LOADERS: dict[str, Callable[[ModuleType], Any]] = {
    "__getitem__": lambda package: package.DataLoader(
        faulty.Raising(8, {4}, faulty.value_error), batch_size=2, num_workers=2
    ),
    "__getitems__": lambda package: package.DataLoader(
        faulty.RaisingAtOnce(8, {4}, faulty.value_error), batch_size=2, num_workers=2
    ),
    "no batches": lambda package: package.DataLoader(
        faulty.Raising(8, {4}, faulty.value_error), batch_size=None, num_workers=2
    ),
    "collate_fn": lambda package: package.DataLoader(
        faulty.Numbers(8), batch_size=2, num_workers=2, collate_fn=faulty.collate_failing_at_4
    ),
    "worker_init_fn": lambda package: package.DataLoader(
        faulty.Numbers(8), batch_size=2, num_workers=2, worker_init_fn=faulty.failing_init
    ),
    "__iter__": lambda package: package.DataLoader(
        faulty.RaisingStream(8, -1, faulty.value_error), batch_size=2, num_workers=1
    ),
    "the iterator": lambda package: package.DataLoader(
        faulty.RaisingStream(8, 5, faulty.value_error), batch_size=2, num_workers=1
    ),
    "a stream without batches": lambda package: package.DataLoader(
        faulty.RaisingStream(8, 5, faulty.value_error), batch_size=None, num_workers=2
    ),
    "every sample": lambda package: package.DataLoader(
        faulty.Raising(8, set(range(8)), faulty.value_error), batch_size=2, num_workers=2
    ),
}
# The index, or the ordinal in the stream, that the note must name.
INDEX = {"__getitem__": "4", "__getitems__": "4", "no batches": "4", "collate_fn": "4", "the iterator": "5"}


def read_on(iterator: Any) -> list[Any]:
    """Return the batches, or the types of errors in their place, until the epoch is over."""
    found: list[Any] = []
    while len(found) < 100:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error).__name__)
    raise AssertionError("the epoch does not end")


@pytest.mark.parametrize("place", LOADERS)
def test_the_consumer_gets_the_type_and_the_workers_traceback(data: ModuleType, place: str) -> None:
    _, error = read_until_error(iter(LOADERS[place](data)))
    assert type(error) is ValueError
    said = story(error)
    assert re.search(r"Caught ValueError in DataLoader worker process \d\.", said)
    assert "Original Traceback" in said
    assert "faulty.py" in said


# After these, torch raises an UnboundLocalError, or errors without end.
WORKER_LOST = {"worker_init_fn", "__iter__"}


@pytest.mark.parametrize("place", [place for place in LOADERS if place not in WORKER_LOST])
def test_iteration_after_an_error_continues_as_in_torch(place: str) -> None:
    expected = read_on(iter(LOADERS[place](torch.utils.data)))
    assert_same(read_on(iter(LOADERS[place](sluicegate))), expected)
    assert "ValueError" in expected


def test_an_epoch_whose_workers_never_started_comes_to_its_end() -> None:
    iterator = iter(LOADERS["worker_init_fn"](sluicegate))
    workers = list(iterator._workers)
    assert set(read_on(iterator)) <= {"ValueError", "RuntimeError"}
    del iterator
    assert ended_workers(workers)


@pytest.mark.parametrize("place", INDEX)
def test_a_note_names_the_sample_that_failed(place: str) -> None:
    _, error = read_until_error(iter(LOADERS[place](sluicegate)))
    notes = "\n".join(getattr(error, "__notes__", []))
    assert re.search(rf"\b{INDEX[place]}(th)?\b|\b{int(INDEX[place]) + 1}th\b", notes), notes


def test_the_note_names_the_index_in_a_shuffled_order() -> None:
    dataset = faulty.Raising(100, {57}, faulty.value_error)
    loader = sluicegate.DataLoader(dataset, batch_size=10, num_workers=2, shuffle=True)
    _, error = read_until_error(iter(loader))
    assert "57" in "\n".join(getattr(error, "__notes__", []))


ERRORS: dict[str, tuple[Callable[[int], BaseException], str, type[BaseException]]] = {
    "value": (faulty.value_error, "ValueError", ValueError),
    "key": (faulty.key_error, "KeyError", KeyError),
    "odd arguments": (faulty.coded_error, "CodedError", faulty.CodedError),
    "two arguments": (faulty.two_arguments_error, "TwoArgumentsError", faulty.TwoArgumentsError),
    "unpicklable": (faulty.locked_error, "LockedError", faulty.LockedError),
    "local class": (faulty.local_error, "LocalError", ValueError),
    "chained": (faulty.chained_error, "ValueError", ValueError),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_any_error_keeps_its_type_and_the_epoch_continues(kind: str) -> None:
    make, name, cls = ERRORS[kind]
    iterator = iter(sluicegate.DataLoader(faulty.Raising(8, {4}, make), batch_size=2, num_workers=2))
    assert [int(next(iterator)[0, 0]) for _ in range(2)] == [0, 2]
    error = error_of(lambda: next(iterator))
    assert type(error).__name__ == name
    assert isinstance(error, cls)
    assert f"Caught {name} in DataLoader worker process 0.\nOriginal " in story(error)  # and then its cause, if any
    assert "Traceback (most recent call last)" in story(error)
    assert re.search(r"\b4\b", "\n".join(getattr(error, "__notes__", [])))
    assert str(make(4)).strip("'") in story(error)
    assert int(next(iterator)[0, 0]) == 6
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_error_without_a_text_keeps_its_type_and_the_epoch_continues() -> None:
    iterator = iter(sluicegate.DataLoader(faulty.Raising(8, {4}, faulty.textless_error), batch_size=2, num_workers=1))
    assert [int(next(iterator)[0, 0]) for _ in range(2)] == [0, 2]
    with pytest.raises(faulty.TextlessError):
        next(iterator)
    assert int(next(iterator)[0, 0]) == 6


def test_a_class_made_before_the_fork_is_the_same_class_at_the_consumer() -> None:
    class LocalError(Exception):
        pass

    loader = sluicegate.DataLoader(
        faulty.Raising(8, {4}, lambda index: LocalError(index)), num_workers=1, multiprocessing_context="fork"
    )
    caught = False
    try:
        list(loader)
    except LocalError:
        caught = True
    assert caught


ATTRIBUTES = {
    "plain": (faulty.detailed_error, {"shard": 7}),
    "odd arguments": (faulty.coded_error, {"code": 4, "where": "here"}),
    "unpicklable": (faulty.locked_error, {"shard": 7}),
    "local class": (faulty.local_error, {"shard": 7}),
    "two arguments": (faulty.two_arguments_error, {"line": 4, "errno": 2, "filename": "/sample/4"}),
}


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_attributes_of_an_error_survive(kind: str) -> None:
    make, expected = ATTRIBUTES[kind]
    _, error = read_until_error(iter(sluicegate.DataLoader(faulty.Raising(8, {4}, make), batch_size=2, num_workers=1)))
    assert {name: getattr(error, name, None) for name in expected} == expected


def test_errors_pass_from_workers_that_inherit_nothing() -> None:
    dataset = faulty.Raising(6, {2}, faulty.locked_error)
    loader = sluicegate.DataLoader(dataset, batch_size=2, num_workers=1, multiprocessing_context="forkserver")
    iterator = iter(loader)
    assert int(next(iterator)[0, 0]) == 0
    error = error_of(lambda: next(iterator))
    assert type(error) is faulty.LockedError
    assert "Original Traceback" in story(error)
    assert "2" in "\n".join(getattr(error, "__notes__", []))
    assert int(next(iterator)[0, 0]) == 4


def test_a_batch_that_cannot_be_sent_is_an_error_and_not_a_hang() -> None:
    def unsendable(samples: list[Any]) -> Any:
        return [threading.Lock() if int(samples[0][0]) == 4 else len(samples)]

    loader = sluicegate.DataLoader(faulty.Numbers(8), batch_size=2, num_workers=2, collate_fn=unsendable)
    iterator = iter(loader)
    assert [next(iterator) for _ in range(2)] == [[2], [2]]
    error = error_of(lambda: next(iterator))
    assert "lock" in story(error)
    assert next(iterator) == [2]


def test_a_timeout_is_whole_seconds_in_torchs_words(data: ModuleType) -> None:
    iterator = iter(data.DataLoader(faulty.Lingering(8, 6, 60), batch_size=2, num_workers=2, timeout=1))
    workers = list(iterator._workers)
    assert [int(next(iterator)[0, 0]) for _ in range(3)] == [0, 2, 4]
    error = error_of(lambda iterator=iterator: next(iterator))
    assert type(error) is RuntimeError
    assert "DataLoader timed out after 1 seconds" in str(error)
    del iterator
    assert ended_workers(workers)


def test_a_timeout_names_the_worker_its_batch_and_its_duration() -> None:
    iterator = iter(sluicegate.DataLoader(faulty.Lingering(8, 6, 60), batch_size=2, num_workers=2, timeout=1))
    pid = iterator._workers[1].pid
    for _ in range(3):
        next(iterator)
    said = story(error_of(lambda: next(iterator)))
    assert re.search(r"\bworker 1\b", said, re.IGNORECASE)
    assert str(pid) in said
    assert re.search(r"\bbatch (number )?3\b", said, re.IGNORECASE)
    assert re.search(r"\b6, 7\b", said)
    rest = said.replace("after 1 seconds", "")
    assert re.search(r"\d+(\.\d+)? ?(s|seconds?)\b", rest)


def test_a_stall_is_reported_once_with_the_stack_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "STALL", 1.0)
    loader = sluicegate.DataLoader(faulty.Lingering(8, 6, 2.5), batch_size=2, num_workers=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [int(batch[0, 0]) for batch in loader] == [0, 2, 4, 6]
    said = [str(one.message) for one in caught if issubclass(one.category, RuntimeWarning | UserWarning)]
    said = [one for one in said if "orker" in one]
    assert len(said) == 1
    assert "linger" in said[0]
    assert "faulty.py" in said[0]
    assert re.search(r"\bworker 1\b", said[0], re.IGNORECASE)


def test_a_consumer_that_is_slow_itself_is_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "STALL", 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("error", UserWarning)
        for _ in sluicegate.DataLoader(faulty.Numbers(4), batch_size=2, num_workers=1):
            time.sleep(0.7)
