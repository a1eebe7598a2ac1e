"""HDF5 that Rust can't read: h5py reads it, in the requesting process, with the same windows and values."""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from cases.hdf5_files import write
from cases.number_arrays import numbers
from checks.array_rows import assert_rows
from checks.equality import assert_same
from checks.resources import links
from sluicegate import BlockShuffleSampler, DataLoader, Hdf5Dataset

h5py = pytest.importorskip("h5py")

WINDOW: dict[str, Any] = {"window": {"dim_0": 3, "dim_1": 4}, "stride": {"dim_0": 2}, "order": "chunks"}


def _files(folder: Path) -> tuple[Path, Path]:
    """Write the same arrays twice: with a filter that Rust does not read, and without."""
    arrays = {name: numbers("<i4", (20, 12)) + place for place, name in enumerate("xy")}
    scaled = write(folder / "scaled.h5", arrays, chunks=(4, 6), scaleoffset=0)
    return scaled, write(folder / "plain.h5", arrays, chunks=(4, 6), compression="gzip")


def _special(path: Path) -> None:
    values = numbers("<i2", (20, 12))
    with h5py.File(path, "w") as file:
        file.create_dataset("scaled", data=values.astype(">i4"), chunks=(3, 7), scaleoffset=0)
        file.create_dataset("never", (20, 12), "i4", chunks=(4, 5), scaleoffset=0, fillvalue=7)
        narrow, short = h5py.h5t.STD_I16LE.copy(), h5py.h5t.IEEE_F32LE.copy()
        narrow.set_precision(12)
        short.set_fields(31, 23, 8, 0, 22)
        flags = h5py.h5t.enum_create(h5py.h5t.STD_I32LE)
        flags.enum_insert(b"FALSE", 0)
        flags.enum_insert(b"TRUE", 1)
        packed = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        packed.set_chunk((4, 5))
        packed.set_filter(h5py.h5z.FILTER_NBIT)
        for name, kind, properties in (("narrow", narrow, packed), ("short", short, None), ("flags", flags, None)):
            space = h5py.h5s.create_simple((20, 12))
            h5py.h5d.create(file.id, name.encode(), kind, space, properties)
            file[name][...] = values > 50 if name == "flags" else values
        file.create_dataset("outside", data=values, external=[(path.with_suffix(".raw"), 0, h5py.h5f.UNLIMITED)])
        layout = h5py.VirtualLayout((20, 24), "i4")
        for place in range(2):
            layout[:, 12 * place : 12 * place + 12] = h5py.VirtualSource(path, "scaled", (20, 12))
        file.create_virtual_dataset("virtual", layout)
        raw = [(path.with_suffix(".pairs"), 0, h5py.h5f.UNLIMITED)]
        pairs = file.create_dataset("pairs", (20,), np.dtype(("<f4", (2, 3))), external=raw)
        pairs[...] = np.arange(120).reshape(20, 2, 3)


def test_rows_are_those_of_h5py(tmp_path: Path) -> None:
    path = tmp_path / "special.h5"
    _special(path)
    with h5py.File(path) as file:
        for name in file:
            dataset = Hdf5Dataset(path, name)
            assert_rows(dataset, file[name][...])
            assert "h5py reads array" in repr(dataset)
            assert dataset.python_reason is not None


def test_large_arrays_without_chunks_are_read_in_pieces(tmp_path: Path) -> None:
    path, values = tmp_path / "file.h5", numbers("<f4", (3, 700, 900))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, external=[(tmp_path / "raw", 0, h5py.h5f.UNLIMITED)])
        file.create_dataset("long", data=values.ravel(), external=[(tmp_path / "long", 0, h5py.h5f.UNLIMITED)])
    dataset = Hdf5Dataset(path, "x", window={"dim_0": 2, "dim_1": 300, "dim_2": 350}, stride={"dim_1": 123})
    assert torch.equal(dataset[3], torch.from_numpy(values[:2, 123:423, 350:700]))
    assert 1 < dataset.cache_info().decoded < 20
    assert Hdf5Dataset(path, "long", window={"dim_0": 1000})[777].tolist() == values.ravel()[777000:778000].tolist()


def test_records_and_text(tmp_path: Path) -> None:
    path, pairs = tmp_path / "file.h5", np.zeros(9, [("a", "<i2"), ("b", ">f8", (2,)), ("t", "S4"), ("c", "?")])
    pairs["a"], pairs["t"], pairs["b"] = np.arange(9), [b"x" * (n % 5) for n in range(9)], np.ones((9, 2)) * 3
    with h5py.File(path, "w") as file:
        kind = np.dtype([("name", h5py.string_dtype()), *[(name, pairs.dtype[name]) for name in ("a", "b", "t", "c")]])
        table = file.create_dataset("table", (9,), kind, chunks=(4,))
        for name in pairs.dtype.names:
            table[name] = pairs[name]
        file.create_dataset("filled", (4,), pairs.dtype, chunks=(2,), fillvalue=pairs[3])
        link = file.create_dataset("texts", data=pairs["t"], external=[(tmp_path / "raw", 0, h5py.h5f.UNLIMITED)])
        assert link.dtype == "S4"
    dataset = Hdf5Dataset(path, "table")
    assert_same(dataset[4]["table/b"], torch.ones(2, dtype=torch.float64) * 3)
    assert [row["table/t"] for row in dataset] == pairs["t"].tolist()
    assert_rows(Hdf5Dataset(path, "table/a"), pairs["a"])
    assert Hdf5Dataset(path, "table/t").__getitems__([3, 6]) == [b"xxx", b"x"]
    assert [int(value) for value in Hdf5Dataset(path, "filled/a")] == [3] * 4
    assert list(Hdf5Dataset(path, "texts")) == pairs["t"].tolist()
    batch = next(iter(DataLoader(dataset, 3, num_workers=2)))
    assert batch["table/t"] == [b"", b"x", b"xx"]
    assert batch["table/a"].tolist() == [0, 1, 2]


