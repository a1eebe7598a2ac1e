"""Seeding the global generators, drawing from them, and what the libraries say of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

LIBRARIES = ["python", "numpy", "torch"]


def seed_globals(seed: int) -> None:
    """Seeds the global generators, which loaders without a seed draw from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Keeps the global generators, which are the whole test run's: put back, by the libraries' own ways."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def public_states() -> list[Any]:
    """What the libraries themselves say of their generators."""
    numpys: Any = np.random.get_state(legacy=False)
    return [
        random.getstate(),
        (numpys["state"]["key"].tolist(), numpys["state"]["pos"], numpys["has_gauss"], numpys["gauss"]),
        torch.get_rng_state().tolist(),
    ]


def draws() -> list[float]:
    """Draws that are exact on every platform."""
    return [
        random.random(),
        random.getrandbits(70),
        float(np.random.random_sample()),
        int(np.random.randint(1 << 30)),
        *torch.rand(2, dtype=torch.float64).tolist(),
        int(torch.randint(1 << 40, (1,))),
    ]


def draw_normals() -> list[float]:
    """One of two deviates that each generator makes together: the other is kept."""
    return [
        random.gauss(0.0, 1.0),
        float(np.random.standard_normal()),
        float(torch.randn(1)),
        float(torch.randn(1, dtype=torch.float64)),
    ]
