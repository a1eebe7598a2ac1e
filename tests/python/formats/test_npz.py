"""`NpzDataset`: its samples, with any loader, and its errors for files that it can't read."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from checks.equality import assert_same
from checks.formats import check_format
from sluicegate import DataLoader, NpzDataset

SAVERS = [np.savez, np.savez_compressed]


def arrays(rows: int = 7, seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {
        "x": draw.standard_normal((rows, 2, 3)).astype(np.float32),
        "fortran": np.asfortranarray(draw.integers(0, 256, (rows, 4), np.uint8)),
        "y": np.arange(rows),
        "flag": np.arange(rows) % 2 == 0,
    }


def samples_of(path: Path, names: list[str] | None = None) -> list[dict[str, torch.Tensor]]:
    with np.load(path) as loaded:
        tensors = {name: torch.from_numpy(loaded[name].copy(order="C")) for name in names or loaded.files}
    return [
        {name: each[row].clone() for name, each in tensors.items()} for row in range(len(next(iter(tensors.values()))))
    ]


@pytest.mark.parametrize("save", SAVERS)
def test_npz_dataset_passes_the_checks_of_every_format(save: Callable[..., None], tmp_path: Path) -> None:
    save(path := tmp_path / "x.npz", **arrays())
    check_format(NpzDataset(path), samples_of(path))


@pytest.mark.parametrize("save", SAVERS)
def test_a_batch_of_any_loader_has_the_rows_of_numpy(save: Callable[..., None], tmp_path: Path) -> None:
    save(path := tmp_path / "x.npz", **arrays(100))
    dataset = NpzDataset(path, ["y", "x"])
    expected = list(torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=2))
    assert_same(list(DataLoader(dataset, batch_size=8, num_workers=2)), expected)
    assert_same(torch.cat([batch["x"] for batch in expected]), torch.from_numpy(arrays(100)["x"]))


def test_a_field_alone_is_the_sample(tmp_path: Path) -> None:
    np.savez(path := tmp_path / "x.npz", **arrays())
    assert NpzDataset(path, "y")[3].item() == 3


def test_arrays_without_names_are_called_as_numpy_calls_them(tmp_path: Path) -> None:
    np.savez(path := tmp_path / "x.npz", np.arange(4), np.ones((4, 2)))
    assert list(NpzDataset(path)[0]) == ["arr_0", "arr_1"]


def test_files_come_one_after_the_other(tmp_path: Path) -> None:
    for number, rows in enumerate((3, 0, 4)):
        SAVERS[number % 2](tmp_path / f"{number}.npz", **arrays(rows, number))
    dataset = NpzDataset(tmp_path / "{0..2}.npz")
    expected = [sample for number in range(3) for sample in samples_of(tmp_path / f"{number}.npz")]
    assert_same([dataset[index] for index in range(len(dataset))], expected)
    np.savez(tmp_path / "3.npz", y=np.arange(3.0))
    with pytest.raises(ValueError, match=r"3\.npz: its samples are"):
        NpzDataset(tmp_path / "{0..3}.npz", ["y"])


def test_an_archive_of_another_program_is_read(tmp_path: Path) -> None:
    """Members after other bytes, with a comment, in folders, next to files of other kinds; data starts at any byte."""
    np.save(tmp_path / "y.npy", np.arange(5))
    with zipfile.ZipFile(path := tmp_path / "x.npz", "w") as archive:
        archive.comment = b"comment"
        archive.writestr("readme.txt", "not an array")
        archive.write(tmp_path / "y.npy", "train/y.npy")
    assert [sample["train/y"].item() for sample in NpzDataset(path)] == [*range(5)]


def test_npz_dataset_can_be_pickled(tmp_path: Path) -> None:
    np.savez(path := tmp_path / "x.npz", **arrays())
    dataset = NpzDataset(path, ["x"])
    assert_same(pickle.loads(pickle.dumps(dataset))[2], dataset[2])


@pytest.mark.parametrize(
    ("contents", "fields", "reason"),
    [
        ({"a": np.arange(3), "b": np.arange(4)}, None, r"array `a` has 3 rows but array `b` has 4"),
        ({"a": np.float32(1)}, None, "array `a` is a scalar"),
        ({"a": np.arange(3)}, ["z"], r'there is no array `z`; the arrays are \["a"\]; name the arrays'),
        ({"a": np.array([{}, 1], object)}, None, r"array `a`: .*object"),
        ({"a": np.array(["text"])}, None, "array `a`: "),
        ({}, None, "there are no arrays"),
    ],
)
def test_archives_without_rows_are_refused(contents: Any, fields: Any, reason: str, tmp_path: Path) -> None:
    np.savez(path := tmp_path / "x.npz", **contents)
    with pytest.raises(ValueError, match=reason):
        NpzDataset(path, fields)


@pytest.mark.parametrize("save", SAVERS)
def test_a_changed_byte_of_an_array_is_an_error(save: Callable[..., None], tmp_path: Path) -> None:
    save(path := tmp_path / "x.npz", x=np.arange(10_000))
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"x\.npz.*array `x`"):
        NpzDataset(path)


def test_other_files_are_named(tmp_path: Path) -> None:
    np.save(path := tmp_path / "x.npy", np.arange(3))
    with pytest.raises(ValueError, match=r"the file is a \.npy file; read it with NpyDataset"):
        NpzDataset(path)
    (path := tmp_path / "y.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"not an \.npz file, or a damaged one"):
        NpzDataset(path)


def test_packing_that_numpy_does_not_write_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.arange(5))
    with zipfile.ZipFile(path := tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.write(tmp_path / "y.npy", "y.npy")
    with pytest.raises(ValueError, match="array `y`"):
        NpzDataset(path)


def test_a_size_that_can_not_be_true_is_not_allocated(tmp_path: Path) -> None:
    np.savez_compressed(path := tmp_path / "x.npz", x=np.zeros(10))
    whole = path.read_bytes()
    at = whole.rindex(b"PK\x01\x02") + 24
    path.write_bytes(whole[:at] + (0xF000_0000).to_bytes(4, "little") + whole[at + 4 :])
    with pytest.raises(ValueError, match="array `x`"):
        NpzDataset(path)
