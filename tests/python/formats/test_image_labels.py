"""`ImageFolderDataset(labels=...)`: labels by pattern, table, or function, and images without labels."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import Subset

from checks.equality import assert_same
from doubles.photographs import folder_of
from sluicegate import CsvLabels, DataLoader, ImageField, ImageFolderDataset, decode_image
from sluicegate import transforms as T
from sluicegate.by_class.label_scan import scanned_labels

# In the order of the samples; the index is the gray value.
NAMES = ["dog_4.pgm", "a/cat_1.pgm", "a/dog_2.pgm", "a/b/cat_0.pgm", "c/ape_3.pgm"]
PATTERN = r"(?P<label>[a-z]+)_\d+\.pgm$"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for gray, name in enumerate(NAMES):
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"P5 3 2 255 " + bytes([gray]) * 6)
    return tmp_path / "images"


def number_of(path: str) -> int:
    return int(path[-5])


def half_of(path: str) -> float:
    return number_of(path) / 2


def is_even(path: str) -> bool:
    return number_of(path) % 2 == 0


def kind_of(path: str) -> str:
    return path.rpartition("/")[2].partition("_")[0]


def point_of(path: str) -> list[float]:
    return [number_of(path), len(path)]


def array_of(path: str) -> np.ndarray[Any, Any]:
    return np.full((2, 3), number_of(path), dtype=np.int16)


def scalar_of(path: str) -> Any:
    return np.float32(half_of(path))


def point_as_tensor(path: str) -> torch.Tensor:
    return torch.tensor(point_of(path))


def array_as_tensor(path: str) -> torch.Tensor:
    return torch.from_numpy(array_of(path))


class Expected(torch.utils.data.Dataset[Any]):
    """The dataset that a user would write by hand."""

    def __init__(self, root: Path, label_of: Callable[[str], Any]) -> None:
        self.root, self.label_of = root, label_of

    def __len__(self) -> int:
        return len(NAMES)

    def __getitem__(self, index: int) -> Any:
        return decode_image(self.root / NAMES[index], "L"), self.label_of(NAMES[index])


def test_a_pattern_finds_classes(root: Path) -> None:
    for pattern in (PATTERN, re.compile(r"([a-z]+)_")):
        dataset = ImageFolderDataset(root, mode="L", labels=pattern)
        assert dataset.classes == ["ape", "cat", "dog"]
        assert dataset.class_to_idx == {"ape": 0, "cat": 1, "dog": 2}
        assert dataset.targets == [2, 1, 2, 1, 0]
        assert (
            dataset.samples == dataset.imgs == [(str(root / name), dataset.targets[i]) for i, name in enumerate(NAMES)]
        )
        expected = Expected(root, lambda name: ["ape", "cat", "dog"].index(kind_of(name)))
        assert_same([dataset[place] for place in range(5)], list(expected))
    assert ImageFolderDataset(root, labels=r"^([ac])/", is_valid_file=lambda path: "dog_4" not in path).targets == [
        0,
        0,
        0,
        1,
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (number_of, number_of),
        (half_of, half_of),
        (is_even, is_even),
        (scalar_of, half_of),
        (kind_of, lambda path: ["ape", "cat", "dog"].index(kind_of(path))),
        (point_of, point_as_tensor),
        (array_of, array_as_tensor),
    ],
)
def test_a_function_gives_labels_which_batches_have_as_torchs(
    root: Path, labels: Callable[[str], Any], expected: Callable[[str], Any]
) -> None:
    whole = Expected(root, expected)
    for transform in (None, T.CenterCrop((2, 3))):
        dataset = ImageFolderDataset(root, transform, mode="L", labels=labels)
        assert dataset.is_native == (transform is not None)
        assert_same([dataset[place] for place in range(5)], list(whole))
        assert_same(dataset.targets, [label for _, label in whole])
        for workers in (0, 2):
            found = DataLoader(dataset, batch_size=2, num_workers=workers)
            assert_same(list(found), list(torch.utils.data.DataLoader(whole, batch_size=2)))
        assert_same(list(dataset[:]), next(iter(torch.utils.data.DataLoader(whole, batch_size=5))))
    assert_same(list(torch.utils.data.DataLoader(dataset, batch_size=2)), list(found))


def test_labels_of_a_sample_are_its_own(root: Path) -> None:
    dataset = ImageFolderDataset(root, mode="L", labels=point_of)
    dataset[0][1].zero_()
    dataset.targets[1].zero_()
    assert dataset[0][1].tolist() == point_of(NAMES[0])
    assert dataset[1][1].tolist() == point_of(NAMES[1])


def test_without_labels_a_sample_is_an_image(root: Path) -> None:
    images = [decode_image(root / name, "L") for name in NAMES]
    for transform in (None, T.CenterCrop((2, 3))):
        dataset = ImageFolderDataset(root, transform, mode="L", labels=None)
        assert_same([dataset[place] for place in range(5)], images)
        assert_same(dataset[1:3], torch.stack(images[1:3]))
        for workers in (0, 2):
            assert_same(list(DataLoader(dataset, batch_size=5, num_workers=workers)), [torch.stack(images)])
        assert_same(list(torch.utils.data.DataLoader(dataset, batch_size=5)), [torch.stack(images)])
    assert (dataset.classes, dataset.class_to_idx, dataset.targets) == ([], {}, [None] * 5)
    assert dataset.samples[1] == (str(root / NAMES[1]), None)
    with pytest.raises(ValueError, match="target_transform"):
        ImageFolderDataset(root, labels=None, target_transform=str)
    with pytest.raises(ValueError, match="target_transform"):
        dataset.target_transform = str


@pytest.mark.parametrize("labels", ["folder", PATTERN, number_of, None, "table"])
def test_a_pickled_image_folder_keeps_its_labels(root: Path, labels: Any) -> None:
    if labels == "table":
        labels = table(root, "file,label\n" + "".join(f"{name},{name}\n" for name in NAMES))
    dataset = ImageFolderDataset(root, T.CenterCrop(2), mode="L", labels=labels)
    other = pickle.loads(pickle.dumps(dataset))
    assert (repr(other), other.samples, other.classes) == (repr(dataset), dataset.samples, dataset.classes)
    assert_same(list(DataLoader(other, batch_size=3)), list(DataLoader(dataset, batch_size=3)))
    loader = torch.utils.data.DataLoader(dataset, batch_size=3, num_workers=1)
    assert_same(list(loader), list(DataLoader(dataset, batch_size=3)))


@pytest.mark.parametrize("labels", ["folder", PATTERN, point_of])
def test_target_transform_is_called_with_labels_and_the_cache_stays(root: Path, labels: Any) -> None:
    dataset = ImageFolderDataset(root, T.CenterCrop((2, 3)), mode="L", labels=labels, cache="memory")
    before = list(DataLoader(dataset, batch_size=2))
    kept = dataset.cached_bytes
    assert kept > 0
    dataset.target_transform = str
    assert dataset[1][1] == str(dataset.targets[1])
    found = next(iter(DataLoader(dataset, batch_size=5)))[1]
    assert list(found) == list(map(str, dataset.targets))
    dataset.target_transform = None
    for name in NAMES:
        (root / name).unlink()
    assert_same(list(DataLoader(dataset, batch_size=2)), before)
    assert dataset.cached_bytes == kept


def test_invalid_label_arguments_and_unmatched_paths_are_errors(root: Path) -> None:
    cases: list[tuple[Any, type[Exception], str]] = [
        (r"(cat|dog)_", ValueError, r"does not match 1 of 5 paths, such as 'c/ape_3.pgm'; change"),
        (r"(cat)|dog|ape", ValueError, r"does not match 3 of 5 paths, such as 'dog_4.pgm'"),
        ("folders", ValueError, "with a group for the label"),
        ("(", ValueError, "expected 'folder' or a valid regular expression, but got '\\('"),
        (7, TypeError, "but got 7 .int."),
        (lambda path: None, TypeError, "got None .NoneType. for 'dog_4.pgm'"),
        (lambda path: 1 if path[-5] == "4" else 1.5, TypeError, "got 1.5 .float. for 'a/cat_1.pgm', and a int"),
        (lambda path: [0] * (1 + (path[-5] == "0")), TypeError, r"got \(2,\) of torch.int64 for 'a/b/cat_0.pgm', and"),
        (lambda path: ["x"], TypeError, "expected a tensor of numbers, but got"),
        (lambda path: 1 << 70, ValueError, "64 bits"),
    ]
    for labels, error, words in cases:
        with pytest.raises(error, match=words):
            ImageFolderDataset(root, labels=labels)
    with pytest.raises(ZeroDivisionError):
        ImageFolderDataset(root, labels=lambda path: 1 / 0)


def test_no_image_at_all_is_an_error_or_nothing(tmp_path: Path) -> None:
    for labels in (PATTERN, None, number_of):
        with pytest.raises(FileNotFoundError, match=r"root: no file that ends in \.jpg, .* or its subfolders"):
            ImageFolderDataset(tmp_path, labels=labels)
        assert list(DataLoader(ImageFolderDataset(tmp_path, T.CenterCrop(1), labels=labels, allow_empty=True))) == []


def table(root: Path, text: str | bytes, **arguments: Any) -> CsvLabels:
    path = root.parent / "labels.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return CsvLabels(path, **arguments)


def of_stems(values: list[Any]) -> str:
    """Return a table whose rows name files without their suffix, in reverse order."""
    return "label,id\n" + "".join(f"{v},{n[:-4]}\n" for n, v in reversed(list(zip(NAMES, values, strict=True))))


@pytest.mark.parametrize(
    ("values", "type", "targets", "classes"),
    [
        (["b", "a", "b", "10", "9"], None, [3, 2, 3, 0, 1], ["10", "9", "a", "b"]),
        ([3, 1, -1, "+7", 0], None, [3, 1, -1, 7, 0], []),
        ([3, 1, -1, 7, 0], float, [3.0, 1.0, -1.0, 7.0, 0.0], []),
        ([3, 1, 1, 7, 0], "class", [2, 1, 1, 3, 0], ["0", "1", "3", "7"]),
        ([1, 2.5, "1e-3", ".5", 0], None, [1.0, 2.5, 0.001, 0.5, 0.0], []),
    ],
)
def test_labels_are_read_from_a_table(root: Path, values: Any, type: Any, targets: Any, classes: Any) -> None:
    dataset = ImageFolderDataset(root, labels=table(root, of_stems(values), file="id", type=type))
    assert_same(dataset.targets, targets)
    assert dataset.classes == classes
    assert_same([dataset[place][1] for place in range(5)], targets)


def test_several_columns_are_a_tensor(root: Path) -> None:
    text = "id,x,y\n" + "".join(f"{name},{number},{number * 2}\n" for number, name in enumerate(NAMES))
    for type, dtype in ((None, torch.float32), (int, torch.int64)):
        labels = table(root, text, file="id", label=["y", "x"], type=type)
        dataset = ImageFolderDataset(root, T.CenterCrop(1), labels=labels)
        assert_same(dataset[1][1], torch.tensor([2, 1], dtype=dtype))
        assert_same(dataset[:][1], torch.tensor([[2 * n, n] for n in range(5)], dtype=dtype))
        assert_same(next(iter(DataLoader(dataset, batch_size=5)))[1], dataset[:][1])


@pytest.mark.parametrize(
    "name_of", [str, lambda name: name[:-4], lambda name: Path(name).name, lambda name: Path(name).stem]
)
def test_rows_name_files_in_four_ways(root: Path, name_of: Callable[[str], str]) -> None:
    text = "﻿file;label\r\n" + "".join(f'"{name_of(name)}";{name[-5]}\r\n' for name in sorted(NAMES)) + "\r\n"
    assert ImageFolderDataset(root, labels=table(root, text, delimiter=";")).targets == [4, 1, 2, 0, 3]


def test_missing_labels_in_a_table_are_an_error_or_skipped(root: Path) -> None:
    text = "file,label\ncat_1,x\ndog_2,\nnone,z\ncat_0,y\ndog_4,x\n"
    with pytest.raises(
        ValueError, match=r"labels.csv, line 3: the label is empty \(as in 1 rows in total\); pass missing='skip'"
    ):
        ImageFolderDataset(root, labels=table(root, text))
    text = text.replace("dog_2,\n", "")
    words = (
        r"2 files have no row, such as 'a/dog_2.pgm', 'c/ape_3.pgm', and 1 rows have no file, such as 'none' \(line 3\)"
    )
    with pytest.raises(ValueError, match=words):
        ImageFolderDataset(root, labels=table(root, text))
    dataset = ImageFolderDataset(root, T.CenterCrop(1), mode="L", labels=table(root, text, missing="skip"))
    assert [Path(path).name for path, _ in dataset.samples] == ["dog_4.pgm", "cat_1.pgm", "cat_0.pgm"]
    # Classes are numbered over the whole table, so that other folders with the same table get the same numbers.
    assert (dataset.classes, dataset.targets) == (["x", "y", "z"], [0, 0, 1])
    assert [(int(image), label) for image, label in (dataset[place] for place in range(3))] == [(0, 0), (1, 0), (3, 1)]
    images, labels = next(iter(DataLoader(dataset, batch_size=3)))
    assert (images.flatten().tolist(), labels.tolist()) == ([0, 1, 3], [0, 0, 1])
    with pytest.raises(ValueError, match="check root and the names of columns"):
        ImageFolderDataset(root, labels=table(root, "file,label\nx,y\n", missing="skip"))


def test_errors_in_a_table_of_labels_name_the_line(root: Path) -> None:
    (root / "c" / "cat_1.pgm").write_bytes(b"P5 1 1 255 7")
    cases: list[tuple[str | bytes, dict[str, Any], str]] = [
        ("", {}, r"labels\.csv, line 0: expected a column 'file', but got the columns \[\]"),
        ("file,class\n", {}, r"line 1: expected a column 'label', but got the columns \['file', 'class'\]"),
        ("file,label\ncat_1.pgm\n", {}, "line 2: expected 2 columns, but got 1"),
        ("file,label\ncat_1,1\n", {}, "line 2: 'cat_1' is ambiguous, 'a/cat_1.pgm' or 'c/cat_1.pgm'"),
        ("file,label\ndog_2,1\na/dog_2.pgm,1\n", {}, "lines 2 and 3: both label 'a/dog_2.pgm'"),
        ("file,label\ndog_2,x\n", {"type": int}, r"line 2: expected int, but got \['x'\]"),
        (f"file,label\ndog_2,{1 << 70}\n", {}, "64 bits"),
        (b"file,label\ndog_\xff,1\n", {}, "line [012]: .*utf-8"),
        ('file,label\n"dog_2,1\n', {}, "line 2: unexpected end"),
    ]
    for text, arguments, words in cases:
        with pytest.raises(ValueError, match=words):
            ImageFolderDataset(root, labels=table(root, text, **arguments))
    with pytest.raises(FileNotFoundError):
        ImageFolderDataset(root, labels=CsvLabels(root / "none.csv"))
    wrong: list[dict[str, Any]] = [
        {"type": str},
        {"missing": "ignore"},
        {"label": []},
        {"label": ["a"], "type": "class"},
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match=f"{next(reversed(arguments))}: expected"):
            CsvLabels("x.csv", **arguments)


def test_labels_are_found_without_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder_of(tmp_path, 9)
    dataset = ImageFolderDataset(root, transform=lambda image: image)
    monkeypatch.setattr(ImageField, "decode", None)  # Decoding an image would raise.
    assert scanned_labels(dataset, None).tolist() == dataset.targets
    assert scanned_labels(Subset(dataset, [8, 0]), None).tolist() == [2, 0]
