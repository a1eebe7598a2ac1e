"""Random scripts with torchvision's datasets, run with both loaders: batches, errors, and generators are the same.

`SLUICEGATE_VISION_SCRIPTS` sets how many, and `SLUICEGATE_VISION_SEED` the first one.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, Subset, random_split

import sluicegate
from checks.equality import assert_same

pytest.importorskip("torchvision")

from cases.image_folders import DAMAGES, KINDS, FolderPipelines, damage
from cases.image_lists import LISTS, image_list, set_transforms
from cases.random_scripts import RandomScript
from cases.torchvision_datasets import CLASSES, Pipelines, channels_of, made

SCRIPTS = int(os.environ.get("SLUICEGATE_VISION_SCRIPTS", "60"))
FIRST = int(os.environ.get("SLUICEGATE_VISION_SEED", "0"))

JPEGS = tuple(KINDS)[:6]
NEW_LABELS = {label: (label * 7) % 11 for label in range(12)}

pytestmark = [
    pytest.mark.timeout(600 + SCRIPTS),
    pytest.mark.filterwarnings("ignore:The transform `ToTensor`"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.leaves_files_open,
]


def _moved(label: int) -> int:
    return NEW_LABELS[label] - 1 if label > 2 else 0


def _shared(label: int) -> float:
    return label / 3


TARGET_TRANSFORMS = (int, float, NEW_LABELS.get, NEW_LABELS.__getitem__, _moved, _shared)


class Script(RandomScript):
    """One random training script, which can run with either loader."""

    def __init__(self, seed: int) -> None:
        draw = self._draw = random.Random(seed)
        self.name = draw.choice((*CLASSES, "FakeData"))
        self.height, self.width = draw.choice(((9, 11), (8, 8), (6, 13)))
        self.size = draw.randint(3, 30)
        self.is_recognized = draw.random() < 0.9
        pipelines = Pipelines(draw, channels_of(self.name), (self.height, self.width))
        self.transform = pipelines.draw() if self.is_recognized else pipelines.unrecognized()
        self.target_transform = draw.choice(TARGET_TRANSFORMS) if draw.random() < 0.3 else None
        if self.name == "FakeData":
            self.target_transform = None  # It would be called with tensors.
        self.combinator = draw.choice(("none", "none", "subset", "subset of subset", "split", "concat"))
        super().__init__(seed, draw)

    def dataset(self) -> Any:
        """Return the dataset, with the same samples each time."""
        dataset = self.made(self.seed)
        if self.combinator == "subset":
            return Subset(dataset, list(range(self.size - 1, 0, -1)) + [1, 1])
        if self.combinator == "subset of subset":
            return Subset(Subset(dataset, range(1, self.size)), torch.arange(self.size - 2).tolist())
        if self.combinator == "split":
            return random_split(dataset, [self.size - 2, 2], torch.Generator().manual_seed(1))[0]
        if self.combinator == "concat":
            return ConcatDataset([dataset, self.made(self.seed + 1)])
        return dataset

    def made(self, seed: int) -> Any:
        """Return a dataset of torchvision's."""
        given = {"height": self.height, "width": self.width, "size": self.size}
        dataset = made(self.name, None, **given, seed=seed)
        set_transforms(dataset, self.transform, self.target_transform)
        return dataset


class FolderScript(Script):
    """A script for files: `scanned` is the dataset as it was before files were damaged."""

    def __init__(self, seed: int, scanned: Any) -> None:
        super().__init__(seed)
        self.scanned, self.size = scanned, len(scanned)
        self.name = type(scanned).__name__
        if self.name == "CelebA":
            self.target_transform = None  # it would be called with tensors
        if self.is_recognized:
            self.transform = FolderPipelines(self._draw).draw()

    def made(self, seed: int) -> Any:
        dataset = copy.copy(self.scanned)
        set_transforms(dataset, self.transform, self.target_transform)
        return dataset


def _kind_of(item: Any) -> Any:
    return item if isinstance(item, type) else None


@pytest.mark.parametrize("part", range(4))
def test_random_scripts_are_as_torchs(part: int) -> None:
    check(Script(seed) for seed in range(FIRST + part, FIRST + SCRIPTS, 4))


@pytest.mark.parametrize("part", range(2))
def test_random_scripts_over_files_are_as_torchs(part: int, tmp_path: Path) -> None:
    scanned = []
    for number, name in enumerate(("ImageFolder", "ImageFolder", *LISTS)):
        draw = random.Random(100 * (FIRST + part) + number)
        kinds = draw.choice((JPEGS, JPEGS, tuple(KINDS)))
        dataset, paths = image_list(name, tmp_path / str(number), draw, draw.randint(7, 18), kinds)
        for path in draw.sample(paths, number % 2):
            damage(path, draw.choice(DAMAGES))
        scanned.append(dataset)
    seeds = range(FIRST + part, FIRST + SCRIPTS // 3, 2)
    check(FolderScript(seed, random.Random(seed).choice(scanned)) for seed in seeds)


def check(scripts: Iterable[Script]) -> None:
    """Run scripts with both loaders."""
    native = 0
    for script in scripts:
        try:
            expected, _ = script.run(torch.utils.data.DataLoader, resumes=False)
            actual, is_native = script.run(sluicegate.DataLoader, resumes=True)
            # The core need not recognize a pipeline that torchvision refuses, or that was never called.
            is_valid = any(isinstance(item, list) for item in expected) and ValueError not in map(_kind_of, expected)
            assert is_native or not (script.is_recognized and is_valid), script.loader(sluicegate.DataLoader)
            assert_same(actual, expected)
        except AssertionError as error:
            raise AssertionError(f"script {script.seed}: {vars(script)}") from error
        native += is_native
    assert native > 0
