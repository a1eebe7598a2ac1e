"""torchvision's datasets of image files, each class with files that its constructor finds."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.data

import sluicegate
from checks import epochs
from checks.equality import assert_same

pytest.importorskip("torchvision")

from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

from cases.image_folders import KINDS, damage, image_file
from cases.image_lists import AS_THEY_ARE, LISTS, image_list, set_transforms, setting

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.leaves_files_open,
]


PIPELINES = [
    v1.Compose([v1.Resize(30), v1.CenterCrop(24), v1.ToTensor(), v1.Normalize([0.5], [0.3])]),
    v1.Compose([v1.RandomResizedCrop(24), v1.RandomHorizontalFlip(), v1.ToTensor()]),
    v2.Compose(
        [v2.RandomResizedCrop(24), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    ),
]


assert_as_torch = functools.partial(epochs.assert_as_torch, batch_size=3, shuffle=True)


def _new(label: int) -> int:
    return 10 - label


@pytest.mark.parametrize(("number", "name"), [*enumerate(LISTS)])
def test_every_class_of_image_lists_matches_torch(tmp_path: Path, number: int, name: str) -> None:
    # Classes differ in how they list files, on which transforms and workers have no influence.
    dataset, paths = image_list(name, tmp_path, random.Random(name), 10)
    set_transforms(dataset, PIPELINES[number % 3])
    assert_as_torch(dataset, num_workers=number % 2 * 2)
    set_transforms(dataset, PIPELINES[0], None if name == "CelebA" else _new)
    assert_as_torch(dataset, num_workers=0)
    damage(paths[4], "cut")
    set_transforms(dataset, PIPELINES[1])
    seen = assert_as_torch(dataset, num_workers=2 - number % 2 * 2, epochs=1)
    assert sum(isinstance(each, type) for each in seen) == 1


# Half of the classes have workers, on which the lists of files have no influence.
@pytest.mark.parametrize(("number", "name"), [*enumerate(LISTS)])
def test_every_class_is_resumed(tmp_path: Path, number: int, name: str) -> None:
    dataset, _ = image_list(name, tmp_path, random.Random(name), 10)
    set_transforms(dataset, PIPELINES[1])
    epochs.assert_resumes_as_torch(dataset, batch_size=3, shuffle=True, num_workers=number % 2 * 2)


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_images_that_are_not_converted(tmp_path: Path, name: str) -> None:
    """A gray image stays gray: a batch of only gray images is gray, and a mixed one is torch's error."""
    dataset, paths = image_list(name, tmp_path, random.Random(1), 10, ("jpeg", "png"))
    if name == "INaturalist":
        dataset.loader = None
    for path, kind in ((paths[2], "gray jpeg"), (paths[7], "gray png"), (paths[9], "palette png")):
        image_file(tmp_path / "other", kind, random.Random(2), (40, 50)).rename(path)
    for transform, num_workers in zip(PIPELINES, (2, 0, 0), strict=True):
        set_transforms(dataset, transform)
        seen = assert_as_torch(dataset, num_workers=num_workers, epochs=1)
        assert any(isinstance(each, type) for each in seen)
        seen = assert_as_torch(dataset, num_workers=num_workers, batch_size=1, epochs=1)
        assert any(isinstance(each, list) and each[0].shape[1] == 1 for each in seen)


def _open(path: str) -> Any:
    return datasets.folder.pil_loader(path)


PYTHON: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "a loader": ("Food101", setting(loader=_open), "its loader is not torchvision's"),
    "no loader": ("Food101", setting(loader=None), "its loader is not torchvision's"),
    "another _loader": ("LFWPeople", setting(_loader=_open), "its loader is not torchvision's"),
    "no labels": ("CLEVRClassification", setting(_labels=[None] * 10), "labels are not all of type int"),
    "some labels": (
        "Places365",
        lambda dataset: dataset.imgs.__setitem__(3, ("a", None)),
        "labels are not all of type",
    ),
    "too few labels": ("DTD", setting(_labels=[1]), "there are 10 files and 1 labels"),
    "masks": ("OxfordIIITPet", setting(_target_types=["segmentation"]), "masks are Pillow images"),
    "two targets": ("OxfordIIITPet", setting(_target_types=["category"] * 2), "only category or binary-category alone"),
    "no targets": ("CelebA", setting(target_type=[]), "only attr or identity alone"),
    "boxes": ("CelebA", setting(target_type=["bbox"]), "only attr or identity alone"),
    "contours": ("Caltech101", setting(target_type=["annotation"]), "only category alone"),
    "families": ("INaturalist", setting(target_type=["family"]), "only full alone"),
    "both": (
        "OxfordIIITPet",
        setting(transforms=v2.Compose([v2.ToImage()])),
        "transforms is called with image and label",
    ),
    "tensors": ("CelebA", lambda dataset: set_transforms(dataset, PIPELINES[0], int), "labels are tensors"),
    "no transform": ("Places365", lambda dataset: set_transforms(dataset, None), "samples are Pillow images"),
    "draws": (
        "Places365",
        lambda dataset: set_transforms(dataset, PIPELINES[0], lambda label: label + random.random()),
        "target_transform is called in Python: it may do more than compute",
    ),
}


