"""`RandomChoice` and `RandomOrder` of torchvision's v1, which draw from Python's generator, on the native path."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, StackDataset, Subset, TensorDataset

from checks import epochs
from checks.equality import assert_same
from checks.native import engine_of
from sluicegate import DataLoader
from sluicegate.rng import global_generators

pytest.importorskip("torchvision")

from PIL import Image
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder

from cases.torchvision_datasets import made

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

TURNS = [v1.RandomRotation(20), v1.RandomHorizontalFlip(), v1.RandomInvert()]
PIPELINES = {
    "choice": v1.Compose([v1.RandomChoice(TURNS), v1.ToTensor()]),
    "weights": v1.Compose([v1.RandomChoice(TURNS, p=[0.2, 5, 1]), v1.ToTensor()]),
    "negative weight": v1.Compose([v1.RandomChoice(TURNS, p=[3, -2, 1]), v1.ToTensor()]),
    "order": v1.Compose([v1.RandomOrder([*TURNS, v1.RandomCrop(9, padding=1)]), v1.ToTensor()]),
    "one": v1.Compose([v1.RandomOrder([v1.RandomChoice(TURNS[:1])]), v1.ToTensor()]),
    "sometimes": v1.Compose([v1.RandomApply([v1.RandomChoice(TURNS)], p=0.4), v1.ToTensor()]),
    "nested": v1.Compose([v1.RandomChoice([v1.RandomOrder(TURNS), v1.RandomApply(TURNS)]), v1.ToTensor()]),
}
EVERYTHING = PIPELINES["nested"]
OF_FILES = v1.Compose([v1.Resize((9, 9)), *EVERYTHING.transforms])


def cifar(pipeline: Any = EVERYTHING, seed: int = 0) -> Any:
    return made("CIFAR10", pipeline, size=22, height=9, width=9, seed=seed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    values = np.random.RandomState(0)
    for number in range(14):
        pixels = values.randint(0, 256, (9, 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a" / f"{number}.{'png' if number % 3 else 'jpg'}")
    return tmp_path


assert_as_torch = functools.partial(epochs.assert_as_torch, batch_size=4, shuffle=True)
seen_by = functools.partial(epochs.seen_by, batch_size=4, shuffle=True)


def draw_deviates(_: int) -> None:
    random.gauss(0.0, 1.0)


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_matches_torch(name: str) -> None:
    assert_as_torch(cifar(PIPELINES[name]))
    assert_as_torch(cifar(PIPELINES[name]), num_workers=2)


def test_draws_of_the_script_in_between_are_kept() -> None:
    for arguments in ({}, {"num_workers": 2}):
        seen = [
            seen_by(kind, cifar(), draw_deviates, **arguments) for kind in (torch.utils.data.DataLoader, DataLoader)
        ]
        assert_same(seen[1], seen[0])


@pytest.mark.parametrize("is_persistent", [False, True])
def test_the_draws_are_those_of_each_worker(is_persistent: bool) -> None:
    assert_as_torch(cifar(), num_workers=3, persistent_workers=is_persistent, epochs=3)


def test_parts_of_datasets(folder: Path) -> None:
    files = ImageFolder(str(folder), OF_FILES)
    assert_as_torch(files)
    assert_as_torch(ConcatDataset([files, Subset(cifar(), range(3, 9))]), num_workers=2)
    assert_as_torch(StackDataset(image=cifar(), number=TensorDataset(torch.arange(22))))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_batch_that_fails_draws_as_much_as_in_torch(folder: Path, num_workers: int) -> None:
    for number, kept in ((4, 300), (7, 60), (9, 0)):
        path = folder / "a" / f"{number}.{'png' if number % 3 else 'jpg'}"
        path.write_bytes(path.read_bytes()[:kept])
    assert_as_torch(ImageFolder(str(folder), OF_FILES), num_workers=num_workers, epochs=3)


@pytest.mark.usefixtures("public_access")
def test_access_through_the_public_api_draws_the_same() -> None:
    assert_as_torch(cifar())
    assert_as_torch(cifar(), num_workers=2)


@pytest.fixture
def public_access(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(global_generators, "_python_addresses", lambda: None)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_with_a_seed_batches_are_those_that_python_makes(num_workers: int) -> None:
    ours = seen_by(DataLoader, cifar(), seed=3, num_workers=num_workers)
    assert_same(ours, seen_by(DataLoader, cifar(), seed=3, num_workers=num_workers, native=False))


def rest_after(stop: int, taker: bool, resumer: bool) -> list[Any]:
    """Return the rest of an epoch and the next one, resumed by a loader of the other engine if the two differ."""
    torch.manual_seed(2)
    arguments = {"batch_size": 3, "shuffle": True, "num_workers": 2}
    loader = DataLoader(cifar(), **arguments, native=taker)
    iterator = iter(loader)
    for _ in range(stop):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    del iterator
    resumed = DataLoader(cifar(), **arguments, native=resumer)
    resumed.load_state_dict(state)
    torch.manual_seed(7)
    return [*resumed, *resumed]


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_states_carry_over_between_the_engines(stop: int) -> None:
    torch.manual_seed(2)
    whole = list(torch.utils.data.DataLoader(cifar(), batch_size=3, shuffle=True, num_workers=2))
    expected = rest_after(stop, True, True)
    assert_same(expected[: len(whole) - stop], whole[stop:])
    assert_same(rest_after(stop, True, False), expected)
    assert_same(rest_after(stop, False, True), expected)


def darkened(image: torch.Tensor) -> torch.Tensor:
    return image / 2


def test_before_a_step_of_the_users_python_makes_the_choice(folder: Path) -> None:
    pipeline = v1.Compose([v1.RandomCrop(8), *EVERYTHING.transforms, v1.Lambda(darkened)])
    files = ImageFolder(str(folder), pipeline)
    assert engine_of(files) == "python"
    assert_same(seen_by(DataLoader, files), seen_by(torch.utils.data.DataLoader, files))
