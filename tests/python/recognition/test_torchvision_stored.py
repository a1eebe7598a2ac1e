"""torchvision's `PCAM`, whose files of HDF5 the core reads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import ConcatDataset, Subset

from checks import epochs
from checks.equality import assert_same
from sluicegate import DataLoader

pytest.importorskip("torchvision")
pytest.importorskip("h5py")

import h5py
from torchvision import transforms as v1
from torchvision.datasets import PCAM

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

assert_as_torch = functools.partial(epochs.assert_as_torch, batch_size=4, shuffle=True)
RANDOM = v1.Compose([v1.RandomCrop(9, padding=2), v1.RandomHorizontalFlip(), v1.ColorJitter(0.3), v1.ToTensor()])
FLIPPED = {0: 1, 1: 0}


def write(root: Path, seed: int = 0, *, size: int = 23, split: str = "train", **options: Any) -> None:
    """Write the files of a split: images of 12 x 10 pixels."""
    values = np.random.RandomState(seed)
    (root / "pcam").mkdir(parents=True, exist_ok=True)
    arrays = {
        "x": options.pop("x", values.randint(0, 256, (size, 12, 10, 3), dtype=np.uint8)),
        "y": options.pop("y", values.randint(0, 2, (size, 1, 1, 1), dtype=np.uint8)),
    }
    for name, array in arrays.items():
        path = root / "pcam" / PCAM._FILES[split]["images" if name == "x" else "targets"][0]
        path.unlink(missing_ok=True)
        with h5py.File(path, "w") as file:
            file.create_dataset(name, data=array, **(options if name == "x" else {}))


def images_of(root: Path) -> Path:
    return root / "pcam" / PCAM._FILES["train"]["images"][0]


LAYOUTS: dict[str, dict[str, Any]] = {
    "in one piece": {},
    "in chunks": {"chunks": (4, 12, 10, 3)},
    "in parts of images": {"chunks": (3, 5, 10, 2)},
    "compressed": {"chunks": (1, 12, 10, 3), "compression": "gzip", "shuffle": True},
}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_matches_torch(tmp_path: Path, layout: str, num_workers: int) -> None:
    write(tmp_path, **LAYOUTS[layout])
    assert_as_torch(PCAM(str(tmp_path), transform=v1.ToTensor()), num_workers=num_workers)
    assert_as_torch(PCAM(tmp_path, transform=RANDOM, target_transform=FLIPPED.get), num_workers=num_workers)


def test_every_split(tmp_path: Path) -> None:
    for seed, split in enumerate(("train", "test", "val")):
        write(tmp_path, seed, split=split)
        assert_as_torch(PCAM(str(tmp_path), split, RANDOM))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_parts_of_datasets(tmp_path: Path, num_workers: int) -> None:
    write(tmp_path)
    write(tmp_path, 1, split="val")
    train, val = PCAM(str(tmp_path), "train", RANDOM), PCAM(str(tmp_path), "val", RANDOM)
    assert_as_torch(ConcatDataset([Subset(train, [5, 2, 2]), val]), num_workers=num_workers)


def test_indices_that_the_core_does_not_take(tmp_path: Path) -> None:
    write(tmp_path)
    assert_as_torch(PCAM(str(tmp_path), transform=RANDOM), shuffle=False, sampler=[0, -1, 22, 23, 3], batch_size=1)


def test_a_damaged_chunk_fails_as_in_torch(tmp_path: Path) -> None:
    write(tmp_path, chunks=(1, 12, 10, 3), compression="gzip")
    with h5py.File(images_of(tmp_path)) as file:
        chunk = file["x"].id.get_chunk_info(7)
    with images_of(tmp_path).open("r+b") as file:
        file.seek(chunk.byte_offset)
        file.write(b"\0" * chunk.size)
    assert_as_torch(PCAM(str(tmp_path), transform=RANDOM))
    assert_as_torch(PCAM(str(tmp_path), transform=RANDOM), num_workers=2)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_replaced_files_are_read_again(tmp_path: Path, num_workers: int) -> None:
    seen = []
    for kind in (torch.utils.data.DataLoader, DataLoader):
        write(tmp_path)
        dataset = PCAM(str(tmp_path), transform=RANDOM)
        loader = kind(dataset, batch_size=4, num_workers=num_workers)
        torch.manual_seed(1)
        seen.append([*loader])
        write(tmp_path, 1)
        seen[-1] += loader
    assert_same(seen[1], seen[0])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_relative_paths_follow_the_current_directory(
    tmp_path: Path, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(2):
        write(tmp_path / str(seed) / "data", seed)
    seen = []
    for kind in (torch.utils.data.DataLoader, DataLoader):
        monkeypatch.chdir(tmp_path / "0")
        loader = kind(PCAM("data", transform=RANDOM), batch_size=4, num_workers=num_workers)
        torch.manual_seed(1)
        iterator = iter(loader)
        seen.append([next(iterator)])
        monkeypatch.chdir(tmp_path / "1")
        seen[-1] += [*iterator, *loader]
    assert_same(seen[1], seen[0])


def _without_h5py(dataset: Any) -> None:
    dataset.h5py = None


REASONS: dict[str, tuple[dict[str, Any], Callable[[Any], None], str]] = {
    "a filter of HDF5": ({"chunks": (4, 12, 10, 3), "scaleoffset": 0}, lambda _: None, "scale-offset"),
    "labels of floats": ({"y": np.zeros((23, 1, 1, 1))}, lambda _: None, "labels are not integers"),
    "labels of one axis": ({"y": np.zeros(23, np.int64)}, lambda _: None, "labels are not integers"),
    "too few labels": ({"y": np.zeros((22, 1, 1, 1), np.int64)}, lambda _: None, "23 images and 22 labels"),
    "another library": ({}, _without_h5py, "h5py was replaced"),
    "gray images": ({"x": np.zeros((23, 12, 10), np.uint8)}, lambda _: None, "images are not an array of uint8"),
    "images of floats": ({"x": np.zeros((23, 12, 10, 3))}, lambda _: None, "images are not an array of uint8"),
}


@pytest.mark.parametrize("name", REASONS)
def test_explain_names_why_python_reads(tmp_path: Path, name: str) -> None:
    options, change, reason = REASONS[name]
    write(tmp_path, **options)
    dataset = PCAM(str(tmp_path), transform=RANDOM)
    change(dataset)
    found = DataLoader(dataset).explain()
    assert found.engine == "python"
    assert reason in str(found)
