"""Small files of every format, and ways to damage them: a bad file is read, or an error names it; nothing else."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.io
import torch

from cases import structure
from doubles import mds_files, safetensors_files, tar_files, tfrecord_files, token_files
from sluicegate import (
    ArrowDataset,
    CsvDataset,
    FolderDataset,
    Hdf5Dataset,
    JsonLinesDataset,
    MdsDataset,
    NpyDataset,
    NpzDataset,
    ParquetDataset,
    RawDataset,
    SafetensorsDataset,
    TarDataset,
    TFRecordDataset,
    TokensDataset,
    ZarrDataset,
)

# No index can be stored there, so none is reused: that of an earlier file of the same size and time would match.
NOWHERE = "/proc/no-folder"


@dataclass(frozen=True)
class Format:
    """A format: `write(folder, stem)` writes some samples, and returns the path that `open` takes (in a list)."""

    write: Callable[[Path, str], Path]
    open: Callable[[list[Path]], Any]
    # Suffixes of files that are read only when they are opened, never later.
    read_once: tuple[str, ...] = ()


def _put(suffix: str, contents: bytes) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        path = folder / (stem + suffix)
        path.write_bytes(contents)
        return path

    return write


def _npy(order: Any) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        np.save(folder / f"{stem}.npy", np.arange(40, dtype="<f4").reshape(10, 4).copy(order))
        return folder / f"{stem}.npy"

    return write


def _npz(save: Callable[..., None]) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        save(folder / f"{stem}.npz", x=np.arange(40, dtype="<f4").reshape(10, 4), y=np.arange(10))
        return folder / f"{stem}.npz"

    return write


def _safetensors(folder: Path, stem: str) -> Path:
    tensors = {"x": torch.arange(10).reshape(5, 2), "y": torch.ones(5).bfloat16()}
    return Path(safetensors_files.written(folder / f"{stem}.safetensors", tensors))


def _megatron(folder: Path, stem: str) -> Path:
    return Path(token_files.megatron(folder, [[[1, 2, 3], [4]], [], [[5, 6]], [[7, 8, 9, 10, 11]]], stem) + ".bin")


def _records(folder: Path, stem: str) -> Path:
    examples = [tfrecord_files.example({"n": [n], "t": [b"text"], "f": [0.5] * n}) for n in range(1, 5)]
    return Path(tfrecord_files.put(folder / f"{stem}.tfrecord", *examples))


def _mds(compression: str | None) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        encoded = [mds_files.sample(n)[0] for n in range(3)]
        return Path(mds_files.written(folder / stem, mds_files.COLUMNS, [encoded], compression))

    return write


def _tar(suffix: str, pack: Callable[[bytes], bytes]) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        plain, path = folder / "plain", folder / (stem + suffix)
        members = [(f"{n}.{kind}", b"7" * (n * 150 * (kind == "txt") + 1)) for n in range(5) for kind in ("txt", "cls")]
        tar_files.put(plain, members)
        # Drops the padding to 10 KiB.
        contents = pack(plain.read_bytes().rstrip(b"\0") + bytes(1024))
        plain.unlink()
        path.write_bytes(contents)
        return path

    return write


def _long_names(form: int) -> Callable[[Path, str], Path]:
    """Write a tar archive with names that are too long for a header."""

    def write(folder: Path, stem: str) -> Path:
        path = folder / f"{stem}.tar"
        members = [(f"{'long/' * 30}{n}\u00e4.{kind}", b"7" * (n + 1)) for n in range(3) for kind in ("txt", "cls")]
        tar_files.put(path, members, format=form)
        path.write_bytes(path.read_bytes().rstrip(b"\0") + bytes(1024))
        return path

    return write


def _open_tar(paths: list[Path]) -> TarDataset:
    # The cache could still hold the contents of an earlier file of the same size and time.
    cache = paths[0].parent.with_suffix(".cache")
    shutil.rmtree(cache, ignore_errors=True)
    return TarDataset([*paths], {"txt": "bytes", "cls": int}, index_folder=NOWHERE, cache_folder=cache)


def _files(folder: Path, stem: str) -> Path:
    (folder / stem / "a").mkdir(parents=True)
    for number in range(3):
        (folder / stem / "a" / f"{number}.txt").write_bytes(b"x" * 100 * number)
    return folder / stem


_COLUMNS = pa.table(
    {
        "n": pa.array([1, None, 3, 4, 5]),
        "t": pa.array(["a", "\u00e4b", "", None, "cd"]),
        "l": pa.array([[1.5], [], [2.5, 3.5], [4.5], [5.5] * 4], pa.list_(pa.float32())),
        "s": pa.array([{"flag": n % 2 == 0} for n in range(5)]),
        "m": pa.array([[{"role": "a", "l": [[n]] * (n % 3)}] * n for n in range(5)]),
    }
)


def _parquet(**options: Any) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        path = folder / f"{stem}.parquet"
        # PyArrow rejects some of the names that this path may have.
        with path.open("wb") as file:
            pyarrow.parquet.write_table(_COLUMNS, file, row_group_size=3, **options)
        return path

    return write


def _arrow(open_writer: Callable[..., Any], compression: str | None) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        path = folder / f"{stem}.arrow"
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with path.open("wb") as file, open_writer(file, _COLUMNS.schema, options=options) as writer:
            writer.write_table(_COLUMNS, 3)
        return path

    return write


_ARRAY = {"zarr_format": 2, "shape": [5, 2], "chunks": [3, 2], "dtype": "<f4", "fill_value": 7.0, "order": "C"}
_ARRAY |= {"filters": None, "compressor": {"id": "zlib", "level": 1}}
_CHUNK = zlib.compress(np.arange(6, dtype="<f4").tobytes())


def _zarr(folder: Path, stem: str) -> Path:
    """Write an array of two chunks, one of which is missing."""
    (folder / stem).mkdir()
    (folder / stem / ".zarray").write_text(json.dumps(_ARRAY))
    (folder / stem / "0.0").write_bytes(_CHUNK)
    return folder / stem


def _hdf5(**options: Any) -> Callable[[Path, str], Path]:
    def write(folder: Path, stem: str) -> Path:
        import h5py

        path = folder / f"{stem}.h5"
        buffer = io.BytesIO()
        with h5py.File(buffer, "w", **options) as file:
            array = file.create_dataset("a", data=np.arange(10.0).reshape(5, 2), chunks=(2, 2), compression="gzip")
            array.attrs["scale_factor"] = 0.5
            file.create_dataset("b", data=np.arange(5), fletcher32=True, chunks=(3,))
            file["c"] = np.arange(5, dtype=">i2")
        path.write_bytes(buffer.getvalue())
        return path

    return write


def _netcdf3(folder: Path, stem: str) -> Path:
    path = folder / f"{stem}.nc"
    with scipy.io.netcdf_file(path, "w") as file:
        for name, size in (("t", None), ("x", 2)):
            file.createDimension(name, size)
        for name, dimensions in (("a", ("t", "x")), ("b", ("t",))):
            file.createVariable(name, "i2", dimensions)[:] = np.full((5, 2)[: len(dimensions)], 3)
    return path


_TABLE = b'n,t,f\n1,"a ""b"", c",1.5\n-2,"two\nlines",nan\n3,x,1e9\n'
_LINES = (
    b'{"n": 1, "t": "\\u00e4", "l": [1, 2.5]}\r\n\n{"n": -2, "t": "\xc3\xb6", "l": []}\n{"l": [[]], "n": 3, "t": ""}'
)

FORMATS = {
    "npy": Format(_npy("C"), lambda paths: NpyDataset(paths[0])),
    "npy-fortran": Format(_npy("F"), lambda paths: NpyDataset(paths[0])),
    "npz": Format(_npz(np.savez), lambda paths: NpzDataset([*paths])),
    "npz-packed": Format(_npz(np.savez_compressed), lambda paths: NpzDataset([*paths]), read_once=(".npz",)),
    "raw": Format(
        _put(".raw", bytes(range(70))), lambda paths: RawDataset([*paths], dtype=[("a", ">i2"), ("b", "u1", 5)])
    ),
    "safetensors": Format(_safetensors, lambda paths: SafetensorsDataset([*paths])),
    "tokens": Format(_put(".tokens", bytes(range(80))), lambda paths: TokensDataset([*paths], 5, "uint16")),
    "megatron": Format(
        _megatron, lambda paths: TokensDataset([*paths], 2, stride=1, documents="apart"), read_once=(".idx",)
    ),
    "csv": Format(_put(".csv", _TABLE), lambda paths: CsvDataset([*paths])),
    "csv-typed": Format(_put(".csv", _TABLE), lambda paths: CsvDataset([*paths], {"f": float, "n": int})),
    "json-lines": Format(_put(".jsonl", _LINES), lambda paths: JsonLinesDataset([*paths])),
    "json-fields": Format(_put(".jsonl", _LINES), lambda paths: JsonLinesDataset([*paths], {"n": int, "t": str})),
    "tfrecord": Format(_records, lambda paths: TFRecordDataset([*paths], "bytes")),
    "examples": Format(_records, lambda paths: TFRecordDataset([*paths], {"n": int, "t": str, "f": [float]})),
    "mds": Format(_mds(None), lambda paths: MdsDataset(paths[0]), read_once=("index.json",)),
    "mds-zstd": Format(_mds("zstd"), lambda paths: MdsDataset(paths[0]), read_once=("index.json",)),
    "tar": Format(_tar(".tar", bytes), _open_tar),
    "tar-pax": Format(_long_names(tarfile.PAX_FORMAT), _open_tar),
    "tar-gnu": Format(_long_names(tarfile.GNU_FORMAT), _open_tar),
    "tar-gz": Format(_tar(".tar.gz", lambda data: gzip.compress(data, mtime=0)), _open_tar, read_once=(".gz",)),
    "tar-zst": Format(_tar(".tar.zst", mds_files.zstd), _open_tar, read_once=(".zst",)),
    "parquet": Format(
        _parquet(write_page_checksum=True),
        lambda paths: ParquetDataset([*paths], nulls="mask"),
    ),
    "parquet-filter": Format(
        _parquet(compression="none", write_page_index=True),
        lambda paths: ParquetDataset(
            [*paths],
            ["t", "n", "l"],
            nulls="mask",
            strings="bytes",
            filter=[("n", ">", 1)],
            index_folder=NOWHERE,
        ),
    ),
    "arrow": Format(_arrow(pa.ipc.new_file, None), lambda paths: ArrowDataset([*paths], nulls="mask")),
    # The same readers as the other formats use, with the other options.
    "arrow-zstd": Format(
        _arrow(pa.ipc.new_file, "zstd"),
        lambda paths: ArrowDataset([*paths], nulls="mask_elements", strings="bytes"),
    ),
    "arrow-stream": Format(_arrow(pa.ipc.new_stream, None), lambda paths: ArrowDataset([*paths], nulls="mask")),
    # Writes to a store that is being read are not noticed: chunks that were read are in the cache.
    "zarr": Format(_zarr, lambda paths: ZarrDataset(paths[0]), read_once=("",)),
    "hdf5": Format(_hdf5(), lambda paths: Hdf5Dataset(paths[0])),
    "hdf5-latest": Format(_hdf5(libver="latest"), lambda paths: Hdf5Dataset(paths[0])),
    "netcdf3": Format(_netcdf3, lambda paths: Hdf5Dataset(paths[0])),
    "folder": Format(_files, lambda paths: FolderDataset(paths[0]), read_once=(".txt",)),
}


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read(dataset: Any) -> list[Any]:
    """Read all samples, one at a time and several at once."""
    indices = range(min(len(dataset), 100))
    samples = [dataset[index] for index in indices]
    for start in range(0, len(indices), 3):
        together = dataset.__getitems__([*indices[start : start + 3]])
        assert plain(together) == plain(samples[start : start + 3])
    return samples


def plain(value: Any) -> Any:
    """Return a form of `value` that is equal if the bytes are, also for NaN; it is faster than `repr` of tensors."""
    if isinstance(value, torch.Tensor):
        whole = value.reshape(-1)
        return value.dtype, value.shape, whole.view(torch.uint8).numpy().tobytes() if len(whole) else b""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return repr(value) if isinstance(value, float) else value


def rewrite(file: Path, contents: bytes) -> None:
    """Replace the file: closing a file that was truncated and rewritten waits for the disk on some file systems."""
    file.unlink()
    file.write_bytes(contents)


def names(error: Exception, folder: Path) -> bool:
    """Return True if an error names one of the files below `folder`, or the setting that no file can satisfy."""
    return (
        str(error).startswith("length: a window is longer")
        or str(folder) in str(error)
        or str(folder) in str(getattr(error, "filename", None))
    )


def _damages(whole: bytes, dice: random.Random, most: int) -> Iterator[bytes]:
    places = range(len(whole)) if len(whole) <= most else sorted(dice.sample(range(len(whole)), most))
    for place in places:
        yield whole[:place]
    for place in places:
        yield whole[:place] + bytes([whole[place] ^ 1 << dice.randrange(8)]) + whole[place + 1 :]
    for _ in range(most // 4):
        start, end = sorted(dice.sample(range(len(whole) + 1), 2))
        # A piece is removed, repeated, or overwritten with one byte.
        yield whole[:start] + whole[end:]
        yield whole[:end] + whole[start:]
        yield whole[:start] + dice.choice((b"\0", b"\xff", b"9", b"[")) * (end - start) + whole[end:]


def damage(name: str, folder: Path, most: int = 80, seed: int = 0) -> int:
    """Read every file of a format with every kind of damage, and return how often that was an error."""
    form, dice, errors = FORMATS[name], random.Random(seed), 0
    path = form.write(folder, "x")
    assert read(form.open([path])), "the whole file has samples"
    for file in files_below(folder):
        whole = file.read_bytes()
        for contents in _damages(whole, dice, most) if whole else []:
            rewrite(file, contents)
            try:
                read(form.open([path]))
            except (ValueError, OSError) as error:
                assert names(error, folder), f"an error that names no file: {error!r}"  # noqa: PT017
                errors += 1
        file.write_bytes(whole)
    return errors


# Checksums detect every change of structure, so the samples that are read are those that were written.
_CHECKED = ("tar", "tar-pax", "tar-gnu", "tar-gz", "tfrecord")


def damage_structure(name: str, folder: Path) -> tuple[int, int]:
    """Do the same as `damage` at each offset of a format's structure; return the numbers of attempts and of errors."""
    form, tried, errors = FORMATS[name], 0, 0
    path = form.write(folder, "x")
    before = plain(read(form.open([path])))
    for file in files_below(folder):
        whole = file.read_bytes()
        for place in structure.offsets(file) if whole else []:
            for contents in structure.damages(whole, place):
                tried += 1
                rewrite(file, contents)
                try:
                    samples = plain(read(form.open([path])))
                except (ValueError, OSError) as error:
                    assert names(error, folder), f"an error that names no file: {error!r}"  # noqa: PT017
                    errors += 1
                else:
                    # A file cut between two samples is also a complete file.
                    is_same = samples == before[: len(samples)]
                    assert name not in _CHECKED or is_same, f"byte {place} of {file.name} is another, and was read"
        file.write_bytes(whole)
    return tried, errors


