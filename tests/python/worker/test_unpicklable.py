"""An object that workers need and that can't be pickled is named, with its path in the dataset; nothing is left."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from checks import leaks
from sluicegate.worker.payload import Payload

servers, nothing_leaks = leaks.servers, leaks.nothing_leaks


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__ |= attributes


class WithSlots:
    __slots__ = ("held",)


class Rows(list):  # type: ignore[type-arg]
    pass


class Refuses:
    def __reduce__(self) -> Any:
        raise NotImplementedError("never")


class OwnWords(Exception):
    def __str__(self) -> str:
        return "own words"


class RefusesInOwnWords:
    def __reduce__(self) -> Any:
        raise OwnWords


def generate() -> Iterator[int]:
    yield 1


def inside(**values: Any) -> Plain:
    return Plain(**values)


def local_things() -> Any:
    class Local:
        def method(self) -> None: ...

    def function() -> None: ...

    return Local, function


def with_slots(value: Any) -> WithSlots:
    slots = WithSlots()
    slots.held = value
    return slots


LOCAL, FUNCTION = local_things()
CYCLE = inside(items=[])
CYCLE.items += [CYCLE] * 2000 + [threading.Lock()]
A_LAMBDA = lambda: 0  # noqa: E731
LAMBDA = f"lambda at test_unpicklable.py:{A_LAMBDA.__code__.co_firstlineno} can't be pickled"


@pytest.mark.parametrize(
    ("value", "error", "path"),
    [
        (inside(transform=inside(steps=[1, 2, inside(fn=A_LAMBDA)])), None, f".transform.steps[2].fn: {LAMBDA}"),
        (A_LAMBDA, None, f": {LAMBDA}"),
        ({"a": (1, A_LAMBDA)}, None, f"['a'][1]: {LAMBDA}"),
        ({("a", 1): A_LAMBDA}, None, f"[object of type builtins.tuple]: {LAMBDA}"),
        (Rows([1, {2: A_LAMBDA}]), None, f"[1][2]: {LAMBDA}"),
        (list(range(5000)) + [A_LAMBDA], None, f"[5000]: {LAMBDA}"),
        (with_slots(threading.Lock()), TypeError, ".held: object of type _thread.lock can't"),
        (functools.partial(A_LAMBDA, 1), None, f".func: {LAMBDA}"),
        (functools.partial(print, 1, end=A_LAMBDA), None, f".keywords['end']: {LAMBDA}"),
        (functools.partial(print, A_LAMBDA), None, f".args[0]: {LAMBDA}"),
        (inside(table={A_LAMBDA: 1}), None, f".table.keys(): {LAMBDA}"),
        (inside(lock=threading.Lock()).__init__, TypeError, ".__self__.lock: object of type _thread.lock"),
        (LOCAL(), None, ": local class local_things.<locals>.Local can't"),
        (LOCAL().method, None, ".__self__: local class local_things.<locals>.Local"),
        (inside(kind=LOCAL), None, ".kind: local class local_things.<locals>.Local"),
        (inside(fn=FUNCTION), None, ".fn: local function local_things.<locals>.function at test_unpicklable.py:"),
        (inside(items=generate()), TypeError, ".items: generator generate can't"),
        (inside(file=sys.__stdout__), TypeError, ".file: open file (_io.TextIOWrapper) can't"),
        (inside(inner=Refuses()), NotImplementedError, ".inner: object of type test_unpicklable.Refuses can't"),
        (inside(module=sys), TypeError, ".module: object of type builtins.module can't"),
        (CYCLE, TypeError, ".items[2000]: object of type _thread.lock"),
    ],
)
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_unpicklable_object_is_named(method: str, value: Any, error: Any, path: str) -> None:
    needs = Payload({"first": torch.ones(3), "dataset": value})
    process: Any = multiprocessing.get_context(method).Process(target=print, args=(0, needs))
    with pytest.raises(error or (pickle.PicklingError, AttributeError)) as caught:
        process.start()
    text = str(caught.value)
    assert f"(dataset{path}" in text
    assert 'multiprocessing_context="fork")' in text
    needs.close()


def test_an_error_that_words_itself_gets_a_note() -> None:
    process: Any = multiprocessing.get_context("spawn").Process(args=(Payload({"dataset": [RefusesInOwnWords()]}),))
    with pytest.raises(OwnWords, match=r"^own words") as caught:
        process.start()
    if sys.version_info >= (3, 11):
        assert "dataset[0]: object of type test_unpicklable.RefusesInOwnWords" in caught.value.__notes__[0]


def test_nesting_too_deep_to_be_pickled_does_no_harm() -> None:
    nested: Any = None
    for _ in range(100_000):
        nested = [nested]
    process: Any = multiprocessing.get_context("spawn").Process(args=(Payload({"dataset": nested}),))
    with pytest.raises(RecursionError):
        process.start()
    while nested:  # freeing it at once would recurse as deeply
        nested = nested[0]
