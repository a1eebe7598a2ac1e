"""`Hdf5Dataset` against h5py and xarray: the same numbers, bit for bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from cases.hdf5_files import write
from cases.number_arrays import SHAPE, numbers
from checks.array_rows import assert_rows
from checks.equality import assert_same
from sluicegate import BlockShuffleSampler, DataLoader, Hdf5Dataset

h5py = pytest.importorskip("h5py")

CHUNKS = (4, 5)


FILTERS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "plain": {"chunks": CHUNKS},
    "gzip": {"chunks": CHUNKS, "compression": "gzip"},
    "shuffle": {"chunks": CHUNKS, "compression": "gzip", "compression_opts": 9, "shuffle": True},
    "checked": {"chunks": CHUNKS, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "odd checked": {"chunks": (3, 5), "fletcher32": True},
    "lzf": {"chunks": CHUNKS, "compression": "lzf", "shuffle": True},
}


@pytest.mark.parametrize("filters", list(FILTERS))
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "|u1", ">f8", "<c8", "<f2", "?", ">c16", "<u4", "<i8"])
def test_numbers_are_those_of_h5py(tmp_path: Path, filters: str, dtype: str) -> None:
    noise, runs = numbers(dtype), np.zeros(SHAPE, dtype)
    runs[3:, 2:] = noise[3, 2]
    path = write(tmp_path / "file.h5", {"noise": noise, "runs": runs}, **FILTERS[filters])
    with h5py.File(path) as file:
        for name in file:
            assert_rows(Hdf5Dataset(path, name), file[name][...])


def test_large_chunks_of_lzf_and_fletcher32(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    # Long and short matches at small and large distances, and enough words that the checksum is folded.
    values = np.concatenate(
        [generator.integers(0, 4, 30_000), np.zeros(9_000, int), np.tile(generator.integers(0, 255, 700), 40)]
    ).astype(np.uint8)
    rows = values.reshape(-1, 10)
    for number, options in enumerate(({"compression": "lzf"}, {}, {"compression": "lzf", "shuffle": True})):
        path = write(tmp_path / f"{number}.h5", {"x": rows}, chunks=rows.shape, fletcher32=True, **options)
        assert_rows(Hdf5Dataset(path, "x"), rows)


def test_filters_that_made_a_chunk_larger_were_not_applied(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    values[:32] = 0
    path = write(tmp_path / "file.h5", {"x": values}, chunks=(8, 64), compression="lzf", fletcher32=True)
    with h5py.File(path) as file:
        masks = {file["x"].id.get_chunk_info(number).filter_mask for number in range(8)}
    assert len(masks) > 1
    assert_rows(Hdf5Dataset(path, "x"), values)


def test_plugins_whose_chunks_have_no_frame_of_their_own(tmp_path: Path) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    values = numbers("<f4")
    for number, codec in ((32015, numcodecs.Zstd(3)), (32001, numcodecs.Blosc("lz4", 5, 1))):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk(SHAPE)
            # The plugin is not installed, so chunks are written in their stored form.
            properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, ())
            space = h5py.h5s.create_simple(SHAPE)
            stored = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties)
            stored.write_direct_chunk((0, 0), codec.encode(values), 0)
        assert_rows(Hdf5Dataset(path, "x"), values)


def test_every_storage_layout_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    for block in (0, 512):
        with h5py.File(path, "w", userblock_size=block) as file:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((11,))
            compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16BE, space, properties)
            compact.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(11, dtype=">i2"))
            file["contiguous"] = numbers("<f4", (11, 3, 2))
            file.create_dataset("unwritten", shape=(11,), dtype=">i4", fillvalue=-7)
            file.create_dataset("unwritten_chunks", shape=(11,), dtype=">f4", fillvalue=0.1, chunks=(4,))
            some = file.create_dataset("some", shape=(11, 2), dtype="i8", fillvalue=9, chunks=(2, 2))
            some[4:5] = 3
            file.create_dataset("early", data=numbers("f8"), chunks=(11, 13))
            file.create_dataset("grown", data=numbers("f8"), chunks=(2, 3), maxshape=(None, None))
            file.create_dataset("long", data=numbers("f8"), chunks=(2, 3), maxshape=(None, 13))
            file.create_dataset("pairs", shape=(11,), dtype=np.dtype("(3,)>i2"), chunks=(2,))
            file["pairs"][...] = numbers(">i2", (11, 3))
        for latest in (False, True):
            if latest:
                # Newer files index chunks differently: fixed and extensible arrays, B-trees of version 2.
                with h5py.File(path) as old, h5py.File(tmp_path / "latest.h5", "w", libver="latest") as new:
                    for name in old:
                        old.copy(name, new)
            source = tmp_path / "latest.h5" if latest else path
            dataset = Hdf5Dataset(source)
            with h5py.File(source) as file:
                assert {name for name, _, _ in dataset.core.fields} == set(file)
                for name in file:
                    assert_rows(Hdf5Dataset(source, name), file[name][...])


def test_pieces_of_contiguous_arrays(tmp_path: Path) -> None:
    values = np.arange(3 * 7 * 103 * 600, dtype=np.float64).reshape(3, 7 * 103, 600)
    path = write(tmp_path / "file.h5", {"x": values, "flat": values.ravel()[:1_000_003]})
    dataset = Hdf5Dataset(path, "x", window={"dim_0": 1, "dim_1": 50, "dim_2": 70}, edges="pad")
    shape = (3, 15, 9)
    for index in np.random.default_rng(0).integers(0, len(dataset), 40):
        t, y, x = (int(each) for each in np.unravel_index(index, shape))
        expected = values[t : t + 1, 50 * y : 50 * y + 50, 70 * x : 70 * x + 70]
        assert np.array_equal(dataset[index][:, : expected.shape[1], : expected.shape[2]], expected)
    flat = Hdf5Dataset(path, "flat")
    assert flat.__getitems__([0, 131_071, 131_072, 1_000_002]) == [0, 131_071, 131_072, 1_000_002]
    assert dataset.cache_info().bytes <= 16 << 20


def test_groups_and_names(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file["run/a"], file["run/b"], file["other/a"] = np.arange(5), np.arange(5) * 2.0, np.arange(7)
        file["run/text"] = ["x"] * 5
        file["other/grid"] = np.array([[b"x"]] * 7)
        file["run/objects"] = np.array([file["run"].ref] * 5, h5py.ref_dtype)
    assert_same(Hdf5Dataset(path, group="run")[3], {"a": torch.tensor(3), "b": torch.tensor(6.0, dtype=torch.float64)})
    assert_same(Hdf5Dataset(path, ["run/b"])[1], {"run/b": torch.tensor(2.0, dtype=torch.float64)})
    assert_same(Hdf5Dataset(path, "b", group="/run/")[2], torch.tensor(4.0, dtype=torch.float64))
    for arguments, message in (
        ({"fields": "c", "group": "run"}, r"fields: expected names of arrays in '.*', which has \['a', 'b', .*'c'"),
        ({"fields": "run/a/b"}, r"fields: expected names of arrays in .*'run/a/b'"),
        ({"fields": ""}, "fields: expected names of arrays"),
        ({"group": "nowhere"}, "group: expected the name of a group in .*'nowhere'"),
        ({"group": "run/a"}, "group: expected the name of a group in .*'run/a'"),
        ({}, "path: expected a file with arrays of numbers in group '/'"),
        ({"fields": "run/text"}, "array 'run/text': text is not supported"),
        ({"fields": "run/objects"}, "array 'run/objects': .* is not supported"),
        ({"fields": ["run/a", "other/a"]}, "expected arrays on the same coordinates, got .*7 elements"),
        ({"fields": "run/a", "window": {"x": 2}}, r"window: expected dimensions of the arrays, which are \[.dim_0.\]"),
        ({"fields": "run/a", "window": {"dim_0": 6}}, "window: expected at most 5 for dimension .dim_0., .* got 6"),
    ):
        with pytest.raises(ValueError, match=message):
            Hdf5Dataset(path, **arguments)  # type: ignore[arg-type]


def test_members_of_records_are_fields(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    inner = np.dtype([("id", "<i4"), ("place", ">f8", (2, 2)), ("name", "S3"), ("flag", "?"), ("z", "<c8")], align=True)
    records = np.zeros((23, 2), inner)
    for name in ("id", "place", "z"):
        records[name] = generator.integers(0, 99, records[name].shape)
    records["flag"] = generator.random((23, 2)) < 0.5
    for options in ({}, {"chunks": (4, 2), "compression": "gzip", "shuffle": True}):
        path = write(tmp_path / f"{len(options)}.h5", {"table": records}, **options)
        dataset = Hdf5Dataset(path)
        # Text is read only if a sample has one string.
        assert set(dataset[0]) == {"table/id", "table/place", "table/flag", "table/z"}
        with h5py.File(path) as file:
            stored = file["table"][...]
        for name in ("id", "place", "flag", "z"):
            assert_rows(Hdf5Dataset(path, f"table/{name}"), stored[name])
        batches = DataLoader(dataset, 5, shuffle=True, num_workers=2, seed=1)
        order = list(DataLoader(range(23), 5, shuffle=True, seed=1))
        for batch, indices in zip(batches, order, strict=True):
            assert np.array_equal(batch["table/place"], stored["place"][indices])
        # Each chunk was decoded once for all members.
        chunks = 6 if options else 1
        assert dataset.cache_info().decoded == chunks
        with pytest.raises(
            ValueError, match=r"fields: expected one text for each sample, got windows of \[1, 2\] texts"
        ):
            Hdf5Dataset(path, "table/name")


def test_text_of_a_fixed_length_is_bytes(tmp_path: Path) -> None:
    names = np.array([b"", b"a", b"\xc3\xa4b", b"a\0b", b"abcd", b"x"] * 4)
    table = np.zeros(24, [("n", "<i4"), ("name", "S4")])
    table["n"], table["name"] = np.arange(24), names[::-1]
    for options in ({}, {"chunks": (5,), "compression": "gzip"}):
        arrays = {"names": names, "table": table, "x": np.arange(24.0)}
        path = write(tmp_path / f"{len(options)}.h5", arrays, **options)
        with h5py.File(path) as file:
            file_names, file_table = file["names"][...], file["table"][...]
        dataset = Hdf5Dataset(path)
        assert set(dataset[0]) == {"names", "table/n", "table/name", "x"}
        assert [dataset[index]["names"] for index in range(24)] == list(file_names)
        assert [dataset[index]["table/name"] for index in range(24)] == list(file_table["name"])
        for workers in (0, 2):
            batches = list(DataLoader(dataset, 7, shuffle=True, num_workers=workers, seed=2))
            order = torch.cat([batch["table/n"] for batch in batches]).numpy()
            assert [name for batch in batches for name in batch["names"]] == list(file_names[order])
        assert_same(
            list(DataLoader(Hdf5Dataset(path, "names"), 9)), list(torch.utils.data.DataLoader(file_names.tolist(), 9))
        )
        # Windows exclude text.
        assert set(Hdf5Dataset(path, window={"dim_0": 3})[0]) == {"table/n", "x"}


def test_windows_blocks_and_resume(tmp_path: Path) -> None:
    values = numbers("<f4", (20, 12))
    path = write(tmp_path / "file.h5", {"x": values}, chunks=(4, 6), compression="gzip", shuffle=True)
    dataset = Hdf5Dataset(path, "x", window={"dim_0": 2, "dim_1": 3})
    assert dataset.block_sizes.tolist() == [8] * 5
    loader = DataLoader(dataset, 4, sampler=BlockShuffleSampler(dataset, window=2), num_workers=2, seed=3)
    batches = list(loader)
    assert dataset.cache_info().decoded == 10
    assert np.array_equal(np.sort(torch.cat(batches).ravel().numpy()), np.sort(values.ravel()))
    again = DataLoader(dataset, 4, sampler=BlockShuffleSampler(dataset, window=2), num_workers=2, seed=3)
    iterator = iter(again)
    for _ in range(4):
        next(iterator)
    state = again.state_dict()
    resumed = DataLoader(
        pickle.loads(pickle.dumps(dataset)), 4, sampler=BlockShuffleSampler(dataset, window=2), num_workers=2, seed=3
    )
    resumed.load_state_dict(state)
    assert_same(list(resumed), batches[4:])
    assert_same(list(torch.utils.data.DataLoader(dataset, 4)), list(DataLoader(dataset, 4, num_workers=2)))
