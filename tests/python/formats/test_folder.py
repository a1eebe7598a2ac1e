"""`FolderDataset`: one file per sample, in the order and with the classes of torchvision's `ImageFolder`."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import sluicegate
from checks.equality import assert_same
from checks.formats import check_format
from sluicegate import FolderDataset

NAMES = [
    "cat/10.jpg",
    "cat/9.jpg",
    "cat/more/1.JPG",
    "cat/more-2/1.jpg",
    "cat-2/x.jpg",
    "dog/a.png",
    "dog/empty.jpg",
    "top.jpg",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if "empty" in name else f"this is {name}".encode() * 50)
    return tmp_path


def image_folder(root: Path, extensions: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the paths and classes that torchvision's `ImageFolder` finds, as its `make_dataset` does."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    for number, name in enumerate(classes):
        for folder, _, names in sorted(os.walk(root / name, followlinks=True)):
            for file in sorted(names):
                if file.lower().endswith(extensions):
                    yield os.path.join(folder, file), number


def test_files_are_samples(root: Path) -> None:
    dataset = FolderDataset(root)
    order = ["top.jpg", *NAMES[:-1]]
    assert [sample["path"] for sample in dataset] == order
    check_format(dataset, [{"bytes": (root / name).read_bytes(), "path": name} for name in order])


def test_classes_and_order_are_those_of_image_folder(root: Path) -> None:
    dataset = FolderDataset(str(root), classes=True, extensions=(".jpg", "png"))
    expected = list(image_folder(root, (".jpg", ".png")))
    assert [(os.path.join(dataset.root, sample["path"]), sample["class"]) for sample in dataset] == expected
    assert (dataset.classes, dataset.class_to_idx) == (["cat", "cat-2", "dog"], {"cat": 0, "cat-2": 1, "dog": 2})
    check_format(
        dataset,
        [
            {"bytes": Path(path).read_bytes(), "path": os.path.relpath(path, root), "class": number}
            for path, number in expected
        ],
    )
    batches = [list(loader(dataset, batch_size=4)) for loader in (torch.utils.data.DataLoader, sluicegate.DataLoader)]
    assert_same(*batches)


def test_a_pattern_selects_files(root: Path) -> None:
    assert [sample["path"] for sample in FolderDataset(root / "*/*.jpg")] == [
        "cat/10.jpg",
        "cat/9.jpg",
        "cat-2/x.jpg",
        "dog/empty.jpg",
    ]
    below = FolderDataset(f"{root}/cat/**/*.jpg")
    assert (below.root, [sample["path"] for sample in below]) == (
        str(root / "cat"),
        ["10.jpg", "9.jpg", "more-2/1.jpg"],
    )
    assert len(FolderDataset(os.fsencode(root))) == 8


@pytest.mark.parametrize(
    "pattern", ["?.jpg", "[à-é]*", "[!a].*", "**", "**/*", "x/**", "*/?", "**/[!.]*/*", "日*/**/?.*"]
)
def test_a_pattern_means_the_files_that_glob_finds(tmp_path: Path, pattern: str) -> None:
    names = ("a.jpg", "ñ.jpg", "日.jpg", "ab.jpg", "é", "x/a", "x/é", "x/y/z.png", ".b/a.jpg", "x/.c", "日本/a/語.txt")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = set(filter(os.path.isfile, glob.glob(f"{tmp_path}/{pattern}", recursive=True)))
    dataset = FolderDataset(tmp_path / pattern)
    assert {os.path.join(dataset.root, sample["path"]) for sample in dataset} == found
    assert found


def test_names_that_are_not_utf_8_are_decoded_as_python_does(tmp_path: Path) -> None:
    names = [b"\xff\xfe.txt", "ö.txt".encode(), b"a\nb", b"plain", b"z"]
    for name in names:
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_bytes(name)
    dataset = FolderDataset(tmp_path)
    in_order = sorted(names)
    assert [sample["path"] for sample in dataset] == [os.fsdecode(name) for name in in_order]
    assert [each["path"] for each in FolderDataset(tmp_path / os.fsdecode(b"*\xfe.txt"))] == [os.fsdecode(names[0])]
    check_format(dataset, [{"bytes": name, "path": os.fsdecode(name)} for name in in_order])


def test_links_out_of_the_folder_are_followed_only_with_follow_links(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "y.jpg").write_bytes(b"out")
    (root / "elsewhere").symlink_to(outside)
    with pytest.raises(ValueError, match=r"elsewhere is a link to .*, outside the folder; pass follow_links=True"):
        FolderDataset(root)
    dataset = FolderDataset(root, follow_links=True)
    assert dataset[-1] == {"bytes": b"out", "path": "elsewhere/y.jpg"}


def test_missing_folders_and_files_are_named(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        FolderDataset(root / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"root: no file in '.*' or its subfolders that ends in \.gif"):
        FolderDataset(root, extensions="gif")
    with pytest.raises(FileNotFoundError, match=r"root: no file in '.*' or its subfolders that matches '\*\.gif'"):
        FolderDataset(root / "*.gif")
    with pytest.raises(NotADirectoryError):
        FolderDataset(root / "top.jpg")
    (root / "bird").mkdir()
    with pytest.raises(ValueError, match="the folder `bird` has no file"):
        FolderDataset(root, classes=True)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_file_that_is_gone_is_an_error_of_its_own_batch(root: Path, num_workers: int) -> None:
    dataset = FolderDataset(root)
    os.remove(root / "cat/9.jpg")
    iterator: Any = iter(sluicegate.DataLoader(dataset, batch_size=1, num_workers=num_workers))
    taken: list[Any] = []
    for _ in range(8):
        try:
            taken.extend(next(iterator)["path"])
        except FileNotFoundError as error:
            taken.append(error.filename)
    assert taken[2] == str(root / "cat/9.jpg")
    assert len(taken) == 8


@pytest.mark.parametrize("form", ["list", "glob", "braces", "both"])
def test_several_folders_follow_one_another(tmp_path: Path, form: str) -> None:
    files = ["part-1/dog/a.jpg", "part-1/cat/b.jpg", "part-2/cat/a.jpg", "part-2/emu/c.jpg", "part-2/emu/d.jpg"]
    for name in files:
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).write_bytes(name.encode())
    given: Any = {
        "list": [tmp_path / "x" / "part-1", str(tmp_path / "x" / "part-2")],
        "glob": tmp_path / "x" / "part-*",
        "braces": tmp_path / "x" / "part-{1..2}",
        "both": [str(tmp_path / "*" / "part-1"), tmp_path / "x" / "part-{2,2}"],
    }[form]
    dataset: Any = FolderDataset(given, classes=True)
    assert dataset.root == str(tmp_path / "x")
    assert dataset.class_to_idx == {"cat": 0, "dog": 1, "emu": 2}
    order = [(files[1], 0), (files[0], 1), (files[2], 0), (files[3], 2), (files[4], 2)]
    order += order[2:] if form == "both" else []
    samples = [{"bytes": name.encode(), "path": name, "class": number} for name, number in order]
    check_format(dataset, samples)
    assert all((tmp_path / "x" / sample["path"]).read_bytes() == sample["bytes"] for sample in dataset)


def test_one_of_several_folders_may_contain_another(root: Path) -> None:
    dataset = FolderDataset([root / "cat", root], extensions=".jpg")
    below = ["cat/10.jpg", "cat/9.jpg", "cat/more/1.JPG", "cat/more-2/1.jpg"]
    assert [sample["path"] for sample in dataset][:4] == below
    assert len(dataset) == 4 + 7
    assert dataset[0]["bytes"] == (root / "cat/10.jpg").read_bytes()


def test_several_folders_may_have_one_pattern(root: Path) -> None:
    dataset = FolderDataset(f"{root}/{{cat,dog}}/*.jpg")
    assert [sample["path"] for sample in dataset] == ["cat/10.jpg", "cat/9.jpg", "dog/empty.jpg"]
    with pytest.raises(
        ValueError, match=r"root: expected one pattern for the files of all folders, but got \['\*\.jpg', None\]"
    ):
        FolderDataset([f"{root}/cat/*.jpg", root / "dog"])
    with pytest.raises(ValueError, match="at least one folder, but got an empty list"):
        FolderDataset([])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        FolderDataset([root / "cat", root / "nowhere"])
    for number in range(3):
        (root / "few" / str(number)).mkdir(parents=True)
    for number in range(2):
        (root / "few" / str(number) / "x").touch()
    with pytest.raises(ValueError, match="the folder `2` has no file"):
        FolderDataset([root / "few"], classes=True)
