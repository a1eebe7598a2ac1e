"""`checked_number`: checks an argument that is a count."""

from __future__ import annotations

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
