"""Seeding the global generators, drawing from them, and the states that the libraries report."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

LIBRARIES = ["python", "numpy", "torch"]


def seed_globals(seed: int) -> None:
    """Seed the global generators, from which loaders without a seed draw."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Restore the global generators, which all tests share, with the functions of their libraries."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def public_states() -> list[Any]:
    """Return the generator states that the libraries report."""
    numpys: Any = np.random.get_state(legacy=False)
    return [
        random.getstate(),
        (numpys["state"]["key"].tolist(), numpys["state"]["pos"], numpys["has_gauss"], numpys["gauss"]),
        torch.get_rng_state().tolist(),
    ]


def draws() -> list[float]:
    """Return draws that are exact on every platform."""
    return [
        random.random(),
        random.getrandbits(70),
        float(np.random.random_sample()),
        int(np.random.randint(1 << 30)),
        *torch.rand(2, dtype=torch.float64).tolist(),
        int(torch.randint(1 << 40, (1,))),
    ]


def draw_normals() -> list[float]:
    """Return one of the two deviates that each generator computes together; the generator keeps the second one."""
    return [
        random.gauss(0.0, 1.0),
        float(np.random.standard_normal()),
        float(torch.randn(1)),
        float(torch.randn(1, dtype=torch.float64)),
    ]
