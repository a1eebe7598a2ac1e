"""References of kerchunk in `ZarrDataset`: chunks stored in other files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from sluicegate import DataLoader, ZarrDataset

h5py = pytest.importorskip("h5py")

METADATA = {"zarr_format": 2, "order": "C", "fill_value": None, "filters": None, "compressor": None}


def _references(folder: Path) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """Write an HDF5 file, and return references to its chunks as kerchunk makes them."""
    values = np.random.default_rng(0).integers(0, 100, (9, 8)).astype("<f4")
    with h5py.File(folder / "file.h5", "w") as file:
        stored = file.create_dataset("t", data=values, chunks=(4, 5), compression="gzip", shuffle=True)
        array = {**METADATA, "shape": [9, 8], "chunks": [4, 5], "dtype": "<f4"}
        array |= {"filters": [{"id": "shuffle", "elementsize": 4}], "compressor": {"id": "zlib", "level": 4}}
        references: dict[str, Any] = {
            ".zgroup": json.dumps({"zarr_format": 2}),
            ".zattrs": json.dumps({"title": "a test"}),
            "t/.zarray": json.dumps(array),
            "t/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]}),
        }
        for number in range(stored.id.get_num_chunks()):
            chunk = stored.id.get_chunk_info(number)
            key = ".".join(str(offset // size) for offset, size in zip(chunk.chunk_offset, (4, 5), strict=True))
            references[f"t/{key}"] = [str(folder / "file.h5"), chunk.byte_offset, chunk.size]
    return references, values


def _store(folder: Path, references: Any) -> Path:
    path = folder / "references.json"
    path.write_text(json.dumps(references))
    return path


@pytest.mark.parametrize("form", ["0", "1", "templates", "objects", "relative"])
def test_chunks_are_read_where_they_lie(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    references, values = _references(tmp_path)
    whole: dict[str, Any] = {"version": 1, "refs": references}
    if form == "0":
        whole = references
    if form == "objects":
        whole["refs"] = {
            key: json.loads(value) if isinstance(value, str) else value for key, value in references.items()
        }
    for key, value in list(references.items()):
        if isinstance(value, list) and form == "templates":
            whole["templates"] = {"u": f"file://{tmp_path}"}
            references[key] = ["{{u}}/file.h5", *value[1:]]
        if isinstance(value, list) and form == "relative":
            references[key] = ["file.h5", *value[1:]]
    monkeypatch.chdir(tmp_path)
    dataset = ZarrDataset(_store(tmp_path, whole), "t")
    windows = ZarrDataset(tmp_path / "references.json", window={"y": 3, "x": 4})
    monkeypatch.chdir("/")
    assert_same(list(dataset), [torch.from_numpy(row.copy()) for row in values])
    batch = next(iter(DataLoader(windows, 4, num_workers=2)))
    assert np.array_equal(batch["t"][3], values[3:6, 4:])


def test_missing_whole_and_inline_chunks(tmp_path: Path) -> None:
    array = {**METADATA, "shape": [8], "chunks": [2], "dtype": "<i2", "fill_value": 7}
    np.array([3, 4], "<i2").tofile(tmp_path / "whole")
    references = {
        ".zarray": json.dumps(array),
        "0": "base64:" + base64.b64encode(np.array([1, 2], "<i2").tobytes()).decode(),
        "1": [str(tmp_path / "whole")],
        "3": "ABCD",
    }
    dataset = ZarrDataset(_store(tmp_path, references), decode_cf=False)
    assert [int(row) for row in dataset] == [1, 2, 3, 4, 7, 7, 0x4241, 0x4443]


def test_a_store_of_fsspec_has_the_same_values(tmp_path: Path) -> None:
    fsspec, zarr = pytest.importorskip("fsspec"), pytest.importorskip("zarr")
    references, values = _references(tmp_path)
    path = _store(tmp_path, {"version": 1, "refs": references})
    system = fsspec.filesystem("reference", fo=str(path), asynchronous=True, remote_options={"asynchronous": True})
    try:
        group = zarr.open_group(zarr.storage.FsspecStore(system, read_only=True, path=""), mode="r", zarr_format=2)
        expected = group["t"][...]
    except (NotImplementedError, TypeError, ValueError) as error:
        pytest.skip(f"these versions of fsspec and zarr do not work together: {error}")
    assert np.array_equal(expected, values)
    assert_same(list(ZarrDataset(path, "t")), [torch.from_numpy(row.copy()) for row in expected])


def test_invalid_references_are_named(tmp_path: Path) -> None:
    references, _ = _references(tmp_path)
    for key, value, message in (
        (
            "t/0.0",
            ["s3://bucket/file.h5", 0, 10],
            r"\"t/0.0\": the chunk is at \"s3://bucket/file.h5\", which is not a local path; download",
        ),
        ("t/0.0", ["{{f(c)}}", 0, 10], r"\"t/0.0\": the template in .* is not supported"),
        ("t/0.0", ["file", 0], r"\"t/0.0\": expected \[path\], or"),
        ("t/0.0", 3, r"\"t/0.0\": expected a string or a list"),
        ("t/0.0", "base64:!", r"\"t/0.0\": this is not base64"),
        ("t/.zarray", "{", r"\"t/.zarray\": this is not JSON"),
        ("t/.zarray", ["file"], r"\"t/.zarray\": expected metadata in the file itself"),
    ):
        with pytest.raises(ValueError, match=message):
            ZarrDataset(_store(tmp_path, {"version": 1, "refs": references | {key: value}}))
    for whole, message in (
        ({"version": 2, "refs": {}}, "expected references of version 1, got version 2"),
        ({"version": 1, "refs": references, "gen": [{}]}, "generated references .* are not supported"),
        ({"version": 1}, r'expected an object "refs"'),
        ([], "expected a JSON object with references"),
        ({}, "path: expected a store with arrays, got .*, which has none"),
    ):
        with pytest.raises(ValueError, match=message):
            ZarrDataset(_store(tmp_path, whole))
    path = _store(tmp_path, references)
    dataset = ZarrDataset(path, "t")
    (tmp_path / "file.h5").rename(tmp_path / "other.h5")
    with pytest.raises(FileNotFoundError, match=r"file\.h5"):
        dataset[0]
    (tmp_path / "file.h5").write_bytes(b"\0" * 5000)
    with pytest.raises(ValueError, match=r"file\.h5.*chunk \[0, 0\] of array \"t\".*codec zlib"):
        dataset[0]


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    references, _ = _references(tmp_path)
    dataset = ZarrDataset(_store(tmp_path, references), "t", cache_bytes=0)
    dataset[0]
    (tmp_path / "new.h5").write_bytes((tmp_path / "file.h5").read_bytes())
    (tmp_path / "new.h5").rename(tmp_path / "file.h5")
    with pytest.raises(OSError, match=r"file\.h5 changed while it was in use: it was replaced by a different file"):
        dataset[0]


def test_damaged_references_are_read_or_named(tmp_path: Path) -> None:
    references, _ = _references(tmp_path)
    whole = json.dumps({"version": 1, "refs": references}).encode()
    generator, refused = np.random.default_rng(0), 0
    path = tmp_path / "references.json"
    for _ in range(400):
        changed = bytearray(whole)
        for place in generator.integers(0, len(whole), generator.integers(1, 4)):
            changed[place] = generator.integers(32, 127)
        path.write_bytes(changed)
        try:
            for row in ZarrDataset(path, window={"y": 1}, cache_bytes=0):
                assert row["t"].shape[0] == 1
        except (ValueError, OSError):
            refused += 1
    assert refused > 100
