"""Transforms with their own generators, such as Albumentations', follow the seed with the recipes of the docs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from sluicegate import DataLoader, sample_rng


class Compose:
    """The generators of `albumentations.Compose` (2.0.8), and its seeding."""

    def __init__(self, seed: int | None = None) -> None:
        self.set_random_seed(seed)

    def set_random_seed(self, seed: int | None) -> None:
        self.random_generator, self.py_random = np.random.default_rng(seed), random.Random(seed)

    def __call__(self, image: int) -> float:
        return image + float(self.random_generator.random()) + self.py_random.random()


class Images(torch.utils.data.Dataset[float]):
    def __init__(self) -> None:
        self.transform = Compose()

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> float:
        return self.transform(0)


class SeededImages(Images):
    def __getitem__(self, index: int) -> float:
        self.transform.set_random_seed(int(sample_rng().numpy.integers(2**32)))
        return super().__getitem__(index)


def seed_transform(worker: int) -> None:
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.transform.set_random_seed(info.seed % 2**32)


def epochs(loader: Any) -> list[list[float]]:
    return [[float(value) for batch in loader for value in batch] for _ in range(2)]


def test_without_seeding_own_generators_repeat_in_every_worker(data: Any) -> None:
    """A fork copies the generators, which is why the recipes exist."""
    first, second = epochs(data.DataLoader(Images(), batch_size=4, num_workers=2))
    assert first == second
    assert len(set(first)) == 12


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_own_generators_seeded_per_sample_follow_the_loaders_seed(num_workers: int) -> None:
    expected = epochs(DataLoader(SeededImages(), batch_size=4, seed=7))
    found = epochs(DataLoader(SeededImages(), batch_size=4, seed=7, num_workers=num_workers))
    assert found == expected
    assert len({value for epoch in found for value in epoch}) == 48


def test_own_generators_seeded_per_worker_follow_torchs_seed(data: Any) -> None:
    runs = []
    for _ in range(2):
        torch.manual_seed(3)
        loader = data.DataLoader(Images(), batch_size=4, num_workers=2, worker_init_fn=seed_transform)
        runs.append(epochs(loader))
    assert runs[0] == runs[1]
    assert len({value for epoch in runs[0] for value in epoch}) == 48
