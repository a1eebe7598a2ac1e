"""`RawDataset`: samples of one size, with plain and structured data types."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate
from checks.equality import assert_same
from checks.formats import check_format
from sluicegate import RawDataset

DTYPES = [
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


def written(folder: Path, array: np.ndarray[Any, Any], name: str = "x.bin", header: bytes = b"") -> str:
    path = folder / name
    path.write_bytes(header + array.tobytes())
    return str(path)


def numbers(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape)).reshape(shape) % 100


def tensor_of(array: Any) -> torch.Tensor:
    """Return a tensor of an array of any byte order."""
    array = np.asarray(array)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))


def samples_of(array: np.ndarray[Any, Any]) -> list[Any]:
    """Return the records of a structured array, as NumPy reads them, as tensors."""

    def sample(value: Any) -> Any:
        names = value.dtype.names
        return tensor_of(value) if names is None else {name: sample(value[name]) for name in names}

    return [sample(value) for value in array]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_data_type_in_both_byte_orders(tmp_path: Path, dtype: str, order: Any) -> None:
    array = numbers((7, 2, 3)).astype(np.dtype(dtype).newbyteorder(order))
    dataset = RawDataset(written(tmp_path, array, header=b"12345"), dtype=array.dtype, shape=(2, 3), header_bytes=5)
    assert_same([dataset[index] for index in range(7)], [tensor_of(row) for row in array])
    assert_same(next(iter(sluicegate.DataLoader(dataset, batch_size=7))), tensor_of(array))


STRUCTURES = {
    "packed": [("a", "u1"), ("b", "<f8"), ("c", "<i4", (2, 3))],
    "nested": [("in", [("x", "<f4"), ("deep", [("y", ">u2", 2)])]), ("z", "?")],
    "gaps": {"names": ["late", "early"], "formats": ["<i2", ">f4"], "offsets": [9, 1], "itemsize": 16},
    "overlapping": {"names": ["word", "low"], "formats": ["<u4", "u1"], "offsets": [0, 0]},
    "titled": [(("the title", "name"), "<i8")],
    "one element": [("a", "<f4", (1,)), ("b", "<c8")],
}


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_structures_are_dicts(tmp_path: Path, structure: Any) -> None:
    dtype = np.dtype(structure)
    array = np.random.default_rng(0).integers(0, 2, 9 * dtype.itemsize, dtype=np.uint8).view(dtype)
    dataset = RawDataset(written(tmp_path, array), dtype=dtype)
    check_format(dataset, samples_of(array))


def test_samples_of_plain_data_types_are_read(tmp_path: Path) -> None:
    array = numbers((9, 4)).astype("<f4")
    rows = list(torch.from_numpy(array))
    check_format(RawDataset(written(tmp_path, array), dtype="<f4", shape=4), [row.clone() for row in rows])
    check_format(RawDataset(written(tmp_path, array), dtype=("<f4", (2, 2))), [row.view(2, 2).clone() for row in rows])
    words = numbers((6,)).astype("<u2")
    check_format(RawDataset(written(tmp_path, words), dtype=np.uint16), [torch.tensor(word) for word in words])


def test_data_types_of_torch_alone(tmp_path: Path) -> None:
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        values = torch.randn(6, 2).to(dtype)
        path = tmp_path / "x.bin"
        path.write_bytes(values.view(torch.uint8).numpy().tobytes())
        dataset = RawDataset(path, dtype=dtype, shape=2)
        assert_same(dataset[5], values[5].clone())
        assert_same(next(iter(sluicegate.DataLoader(dataset, batch_size=6))), values)


def test_many_files_are_one_after_the_other(tmp_path: Path) -> None:
    for number in range(12):
        written(tmp_path, np.arange(number, dtype="<i8") + 100 * number, f"part-{number:02d}.bin")
    expected = [100 * number + row for number in range(12) for row in range(number)]
    whole = RawDataset(str(tmp_path / "part-{00..11}.bin"), dtype="<i8")
    check_format(whole, [torch.tensor(value) for value in expected])
    assert [value.item() for value in RawDataset(tmp_path / "part-*.bin", dtype="<i8")] == expected
    few = RawDataset([tmp_path / "part-03.bin", tmp_path / "part-01.bin"], dtype="<i8")
    assert [value.item() for value in few] == [300, 301, 302, 100]


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("U3", "no data type for NumPy's '<U3'"),
        ([("name", "S5")], r"no data type for NumPy's '\|S5' of the field 'name'; read it as bytes"),
        ("datetime64[s]", "no data type"),
        ("O", "no data type"),
        (np.longdouble, "no data type"),
        ([("a", [("b", "u1")], 3)], "'a' is an array of structures"),
        ("V0", "no data type"),
    ],
)
def test_data_types_that_torch_lacks_are_refused(tmp_path: Path, dtype: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        RawDataset(written(tmp_path, np.zeros(480, dtype="u1")), dtype=dtype)


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, np.zeros(48, dtype="u1"))
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"dtype": "<i4", "shape": (-1,)}, ValueError, "shape: expected sizes of at least 0, but got"),
        ({"dtype": [("a", "u1")], "shape": 2}, ValueError, "shape: expected none, because the structured"),
        ({"dtype": "<i4", "header_bytes": -1}, ValueError, "header_bytes should be 0 or more"),
        ({"dtype": "<i4", "header_bytes": 49}, ValueError, "the file has 48 bytes, but a header of 49 bytes"),
        ({"dtype": "<i4", "shape": 5}, ValueError, "x.bin, byte 40: the file has 48 bytes"),
        ({"dtype": "<i4", "shape": (2, 0)}, ValueError, "a sample has 0 bytes"),
        ({"dtype": "<i4", "shape": (2**62, 2**62)}, ValueError, "shape: expected samples below 2"),
    ]
    for arguments, error, words in cases:
        with pytest.raises(error, match=words):
            RawDataset(path, **arguments)
    with pytest.raises(FileNotFoundError, match=r"no file matches '.*nothing"):
        RawDataset(tmp_path / "nothing*", dtype="u1")
    with pytest.raises(FileNotFoundError):
        RawDataset(tmp_path / "nothing", dtype="u1")


def test_an_empty_file_has_no_samples(tmp_path: Path) -> None:
    dataset = RawDataset(written(tmp_path, np.zeros(0, dtype="u1"), header=b"abc"), dtype="<i4", header_bytes=3)
    assert (len(dataset), list(sluicegate.DataLoader(dataset))) == (0, [])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_file_that_shrank_is_named_at_the_next_batch(tmp_path: Path, num_workers: int) -> None:
    path = written(tmp_path, numbers((10_000,)).astype("<i8"))
    iterator = iter(sluicegate.DataLoader(RawDataset(path, dtype="<i8"), batch_size=10, num_workers=num_workers))
    next(iterator)
    os.truncate(path, 1000)
    with pytest.raises(OSError, match=r"x\.bin shrank since it was opened"):
        list(iterator)
