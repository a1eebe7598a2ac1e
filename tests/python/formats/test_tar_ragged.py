"""Arrays of any length in archives: ragged or padded, as webdataset and NumPy read them."""

from __future__ import annotations

import gc
import pathlib
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate
from checks.equality import assert_same
from checks.formats import check_format
from doubles.tar_files import npy, put
from sluicegate import TarDataset, TarStream

FIELDS: dict[str, Any] = {"npy": ["npy"], "cls": int}


def array(n: int) -> Any:
    """Return an array of n % 4 rows, in C or Fortran order."""
    return np.asarray(np.arange(n % 4 * 6, dtype=np.float32).reshape(n % 4, 2, 3) + n, order="CF"[n % 2])  # type: ignore[arg-type]


def tensor(array: Any) -> torch.Tensor:
    """Return a tensor with torch's strides, which NumPy omits for an array without rows."""
    return torch.zeros(array.shape).copy_(torch.from_numpy(array.copy("C")))


def members(count: int) -> list[tuple[str, bytes]]:
    return [pair for n in range(count) for pair in ((f"{n:03}.npy", npy(array(n))), (f"{n:03}.cls", b"%d" % n))]


def sample(n: int, path: str) -> dict[str, Any]:
    return {"__key__": f"{n:03}", "__url__": path, "npy": tensor(array(n)), "cls": n}


def test_arrays_of_any_length_are_samples_like_any_others(tmp_path: pathlib.Path) -> None:
    path = put(tmp_path / "0.tar", members(9))
    samples = [sample(n, path) for n in range(9)]
    check_format(TarDataset(path, FIELDS), samples)
    assert_same(list(TarStream(path, FIELDS)), samples)
    for dataset in (TarDataset(path, FIELDS), TarStream(path, FIELDS)):
        (batch,) = sluicegate.DataLoader(dataset, batch_size=9)
        lengths = [n % 4 for n in range(9)]
        expected = {
            "values": torch.cat([each["npy"] for each in samples]),
            "offsets": torch.tensor([0, *lengths]).cumsum(0),
        }
        assert_same(batch["npy"], expected)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_and_numpy_read_the_same(tmp_path: pathlib.Path) -> None:
    import webdataset

    path = put(tmp_path / "0.tar", members(12))
    theirs = list(webdataset.WebDataset(path, shardshuffle=False).decode())
    gc.collect()  # The other reader leaves its files open.
    ours = TarDataset(path, FIELDS)
    assert len(theirs) == len(ours) == 12
    for one, other in zip(ours, theirs, strict=True):
        assert_same(one["npy"], tensor(other["npy"]))


def test_batches_may_be_padded(tmp_path: pathlib.Path) -> None:
    path = put(tmp_path / "0.tar", members(8))
    check_format(TarDataset(path, FIELDS, lists=("padded", -1)), [sample(n, path) for n in range(8)])
    for dataset in (TarDataset(path, FIELDS, lists=("padded", -1)), TarStream(path, FIELDS, lists=("padded", -1))):
        batch = next(iter(sluicegate.DataLoader(dataset, batch_size=4)))["npy"]
        assert batch["lengths"].tolist() == [0, 1, 2, 3]
        assert_same(batch["values"][3].clone(), tensor(array(3)))
        assert (batch["values"][1, 1:] == -1).all()
    for wrong in ("dense", ("padded",), 0):
        for make in (TarDataset, TarStream):
            with pytest.raises(ValueError, match="lists: expected 'ragged' or"):
                make(path, FIELDS, lists=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"lists: expected a fill of float32 for `npy`, but got 'x'"):
        TarDataset(path, FIELDS, lists=("padded", "x"))


