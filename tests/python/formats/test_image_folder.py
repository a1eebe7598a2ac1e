"""`ImageFolderDataset`: torchvision's `ImageFolder`, read and decoded in Rust."""

from __future__ import annotations

import io
import os
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from PIL import Image

import sluicegate
from checks.equality import assert_same
from checks.pillow import pillows
from sluicegate import ImageFolderDataset

NAMES = ["bird/b.png", "cat/10.jpg", "cat/9.JPG", "cat/more/1.jpeg", "dog/a.webp", "dog/c.pgm"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    generator = np.random.default_rng(3)
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 255, (11, 17, 3), dtype=np.uint8)
        image = Image.fromarray(pixels).resize((34, 22)).convert("L" if name.endswith("pgm") else "RGB")
        image.save(path, **({"lossless": True} if name.endswith("webp") else {}))
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    return tmp_path


def torchvisions(root: Path, is_valid: Callable[[str], bool] | None = None) -> Iterator[tuple[str, int]]:
    """Return the paths and classes of torchvision's `ImageFolder`, as its `make_dataset` does."""
    ends = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
    is_valid = is_valid or (lambda path: path.lower().endswith(ends))
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    for number, name in enumerate(classes):
        for folder, _, names in sorted(os.walk(root / name, followlinks=True)):
            for file in sorted(names):
                if is_valid(path := os.path.join(folder, file)):
                    yield path, number


def test_samples_are_those_of_image_folder(root: Path) -> None:
    dataset = ImageFolderDataset(root)
    expected = list(torchvisions(root))
    assert dataset.samples == dataset.imgs == expected
    assert dataset.targets == [label for _, label in expected]
    assert (dataset.classes, dataset.class_to_idx) == (["bird", "cat", "dog"], {"bird": 0, "cat": 1, "dog": 2})
    assert len(dataset) == len(expected)
    for place, (path, label) in enumerate(expected):
        image, found = dataset[place]
        assert torch.equal(image, pillows(Path(path).read_bytes(), "RGB"))
        assert (found, type(found)) == (label, int)
    assert torch.equal(dataset[-1][0], dataset[len(dataset) - 1][0])
    for place in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError, match="out of range"):
            dataset[place]


def test_transforms_are_called(root: Path) -> None:
    dataset = ImageFolderDataset(str(root), lambda image: image.float().mean(), lambda label: label * 10, mode="L")
    image, label = dataset[4]
    assert (image.shape, label) == ((), 20)


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}, {"num_workers": 2, "worker_type": "thread"}])
def test_a_loader_gives_torchs_batches(root: Path, workers: dict[str, Any]) -> None:
    dataset = ImageFolderDataset(root)
    expected = torch.utils.data.DataLoader(dataset, 2, shuffle=True, generator=torch.Generator().manual_seed(5))
    loader = sluicegate.DataLoader(dataset, 2, shuffle=True, generator=torch.Generator().manual_seed(5), **workers)
    assert_same(list(loader), list(expected))


def test_files_may_be_chosen_by_a_function(root: Path) -> None:
    def is_valid(path: str) -> bool:
        return "1" in os.path.basename(path) or "a.webp" in path

    dataset = ImageFolderDataset(root, is_valid_file=is_valid, allow_empty=True)
    assert dataset.samples == list(torchvisions(root, is_valid))
    assert (dataset.classes, dataset.targets) == (["bird", "cat", "dog"], [1, 1, 2])
    assert torch.equal(dataset[2][0], pillows(Path(dataset.samples[2][0]).read_bytes(), "RGB"))
    with pytest.raises(FileNotFoundError, match=r"class folders of .*: bird; remove"):
        ImageFolderDataset(root, is_valid_file=is_valid)
    with pytest.raises(ValueError, match="pass only one of them"):
        ImageFolderDataset(root, is_valid_file=is_valid, extensions=(".jpg",))


def test_a_class_without_images_is_an_error_or_counts(root: Path) -> None:
    (root / "ant").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no file that ends in \.jpg, .* class folders of .*: ant;"):
        ImageFolderDataset(root)
    dataset = ImageFolderDataset(root, allow_empty=True)
    assert (dataset.classes[0], dataset.targets[0], len(dataset)) == ("ant", 1, len(NAMES))


def test_no_classes_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="root: no class folder in "):
        ImageFolderDataset(tmp_path)
    with pytest.raises(FileNotFoundError):
        ImageFolderDataset(tmp_path / "none")


def test_links_are_followed_or_refused(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    links = tmp_path_factory.mktemp("links")
    (links / "one").symlink_to(root / "cat")
    assert ImageFolderDataset(links).samples == list(torchvisions(links))
    with pytest.raises(ValueError, match="link"):
        ImageFolderDataset(links, follow_links=False)


def test_errors_name_the_image_file(root: Path) -> None:
    path = root / "cat" / "10.jpg"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    dataset = ImageFolderDataset(root)
    place = [name for name, _ in dataset.samples].index(str(path))
    with pytest.raises(ValueError, match=re.escape(str(path)) + ": the image is truncated"):
        dataset[place]
    assert ImageFolderDataset(root, truncated="fill")[place][0].shape == (3, 22, 34)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        list(sluicegate.DataLoader(dataset, 2, num_workers=1))
    path.unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(str(path))):
        dataset[place]


def test_a_pickled_image_folder_keeps_its_arguments(root: Path) -> None:
    dataset = ImageFolderDataset(root, mode="L", extensions=("jpg", ".jpeg"), allow_empty=True)
    other = pickle.loads(pickle.dumps(dataset))
    assert repr(other) == repr(dataset)
    assert torch.equal(other[0][0], dataset[0][0])
    assert other.samples == dataset.samples


def test_exif_orientation_rotates_images_only_on_request(root: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.open(io.BytesIO((root / "bird" / "b.png").read_bytes())).save(file, "jpeg", exif=exif)
    (root / "bird" / "b.png").unlink()
    (root / "bird" / "up.jpg").write_bytes(file.getvalue())
    assert ImageFolderDataset(root)[0][0].shape == (3, 22, 34)
    assert ImageFolderDataset(root, exif_orientation=True)[0][0].shape == (3, 34, 22)
