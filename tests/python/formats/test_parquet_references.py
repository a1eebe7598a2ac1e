"""References in Parquet in `ZarrDataset`, written by fsspec as kerchunk writes them."""

from __future__ import annotations

import base64
import importlib.util
import json
import pickle
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.equality import assert_same
from sluicegate import DataLoader, ZarrDataset

reference = pytest.importorskip("fsspec.implementations.reference")
pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

METADATA = {"zarr_format": 2, "order": "C", "fill_value": 7, "filters": None, "compressor": None, "dtype": "<f4"}
VALUES = np.random.default_rng(0).integers(0, 100, (9, 8)).astype("<f4")


@pytest.fixture(autouse=True)
def kerchunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the function that fsspec imports from kerchunk, which only converts data inlined in references."""
    if importlib.util.find_spec("kerchunk") is None:
        package, module = types.ModuleType("kerchunk"), types.ModuleType("kerchunk.df")
        package.df = module  # type: ignore[attr-defined]
        module._proc_raw = _as_bytes  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "kerchunk", package)
        monkeypatch.setitem(sys.modules, "kerchunk.df", module)


def _as_bytes(value: Any) -> bytes:
    value = value if isinstance(value, bytes) else value.encode()
    return base64.b64decode(value[7:]) if value.startswith(b"base64:") else value


def _store(folder: Path, references: dict[str, Any], record_size: int = 4, threshold: float = 10) -> Path:
    store = folder / "references.parq"
    arguments: dict[str, Any] = {"categorical_threshold": threshold, "engine": "pyarrow"}
    mapper = reference.LazyReferenceMapper.create(str(store), record_size=record_size, **arguments)
    for key, value in references.items():
        mapper[key] = json.dumps(value) if isinstance(value, dict) else value
    mapper.flush()
    return store


def _array(shape: list[int], chunks: list[int], **other: Any) -> dict[str, Any]:
    return {**METADATA, "shape": shape, "chunks": chunks, **other}


def _references(folder: Path) -> dict[str, Any]:
    """Write a file with the chunks of an array, and return references to them."""
    places, data = {}, b"head"
    for row in range(3):
        for column in range(2):
            chunk = np.zeros((4, 5), "<f4")
            part = VALUES[4 * row : 4 * row + 4, 5 * column : 5 * column + 5]
            chunk[: part.shape[0], : part.shape[1]] = part
            places[f"t/{row}.{column}"] = [str(folder / "chunks"), len(data), chunk.nbytes]
            data += chunk.tobytes()
    (folder / "chunks").write_bytes(data)
    metadata = {".zgroup": {"zarr_format": 2}, ".zattrs": {"coordinates": "time"}, "t/.zarray": _array([9, 8], [4, 5])}
    return {**metadata, "t/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"]}, **places}


@pytest.mark.parametrize("record_size", [1, 4, 6, 1000])
@pytest.mark.parametrize("threshold", [0, 10])
def test_chunks_are_read_where_they_lie(tmp_path: Path, record_size: int, threshold: float) -> None:
    store = _store(tmp_path, _references(tmp_path), record_size, threshold)
    dataset = ZarrDataset(store, "t", decode_cf=False)
    assert_same(list(dataset), [torch.from_numpy(row.copy()) for row in VALUES])
    windows = ZarrDataset(store, window={"y": 3, "x": 4}, decode_cf=False)
    batch = next(iter(DataLoader(windows, 4, num_workers=2)))
    assert np.array_equal(batch["t"][3], VALUES[3:6, 4:])
    assert_same(list(pickle.loads(pickle.dumps(windows))), list(windows))
    mapper = reference.LazyReferenceMapper(str(store), engine="pyarrow")
    assert list(mapper["t/1.1"]) == _references(tmp_path)["t/1.1"]


def test_missing_whole_and_inline_chunks(tmp_path: Path) -> None:
    numbers = np.arange(12, dtype="<i2")
    numbers[4:6].tofile(tmp_path / "whole")
    references = {
        "x/.zarray": _array([12], [2], dtype="<i2"),
        "x/0": numbers[:2].tobytes(),
        "x/1": "base64:" + base64.b64encode(numbers[2:4].tobytes()).decode(),
        "x/2": [str(tmp_path / "whole")],
        "x/5": numbers[10:].tobytes(),
        "group/y/.zarray": _array([2], [2], dtype="<i2"),
        "group/y/0": numbers[:2].tobytes(),
        "none/.zarray": _array([3], [1], dtype="<i2"),
    }
    store = _store(tmp_path, references)
    assert [int(row) for row in ZarrDataset(store, "x", decode_cf=False)] == [0, 1, 2, 3, 4, 5, 7, 7, 7, 7, 10, 11]
    assert [int(row) for row in ZarrDataset(store, "group/y", decode_cf=False)] == [0, 1]
    assert [int(row) for row in ZarrDataset(store, "none", decode_cf=False)] == [7, 7, 7]
    for path in (store / "x").iterdir():
        assert path.name.startswith("refs.")


def test_unknown_fields_and_damaged_references_are_named(tmp_path: Path) -> None:
    references = _references(tmp_path)
    store = _store(tmp_path, references)
    with pytest.raises(ValueError, match=r"fields: expected names of arrays in .*, which has \[\"t\"\], got \"z\""):
        ZarrDataset(store, "z")
    table = pandas.read_parquet(store / "t" / "refs.0.parq")
    for changed, message in (
        (table[:3], r"refs\.0\.parq: expected 4 references, got 3"),
        (table.drop(columns="size"), r"refs\.0\.parq: there is no column `size`"),
        (table.assign(offset=0.5), r"refs\.0\.parq: expected integers in column 'offset', got float64"),
        (table.assign(path=3), r"refs\.0\.parq: expected text in column 'path'"),
        (table.assign(path="s3://bucket/file"), r"the chunk is at \"s3://bucket/file\", which is not a local"),
    ):
        changed.to_parquet(store / "t" / "refs.0.parq", index=False)
        with pytest.raises(ValueError, match=message):
            ZarrDataset(store, "t")
    table.assign(offset=10**9).to_parquet(store / "t" / "refs.0.parq", index=False)
    with pytest.raises(
        ValueError, match=r"chunk \[0, 0\] of array \"t\": its 80 bytes from byte 1000000000 on are outside"
    ):
        ZarrDataset(store, "t")[0]
    table.to_parquet(store / "t" / "refs.0.parq", index=False)
    assert len(ZarrDataset(store, "t")) == 9
    for size, name, message in (
        (0, "t", r"\.zmetadata: expected an object 'metadata' and a positive 'record_size', got 0"),
        (4, "../t", r"\.zmetadata: expected names of arrays, got '\.\./t'"),
        (4, "t/", r"\.zmetadata: expected names of arrays, got 't/'"),
    ):
        metadata = {f"{name}/.zarray": _array([9, 8], [4, 5])}
        (store / ".zmetadata").write_text(json.dumps({"metadata": metadata, "record_size": size}))
        with pytest.raises(ValueError, match=message):
            ZarrDataset(store, name)
    (store / ".zmetadata").write_text("{")
    with pytest.raises(ValueError, match=r"\.zmetadata: invalid JSON"):
        ZarrDataset(store)


def test_a_consolidated_store_is_not_references(tmp_path: Path) -> None:
    (tmp_path / "store" / "t").mkdir(parents=True)
    (tmp_path / "store" / "t" / ".zarray").write_text(json.dumps(_array([9, 8], [4, 5])))
    (tmp_path / "store" / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": {}}))
    assert ZarrDataset(tmp_path / "store", "t", decode_cf=False)[0].tolist() == [7] * 8


def test_damaged_references_are_read_or_named(tmp_path: Path) -> None:
    store = _store(tmp_path, _references(tmp_path))
    generator, refused = np.random.default_rng(0), 0
    files = [store / ".zmetadata", store / "t" / "refs.0.parq", store / "t" / "refs.1.parq"]
    for turn in range(240):
        path = files[turn % 3]
        whole = path.read_bytes()
        changed = bytearray(whole)
        for place in generator.integers(0, len(whole), generator.integers(1, 4)):
            changed[place] = generator.integers(0, 256)
        path.write_bytes(changed)
        try:
            for row in ZarrDataset(store, "t", window={"y": 1}, cache_bytes=0):
                assert row.shape[0] == 1
        except (ValueError, OSError):
            refused += 1
        path.write_bytes(whole)
    assert refused > 50
    shutil.rmtree(store / "t")
    assert ZarrDataset(store, "t", decode_cf=False)[0].tolist() == [7] * 8
