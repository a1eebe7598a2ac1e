"""`ZarrDataset` against the packages zarr and xarray: the same numbers, bit for bit."""

from __future__ import annotations

import itertools
import pickle
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from checks.array_rows import assert_rows
from checks.equality import assert_same
from sluicegate import BlockShuffleSampler, DataLoader, ZarrDataset

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")
xarray = pytest.importorskip("xarray")

pytestmark = [
    # What the packages say about the future of the format, and of themselves.
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::numcodecs"),
    pytest.mark.filterwarnings("ignore:::xarray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SHAPE, CHUNKS = (11, 13), (4, 5)


def _numbers(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(0)
    if np.dtype(dtype).kind == "b":
        return generator.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0, 100, shape).astype(dtype)
    numbers = generator.standard_normal(shape)
    return (numbers + 1j * generator.random(shape) if np.dtype(dtype).kind == "c" else numbers).astype(dtype)


def _all(dataset: Any) -> list[Any]:
    return [dataset[index] for index in range(len(dataset))]


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
        # Long runs and noise: blosc has a form for each.
        numbers = _numbers(dtype, shape)
        numbers[: shape[0] // 2] = numbers[0, 0]
        array[:] = numbers
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
    array[:] = _numbers("i4")
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
    array[:] = _numbers("i4")
    assert_rows(ZarrDataset(tmp_path / "a", decode_cf=False), array[:])
    zarr.create_array(
        store=tmp_path / "b", shape=SHAPE, dtype="i4", zarr_format=2, filters=[numcodecs.Delta("i4")], compressors=None
    )
    with pytest.raises(ValueError, match=r'\.zarray.*codec "delta" is not read: expected blosc'):
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
    array[:] = _numbers(dtype)
    assert_rows(ZarrDataset(tmp_path), array[:])


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_a_shard_may_come_first(tmp_path: Path, location: str) -> None:
    serializer = zarr.codecs.ShardingCodec(chunk_shape=CHUNKS, index_location=location)
    array = zarr.create_array(
        store=tmp_path, shape=SHAPE, chunks=(8, 10), dtype="f8", serializer=serializer, compressors=None, fill_value=3.5
    )
    array[:5, 2:] = _numbers("f8")[:5, 2:]
    assert_rows(ZarrDataset(tmp_path), array[:])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("fill", [0, 7, -1, "NaN", "Infinity"])
def test_chunks_that_are_not_stored_are_fill_values(tmp_path: Path, version: int, fill: Any) -> None:
    dtype = "f4" if isinstance(fill, str) else "i4"
    array = zarr.create_array(
        store=tmp_path,
        shape=SHAPE,
        chunks=CHUNKS,
        dtype=dtype,
        zarr_format=version,
        fill_value=np.dtype(dtype).type(fill if isinstance(fill, int) else float(fill)),
    )
    array[4:8, :5] = 1
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) <= 3
    assert_rows(ZarrDataset(tmp_path, decode_cf=False), array[:])


def _written(folder: Path, version: int, name: str, values: Any, chunks: tuple[int, ...], **attributes: Any) -> None:
    group = zarr.open_group(folder, mode="a", zarr_format=version)
    names = ["time", "y", "x"][-np.ndim(values) :]
    options: dict[str, Any] = {"dimension_names": names} if version == 3 else {}
    fill = attributes.pop("fill_value", None)
    array = group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype, fill_value=fill, **options)
    array[:] = values
    array.attrs.update(attributes if version == 3 else {**attributes, "_ARRAY_DIMENSIONS": names})


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
    values = _numbers(dtype)
    if dtype == "f4":
        values[0, :3] = [0.1, 7, np.nan]
    elif dtype[0] == "i":
        values[0, :3] = [-1, -100, 7]
    if has_fill:
        if version == 2:
            attributes["fill_value"] = values.dtype.type(7)
        else:
            attributes["_FillValue"] = _base64(7.0) if dtype[0] == "f" else 7
    _written(tmp_path, version, "a", values, CHUNKS, **attributes)
    with xarray.open_zarr(tmp_path, consolidated=False, chunks=None) as opened:
        expected = opened["a"].values
    if case == "spans" and has_fill:
        with pytest.raises(ValueError, match="spans of time"):
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
    _written(tmp_path, version, "a", _numbers("f4"), CHUNKS, **attributes)
    with xarray.open_zarr(tmp_path, consolidated=False, chunks=None) as opened:
        assert_rows(ZarrDataset(tmp_path, "a"), opened["a"].values)
    assert ZarrDataset(tmp_path, "a")[0].dtype == torch.float32


def test_what_xarray_writes_is_read_as_it_reads_it(tmp_path: Path) -> None:
    values = _numbers("f8", (6, 8, 10)) * 30
    values[0, :2] = np.nan
    dataset = xarray.Dataset(
        {"t2m": (("time", "y", "x"), values), "lsm": (("y", "x"), _numbers("f4", (8, 10))), "station": ((), "x")},
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
        with pytest.raises(ValueError, match=r'"time": times .*since.* are not decoded; pass decode_cf=False'):
            ZarrDataset(folder, "time")
        assert len(ZarrDataset(folder, "time", decode_cf=False)) == 6


class Windows(torch.utils.data.Dataset[torch.Tensor]):
    """The windows as one would write them by hand."""

    def __init__(self, values: Any, window: dict[int, int], stride: dict[int, int]) -> None:
        self.values = values
        starts = [range(0, values.shape[axis] - size + 1, stride.get(axis, size)) for axis, size in window.items()]
        self.window, self.starts = window, list(itertools.product(*starts))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> torch.Tensor:
        cut = [slice(None)] * self.values.ndim
        for (axis, size), start in zip(self.window.items(), self.starts[index], strict=True):
            cut[axis] = slice(start, start + size)
        return torch.from_numpy(self.values[tuple(cut)].copy())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    _written(tmp_path, 3, "a", _numbers("f4", (9, 14, 10)), (4, 5, 6), units="K")
    return tmp_path


@pytest.mark.parametrize("stride", [{}, {"time": 1, "x": 2}])
@pytest.mark.parametrize("order", [["time", "y", "x"], ["x", "time", "y"], ["time", "x"], ["y"]])
def test_windows_are_those_of_a_plain_dataset_under_torchs_loader(
    store: Path, stride: dict[str, int], order: list[str]
) -> None:
    sizes, axes = {"time": 3, "y": 4, "x": 5}, {"time": 0, "y": 1, "x": 2}
    stride = {name: number for name, number in stride.items() if name in order}
    ours = ZarrDataset(store, "a", window={name: sizes[name] for name in order}, stride=stride)
    plain = Windows(
        zarr.open_array(store / "a", mode="r")[:],
        {axes[name]: sizes[name] for name in order},
        {axes[name]: number for name, number in stride.items()},
    )
    assert len(ours) == len(plain)
    for shuffle, workers in ((False, 0), (True, 0), (True, 2)):
        batches = []
        for loader, dataset in ((torch.utils.data.DataLoader, plain), (DataLoader, ours)):
            torch.manual_seed(5)
            batches.append(list(loader(dataset, 3, shuffle=shuffle, num_workers=workers)))
        assert_same(batches[1], batches[0])
    assert_same(_all(pickle.loads(pickle.dumps(ours))), _all(plain))


def test_edges(store: Path) -> None:
    values = zarr.open_array(store / "a", mode="r")[:]
    padded = np.zeros((9, 16, 10), np.float32)
    padded[:, :14] = values
    dropped = ZarrDataset(store, "a", window={"y": 4})
    filled = ZarrDataset(store, "a", window={"y": 4}, edges="pad")
    shifted = ZarrDataset(store, "a", window={"y": 4}, edges="shift")
    assert [len(each) for each in (dropped, filled, shifted)] == [3, 4, 4]
    assert_same(_all(filled), [torch.from_numpy(padded[:, start : start + 4].copy()) for start in (0, 4, 8, 12)])
    assert_same(_all(shifted), [torch.from_numpy(values[:, start : start + 4].copy()) for start in (0, 4, 8, 10)])
    assert_same(
        ZarrDataset(store, "a", window={"y": 20}, edges="pad")[0][:, :14].contiguous(), torch.from_numpy(values)
    )


def test_windows_chunk_by_chunk_are_the_same_windows(store: Path) -> None:
    window, stride = {"time": 2, "y": 2, "x": 3}, {"time": 1, "y": 2, "x": 1}
    rows = ZarrDataset(store, window=window, stride=stride)
    chunks = ZarrDataset(store, window=window, stride=stride, order="chunks")
    assert len(rows) == len(chunks) == int(rows.block_sizes.sum()) == int(chunks.block_sizes.sum())
    assert len(rows.block_sizes) == 2 < len(chunks.block_sizes)
    found = [{each["a"].numpy().tobytes() for each in _all(dataset)} for dataset in (rows, chunks)]
    assert found[0] == found[1]
    # The windows of a block begin in one chunk.
    first = chunks[int(chunks.block_sizes[0]) - 1]["a"]
    values = zarr.open_array(store / "a", mode="r")[:]
    assert_same(first, torch.from_numpy(values[3:5, 4:6, 5:8].copy()))


@pytest.mark.parametrize("order", ["rows", "chunks"])
def test_by_blocks_each_chunk_is_decoded_once_in_an_epoch(tmp_path: Path, order: Any) -> None:
    _written(tmp_path, 3, "a", _numbers("f4", (16, 16, 16)), (4, 8, 8))
    dataset = ZarrDataset(tmp_path, window={"time": 2, "y": 4, "x": 4}, order=order, cache_bytes=8 * 1024 * 3)
    sampler = BlockShuffleSampler(dataset, window=2 if order == "chunks" else 1, seed=3)
    loader = DataLoader(dataset, 8, sampler=sampler)
    windows = [window.numpy().tobytes() for batch in loader for window in batch["a"]]
    assert len(set(windows)) == len(dataset) == 8 * 4 * 4
    assert dataset.cache_info().decoded == 16
    assert dataset.block_size == (8 if order == "chunks" else 32)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_help_the_calling_thread_with_large_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    values = _numbers("f4", (8, 512, 512))
    _written(tmp_path, 3, "a", values, (4, 256, 256))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    dataset = ZarrDataset(tmp_path, window={"time": 6, "y": 300, "x": 300}, stride={"time": 2, "y": 100, "x": 100})
    (found,) = DataLoader(dataset, len(dataset))
    expected = [
        values[t : t + 6, y : y + 300, x : x + 300] for t in (0, 2) for y in (0, 100, 200) for x in (0, 100, 200)
    ]
    assert_same(found["a"], torch.from_numpy(np.stack(expected)))
    assert dataset.cache_info().decoded == 8
    for damaged in ("c/0/1/1", "c/1/0/0"):
        (tmp_path / "a" / damaged).write_bytes(b"damaged")
    damaged_dataset = ZarrDataset(tmp_path, window={"time": 6, "y": 300, "x": 300})
    with pytest.raises(ValueError, match="c/0/1/1"):
        next(iter(DataLoader(damaged_dataset, 1)))


def test_ids_seeds_and_resume(store: Path) -> None:
    dataset = ZarrDataset(store, window={"time": 3, "y": 4, "x": 5})
    loader = DataLoader(dataset, 2, shuffle=True, seed=3, num_workers=2)
    batches = list(loader.with_ids())
    for batch, ids in batches:
        assert_same(batch["a"], torch.stack([dataset[index]["a"] for index in ids.sample_indices.tolist()]))
    loader = DataLoader(dataset, 2, shuffle=True, seed=3, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    resumed = DataLoader(dataset, 2, shuffle=True, seed=3, num_workers=2)
    resumed.load_state_dict(state)
    assert_same(list(resumed), list(iterator))


def test_the_first_of_a_billion_windows_comes_at_once(tmp_path: Path) -> None:
    zarr.create_array(
        store=tmp_path, shape=(1000, 1000, 1003), chunks=(8, 16, 16), dtype="f4", dimension_names=["time", "y", "x"]
    )
    begin = time.perf_counter()
    dataset = ZarrDataset(
        tmp_path, window=dict.fromkeys(("time", "y", "x"), 4), stride=dict.fromkeys("yx", 1) | {"time": 1}
    )
    first = next(iter(DataLoader(dataset, 1)))
    passed = time.perf_counter() - begin
    assert len(dataset) == 997 * 997 * 1000
    assert first.shape == (1, 4, 4, 4)
    assert passed < 1, "it is 10 ms on a machine that has nothing else to do"


def test_what_does_not_fit_is_named(store: Path, tmp_path: Path) -> None:
    _written(store, 3, "b", _numbers("f4", (9, 15, 10)), (4, 5, 6))
    _written(store, 3, "c", _numbers("f4", (14, 10)), (5, 6))
    for arguments, message in (
        ({"window": {"z": 2}}, r"window: expected dimensions of the arrays, which are .*time.*, got \"z\""),
        ({"window": {"time": 10}}, r"window: expected at most 9 for dimension \"time\".*got 10"),
        ({"window": {"time": 0}}, r"window: expected a positive number for dimension \"time\""),
        ({"window": {"time": 3}, "stride": {"y": 1}}, r"stride: expected dimensions of the window.*got \"y\""),
        ({"window": {"y": 3}}, r"fields: expected arrays on the same coordinates, got \"b\" with 15 .* 14 "),
        ({"fields": ["d"]}, r"fields: expected names of arrays.*\[\"a\", \"b\", \"c\"\], got \"d\""),
        ({"fields": ["../a"]}, "fields: expected names of arrays"),
        ({"fields": ["a", "a"]}, "fields: expected each name once"),
        ({"fields": []}, "fields: expected at least one name"),
        ({"fields": ["a", "c"]}, r"fields: expected arrays with one first dimension, \"time\", got \"c\""),
        ({"fields": ["c"], "window": {"time": 3}}, "window: expected dimensions of the arrays"),
        (
            {"fields": ["a", "c"], "window": {"time": 3}},
            r"fields: expected arrays with a dimension of the windows, got \"c\"",
        ),
        ({"edges": "keep"}, "edges: expected one of 'drop', 'pad', 'shift', but got 'keep'"),
        ({"window": {}}, "window: expected the size of a window"),
    ):
        with pytest.raises(ValueError, match=message):
            ZarrDataset(store, **arguments)
    with pytest.raises(TypeError, match="window: expected numbers by dimension"):
        ZarrDataset(store, window=[3])  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        ZarrDataset(tmp_path / "nothing")
    (tmp_path / "store.zip").write_bytes(b"")
    with pytest.raises(ValueError, match=r"path: expected the folder of a Zarr store, .* got the file"):
        ZarrDataset(tmp_path / "store.zip")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_type": "string"}, 'data type "string": only numbers'),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zfp"}]}, 'codec "zfp"'),
        ({"shape": [3]}, "do not fit an array of shape"),
        ({"chunk_grid": {"name": "rectangular"}}, "chunk_grid: expected a regular one"),
        ({"fill_value": "x"}, 'fill value "x"'),
        ({"zarr_format": 4}, "zarr_format 3"),
    ],
)
def test_metadata_that_is_not_read_is_named(store: Path, change: dict[str, Any], message: str) -> None:
    import json

    path = store / "a" / "zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=f"a/zarr.json.*{message}"):
        ZarrDataset(store, "a")


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
    array[:] = _numbers("f4")
    path = next(path for path in sorted(tmp_path.rglob("*")) if path.is_file() and path.name != "zarr.json")
    whole = path.read_bytes()
    for bytes_left in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:bytes_left])
        dataset = ZarrDataset(tmp_path)
        with pytest.raises(ValueError, match=rf"{path}.*(chunk|shard) \[0, 0\] of array.*") as raised:
            dataset.__getitems__(range(len(dataset)))
        assert codecs == "shards" or "codec" in str(raised.value)


def test_a_store_that_is_gone_is_not_full_of_fill_values(store: Path) -> None:
    dataset = ZarrDataset(store, "a")
    (store / "a").rename(store / "b")
    with pytest.raises(FileNotFoundError):
        dataset[0]