def test_text_padded_with_spaces(tmp_path: Path) -> None:
    path, kind = tmp_path / "file.h5", h5py.h5t.C_S1.copy()
    kind.set_size(8)
    kind.set_strpad(h5py.h5t.STR_SPACEPAD)
    record = h5py.h5t.create(h5py.h5t.COMPOUND, 12)
    record.insert(b"n", 0, h5py.h5t.STD_I32LE)
    record.insert(b"t", 4, kind)
    words = [b"cat     ", b"a b     ", b"  dog   ", b"        ", b"12345678", b"x"]
    table = np.array([*enumerate(words)], [("n", "<i4"), ("t", "S8")])
    with h5py.File(path, "w") as file:
        for name, stored, values in (("texts", kind, table["t"].copy()), ("table", record, table)):
            made = h5py.h5d.create(file.id, name.encode(), stored, h5py.h5s.create_simple((6,)))
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, values, stored)
        expected = file["texts"][...].tolist()
        assert expected == file["table"]["t"].tolist() != words
    assert list(Hdf5Dataset(path, "texts")) == list(Hdf5Dataset(path, "table/t")) == expected
    assert [row["table/t"] for row in Hdf5Dataset(path, "table")] == expected
    assert [int(number) for number in Hdf5Dataset(path, "table/n")] == [*range(6)]


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (1, "forkserver")])
def test_windows_and_order_are_those_of_the_native_path(tmp_path: Path, workers: int, context: str | None) -> None:
    scaled, plain = (Hdf5Dataset(path, **WINDOW) for path in _files(tmp_path))
    assert_same(list(scaled), list(plain))
    assert scaled.block_sizes.tolist() == plain.block_sizes.tolist()

    def loader(dataset: Hdf5Dataset) -> Any:
        sampler = BlockShuffleSampler(dataset, window=2, seed=3)
        options: dict[str, Any] = {"multiprocessing_context": context} if workers else {}
        return DataLoader(dataset, 4, sampler=sampler, num_workers=workers, seed=5, shard=(1, 2), **options)

    first, expected = (
        loader(scaled),
        list(DataLoader(plain, 4, sampler=BlockShuffleSampler(plain, window=2, seed=3), seed=5, shard=(1, 2))),
    )
    assert first.explain().engine == ("python processes" if workers else "python")
    assert str(first.explain().reason).startswith("h5py reads array 'x': the filter scale-offset")
    batches = itertools.islice(first, 2)
    assert_same(list(batches), expected[:2])
    resumed = loader(scaled)
    resumed.load_state_dict(first.state_dict())
    assert_same(list(resumed), expected[2:])


def test_only_arrays_that_are_read_determine_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=numbers("<i4"), chunks=(4, 5))
        file.create_dataset("line", data=np.arange(11), chunks=(4,), scaleoffset=0)
    assert Hdf5Dataset(path, window={"dim_0": 2, "dim_1": 2}).python_reason is None
    assert "'line'" in str(Hdf5Dataset(path).python_reason)
    assert "fallback" in vars(pickle.loads(pickle.dumps(Hdf5Dataset(path))))


def test_each_process_opens_the_file_itself(tmp_path: Path) -> None:
    scaled, plain = _files(tmp_path)
    dataset, expected = Hdf5Dataset(scaled, "x", **WINDOW, cache_bytes=0), Hdf5Dataset(plain, "x", **WINDOW)
    assert _opened(scaled) == 0
    assert torch.equal(dataset[0], expected[0])
    assert _opened(scaled) == 1
    reading, writing = os.pipe()
    if not (child := os.fork()):
        is_same = torch.equal(dataset[3], expected[3])
        os.write(writing, b"yes" if is_same and _opened(scaled) == 1 else b"no")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 3) == b"yes"
    assert torch.equal(dataset[5], expected[5])
    del dataset
    assert _opened(scaled) == 0


def _opened(path: Path) -> int:
    """Return how many descriptors of this process refer to the file."""
    return [*links().values()].count(str(path))


def test_damage_is_named_and_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "x.h5", {"x": numbers("<i4", (20, 12))}, chunks=(4, 6), scaleoffset=0, compression="gzip")
    data = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        data[file["x"].id.get_chunk_info(3).byte_offset + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"x\.h5.*chunk \[1, 1\] of array \"x\": .*; write or copy"):
        list(Hdf5Dataset(path, "x"))
    dataset = Hdf5Dataset(path, "x", on_error="skip")
    assert len(dataset) == 16
    assert len(dataset.damages) == 1
    assert sum(len(batch) for batch in DataLoader(dataset, 5, num_workers=2)) == 16


def test_a_file_that_changes_while_h5py_reads_it_is_an_error(tmp_path: Path) -> None:
    path, _ = _files(tmp_path)
    dataset = Hdf5Dataset(path, "x")
    dataset[0]
    os.utime(path, (0, 0))
    with pytest.raises(OSError, match="changed while it was in use"):
        dataset[19]


def test_values_are_decoded_as_xarray_decodes_them(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    path = write(tmp_path / "x.h5", {"x": numbers("<i2", (20, 12))}, chunks=(4, 6), scaleoffset=0)
    with h5py.File(path, "a") as file:
        file["x"].attrs.update(scale_factor=np.float32(0.1), add_offset=np.float32(3), _FillValue=np.int16(7))
    expected = xarray.open_dataset(path, engine="h5netcdf", phony_dims="access")["x"].values
    assert_rows(Hdf5Dataset(path, "x"), expected)
