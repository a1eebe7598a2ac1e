"""Cases in which every two values of different parameters occur together, for parameters that act independently."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")


def in_pairs(
    first: Collection[First], second: Collection[Second], third: Sequence[Third]
) -> list[tuple[First, Second, Third]]:
    """Return all combinations of two parameters, each with one value of the third.

    Args:
        first: the values of a parameter, at least as many as of the third.
        second: the same.
        third: the values of the third parameter, which take turns.
    """
    assert min(len(first), len(second)) >= len(third), "some two values would not occur together"
    return [
        (one, other, third[(row + column) % len(third)])
        for row, one in enumerate(first)
        for column, other in enumerate(second)
    ]
