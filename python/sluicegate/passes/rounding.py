"""`rounded_mean` and `rounded_deviation`: the floats nearest to the values of exact sums."""

from __future__ import annotations

import math

# Sums count in units of 2^-1074, and sums of squares in units of its square.
_UNIT_BITS = 1074

# A root with this many bits has all that decide how it is rounded: 53 of a float, and one for the half.
_ROOT_BITS = 64


def rounded_mean(count: int, total: int) -> float:
    """Return the mean of `count` elements, whose sum is `total` units.

    Examples:
        >>> rounded_mean(2, 3 << 1074)
        1.5
    """
    # Python rounds the quotient of integers correctly.
    return total / (count << _UNIT_BITS)


def rounded_deviation(count: int, total: int, squares: int) -> float:
    """Return the standard deviation of a population of `count` elements.

    Args:
        count: the number of elements.
        total: their sum, in units.
        squares: the sum of their squares, in squares of units.

    Examples:
        >>> rounded_deviation(2, 4 << 1074, 10 << 2148)
        1.0
    """
    numerator, denominator = count * squares - total * total, count * count
    shift = max(_ROOT_BITS - (numerator.bit_length() - denominator.bit_length()) // 2, 0)
    quotient, rest = divmod(numerator << 2 * shift, denominator)
    root = math.isqrt(quotient)
    # If the root is not exact, every number between it and the next integer is rounded in the same way.
    doubled = 2 * root + (rest > 0 or root * root < quotient)
    return doubled / (1 << (shift + 1 + _UNIT_BITS))
