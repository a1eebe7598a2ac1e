"""`write_zarr`: zarr, xarray, and `ZarrDataset` read what was written."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cases.zarr_stores import OPTIONS, ROWS, X, Y, assert_stored, batches, begun, files
from sluicegate import DataLoader, IterableDataset, StackDataset, TensorDataset, ZarrDataset, write_zarr
from sluicegate.system.exclusive_lock import ExclusiveLock

zarr = pytest.importorskip("zarr")
xarray = pytest.importorskip("xarray")

from sluicegate.writers import zarr_layout  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::xarray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def test_zarr_xarray_and_zarr_dataset_read_the_written_values(tmp_path: Path) -> None:
    path = tmp_path / "store"
    assert write_zarr(ROWS, path, **OPTIONS) == str(path)
    assert_stored(path)
    x = zarr.open(path)["x"]
    assert (x.metadata.zarr_format, x.chunks, x.shards) == (3, (2, 3, 5), (4, 6, 5))
    assert dict(x.attrs) == {"units": "K"}
    assert dict(zarr.open(path).attrs) == {"model": "a", "limits": [0, 1.5, None]}
    # 6 rows of 2 shards, the second of which is not full, as its axis has 7 elements.
    assert len(list((path / "x" / "c").glob("*/*/*"))) == 12
    assert len(list((path / "y" / "c").iterdir())) == 6
    codecs = json.loads((path / "x" / "zarr.json").read_text())["codecs"]
    assert [codec["name"] for codec in codecs] == ["sharding_indexed"]
    assert [codec["name"] for codec in codecs[0]["configuration"]["codecs"]] == ["bytes", "zstd"]


class Samples(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return ({"x": x, "y": y} for x, y in zip(X, Y, strict=True))


DATASETS: dict[str, Callable[[], Any]] = {
    "stream of samples": Samples,
    "loader": lambda: DataLoader(ROWS, batch_size=9),
    "generator": batches,
    "batches larger than a row": lambda: batches(size=21),
    "function": lambda: batches,
    "store": lambda: None,
}


@pytest.mark.parametrize("kind", DATASETS)
def test_all_kinds_of_datasets_make_the_same_store(tmp_path: Path, kind: str) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    write_zarr(ROWS, tmp_path / "one" / "store", **OPTIONS)
    dataset = ZarrDataset(tmp_path / "one" / "store") if kind == "store" else DATASETS[kind]()
    write_zarr(dataset, tmp_path / "other" / "store", **OPTIONS, num_workers=2)
    assert_stored(tmp_path / "other" / "store")
    assert files(tmp_path / "other" / "store") == files(tmp_path / "one" / "store")


DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compression", ["zstd", None])
def test_extremes_of_all_types_are_kept(tmp_path: Path, dtype: str, compression: str | None) -> None:
    if dtype == "bool":
        values = np.array([False, True, False, True, True])
    elif dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        values = np.array([limits.min, 0, 1, limits.max, limits.max - 1], dtype)
    else:
        real = np.finfo(dtype)
        values = np.array([-0.0, real.max, real.min, real.tiny, math.nan, math.inf, -math.inf, 0.0], dtype)
    # Shards that contain only zeros, or negative zeros, are stored too.
    values = np.repeat(values, 4).reshape(-1, 2)
    path = tmp_path / "store"
    options: dict[str, Any] = {"chunks": {"sample": 1}, "shards": {"sample": 2}, "compression": compression}
    write_zarr(torch.from_numpy(values), path, fields="v", **options)
    assert zarr.open(path)["v"][:].tobytes() == values.tobytes()
    assert zarr.open(path)["v"].dtype == values.dtype
    read = ZarrDataset(path, "v")
    assert b"".join(read[index].numpy().tobytes() for index in range(len(read))) == values.tobytes()
    swapped = values.astype(values.dtype.newbyteorder(">"))
    write_zarr(iter([swapped]), tmp_path / "swapped", fields="v", **options)
    assert zarr.open(tmp_path / "swapped")["v"][:].tobytes() == values.tobytes()


# Streams, whose length is not known, have half of the lengths.
@pytest.mark.parametrize(
    ("length", "is_known"), [(1, True), (1, False), (3, True), (4, False), (5, True), (8, False), (8, True), (9, False)]
)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"chunks": {"time": 1}},
        {"chunks": {"time": 3, "lon": 2}, "shards": {"time": 6, "lon": 4}},
        {"chunks": {"lat": 100, "time": 100}},
        {"shards": {"time": 2, "lat": 3, "lon": 3}},
        {"shards": {"time": 7}},
    ],
)
def test_any_length_fits_any_shards(tmp_path: Path, length: int, is_known: bool, sizes: dict[str, Any]) -> None:
    dataset = StackDataset(x=X[:length], y=Y[:length])
    options = {**OPTIONS, "chunks": {}, "shards": {}, **sizes}
    write_zarr(dataset if is_known else DataLoader(dataset, batch_size=2), tmp_path / "store", **options)
    assert_stored(tmp_path / "store", X[:length], Y[:length])
    x = zarr.open(tmp_path / "store")["x"]
    for dimension, chunk, shard in zip(("time", "lat", "lon"), x.chunks, x.shards, strict=True):
        assert chunk == sizes.get("chunks", {}).get(dimension, chunk)
        assert shard == sizes.get("shards", {}).get(dimension, shard)


def test_defaults_depend_on_the_size_of_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zarr_layout, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(zarr_layout, "_ROW_BYTES", 5000)
    dataset = StackDataset(x=np.zeros((100, 15, 4), np.float32), y=np.zeros(100, np.int16))
    write_zarr(dataset, tmp_path / "a")
    group = zarr.open(tmp_path / "a")
    # 242 bytes per sample: 20 fit, rounded down to a power of two; 240 bytes in an array, of which 4 fit in a chunk.
    assert (group["x"].shards, group["x"].chunks) == ((16, 15, 4), (4, 15, 4))
    assert (group["y"].shards, group["y"].chunks) == ((16,), (16,))
    assert group["x"].metadata.dimension_names == ("sample", "x_dim_1", "x_dim_2")
    assert group["y"].metadata.dimension_names == ("sample",)
    write_zarr(dataset, tmp_path / "b", chunks={"sample": 3})
    assert zarr.open(tmp_path / "b")["x"].shards == (18, 15, 4)
    # A sample larger than the maximum of a chunk is still one chunk.
    write_zarr(np.zeros((3, 2000)), tmp_path / "c")
    assert zarr.open(tmp_path / "c")["data"].shards == (1, 2000)
    write_zarr(np.zeros((3, 0)), tmp_path / "d")
    assert zarr.open(tmp_path / "d")["data"].shape == (3, 0)


def test_an_array_of_many_small_chunks_is_written(tmp_path: Path) -> None:
    values = np.arange(300 * 40, dtype=np.uint16).reshape(300, 40)
    write_zarr(values, tmp_path / "store", chunks={"sample": 1, "data_dim_1": 4}, shards={"sample": 100})
    assert (zarr.open(tmp_path / "store")["data"][:] == values).all()
    assert len(ZarrDataset(tmp_path / "store", window={"sample": 1, "data_dim_1": 4})) == 3000


def test_names_of_fields(tmp_path: Path) -> None:
    write_zarr(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), tmp_path / "a", fields=["image", "label"])
    assert sorted(zarr.open(tmp_path / "a")) == ["image", "label"]
    write_zarr(ROWS, tmp_path / "b", fields="y")
    assert sorted(zarr.open(tmp_path / "b")) == ["y"]
    assert ZarrDataset(tmp_path / "b", "y")[5].item() == 5**9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"chunks": {"time": 4}},
            r"chunks: expected \{'time': 2, 'lat': 3\}, with which .*store' was started, but got",
        ),
        ({"shards": {"time": 8}}, "shards: expected"),
        ({"dims": {"x": ["t", "lat", "lon"], "y": ["t"]}}, "dims: expected"),
        ({"compression": None}, "compression: expected 'zstd'"),
        ({"attributes": {"model": "b"}}, "attributes: expected"),
        ({"field_attributes": None}, "field_attributes: expected"),
        ({"fields": ["x"]}, "fields: expected None"),
    ],
)
@pytest.mark.parametrize("is_whole", [False, True])
def test_other_arguments_are_named(tmp_path: Path, change: dict[str, Any], words: str, is_whole: bool) -> None:
    path = tmp_path / "store"
    if is_whole:
        write_zarr(batches(), path, **OPTIONS)
    else:
        begun(tmp_path)
    before = files(tmp_path)
    with pytest.raises(ValueError, match=f"{words}.*; pass the same, or resume=False"):
        write_zarr(batches(), path, **{**OPTIONS, **change})
    assert files(tmp_path) == before
    write_zarr(batches(), path, **OPTIONS)
    assert_stored(path)


def test_other_samples_are_named(tmp_path: Path) -> None:
    path = begun(tmp_path)
    before = files(tmp_path / "store.unfinished")
    with pytest.raises(ValueError, match=r"length: expected None, .* but got 23"):
        write_zarr(ROWS, path, **OPTIONS)
    with pytest.raises(ValueError, match=r"field 'x': expected .* float32 .*\(7, 5\).* got float64 with \(7, 5\)"):
        write_zarr(iter([{"x": X.astype(float), "y": Y}]), path, **OPTIONS)
    with pytest.raises(ValueError, match=r"field 'x': expected .* but got float32 with \(6, 5\)"):
        write_zarr(iter([{"x": X[:, 1:], "y": Y}]), path, **OPTIONS)
    with pytest.raises(ValueError, match=r"expected the fields \['x', 'y'\] in each batch, but got \['x'\]"):
        write_zarr(iter([{"x": X}]), path, **OPTIONS)
    with pytest.raises(ValueError, match="expected the 12 samples that were read before, but got 5"):
        write_zarr(batches(18), path, **OPTIONS)
    assert files(tmp_path / "store.unfinished") == before


def test_a_store_is_replaced_only_if_this_function_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    write_zarr(batches(3), path, **OPTIONS)
    write_zarr(ROWS, path, **OPTIONS, resume=False)
    assert_stored(path)
    # Coordinates added later do not make it a different store.
    coordinates = xarray.Dataset(coords={"lat": np.arange(7.0)})
    coordinates.to_zarr(path, mode="a")
    write_zarr(ROWS, path, **OPTIONS)
    assert "lat" in xarray.open_zarr(path, chunks=None).coords
    os.remove(path / "x" / "c" / "1" / "0" / "0")
    with pytest.raises(ValueError, match=r"path: a shard of row 1 of .* is missing or was changed; pass resume=False"):
        write_zarr(ROWS, path, **OPTIONS)
    write_zarr(ROWS, path, **OPTIONS, resume=False)
    assert_stored(path)
    zarr.open(path)["x"].attrs["units"] = "degree"
    for resume in (False, True):
        with pytest.raises(FileExistsError, match=r"path: .*store' exists, but it was .* changed since; remove it"):
            write_zarr(ROWS, path, **OPTIONS, resume=resume)
    shutil.rmtree(path)
    write_zarr(ROWS, path, **OPTIONS)
    assert_stored(path)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["store", "store.unfinished"])
def test_folders_of_others_are_left_alone(tmp_path: Path, name: str, resume: bool) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "theirs").write_text("theirs")
    with pytest.raises(FileExistsError, match=rf"path: .*{name}' exists, but .*\.json.* does not exist; remove it"):
        write_zarr(ROWS, tmp_path / "store", **OPTIONS, resume=resume)
    assert files(tmp_path) == {f"{name}/theirs": b"theirs"}
    shutil.rmtree(tmp_path / name)
    begun(tmp_path)
    if name == "store":
        (tmp_path / name).mkdir()
        with pytest.raises(FileExistsError, match="it was not written by this function"):
            write_zarr(batches(), tmp_path / "store", **OPTIONS, resume=resume)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_damaged_record_is_named(tmp_path: Path, is_whole: bool) -> None:
    path = begun(tmp_path)
    if is_whole:
        write_zarr(batches(), path, **OPTIONS)
    record = tmp_path / "store.shards.json"
    record.write_bytes(record.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"store\.shards\.json' is damaged; pass resume=False"):
        write_zarr(batches(), path, **OPTIONS)
    # The error does not say what may be removed.
    with pytest.raises(FileExistsError, match=r"is damaged; remove it"):
        write_zarr(batches(), path, **OPTIONS, resume=False)
    shutil.rmtree(path if is_whole else tmp_path / "store.unfinished")
    write_zarr(batches(), path, **OPTIONS, resume=False)
    assert_stored(path)


def test_a_store_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        ExclusiveLock(str(tmp_path / "store.shards.json.lock"), "writes", "path"),
        pytest.raises(RuntimeError, match=r"another process or thread writes to .*store'.*different path"),
    ):
        write_zarr(ROWS, tmp_path / "store")
    with pytest.raises(FileNotFoundError):
        write_zarr(ROWS, tmp_path / "no folder" / "store")


def test_stored_predictions_are_not_computed_again(tmp_path: Path) -> None:
    # As documented: only predictions that are not stored yet are computed.
    computed = []

    def predictions(start: int) -> Iterator[torch.Tensor]:
        for batch in DataLoader(X, batch_size=2, sampler=range(start, len(X))):
            computed.append(len(batch))
            yield batch.mean((1, 2)).requires_grad_()

    write_zarr(predictions, tmp_path / "store", fields="prediction")
    assert sum(computed) == len(X)
    found = xarray.open_zarr(tmp_path / "store", chunks=None)["prediction"]
    np.testing.assert_array_equal(found, torch.from_numpy(X).mean((1, 2)))


@pytest.mark.parametrize(
    ("dataset", "options", "error", "words"),
    [
        ([], {}, ValueError, "dataset: expected at least one sample, but got none"),
        (torch.zeros(3, dtype=torch.bfloat16), {}, TypeError, "field 'data': Zarr has no data type bfloat16"),
        (["a"], {}, TypeError, "field 'data|field '0'"),
        (ROWS, {"chunks": {"time": 2}}, ValueError, r"chunks: expected dimensions among \['sample', .* got \['time'\]"),
        (ROWS, {"chunks": {"sample": 0}}, ValueError, r"chunks\['sample'\] should be 1 or more"),
        (ROWS, {"chunks": [2]}, TypeError, "chunks: expected numbers by dimension"),
        (
            ROWS,
            {"chunks": {"sample": 2}, "shards": {"sample": 3}},
            ValueError,
            r"shards\['sample'\]: .* of the 2",
        ),
        (X, {"dims": ["time", "lat"]}, ValueError, "dims: expected 3 different names for field 'data'"),
        (X, {"dims": ["time", "lat", "lat"]}, ValueError, "dims: expected 3 different names"),
        (X, {"dims": "xyz"}, ValueError, "dims: expected 3 different names"),
        (ROWS, {"dims": {"z": ["time"]}}, ValueError, r"dims: expected fields among \['x', 'y'\], but got \['z'\]"),
        (
            ROWS,
            {"dims": {"x": ["t", "a", "b"], "y": ["time"]}},
            ValueError,
            "dims: expected one name for the first axis",
        ),
        (
            StackDataset(x=X, y=X[:, 1:]),
            {"dims": ["time", "lat", "lon"]},
            ValueError,
            "dims: dimension 'lat' has 7 elements in one field, and 6 in field 'y'",
        ),
        (ROWS, {"compression": "gzip"}, ValueError, "compression should be 'zstd' or None, but got 'gzip'"),
        (ROWS, {"attributes": {"x": np.zeros(2)}}, TypeError, "attributes: expected values that JSON has"),
        (iter([{"a/b": X}]), {}, ValueError, "fields: 'a/b' cannot be the name of a Zarr array"),
        (iter([{"..": X}]), {}, ValueError, "fields: '..' cannot be the name"),
    ],
)
def test_fields_that_can_not_be_written_are_named(
    tmp_path: Path, dataset: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        write_zarr(dataset, tmp_path / "store", **options)
    assert list(tmp_path.iterdir()) == []
