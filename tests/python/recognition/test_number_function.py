"""`NumberFunction`: recognizes functions that only compute, and notices when the values that they read change."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from sluicegate.recognition.number_function import NumberFunction
from sluicegate.transforms.recognize import NotRecognizedError

MAPPING = {each: 2 * each for each in range(10)}
NUMBERS = [7, 8, 9]
KEPT = {1, 2}
OFFSET = 3
NAMES = {each: str(each) for each in range(10)}
DEFAULTS: defaultdict[int, int] = defaultdict(int)


def _with_branches(label: int) -> int:
    """Return one of several numbers."""
    if label in (1, 2):
        return 0
    if label > 5:
        return OFFSET
    moved = MAPPING[label]
    return moved - 1


def _enclosing() -> Callable[[int], int]:
    parts = [5, 6]
    return lambda label: parts[label % 2]


def _writes(label: int) -> int:
    numbers = NUMBERS
    numbers += [label]
    return 1


def _counts() -> Callable[[int], int]:
    count = 0

    def called(label: int) -> int:
        nonlocal count
        count += 1
        return label + count

    return called


def _loops(label: int) -> int:
    while label > 3:
        label = label - 1
    return label


def _draws_by_default(label: int, generator: Any = random) -> int:
    return label + len(generator)


def _calls(label: int) -> int:
    return _with_branches(label)


class _Callable:
    def __call__(self, label: int) -> int:
        return label


class _Number(int):
    pass


RECOGNIZED: list[Any] = [
    *(MAPPING.get, MAPPING.__getitem__, NUMBERS.__getitem__, int, float, _with_branches, _enclosing()),
    *(
        lambda y: y - 1,
        lambda y: MAPPING[y],
        lambda y: NUMBERS[y],
        lambda y: int(y in KEPT),
        lambda y: 0 if y < 1 else 1,
    ),
    *(lambda y: not y, lambda y: -y, lambda y: (y > 2 and 1) or 0, lambda y: y in range(5), lambda y: 3),
    *(lambda y, low=4: min(y, low), lambda y: float(y % 3) / 2, lambda y: 1 <= y < 5, lambda y: (y & 3) | 4 ^ y),
    *(lambda y: int(NAMES[y]), lambda y: len(NAMES[y]), lambda y, *, offset=OFFSET: max(offset, abs(y))),
]
OTHERS: dict[str, Any] = {
    "draws": lambda y: y + random.random(),
    "tensors": lambda y: torch.tensor(y),
    "methods": lambda y: MAPPING.get(y),
    "a list": lambda y: [y],
    "a type": str,
    "a bound method": NUMBERS.append,
    "a bound get of another class": DEFAULTS.get,
    "what adds keys": lambda y: DEFAULTS[y],
    "print": lambda y: print(y),
    "a generator": lambda y: (yield y),
    "an inner function": lambda y: (lambda: y)(),
    "formats": lambda y: f"{y}",
    "powers": lambda y: y**y,
    "imports": lambda y: __import__("os"),
    "globals": lambda y: globals(),
    "a callable": _Callable(),
    "writes": _writes,
    "counts": _counts(),
    "loops": _loops,
    "a module": _draws_by_default,
    "another function": _calls,
    "a subclass": (lambda number: lambda y: y + number)(_Number(1)),
}


@pytest.mark.parametrize("number", range(len(RECOGNIZED)))
def test_functions_that_only_compute(number: int) -> None:
    function = RECOGNIZED[number]
    recognized = NumberFunction(function)
    for label in range(3):
        assert recognized(label) == function(label)
        assert type(recognized(label)) is type(function(label))
        assert recognized.is_same()


@pytest.mark.parametrize("name", OTHERS)
def test_functions_that_may_do_more(name: str) -> None:
    with pytest.raises(NotRecognizedError):
        NumberFunction(OTHERS[name])


def test_values_that_change_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    mapping, numbers, kept, offset = {1: 1, 2: 2}, [1, 2], {1}, 0

    def enclosing(label: int) -> int:
        return offset + label

    def default(label: int, low: int = 3) -> int:
        return min(label, low)

    read: list[tuple[Any, Callable[[], Any]]] = [
        (lambda y: mapping[y], lambda: mapping.update({1: True})),
        (mapping.get, lambda: mapping.update({1: 7})),
        (lambda y: numbers[y], lambda: numbers.__setitem__(0, 1.0)),
        (numbers.__getitem__, lambda: numbers.append(1)),
        (lambda y: y in kept, lambda: kept.add(2)),
        (lambda y: y + OFFSET, lambda: monkeypatch.setitem(globals(), "OFFSET", 4)),
        (lambda y: int(y), lambda: monkeypatch.setitem(globals(), "int", float)),
        (default, lambda: setattr(default, "__defaults__", (5,))),
        (default, lambda: setattr(default, "__code__", (lambda label, low: low).__code__)),
    ]
    for function, change in read:
        recognized = NumberFunction(function)
        assert recognized.is_same()
        change()
        assert not recognized.is_same()
    recognized = NumberFunction(enclosing)
    offset = 1
    assert not recognized.is_same()


def test_large_and_endless_values_are_refused() -> None:
    many = list(range(20_000))
    endless: list[Any] = []
    endless.append(endless)
    for values in (many, endless):
        with pytest.raises(NotRecognizedError, match="contains more than"):
            NumberFunction(values.__getitem__)