def large(name: str, path: Path, shift: int = 0) -> Any:
    """Return a dataset of a file so large that its index is stored, in the folder `indices` next to it."""
    indices = path.parent / "indices"
    indices.mkdir(exist_ok=True)
    rows = [(n + shift, "y" * 4000) for n in range(1200)]
    if name == "json-lines":
        path.write_text("".join(json.dumps({"n": n, "t": text}) + "\n" for n, text in rows))
    elif name == "csv":
        path.write_text("n,t\n" + "".join(f"{n},{text}\n" for n, text in rows))
    elif name == "tfrecord":
        with path.open("wb") as file:
            header = struct.pack("<Q", 4004)
            for n, text in rows:
                # Few distinct contents, so that few checksums are computed.
                data = struct.pack("<i", n % 4) + text.encode()
                file.write(header + _masked(header) + data + _masked(data))
    else:
        tar_files.put(path, [(f"{n:04}.txt", f"{n} {text[:50]}".encode()) for n, text in rows[:100]])
    return open_large(name, path)


def _masked(data: bytes) -> bytes:
    return _MASKED.get(data) or _MASKED.setdefault(data, tfrecord_files.masked(data))


_MASKED: dict[bytes, bytes] = {}


def open_large(name: str, path: Path) -> Any:
    indices = path.parent / "indices"
    if name == "json-lines":
        return JsonLinesDataset(path, index_folder=indices)
    if name == "csv":
        return CsvDataset(path, index_folder=indices)
    if name == "tfrecord":
        return TFRecordDataset(path, "bytes", index_folder=indices)
    return TarDataset(path, {"txt": "str"}, index_folder=indices)


def index_of(path: Path) -> Path:
    (index,) = (path.parent / "indices").glob("*.sluicegate-index")
    return index


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replace(path: Path) -> None:
    """Replace a file by a different one of the same size."""
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[::-1])
    os.replace(other, path)
