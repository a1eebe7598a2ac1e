"""Images that are cached after the first epoch: the same images, without reading their files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from checks.equality import assert_same
from doubles.photographs import InPython, folder_of
from sluicegate import DataLoader, ImageField, ImageFolderDataset
from sluicegate import transforms as T

RESIZED = 3 * 40 * 40


def training() -> Any:
    """Return a pipeline that starts with deterministic transforms, whose results are cached."""
    return T.Compose(
        [T.Resize((40, 40)), T.RandomCrop(32), T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=True)]
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "images", 12)


def epochs(dataset: Any, count: int = 2, **options: Any) -> list[Any]:
    loader = DataLoader(dataset, batch_size=5, seed=7, shuffle=True, **options)
    return [list(loader) for _ in range(count)]


@pytest.mark.parametrize("cache", ["memory", "disk"])
@pytest.mark.parametrize("workers", [0, 2])
def test_images_are_the_same_and_their_files_are_read_once(root: Path, cache: Any, workers: int) -> None:
    expected = epochs(ImageFolderDataset(root, training()), 3)
    dataset = ImageFolderDataset(root, training(), cache=cache, cache_folder=root.parent / "cache")
    loader = DataLoader(dataset, batch_size=5, seed=7, shuffle=True, num_workers=workers)
    assert_same(list(loader), expected[0])
    assert RESIZED * 12 <= dataset.cached_bytes < RESIZED * 12 + 12 * 128
    shutil.rmtree(root)
    assert_same(list(loader), expected[1])
    assert_same(list(loader), expected[2])
    assert not any((root.parent / "cache").glob("*"))


def test_forked_workers_fill_one_cache(root: Path) -> None:
    expected = epochs(InPython(root, training()))
    dataset = InPython(root, training(), cache="memory")
    assert_same(epochs(dataset, num_workers=2), expected)
    assert dataset.cached_bytes >= RESIZED * 12
    assert_same(epochs(dataset), expected)


@pytest.mark.parametrize("kept", [0, 5])
def test_images_that_do_not_fit_in_the_cache_are_decoded_again(root: Path, kept: int) -> None:
    expected = epochs(ImageFolderDataset(root, training()))
    size = kept * (RESIZED + 64)
    dataset = ImageFolderDataset(root, training(), cache="memory", cache_bytes=size)
    assert_same(epochs(dataset), expected)
    assert kept * RESIZED <= dataset.cached_bytes <= size


def test_whole_images_are_cached_if_the_first_transform_is_random(root: Path) -> None:
    random = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip()])
    expected = epochs(ImageFolderDataset(root, random, exact=True))
    dataset = ImageFolderDataset(root, random, cache="memory")
    assert_same(epochs(dataset), expected)
    assert_same(epochs(dataset), expected)
    assert dataset.cached_bytes > 12 * 60 * 70 * 3


def test_each_dataset_has_its_own_image_cache(root: Path) -> None:
    field = ImageField(training(), cache="memory")
    first, second = field.of_dataset(3), field.of_dataset(3)
    data = next(root.glob("*/*")).read_bytes()
    first.decode(data, 1)
    assert first.cached_bytes > 0
    assert second.cached_bytes == field.cached_bytes == 0


def test_arguments_are_checked(root: Path) -> None:
    with pytest.raises(ValueError, match="'memory', 'disk' or None"):
        ImageField(cache="ram")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cache_bytes should be 0 or more"):
        ImageField(cache="memory", cache_bytes=-1)
    with pytest.raises(OSError, match="images"):
        ImageFolderDataset(root, training(), cache="disk", cache_folder=next(root.glob("*/*")))
