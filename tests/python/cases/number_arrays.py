"""Arrays of numbers of every data type."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPE = (11, 13)


def numbers(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(0)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return generator.random(shape) < 0.5
    if kind in "iu":
        return generator.integers(0, 100, shape).astype(dtype)
    real = generator.standard_normal(shape)
    return (real + 1j * generator.random(shape) if kind == "c" else real).astype(dtype)
