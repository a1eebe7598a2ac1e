"""`ZarrDataset` against the packages zarr and xarray: the same numbers, bit for bit."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from cases.number_arrays import SHAPE, numbers
from cases.zarr_arrays import write
from checks.array_rows import assert_rows
from checks.equality import assert_same
from sluicegate import ZarrDataset

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")
xarray = pytest.importorskip("xarray")

pytestmark = [
    # Warnings of the packages about the future of the format, and about themselves.
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::numcodecs"),
    pytest.mark.filterwarnings("ignore:::xarray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

CHUNKS = (4, 5)


V2_COMPRESSORS = {
    "none": None,
    "zstd": numcodecs.Zstd(3),
    "gzip": numcodecs.GZip(1),
    "zlib": numcodecs.Zlib(1),
    "lz4": numcodecs.LZ4(),
    **{
        f"blosc-{name}-{shuffle}": numcodecs.Blosc(name, 5, shuffle)
        for name, shuffle in itertools.product(("lz4", "lz4hc", "blosclz", "zstd", "zlib"), (0, 1, 2))
    },
}


@pytest.mark.parametrize("compressor", V2_COMPRESSORS)
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "|u1", ">f8", "<c8"])
def test_version_2_is_read_as_by_zarr(tmp_path: Path, compressor: str, dtype: str) -> None:
    for order, shape, chunks in (("C", SHAPE, CHUNKS), ("F", SHAPE, CHUNKS), ("C", (40, 300), (33, 257))):
        folder = tmp_path / f"{order}{shape[0]}"
        array = zarr.create_array(
            store=folder,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            zarr_format=2,
            compressors=V2_COMPRESSORS[compressor],
            order=order,
        )
        # Long runs and noise, which blosc stores in different forms.
        values = numbers(dtype, shape)
        values[: shape[0] // 2] = values[0, 0]
        array[:] = values
        assert_rows(ZarrDataset(folder, decode_cf=False), array[:])


@pytest.mark.parametrize("separator", [".", "/"])
def test_chunks_of_version_2_may_lie_in_folders(tmp_path: Path, separator: str) -> None:
    array = zarr.create_array(
        store=tmp_path,
        shape=SHAPE,
        chunks=CHUNKS,
        dtype="i4",
        zarr_format=2,
        chunk_key_encoding={"name": "v2", "separator": separator},
    )
    array[:] = numbers("i4")
    assert_rows(ZarrDataset(tmp_path, decode_cf=False), array[:])


def test_filters_of_version_2(tmp_path: Path) -> None:
    array = zarr.create_array(
        store=tmp_path / "a",
        shape=SHAPE,
        chunks=CHUNKS,
        dtype="i4",
        zarr_format=2,
        filters=[numcodecs.Shuffle(4)],
        compressors=numcodecs.Zstd(1),
    )
    array[:] = numbers("i4")
    assert_rows(ZarrDataset(tmp_path / "a", decode_cf=False), array[:])
    zarr.create_array(
        store=tmp_path / "b", shape=SHAPE, dtype="i4", zarr_format=2, filters=[numcodecs.Delta("i4")], compressors=None
    )
    with pytest.raises(ValueError, match=r'\.zarray.*codec "delta" is not supported: expected blosc'):
        ZarrDataset(tmp_path / "b")


V3_CODECS: dict[str, dict[str, Any]] = {
    "none": {"compressors": None},
    "default": {},
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "blosc": {"compressors": zarr.codecs.BloscCodec(cname="lz4", shuffle="bitshuffle")},
    "zstd-crc32c": {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
    "big": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "transpose": {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
    "shards": {"shards": (8, 10)},
    "shards-transpose": {"shards": (4, 15), "filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
}


@pytest.mark.parametrize("codecs", V3_CODECS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "uint16", "float16", "complex128"])
def test_version_3_is_read_as_by_zarr(tmp_path: Path, codecs: str, dtype: str) -> None:
    array = zarr.create_array(store=tmp_path, shape=SHAPE, chunks=CHUNKS, dtype=dtype, **V3_CODECS[codecs])
    array[:] = numbers(dtype)
    assert_rows(ZarrDataset(tmp_path), array[:])


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_a_shard_may_come_first(tmp_path: Path, location: str) -> None:
    serializer = zarr.codecs.ShardingCodec(chunk_shape=CHUNKS, index_location=location)
    array = zarr.create_array(
        store=tmp_path, shape=SHAPE, chunks=(8, 10), dtype="f8", serializer=serializer, compressors=None, fill_value=3.5
    )
    array[:5, 2:] = numbers("f8")[:5, 2:]
    assert_rows(ZarrDataset(tmp_path), array[:])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        *(("i4", number) for number in (0, 7, -1)),
        *(("f4", number) for number in ("NaN", "Infinity")),
        *(("f2", number) for number in (1.1, -0.0, 6e-8, 65504, "NaN", "-Infinity")),
    ],
)
def test_chunks_that_are_not_stored_are_fill_values(tmp_path: Path, version: int, dtype: str, fill: Any) -> None:
    array = zarr.create_array(
        store=tmp_path,
        shape=SHAPE,
        chunks=CHUNKS,
        dtype=dtype,
        zarr_format=version,
        fill_value=np.dtype(dtype).type(fill),
    )
    array[4:8, :5] = 1
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) <= 3
    assert_rows(ZarrDataset(tmp_path, decode_cf=False), array[:])


def _base64(value: float) -> str:
    import base64

    return base64.standard_b64encode(struct.pack("<d", value)).decode()


ATTRIBUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "scale": ("i2", {"scale_factor": 0.01}),
    "offset": ("i2", {"add_offset": 273.15}),
    "scale-offset": ("i2", {"scale_factor": 0.1, "add_offset": 10.5}),
    "integer-offset": ("i4", {"scale_factor": 0.1, "add_offset": 10}),
    "scaled-float": ("f4", {"scale_factor": 0.1}),
    "missing": ("i2", {"missing_value": 5}),
    "missing-int32": ("i4", {"missing_value": 5}),
    "missing-uint8": ("u1", {"missing_value": [5, 6]}),
    "missing-int64": ("i8", {"missing_value": 5}),
    "missing-float": ("f4", {"missing_value": 0.1}),
    "missing-nan": ("f8", {"missing_value": [float("nan")]}),
    "missing-scale": ("i2", {"missing_value": 5, "scale_factor": 0.3, "add_offset": -1.5}),
    "unsigned": ("i1", {"_Unsigned": "true"}),
    "unsigned-scale": ("i1", {"_Unsigned": "true", "scale_factor": 0.5}),
    "signed": ("u2", {"_Unsigned": "false"}),
    "nothing": ("f4", {"units": "K", "long_name": "temperature"}),
    "spans": ("f4", {"units": "days"}),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", ATTRIBUTES)
@pytest.mark.parametrize("has_fill", [False, True])
def test_values_are_decoded_as_by_xarray(tmp_path: Path, version: int, case: str, has_fill: bool) -> None:
    dtype, attributes = ATTRIBUTES[case]
    attributes = dict(attributes)
    values = numbers(dtype)
    if dtype == "f4":
        values[0, :3] = [0.1, 7, np.nan]
    elif dtype[0] == "i":
        values[0, :3] = [-1, -100, 7]
    if has_fill:
        if version == 2:
            attributes["fill_value"] = values.dtype.type(7)
        else:
            attributes["_FillValue"] = _base64(7.0) if dtype[0] == "f" else 7
    write(tmp_path, version, "a", values, CHUNKS, **attributes)
    with xarray.open_zarr(tmp_path, consolidated=False, chunks=None) as opened:
        expected = opened["a"].values
    if case == "spans" and has_fill:
        with pytest.raises(ValueError, match="time spans"):
            ZarrDataset(tmp_path, "a")
        return
    assert_rows(ZarrDataset(tmp_path, "a"), expected)
    assert_rows(ZarrDataset(tmp_path, "a", decode_cf=False), values)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("scale", [None, 0.1])
def test_a_fill_value_that_is_nan_keeps_the_data_type(tmp_path: Path, version: int, scale: float | None) -> None:
    attributes: dict[str, Any] = {} if scale is None else {"scale_factor": scale, "add_offset": 3.3}
    if version == 2:
        attributes["fill_value"] = np.float32("nan")
    else:
        attributes["_FillValue"] = _base64(float("nan"))
    write(tmp_path, version, "a", numbers("f4"), CHUNKS, **attributes)
    with xarray.open_zarr(tmp_path, consolidated=False, chunks=None) as opened:
        assert_rows(ZarrDataset(tmp_path, "a"), opened["a"].values)
    assert ZarrDataset(tmp_path, "a")[0].dtype == torch.float32


def test_stores_written_by_xarray_are_read_as_xarray_reads_them(tmp_path: Path) -> None:
    values = numbers("f8", (6, 8, 10)) * 30
    values[0, :2] = np.nan
    dataset = xarray.Dataset(
        {"t2m": (("time", "y", "x"), values), "lsm": (("y", "x"), numbers("f4", (8, 10))), "station": ((), "x")},
        {"time": np.arange("2020-01-01", "2020-01-07", dtype="M8[D]"), "y": np.arange(8.0), "x": np.arange(10)},
    )
    encoding = {"t2m": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 5.0, "_FillValue": -32768}}
    for version in (2, 3):
        folder = tmp_path / str(version)
        dataset.drop_vars("station").to_zarr(folder, zarr_format=version, encoding=encoding)
        with xarray.open_zarr(folder, chunks=None) as opened:
            expected = opened["t2m"].values
            ours = ZarrDataset(folder, window={"time": 2, "y": 4, "x": 5})
            assert list(ours[0]) == ["t2m"]
            assert_same(ours[3]["t2m"], torch.from_numpy(expected[0:2, 4:8, 5:10].copy()))
            both = ZarrDataset(folder, ["lsm", "t2m"], window={"time": 2, "y": 4, "x": 5})
            assert_same(both[7]["lsm"], torch.from_numpy(opened["lsm"].values[4:8, 5:10].copy()))
            assert_same(both[7]["t2m"], torch.from_numpy(expected[2:4, 4:8, 5:10].copy()))
        with pytest.raises(ValueError, match=r'"time": times .*since.* are not supported; pass decode_cf=False'):
            ZarrDataset(folder, "time")
        assert len(ZarrDataset(folder, "time", decode_cf=False)) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_type": "string"}, 'data type "string": only numbers'),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zfp"}]}, 'codec "zfp"'),
        ({"shape": [3]}, "do not fit an array of shape"),
        ({"chunk_grid": {"name": "rectangular"}}, "chunk_grid: expected a regular one"),
        ({"fill_value": "x"}, 'fill value: expected a value of float32, got "x"'),
        ({"zarr_format": 4}, "zarr_format 3"),
    ],
)
def test_metadata_that_is_not_read_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    import json

    write(tmp_path, 3, "a", numbers("f4", (9, 14, 10)), (4, 5, 6), units="K")
    path = tmp_path / "a" / "zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=f"a/zarr.json.*{message}"):
        ZarrDataset(tmp_path, "a")


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / ".zarray").write_text(
        '{"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|O", "fill_value": null, "order": "C", '
        '"filters": [{"id": "pickle"}], "compressor": null}'
    )
    with pytest.raises(ValueError, match="objects are never loaded"):
        ZarrDataset(tmp_path)


@pytest.mark.parametrize("codecs", ["default", "gzip", "blosc", "zstd-crc32c", "shards", "none"])
def test_a_damaged_chunk_is_named(tmp_path: Path, codecs: str) -> None:
    array = zarr.create_array(store=tmp_path, shape=SHAPE, chunks=CHUNKS, dtype="f4", **V3_CODECS[codecs])
    array[:] = numbers("f4")
    path = next(path for path in sorted(tmp_path.rglob("*")) if path.is_file() and path.name != "zarr.json")
    whole = path.read_bytes()
    for bytes_left in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:bytes_left])
        dataset = ZarrDataset(tmp_path)
        with pytest.raises(ValueError, match=rf"{path}.*(chunk|shard) \[0, 0\] of array.*") as raised:
            dataset.__getitems__(range(len(dataset)))
        assert codecs == "shards" or "codec" in str(raised.value)


def test_a_store_that_is_gone_is_not_full_of_fill_values(tmp_path: Path) -> None:
    write(tmp_path, 3, "a", numbers("f4", (9, 14, 10)), (4, 5, 6), units="K")
    dataset = ZarrDataset(tmp_path, "a")
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        dataset[0]
