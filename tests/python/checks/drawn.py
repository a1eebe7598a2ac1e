"""Numbers of random cases, different in each run, so that short runs add up to many cases."""

from __future__ import annotations

import os
import random

_draw = random.SystemRandom()


def numbers(count: int) -> list[int]:
    """Return `count` numbers, or those of `SLUICEGATE_NUMBERS=17,18`, which repeats the cases that a failure names."""
    given = os.environ.get("SLUICEGATE_NUMBERS")
    return [int(number) for number in given.split(",")] if given else [_draw.randrange(10**9) for _ in range(count)]
