"""`checked_number`: checks an argument that is a count, and `checked_numbers`, one of counts by dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def checked_number(name: str, number: Any, least: int = 0) -> int:
    """Return `number` as an int if the core can take it.

    Raises:
        TypeError: `number` is not an integer.
        ValueError: `number` is below `least`, or 2^64 or more.
    """
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} should be an integer, but got {number!r}")
    number = number.__index__()
    if not least <= number < 2**64:
        raise ValueError(f"{name} should be {least} or more, and below 2**64, but got {number}")
    return int(number)


def checked_numbers(name: str, numbers: Any, least: int = 0) -> dict[str, int]:
    """Return the numbers by dimension.

    Raises:
        TypeError: `numbers` is not a mapping of names to integers.
        ValueError: a number is below `least`, or 2^64 or more.
    """
    if not isinstance(numbers, Mapping) or not all(isinstance(dimension, str) for dimension in numbers):
        raise TypeError(f"{name}: expected numbers by dimension, such as {{'time': 24}}, but got {numbers!r}")
    return {dimension: checked_number(f"{name}[{dimension!r}]", number, least) for dimension, number in numbers.items()}
