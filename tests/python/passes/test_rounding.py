"""Means and deviations of exact sums are the nearest floats, found by bisection in fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from sluicegate.passes.rounding import rounded_deviation, rounded_mean

UNIT = Fraction(1, 2**1074)


def sums(values: list[float]) -> tuple[int, int, int]:
    units = [int(Fraction(value) / UNIT) for value in values]
    return len(units), sum(units), sum(unit * unit for unit in units)


def is_nearest_root(root: float, square: Fraction) -> bool:
    """Return True if no float is nearer to the root of `square`, with ties rounded to an even last bit."""
    below, above = math.nextafter(root, -math.inf), math.nextafter(root, math.inf)
    low = (Fraction(below) + Fraction(root)) / 2
    high = (Fraction(above) + Fraction(root)) / 2 if above < math.inf else Fraction(2) ** 1024
    return (low < 0 or low * low <= square) and square <= high * high


def exact_variance(values: list[float]) -> Fraction:
    elements = [Fraction(value) for value in values]
    mean = sum(elements) / len(elements)
    return sum((each - mean) ** 2 for each in elements) / len(elements)


def drawn(seed: int) -> list[float]:
    draw = random.Random(seed)
    exponent, spread = draw.randint(-1070, 1020), draw.choice([0, 3, 60, 1000])
    count = draw.choice([1, 2, 3, 7, 20])
    return [
        math.ldexp(draw.uniform(-1, 1), min(exponent + draw.randint(0, spread), 1023)) if draw.random() < 0.9 else 0.0
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(300))
def test_results_are_the_nearest_floats(seed: int) -> None:
    values = drawn(seed)
    count, total, squares = sums(values)
    assert rounded_mean(count, total) == float(sum(map(Fraction, values)) / count)
    assert is_nearest_root(rounded_deviation(count, total, squares), exact_variance(values))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], 0.0),
        ([5e-324, 5e-324], 0.0),
        # Half of the smallest float, and three halves of it: ties, rounded to even.
        ([0.0, 5e-324], 0.0),
        ([0.0, 15e-324], 10e-324),
        ([-1.7976931348623157e308, 1.7976931348623157e308], 1.7976931348623157e308),
        ([1.0, 1.0 + 2.0**-52], 2.0**-53),
        ([1.0, 2.0, 3.0, 4.0, 5.0], math.sqrt(2)),
        ([1e308, 1e308, 1e308], 0.0),
    ],
)
def test_deviations_of_extreme_values_are_the_nearest_floats(values: list[float], expected: float) -> None:
    assert rounded_deviation(*sums(values)) == expected