@pytest.mark.parametrize("lists", ["ragged", ("padded", 0)])
def test_none_and_an_array_of_no_rows_are_told_apart(tmp_path: pathlib.Path, lists: Any) -> None:
    path = put(tmp_path / "0.tar", [member for member in members(8) if member[0] not in ("001.npy", "006.npy")])
    samples = [sample(n, path) | ({"npy": None} if n in (1, 6) else {}) for n in range(8)]
    for dataset in (
        TarDataset(path, FIELDS, on_missing="none", lists=lists),
        TarStream(path, FIELDS, on_missing="none", lists=lists),
    ):
        assert_same([*dataset], samples)
        (batch,) = sluicegate.DataLoader(dataset, batch_size=8)
        assert_same(batch["npy"], [each["npy"] for each in samples])
    assert samples[0]["npy"].shape == (0, 2, 3)
    left = TarDataset(path, FIELDS, on_missing="skip")
    assert [each["__key__"] for each in left] == [f"{n:03}" for n in range(8) if n not in (1, 6)]


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (
            npy(np.zeros((2, 2, 4), np.float32)),
            r"float32\[2, 2, 4\], but the first one is float32\[1, 2, 3\]: .* first axis",
        ),
        (npy(np.zeros((2, 6), np.float32)), r"float32\[2, 6\], but the first one"),
        (npy(np.zeros((2, 2, 3), np.float64)), r"float64\[2, 2, 3\], but the first one"),
        (npy(np.float32(1)), r"float32\[\], but the first one"),
        (npy(np.zeros((2, 2, 3), np.float32))[:-1], "the file is truncated: it has 47 of the 48 bytes"),
        (
            npy(np.zeros((1, 2, 3), np.float32)).replace(b"(1, 2, 3), }      ", b"(999999, 2, 3), } "),
            "is truncated: it has",
        ),
        (b"\x93NUMPY\1\0\xff", "ends inside its header"),
        (b"PK", "not a .npy file"),
    ],
)
def test_arrays_that_do_not_fit_a_ragged_field_are_named(tmp_path: pathlib.Path, contents: bytes, words: str) -> None:
    good = npy(np.ones((1, 2, 3), np.float32))
    path = put(tmp_path / "0.tar", [("a.npy", good), ("b.npy", contents), ("c.npy", good)])
    dataset = TarDataset(path, {"npy": ["npy"]})
    with pytest.raises(ValueError, match=rf"0\.tar, byte \d+: field `npy` of sample 1 \(`b`\): .*{words}"):
        dataset[1]
    with pytest.raises(ValueError, match=words):
        list(sluicegate.DataLoader(dataset, batch_size=3))
    assert [dataset[0]["npy"].shape, dataset[2]["npy"].shape] == [(1, 2, 3)] * 2
    stream = iter(TarStream(path, {"npy": ["npy"]}))
    assert next(stream)["__key__"] == "a"
    with pytest.raises(ValueError, match=rf"member `b\.npy`: .*{words}"):
        next(stream)


def test_arrays_that_have_no_length_are_refused_at_once(tmp_path: pathlib.Path) -> None:
    for contents, words in ((np.float32(1), "an array without an axis"), (np.zeros((3, 0)), "elements of 0 bytes")):
        path = put(tmp_path / "0.tar", [("a.npy", npy(contents))])
        with pytest.raises(ValueError, match=words):
            TarDataset(path, {"npy": ["npy"]})
        with pytest.raises(ValueError, match=words):
            next(iter(TarStream(path, {"npy": ["npy"]})))
    path = put(tmp_path / "0.tar", [("a.npy", npy(np.zeros((0, 2**40), np.float32)))])
    assert TarDataset(path, {"npy": ["npy"]})[0]["npy"].shape == (0, 2**40)
    for make in (TarDataset, TarStream):
        with pytest.raises(ValueError, match="elements have more than 16777216 bytes"):
            next(iter(make(path, {"npy": ["npy"]}, on_missing="none")))
    for wrong in (["bytes"], ["npy", "npy"], [], [["npy"]]):
        with pytest.raises(ValueError, match="fields"):
            TarDataset(path, {"npy": wrong})  # type: ignore[dict-item]
    empty = put(tmp_path / "1.tar", [])
    assert len(TarDataset(empty, {"npy": ["npy"]})) == 0


def test_a_long_header_is_read_whole(tmp_path: pathlib.Path) -> None:
    long = npy(np.arange(6, dtype=np.int64))
    header = long[10:-48].rstrip(b"\n ") + b" " * 5000 + b"\n"
    padded = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + long[-48:]
    path = put(tmp_path / "0.tar", [("a.npy", npy(np.arange(3))), ("b.npy", padded)])
    assert [each["npy"].tolist() for each in TarDataset(path, {"npy": ["npy"]})] == [[0, 1, 2], [*range(6)]]