@pytest.mark.parametrize("case", PYTHON)
def test_explain_names_why_python_reads_a_list_of_images(tmp_path: Path, case: str) -> None:
    name, change, reason = PYTHON[case]
    dataset, _ = image_list(name, tmp_path, random.Random(3), 10)
    set_transforms(dataset, PIPELINES[0])
    loader = sluicegate.DataLoader(dataset)
    assert loader.explain().engine == "rust"
    change(dataset)
    explanation = sluicegate.DataLoader(dataset).explain()
    assert explanation.engine == "python"
    assert reason in str(explanation)


def _own_method(dataset: Any) -> None:
    class Own(type(dataset)):  # type: ignore[misc]
        def __getitem__(self, index: int) -> Any:
            image, label = super().__getitem__(index)
            return -image, label

    dataset.__class__ = Own


def _own_labels(dataset: Any) -> None:
    for value in vars(dataset).values():
        if isinstance(value, list) and value and all(type(each) is int for each in value):
            value[:] = [min(value)] * len(value)
        elif isinstance(value, list) and value and type(value[0]) is tuple and type(value[0][-1]) is int:
            value[:] = [(path, 2) for path, _ in value]


def _change_inner_transform(dataset: Any) -> None:
    if dataset.transforms is not None:
        dataset.transforms.transform = PIPELINES[0]


def _change_transform(dataset: Any) -> None:
    dataset.transform = PIPELINES[0]


def _change_paths(dataset: Any) -> None:
    for value in vars(dataset).values():
        if isinstance(value, list) and len(value) == 10:
            value[7:] = value[:3]


OF_LISTS = (_own_labels, _change_paths)
OF_TRANSFORMS = (_own_method, _change_inner_transform, _change_transform)
CHANGES = OF_LISTS + OF_TRANSFORMS
CHANGED = [name for name in LISTS if name not in ("ImageFolder", "EuroSAT", "Country211")]


# For each class, the changes of its lists, and two others, one of them with workers.
@pytest.mark.parametrize(("number", "name"), [*enumerate(CHANGED)])
def test_changes_in_the_middle_of_an_epoch_are_seen_as_with_torch(tmp_path: Path, number: int, name: str) -> None:
    with_workers, without = CHANGES[number % len(CHANGES)], OF_TRANSFORMS[number % len(OF_TRANSFORMS)]
    changes = [(2, with_workers), *((0, change) for change in (*OF_LISTS, without))]
    for case, (num_workers, change) in enumerate(changes):
        seen = []
        for kind in (torch.utils.data.DataLoader, sluicegate.DataLoader):
            # The same files for both loaders.
            root = tmp_path / f"{case}"
            dataset = _scanned(name, root)
            set_transforms(dataset, PIPELINES[2])
            torch.manual_seed(5)
            loader = kind(dataset, batch_size=3, num_workers=num_workers)
            batches: list[Any] = []
            for batch in itertools.chain(loader, loader):
                batches.append(batch)
                if len(batches) == 2:
                    change(dataset)
            seen.append(batches)
        assert_same(seen[1], seen[0])


_SCANNED: dict[Path, Any] = {}


def _scanned(name: str, root: Path) -> Any:
    """Return a new dataset over `root`, whose files are written at the first call."""
    kinds = tuple(KINDS)[:9]
    if root not in _SCANNED:
        _SCANNED[root] = image_list(name, root, random.Random(3), 10, kinds)[0]
    dataset = _SCANNED[root].__class__.__new__(_SCANNED[root].__class__)
    for attribute, value in vars(_SCANNED[root]).items():
        vars(dataset)[attribute] = list(value) if isinstance(value, list) else value
    return dataset
