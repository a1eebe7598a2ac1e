"""Every format under one contract: the samples of a reference reader, in our order, with any rank, worker, and path."""

from __future__ import annotations

import copy
import csv
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
import torch

import sluicegate
from checks.equality import assert_same, difference
from checks.formats import check_format
from sluicegate import DataLoader
from sluicegate.native.dataset import FORMAT_METHODS
from sluicegate.recognition.native_source import native_source
from sluicegate.stream.native import NativeStream

SAMPLES = 11

Case = tuple[Any, list[Any]]


def _array(index: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(index).random((2, 3), np.float32)


def _table() -> pyarrow.Table:
    arrays = pyarrow.FixedSizeListArray.from_arrays(np.arange(3 * SAMPLES, dtype=np.float32), 3)
    columns = {
        "id": pyarrow.array(range(SAMPLES), pyarrow.int64()),
        "score": pyarrow.array([index / 7 for index in range(SAMPLES)], pyarrow.float32()),
        "name": pyarrow.array(["é" * index for index in range(SAMPLES)]),
        "raw": pyarrow.array([bytes(range(index)) for index in range(SAMPLES)], pyarrow.binary()),
        "flag": pyarrow.array([index % 3 == 0 for index in range(SAMPLES)]),
        "place": arrays,
        "nested": pyarrow.array([{"a": index, "b": str(index)} for index in range(SAMPLES)]),
    }
    return pyarrow.table(columns)


def _rows(table: pyarrow.Table) -> list[Any]:
    """Return the rows as `to_pylist` does, with numbers as tensors of their columns' data types."""
    rows = table.to_pylist()
    for row in rows:
        row["id"] = torch.tensor(row["id"])
        row["score"] = torch.tensor(row["score"], dtype=torch.float32)
        row["flag"] = torch.tensor(row["flag"])
        row["place"] = torch.tensor(row["place"], dtype=torch.float32)
        row["nested"]["a"] = torch.tensor(row["nested"]["a"])
    return rows


def _arrow(folder: Path) -> Case:
    with pyarrow.ipc.new_file(folder / "x.arrow", _table().schema) as writer:
        writer.write_table(_table(), max_chunksize=4)
    with pyarrow.memory_map(str(folder / "x.arrow")) as file:
        return sluicegate.ArrowDataset(folder / "x.arrow"), _rows(pyarrow.ipc.open_file(file).read_all())


def _parquet(folder: Path) -> Case:
    pyarrow.parquet.write_table(_table(), folder / "x.parquet", row_group_size=4)
    return sluicegate.ParquetDataset(folder / "x.parquet"), _rows(pyarrow.parquet.read_table(folder / "x.parquet"))


def _csv(folder: Path) -> Case:
    for part in range(2):
        with (folder / f"{part}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["number", "score", "name"])
            writer.writerows(
                [index, index / 7, f'say "{index}", é\n'] for index in range(part * 6, min(part * 6 + 6, 11))
            )
    samples = []
    for part in range(2):
        with (folder / f"{part}.csv").open(newline="") as file:
            samples += [
                {"number": int(row["number"]), "score": float(row["score"]), "name": row["name"]}
                for row in csv.DictReader(file)
            ]
    return sluicegate.CsvDataset(folder / "*.csv"), samples


def _folder(folder: Path) -> Case:
    for index in range(SAMPLES):
        (folder / f"{index % 3}").mkdir(exist_ok=True)
        (folder / f"{index % 3}/{index:02d}.bin").write_bytes(os.urandom(index * 10))
    paths = sorted(path for path in folder.rglob("*.bin"))
    samples = [{"bytes": path.read_bytes(), "path": str(path.relative_to(folder))} for path in paths]
    return sluicegate.FolderDataset(folder), samples


def _hdf5(folder: Path) -> Case:
    h5py = pytest.importorskip("h5py")
    generator = np.random.default_rng(0)
    values = {"x": generator.random((SAMPLES, 3)), "y": generator.integers(0, 9, SAMPLES).astype(">i2")}
    with h5py.File(folder / "x.h5", "w") as file:
        for name, array in values.items():
            file.create_dataset(name, data=array, chunks=(2, *array.shape[1:]), compression="gzip", shuffle=True)
    samples = [
        {
            name: torch.from_numpy(np.array(array[index], array.dtype.newbyteorder("=")))
            for name, array in values.items()
        }
        for index in range(SAMPLES)
    ]
    return sluicegate.Hdf5Dataset(folder / "x.h5"), samples


def _json_lines(folder: Path) -> Case:
    objects = [{"id": index, "text": "ü" * index, "nested": {"a": [index, index % 2 == 0]}} for index in range(SAMPLES)]
    (folder / "x.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    with (folder / "x.jsonl").open() as file:
        return sluicegate.JsonLinesDataset(folder / "x.jsonl"), [json.loads(line) for line in file]


def _mds(folder: Path) -> Case:
    streaming = pytest.importorskip("streaming")
    columns = {"array": "ndarray:float32:2,3", "id": "int", "text": "str", "raw": "bytes", "small": "uint16"}
    with streaming.MDSWriter(out=str(folder / "mds"), columns=columns, compression="zstd", size_limit=300) as writer:
        for index in range(SAMPLES):
            sample = {"array": _array(index), "id": index, "text": "é" * index, "raw": bytes(range(index))}
            writer.write({**sample, "small": np.uint16(index)})
    theirs = streaming.StreamingDataset(local=str(folder / "mds"), batch_size=1, shuffle=False)
    samples = []
    for index in range(SAMPLES):
        sample = theirs[index]
        tensors = {"array": torch.from_numpy(sample["array"].copy()), "small": torch.tensor(sample["small"])}
        samples.append({name: tensors.get(name, sample[name]) for name in sorted(sample)})
    return sluicegate.MdsDataset(folder / "mds"), samples


def _npy(folder: Path) -> Case:
    np.save(folder / "x.npy", np.stack([_array(index) for index in range(SAMPLES)]))
    return sluicegate.NpyDataset(folder / "x.npy"), [torch.from_numpy(row.copy()) for row in np.load(folder / "x.npy")]


def _raw(folder: Path) -> Case:
    dtype = np.dtype([("id", "<i4"), ("image", "u1", (2, 2)), ("score", "<f8")])
    generator = np.random.default_rng(0)
    rows = np.frombuffer(generator.bytes(SAMPLES * dtype.itemsize), dtype).copy()
    rows["score"] = generator.random(SAMPLES)
    rows.tofile(folder / "x.bin")
    samples = [
        {name: torch.from_numpy(np.array(row[name])) for name in ("id", "image", "score")}
        for row in np.memmap(folder / "x.bin", dtype, "r")
    ]
    return sluicegate.RawDataset(folder / "x.bin", dtype=dtype), samples


def _npz(folder: Path) -> Case:
    arrays = np.stack([_array(index) for index in range(SAMPLES)])
    np.savez_compressed(folder / "x.npz", a=arrays, n=np.arange(SAMPLES))
    loaded = np.load(folder / "x.npz")
    rows = [{name: torch.from_numpy(loaded[name])[row].clone() for name in loaded} for row in range(SAMPLES)]
    return sluicegate.NpzDataset(folder / "x.npz"), rows


def _safetensors(folder: Path) -> Case:
    from safetensors.torch import load_file, save_file

    arrays = torch.stack([torch.from_numpy(_array(index)) for index in range(SAMPLES)])
    save_file({"a": arrays, "b": arrays[:, 0].to(torch.bfloat16), "n": torch.arange(SAMPLES)}, folder / "x.safetensors")
    tensors = load_file(folder / "x.safetensors")
    dataset = sluicegate.SafetensorsDataset(folder / "x.safetensors", ["a", "b", "n"])
    return dataset, [{name: tensors[name][index].clone() for name in ("a", "b", "n")} for index in range(SAMPLES)]


def _tar(folder: Path) -> Case:
    import webdataset

    urls = [str(folder / f"{shard}.tar") for shard in range(2)]
    for shard, url in enumerate(urls):
        with webdataset.TarWriter(url) as writer:
            for index in range(shard * 6, min(shard * 6 + 6, SAMPLES)):
                sample = {"__key__": f"s{index:04d}", "npy": _array(index), "json": {"id": index}, "txt": "ü" * index}
                writer.write(sample)
    theirs = list(webdataset.WebDataset(urls, shardshuffle=False).decode())
    samples = [
        {
            "__key__": sample["__key__"],
            "__url__": sample["__url__"],
            "npy": torch.from_numpy(sample["npy"].copy()),
            "json": sample["json"],
            "txt": sample["txt"],
        }
        for sample in theirs
    ]
    return sluicegate.TarDataset(urls, {"npy": "npy", "json": "json", "txt": "str"}), samples


def _tfrecord(folder: Path) -> Case:
    import tfrecord

    path = str(folder / "x.tfrecord")
    writer = tfrecord.TFRecordWriter(path)
    for index in range(SAMPLES):
        features = {
            "id": (index, "int"),
            "raw": (bytes(range(index)), "byte"),
            "values": (_array(index).ravel(), "float"),
        }
        writer.write(features)
    writer.close()
    samples = [
        {
            "id": torch.from_numpy(np.array(sample["id"]).reshape(())),
            "raw": bytes(sample["raw"]),
            "values": torch.from_numpy(np.array(sample["values"], np.float32)),
        }
        for sample in tfrecord.tfrecord_loader(path, None, {"id": "int", "raw": "byte", "values": "float"})
    ]
    return sluicegate.TFRecordDataset(path), samples


def _tokens(folder: Path) -> Case:
    np.random.default_rng(0).integers(0, 50_000, SAMPLES * 8 + 1, dtype=np.uint16).tofile(folder / "x.bin")
    tokens = np.memmap(folder / "x.bin", np.uint16, "r")
    samples = []
    for start in range(0, SAMPLES * 8, 8):
        window = torch.from_numpy(tokens[start : start + 9].astype(np.int64))
        samples.append((window[:-1].clone(), window[1:].clone()))
    return sluicegate.TokensDataset(folder / "x.bin", 8, dtype="uint16", output="pair"), samples


def _zarr(folder: Path) -> Case:
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(folder / "zarr")
    for name, dtype in (("a", "f4"), ("b", "i2")):
        array = group.create_array(name, shape=(SAMPLES * 2, 6), chunks=(5, 4), dtype=dtype, dimension_names=["t", "x"])
        array[:] = np.random.default_rng(0).integers(0, 100, array.shape)
    whole = {name: group[name][:] for name in ("a", "b")}
    samples = [
        {name: torch.from_numpy(array[2 * index : 2 * index + 2].copy()) for name, array in whole.items()}
        for index in range(SAMPLES)
    ]
    return sluicegate.ZarrDataset(folder / "zarr", window={"t": 2}), samples


def _windows(folder: Path) -> Case:
    import xarray

    values = np.random.default_rng(0).integers(0, 100, (SAMPLES * 2, 6)).astype(np.float32)
    xarray.Dataset({"a": (("t", "x"), values)}).to_zarr(folder / "zarr", consolidated=False)
    samples = [{"a": torch.from_numpy(values[2 * index : 2 * index + 2].copy())} for index in range(SAMPLES)]
    return WindowDataset(xarray.open_zarr(folder / "zarr", chunks=None, consolidated=False), {"t": 2}), samples


def _generators(folder: Path) -> Case:
    import xarray

    xbatcher = pytest.importorskip("xbatcher")
    _, samples = _windows(folder)
    stored = xarray.open_zarr(folder / "zarr", chunks=None, consolidated=False)
    generator = xbatcher.BatchGenerator(stored, {"t": 2}, preload_batch=False)
    return MapDataset(generator), [sample["a"] for sample in samples]


def _token_documents(folder: Path) -> Case:
    tokens = [np.random.default_rng(index).integers(0, 50_000, index % 4 * 3 + 1) for index in range(SAMPLES)]
    for index, each in enumerate(tokens):
        each.astype(np.uint16).tofile(folder / f"{index:02d}.bin")
    samples = [torch.from_numpy(np.fromfile(path, np.uint16).astype(np.int64)) for path in sorted(folder.iterdir())]
    return sluicegate.TokenDocumentsDataset(folder / "*.bin"), samples


def _image_folder(folder: Path) -> Case:
    from PIL import Image

    for index in range(SAMPLES):
        path = folder / f"class{index % 3}" / f"{index:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.random.default_rng(index).integers(0, 256, (6, 8 + index, 3), np.uint8)).save(path)
    samples = []
    for path in sorted(folder.glob("*/*.png")):
        with Image.open(path) as image:
            pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        left = round((pixels.shape[2] - 6) / 2)
        samples.append((pixels[:, 1:5, left : left + 6].contiguous(), int(path.parent.name[-1])))
    return sluicegate.ImageFolderDataset(folder, sluicegate.transforms.CenterCrop((4, 6))), samples


CASES: dict[type, Callable[[Path], Case]] = {
    sluicegate.ArrowDataset: _arrow,
    sluicegate.CsvDataset: _csv,
    sluicegate.FolderDataset: _folder,
    sluicegate.ImageFolderDataset: _image_folder,
    sluicegate.JsonLinesDataset: _json_lines,
    sluicegate.MdsDataset: _mds,
    sluicegate.NpyDataset: _npy,
    sluicegate.NpzDataset: _npz,
    sluicegate.ParquetDataset: _parquet,
    sluicegate.RawDataset: _raw,
    sluicegate.SafetensorsDataset: _safetensors,
    sluicegate.TarDataset: _tar,
    sluicegate.TFRecordDataset: _tfrecord,
    sluicegate.TokenDocumentsDataset: _token_documents,
    sluicegate.TokensDataset: _tokens,
    sluicegate.ZarrDataset: _zarr,
    sluicegate.Hdf5Dataset: _hdf5,
}
if importlib.util.find_spec("xarray") is not None:
    from sluicegate.xarray import MapDataset, WindowDataset

    CASES[WindowDataset] = _windows
    CASES[MapDataset] = _generators


def test_every_format_is_here() -> None:
    formats = {format_class for format_class, _ in FORMAT_METHODS}
    # Other tests define formats too.
    assert {each for each in formats if each.__module__.partition(".")[0] == "sluicegate"} == set(CASES)


@pytest.fixture(params=CASES, ids=lambda format_class: format_class.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return CASES[request.param](tmp_path)


pytestmark = pytest.mark.filterwarnings(
    # Reference readers leave files open.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def test_the_samples_are_those_of_the_fields_own_reader(case: Case) -> None:
    dataset, samples = case
    check_format(dataset, samples)


def test_ranks_share_a_shuffled_epoch_and_ids_name_their_samples(case: Case) -> None:
    dataset, samples = case
    for workers in (0, 2):
        seen: list[int] = []
        steps = set()
        for rank in range(4):
            loader = DataLoader(
                dataset, batch_size=2, shuffle=True, seed=5, shard=(rank, 4), remainder="exact", num_workers=workers
            )
            batches = list(loader.with_ids())
            steps.add(len(batches))
            for batch, ids in batches:
                assert_same(batch, dataset.collate([samples[index] for index in ids.sample_indices.tolist()]))
                seen += ids.sample_indices[ids.valid].tolist()
        assert len(steps) == 1
        assert sorted(seen) == list(range(len(samples)))


def test_the_native_and_the_python_path_give_the_same(case: Case) -> None:
    dataset, _ = case
    in_python = copy.copy(dataset)
    in_python.__class__ = type("InPython", (type(dataset),), {})
    assert native_source(dataset, in_worker=False) is not None
    assert native_source(in_python, in_worker=False) is None
    for arguments in ({}, {"seed": 3, "shuffle": True}, {"shuffle": True, "generator": torch.Generator()}):
        expected = None
        for workers in (0, 2):
            for source in (dataset, in_python):
                if "generator" in arguments:
                    arguments["generator"].manual_seed(1)
                # Torch's collate function can't stack tensors of different lengths; the format's own can.
                collate: dict[str, Any] = {} if source is dataset else {"collate_fn": dataset.collate}
                batches = list(DataLoader(source, batch_size=3, num_workers=workers, **collate, **arguments))  # type: ignore[arg-type]
                expected = batches if expected is None else expected
                assert_same(batches, expected)


# By class: the function that writes files of the format, and the one that opens them as a stream.
STREAMS: dict[type, tuple[Callable[[Path], Case], Callable[[Path], Any]]] = {
    sluicegate.CsvStream: (_csv, lambda folder: sluicegate.CsvStream(folder / "*.csv")),
    sluicegate.JsonLinesStream: (_json_lines, lambda folder: sluicegate.JsonLinesStream(folder / "x.jsonl")),
    sluicegate.RawStream: (
        _raw,
        lambda folder: sluicegate.RawStream(
            folder / "x.bin", dtype=np.dtype([("id", "<i4"), ("image", "u1", (2, 2)), ("score", "<f8")])
        ),
    ),
    sluicegate.TarStream: (
        _tar,
        lambda folder: sluicegate.TarStream(folder / "{0..1}.tar", {"npy": "npy", "json": "json", "txt": "str"}),
    ),
    sluicegate.TFRecordStream: (_tfrecord, lambda folder: sluicegate.TFRecordStream(folder / "x.tfrecord")),
}


def test_every_stream_is_here() -> None:
    classes = [value for value in vars(sluicegate).values() if isinstance(value, type)]
    assert {each for each in classes if issubclass(each, NativeStream)} == set(STREAMS)


@pytest.fixture(params=STREAMS, ids=lambda stream_class: stream_class.__name__)
def streamed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Callable[..., Any], Case]:
    """Return a function that opens a stream, of one rank if given, and the dataset and samples of the same files."""
    write, open_stream = STREAMS[request.param]
    case = write(tmp_path)

    def make(shard: tuple[int, int] | None = None) -> Any:
        stream = open_stream(tmp_path)
        stream.shard = shard
        return stream

    return make, case


def test_a_stream_has_the_samples_of_the_map_style_class_and_of_the_fields_own_reader(streamed: Any) -> None:
    make, (dataset, samples) = streamed
    stream = make()
    assert_same(list(stream), samples)
    assert_same(list(stream), [dataset[index] for index in range(SAMPLES)])


def test_ranks_share_a_stream_and_each_has_as_many_for_any_workers(streamed: Any) -> None:
    make, (dataset, samples) = streamed
    for rank in range(3):
        own = samples[rank::3]
        batches = [dataset.collate(own[first : first + 2]) for first in range(0, len(own), 2)]
        for workers in range(3):
            loader = DataLoader(make((rank, 3)), batch_size=2, seed=5, num_workers=workers, worker_type="thread")
            assert_same(list(loader), batches)


@pytest.mark.parametrize("seed", [None, 7])
def test_a_stream_resumes_at_every_position_with_other_workers(streamed: Any, seed: int | None) -> None:
    make, (dataset, samples) = streamed

    # Without a seed, samples come in torch's order, which depends on workers, so each batch has one sample.
    size = 1 if seed is None else 2

    def loader(workers: int) -> Any:
        return DataLoader(make(), batch_size=size, seed=seed, num_workers=workers, worker_type="thread")

    whole = [dataset.collate(samples[first : first + size]) for first in range(0, SAMPLES, size)]
    for stop in range(len(whole)):
        first = loader(stop % 3)
        iterator = iter(first)
        batches = [next(iterator) for _ in range(stop)]
        state = json.loads(json.dumps(first.state_dict()))
        resumed = loader((stop + 1) % 3)
        resumed.load_state_dict(state)
        batches += resumed
        if seed is None:
            order = [[difference(batch, one) for one in whole].index(None) for batch in batches]
            assert sorted(order) == list(range(SAMPLES))
        else:
            assert_same(batches, whole)


def test_the_native_and_the_python_path_of_a_stream_give_the_same(streamed: Any) -> None:
    make, _ = streamed
    for workers in (0, 2):
        stream = make()
        native = list(DataLoader(make(), batch_size=3, num_workers=workers, worker_type="thread"))
        in_python = DataLoader(
            stream, batch_size=3, num_workers=workers, worker_type="thread", collate_fn=stream.collate
        )
        assert_same(list(in_python), native)
        torchs = torch.utils.data.DataLoader(stream, batch_size=3, num_workers=workers, collate_fn=stream.collate)
        assert_same(list(torchs), native)
