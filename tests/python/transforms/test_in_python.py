"""Transforms that stay in Python: datasets and loaders report it, and values and draws are torchvision's."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cases.transforms import IMAGES, drawn
from checks.equality import assert_same
from sluicegate import DataLoader, ImageFolderDataset

v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")
tv_tensors = pytest.importorskip("torchvision.tv_tensors")

Made = Callable[[Any], Any]
MADE: dict[str, Made] = {
    "ElasticTransform": lambda module: module.ElasticTransform(),
    "ElasticTransform of arguments": lambda module: module.ElasticTransform(
        alpha=[90.0, 20.0], sigma=[3.0, 4.0], interpolation=module.InterpolationMode.NEAREST, fill=7
    ),
    "RandomChoice": lambda module: module.RandomChoice(
        [module.RandomHorizontalFlip(), module.CenterCrop(33), module.RandomVerticalFlip()], p=[1, 2, 5]
    ),
    "FiveCrop": lambda module: module.FiveCrop((30, 41)),
    "TenCrop": lambda module: module.TenCrop(30, vertical_flip=True),
    "Lambda": lambda module: module.Lambda(lambda image: image),
    "LinearTransformation": lambda module: module.Compose(
        [
            module.CenterCrop(4),
            *([module.ToTensor()] if module is v1 else [module.ToDtype(torch.float32, scale=True)]),
            module.LinearTransformation(torch.eye(48).flip(0), torch.arange(48.0)),
        ]
    ),
}
EVERY = pytest.mark.parametrize("name", MADE)


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    return value.as_subclass(torch.Tensor) if isinstance(value, torch.Tensor) else value


@EVERY
@pytest.mark.parametrize("before", [[], [v2.RandomHorizontalFlip(), v2.Pad(3)]], ids=["first", "third"])
def test_v2_transforms_called_in_python_equal_torchvisions(root: Path, name: str, before: list[Any]) -> None:
    steps = v2.Compose([*before, MADE[name](v2)])
    dataset = ImageFolderDataset(root, steps)
    assert dataset.python_reason is not None
    assert f"`{name.split()[0]}`: " in dataset.python_reason
    assert f"transformed in Python from {dataset.python_reason}" in repr(dataset)
    assert DataLoader(dataset, seed=0).explain().reason == dataset.python_reason
    for number, photo in enumerate(IMAGES):
        image = v2.functional.pil_to_tensor(photo).contiguous()
        expected, after = drawn(number, steps, image)
        found, state = drawn(number, lambda at: dataset[at][0], number)
        assert_same(plain(found), plain(expected))
        assert torch.equal(state, after)


@EVERY
def test_v1_transforms_called_in_python_equal_torchvisions(root: Path, name: str) -> None:
    steps = v1.Compose([v1.RandomHorizontalFlip(), MADE[name](v1)])
    dataset = ImageFolderDataset(root, steps)
    assert f"`{name.split()[0]}`: " in str(dataset.python_reason)
    for number, photo in enumerate(IMAGES):
        random.seed(number)
        expected, after = drawn(number, steps, photo)
        random.seed(number)
        found, state = drawn(number, lambda at: dataset[at][0], number)
        assert_same(plain(found), plain(expected))
        assert torch.equal(state, after)


@EVERY
def test_with_a_seed_every_worker_makes_the_same(root: Path, name: str) -> None:
    def batches(**options: Any) -> list[Any]:
        steps = v2.Compose([v2.RandomHorizontalFlip(), MADE[name](v2)])
        return list(DataLoader(ImageFolderDataset(root, steps), batch_size=1, seed=7, **options))

    expected = batches()
    assert_same(batches(num_workers=2, worker_type="thread"), expected)
    assert_same(batches(num_workers=1), expected)
