"""`Hdf5Dataset` against h5py and xarray: the same numbers, bit for bit."""

from __future__ import annotations

import ctypes
import itertools
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from checks.equality import assert_same
from sluicegate import BlockShuffleSampler, DataLoader, Hdf5Dataset

h5py = pytest.importorskip("h5py")

SHAPE, CHUNKS = (11, 13), (4, 5)


def _numbers(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(0)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return generator.random(shape) < 0.5
    if kind in "iu":
        return generator.integers(0, 100, shape).astype(dtype)
    numbers = generator.standard_normal(shape)
    return (numbers + 1j * generator.random(shape) if kind == "c" else numbers).astype(dtype)


def _write(path: Path, arrays: dict[str, np.ndarray[Any, Any]], **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values, **options)
    return path


def _same(dataset: Hdf5Dataset, expected: np.ndarray[Any, Any]) -> None:
    """Asserts that the rows of `dataset` are those of `expected`, in bytes and data type."""
    native = expected.astype(expected.dtype.newbyteorder("="))
    rows = dataset.__getitems__(range(len(expected)))
    assert_same(rows, [torch.from_numpy(np.array(row)) for row in native])


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
    noise, runs = _numbers(dtype), np.zeros(SHAPE, dtype)
    runs[3:, 2:] = noise[3, 2]
    path = _write(tmp_path / "file.h5", {"noise": noise, "runs": runs}, **FILTERS[filters])
    with h5py.File(path) as file:
        for name in file:
            _same(Hdf5Dataset(path, name), file[name][...])


def test_large_chunks_of_lzf_and_fletcher32(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    # Long and short matches near and far away, and words enough for sums to be folded.
    values = np.concatenate(
        [generator.integers(0, 4, 30_000), np.zeros(9_000, int), np.tile(generator.integers(0, 255, 700), 40)]
    ).astype(np.uint8)
    for number, options in enumerate(({"compression": "lzf"}, {}, {"compression": "lzf", "shuffle": True})):
        path = _write(tmp_path / f"{number}.h5", {"x": values}, chunks=(len(values),), fletcher32=True, **options)
        _same(Hdf5Dataset(path, "x"), values)


def test_filters_that_made_a_chunk_larger_were_not_applied(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    values[:32] = 0
    path = _write(tmp_path / "file.h5", {"x": values}, chunks=(8, 64), compression="lzf", fletcher32=True)
    with h5py.File(path) as file:
        masks = {file["x"].id.get_chunk_info(number).filter_mask for number in range(8)}
    assert len(masks) > 1
    _same(Hdf5Dataset(path, "x"), values)


def test_plugins_whose_chunks_have_no_frame_of_their_own(tmp_path: Path) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    values = _numbers("<f4")
    for number, codec in ((32015, numcodecs.Zstd(3)), (32001, numcodecs.Blosc("lz4", 5, 1))):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk(SHAPE)
            # Nothing here has the plugin: chunks are written as they will be stored.
            properties.set_filter(number, h5py.h5z.FLAG_OPTIONAL, ())
            space = h5py.h5s.create_simple(SHAPE)
            stored = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, properties)
            stored.write_direct_chunk((0, 0), codec.encode(values), 0)
        _same(Hdf5Dataset(path, "x"), values)


def test_layouts(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    for block in (0, 512):
        with h5py.File(path, "w", userblock_size=block) as file:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((11,))
            compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16BE, space, properties)
            compact.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(11, dtype=">i2"))
            file["contiguous"] = _numbers("<f4", (11, 3, 2))
            file.create_dataset("unwritten", shape=(11,), dtype=">i4", fillvalue=-7)
            file.create_dataset("unwritten_chunks", shape=(11,), dtype=">f4", fillvalue=0.1, chunks=(4,))
            some = file.create_dataset("some", shape=(11, 2), dtype="i8", fillvalue=9, chunks=(2, 2))
            some[4:5] = 3
            file.create_dataset("early", data=_numbers("f8"), chunks=(11, 13))
            file.create_dataset("grown", data=_numbers("f8"), chunks=(2, 3), maxshape=(None, None))
            file.create_dataset("long", data=_numbers("f8"), chunks=(2, 3), maxshape=(None, 13))
            file.create_dataset("pairs", shape=(11,), dtype=np.dtype("(3,)>i2"), chunks=(2,))
            file["pairs"][...] = _numbers(">i2", (11, 3))
        for latest in (False, True):
            if latest:
                # Newer structures index the chunks: fixed and extensible arrays, trees of version 2.
                with h5py.File(path) as old, h5py.File(tmp_path / "latest.h5", "w", libver="latest") as new:
                    for name in old:
                        old.copy(name, new)
            source = tmp_path / "latest.h5" if latest else path
            dataset = Hdf5Dataset(source)
            with h5py.File(source) as file:
                assert {name for name, _, _ in dataset.core.fields} == set(file)
                for name in file:
                    _same(Hdf5Dataset(source, name), file[name][...])


def test_pieces_of_contiguous_arrays(tmp_path: Path) -> None:
    values = np.arange(3 * 7 * 103 * 600, dtype=np.float64).reshape(3, 7 * 103, 600)
    path = _write(tmp_path / "file.h5", {"x": values, "flat": values.ravel()[:1_000_003]})
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
        ({}, "path: expected a file with numbers in group '/'"),
        ({"fields": "run/text"}, "array 'run/text': text is not read here"),
        ({"fields": "run/objects"}, "array 'run/objects': .* is not read here"),
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
        path = _write(tmp_path / f"{len(options)}.h5", {"table": records}, **options)
        dataset = Hdf5Dataset(path)
        # A text is read if a sample has only one.
        assert set(dataset[0]) == {"table/id", "table/place", "table/flag", "table/z"}
        with h5py.File(path) as file:
            stored = file["table"][...]
        for name in ("id", "place", "flag", "z"):
            _same(Hdf5Dataset(path, f"table/{name}"), stored[name])
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
        path = _write(tmp_path / f"{len(options)}.h5", arrays, **options)
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
        # With windows, text is left out.
        assert set(Hdf5Dataset(path, window={"dim_0": 3})[0]) == {"table/n", "x"}


def test_windows_blocks_and_resume(tmp_path: Path) -> None:
    values = _numbers("<f4", (20, 12))
    path = _write(tmp_path / "file.h5", {"x": values}, chunks=(4, 6), compression="gzip", shuffle=True)
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


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"
    values = np.arange(20)
    with h5py.File(path, "w") as file:
        file.create_dataset("scaled", data=values, chunks=(5,), scaleoffset=0)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((5,))
        properties.set_filter(32008, h5py.h5z.FLAG_OPTIONAL, (0,))
        h5py.h5d.create(file.id, b"bits", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((20,)), properties)
        narrow = h5py.h5t.STD_I16LE.copy()
        narrow.set_precision(12)
        h5py.h5d.create(file.id, b"narrow", narrow, h5py.h5s.create_simple((20,)))
        other = h5py.h5t.IEEE_F32LE.copy()
        other.set_fields(31, 23, 8, 0, 22)
        h5py.h5d.create(file.id, b"float", other, h5py.h5s.create_simple((20,)))
        file.create_dataset("outside", shape=(20,), dtype="i4", external=[(tmp_path / "raw", 0, h5py.h5f.UNLIMITED)])
        layout = h5py.VirtualLayout((20,), "i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "none.h5"), "x", (20,))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("empty", data=h5py.Empty("f4"))
        file.create_dataset("ragged", shape=(3,), dtype=h5py.vlen_dtype("i4"))
        file.create_dataset("quad", data=np.zeros(3, np.longdouble))
        file.create_dataset("scalar", data=3.0)
    for name, message in {
        "scaled": r"filter scale-offset \(number 6\) is not read: expected deflate",
        "bits": r"filter bitshuffle \(number 32008\) is not read",
        "narrow": "an unusual layout of bits",
        "float": "an unusual layout of bits",
        "outside": r"in other files \(external storage\); read it with h5py",
        "virtual": r"in other files \(a virtual dataset\); read it with h5py",
        "empty": "a null dataspace",
        "ragged": "data of variable length is not read here",
        "quad": "data type float128 is not read",
        "scalar": "expected arrays with axes, got the scalar",
    }.items():
        with pytest.raises(ValueError, match=message):
            Hdf5Dataset(path, name)
    with pytest.raises(ValueError, match=r"array '\w+': .*pass fields= with the arrays to read"):
        Hdf5Dataset(path)
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(ValueError, match=r"text\.h5: expected a file of HDF5 or netCDF that is whole"):
        Hdf5Dataset(tmp_path / "text.h5")
    with pytest.raises(FileNotFoundError):
        Hdf5Dataset(tmp_path / "none.h5")
    with pytest.raises(IsADirectoryError):
        Hdf5Dataset(tmp_path)


@pytest.mark.parametrize("version", ["earliest", "v110", "latest"])
@pytest.mark.parametrize("limits", list(itertools.product((None, 0), repeat=3)))
def test_arrays_that_may_grow(tmp_path: Path, version: str, limits: tuple[int | None, ...]) -> None:
    """HDF5 2.0 lists wrong coordinates if only an axis after the first is unlimited."""
    shape, generator = (5, 6, 7), np.random.default_rng(0)
    path = tmp_path / "file.h5"
    maxshape = tuple(None if limit is None else size for limit, size in zip(limits, shape, strict=True))
    with h5py.File(path, "w", libver=version) as file:
        for name, part in {"whole": shape, "part": (3, 2, 3)}.items():
            array = file.create_dataset(name, shape, "f4", chunks=(2, 2, 3), maxshape=maxshape, fillvalue=9)
            array[tuple(slice(size) for size in part)] = generator.random(part)
        shrunk = file.create_dataset("shrunk", shape, "f4", chunks=(2, 2, 3), maxshape=maxshape)
        shrunk[...] = 1
        shrunk.resize((5, 0, 7))
    refused = 0
    with h5py.File(path) as file:
        for name in ("whole", "part"):
            try:
                _same(Hdf5Dataset(path, name), file[name][...])
            except ValueError as error:
                assert re.search("at wrong places|too few of its chunks", str(error))  # noqa: PT017
                refused += 1
    assert refused == 0 or (limits.count(None) == 1 and limits[0] is not None)
    assert Hdf5Dataset(path, "shrunk")[4].shape == (0, 7)


def test_chunks_at_the_edges_without_filters(tmp_path: Path) -> None:
    """Which h5py cannot write: only the library can."""
    libraries = sorted(Path(h5py.__file__).parents[1].glob("h5py.libs/libhdf5-*"))
    if not libraries:
        pytest.skip("h5py has no library of its own here")
    set_options = ctypes.CDLL(str(libraries[0])).H5Pset_chunk_opts
    set_options.argtypes = [ctypes.c_int64, ctypes.c_uint]
    values = np.arange(143).reshape(11, 13)
    path = tmp_path / "file.h5"
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        for name, is_without in itertools.product(("deflate", "shuffle", "fletcher32"), (False, True)):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((4, 5))
            getattr(properties, f"set_{name}")()
            assert set_options(properties.id, 2 * is_without) >= 0
            space, name = h5py.h5s.create_simple(values.shape), f"{name}{is_without}"
            h5py.h5d.create(file.id, name.encode(), h5py.h5t.STD_I32LE, space, properties)
            file[name][...] = values
    for name in ("deflate", "shuffle", "fletcher32"):
        _same(Hdf5Dataset(path, f"{name}False"), values.astype("<i4"))
        with pytest.raises(ValueError, match="its chunks at the edges are stored without the filters"):
            Hdf5Dataset(path, f"{name}True")


def test_links(tmp_path: Path) -> None:
    other = _write(tmp_path / "other.h5", {"x": np.arange(100, 104), "g/x": np.arange(200, 204)})
    path = _write(tmp_path / "file.h5", {"own": np.arange(4), "g/own": np.arange(4) + 10})
    with h5py.File(path, "a") as file:
        file["outside"] = h5py.ExternalLink(str(other), "/x")
        file["outside_group"] = h5py.ExternalLink(str(other), "/g")
        file["soft"], file["nowhere"] = h5py.SoftLink("/g/own"), h5py.SoftLink("/none")
        file["lost"] = h5py.ExternalLink(str(tmp_path / "none.h5"), "/x")
    assert Hdf5Dataset(path, "soft").__getitems__([1, 3]) == [11, 13]
    for name in ("outside", "outside_group/x"):
        with pytest.raises(ValueError, match=rf"array '{name}': it is in another file, .* open '{other}'"):
            Hdf5Dataset(path, name)
    for name in ("nowhere", "lost"):
        with pytest.raises(ValueError, match="fields: expected names of arrays"):
            Hdf5Dataset(path, name)


def test_types_that_are_stored_in_another_way_than_numpy_has_them(tmp_path: Path) -> None:
    path = tmp_path / "file.h5"

    def compound(members: list[tuple[str, int]], size: int) -> Any:
        kind = h5py.h5t.create(h5py.h5t.COMPOUND, size)
        for name, offset in members:
            kind.insert(name.encode(), offset, h5py.h5t.IEEE_F32LE)
        return kind

    with h5py.File(path, "w") as file:
        flags = h5py.h5t.enum_create(h5py.h5t.STD_I32LE)
        flags.enum_insert(b"FALSE", 0)
        flags.enum_insert(b"TRUE", 1)
        kinds = {
            "flags": flags,
            "padded": compound([("r", 0), ("i", 8)], 16),
            "swapped": compound([("i", 0), ("r", 4)], 8),
            "complex": compound([("r", 0), ("i", 4)], 8),
        }
        for name, kind in kinds.items():
            h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((4,)))
        file["complex"][...] = [1 + 2j, 3, 4j, -1]
        file.create_dataset("texts", (3,), [("name", h5py.string_dtype()), ("a", "i4")])
        file["texts"][0] = ("x", 5)
    _same(Hdf5Dataset(path, "complex"), np.array([1 + 2j, 3, 4j, -1], np.complex64))
    assert set(Hdf5Dataset(path, "swapped")[0]) == {"swapped/i", "swapped/r"}
    for name in ("flags", "padded"):
        with pytest.raises(ValueError, match=r"an unusual layout of bits"):
            Hdf5Dataset(path, name)
    for name in ("texts", "texts/a"):
        with pytest.raises(ValueError, match="its records have text of variable length"):
            Hdf5Dataset(path, name)


def test_a_file_that_changes_while_it_is_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.formats import hdf5

    path = _write(tmp_path / "file.h5", {"x": np.arange(4)})
    found = hdf5.hdf5_arrays

    def slow(*arguments: Any) -> Any:
        arrays = found(*arguments)
        _write(path, {"y": np.arange(9), "x": np.arange(4) + 7})
        return arrays

    monkeypatch.setattr(hdf5, "hdf5_arrays", slow)
    with pytest.raises(OSError, match="changed while it was opened"):
        Hdf5Dataset(path, "x")


def test_damage_and_changes_are_errors(tmp_path: Path) -> None:
    values = _numbers("<f4", (64, 64))
    for name, options in {"zlib": {"compression": "gzip"}, "fletcher32": {"fletcher32": True}}.items():
        path = _write(tmp_path / f"{name}.h5", {"x": values}, chunks=(16, 64), **options)
        with h5py.File(path) as file:
            chunk = file["x"].id.get_chunk_info(2)
        dataset = Hdf5Dataset(path, "x", cache_bytes=0)
        data = bytearray(path.read_bytes())
        data[chunk.byte_offset + chunk.size // 2] ^= 0xFF
        path.write_bytes(data)
        damaged = Hdf5Dataset(path, "x", cache_bytes=0)
        assert torch.equal(damaged[3], torch.from_numpy(values[3]))
        with pytest.raises(ValueError, match=rf"{name}\.h5.*chunk \[2, 0\] of array \"x\" \({name}\): codec {name}: "):
            damaged[32]
        # It was opened before.
        with pytest.raises(OSError, match="changed while it was in use: it was written to"):
            dataset[3]
        os.truncate(path, len(data) // 2)
        with pytest.raises((ValueError, OSError)):
            Hdf5Dataset(path, "x")[40]


def test_windows_of_damaged_chunks_are_skipped(tmp_path: Path) -> None:
    values = _numbers("<f4", (20, 12))
    path = _write(tmp_path / "x.h5", {"x": values, "y": values * 2}, chunks=(4, 6), fletcher32=True)
    data = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        for name, number in (("x", 3), ("y", 6), ("x", 4)):
            data[file[name].id.get_chunk_info(number).byte_offset + 5] ^= 1
    path.write_bytes(data)
    for order in ("rows", "chunks"):
        arguments: dict[str, Any] = {"window": {"dim_0": 3, "dim_1": 4}, "stride": {"dim_0": 2, "dim_1": 2}}
        dataset = Hdf5Dataset(path, **arguments, order=order, on_error="skip")
        damaged = Hdf5Dataset(path, **arguments, order=order)
        whole = []
        for index in range(len(damaged)):
            try:
                whole.append(damaged[index])
            except ValueError:
                continue
        assert 0 < len(whole) < len(damaged)
        assert_same([dataset[index] for index in range(len(dataset))], whole)
        assert len(dataset.damages) == 3
        assert "chunk [1, 1] of array" in dataset.damages[0]
        assert dataset.block_sizes.sum() == len(dataset)
        loader = DataLoader(dataset, 5, sampler=BlockShuffleSampler(dataset, window=2), num_workers=2, seed=0)
        assert sum(len(batch["x"]) for batch in loader) == len(dataset)
    assert len(Hdf5Dataset(path, "x", on_error="skip")) == 12
    with pytest.raises(ValueError, match="on_error: expected 'raise' or 'skip', but got 'no'"):
        Hdf5Dataset(path, on_error="no")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::xarray.coding.common.SerializationWarning")
def test_netcdf4_as_xarray_decodes_it(tmp_path: Path) -> None:
    """Random packings, fill values, data types, and signs, written by HDF5 and read by xarray."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    generator = np.random.default_rng(0)
    kinds = ["i1", "u1", "<i2", ">i2", "<u2", "<i4", "<i8", "<f4", ">f4", "<f8"]
    factors = [None, np.float32(0.01), np.float64(0.01), np.float64(-273.15), np.float32(3)]
    checked = 0
    for number, (kind, scale, offset) in enumerate(itertools.product(kinds, factors, factors)):
        path = tmp_path / f"{number}.nc"
        dtype = np.dtype(kind)
        low, high = (-100, 100) if dtype.kind == "f" else (max(np.iinfo(dtype).min, -1000), np.iinfo(dtype).max)
        values = generator.integers(low, min(high, 1000), (6, 5)).astype(dtype)
        attributes: dict[str, Any] = {}
        if generator.random() < 0.5:
            attributes["_FillValue"] = values[2, 2]
        if generator.random() < 0.3:
            attributes["missing_value"] = values[[0, 1], 1] if generator.random() < 0.5 else values[0, 1]
        # Xarray looks for the bytes of a big-endian fill value in the wrong order.
        is_swapped = dtype.byteorder == ">" and "_FillValue" in attributes
        if dtype.kind in "iu" and not is_swapped and generator.random() < 0.3:
            attributes["_Unsigned"] = "true" if dtype.kind == "i" else "false"
        if dtype.kind == "f" and generator.random() < 0.3:
            values[3, 3], attributes["_FillValue"] = np.nan, dtype.type(np.nan)
        attributes |= {
            name: each for name, each in (("scale_factor", scale), ("add_offset", offset)) if each is not None
        }
        with h5py.File(path, "w") as file:
            variable = file.create_dataset("v", data=values, chunks=(2, 3), compression="gzip")
            for name, each in attributes.items():
                # As netCDF does it: a list of one number.
                variable.attrs[name] = each if isinstance(each, str) else np.atleast_1d(np.asarray(each))
            for axis, name in enumerate(("y", "x")):
                file[name] = np.arange(values.shape[axis])
                file[name].make_scale(name)
                variable.dims[axis].attach_scale(file[name])
        with xarray.open_dataset(path, engine="h5netcdf") as opened:
            try:
                expected = opened["v"].values
            except (OverflowError, ValueError):
                continue
        dataset = Hdf5Dataset(path, "v")
        try:
            _same(dataset, expected)
        except AssertionError as error:
            raise AssertionError(f"{kind} {attributes}: {error}") from error
        assert len(Hdf5Dataset(path, window={"y": 2, "x": 2})) == 6
        checked += 1
    assert checked > 200
    with h5py.File(path, "a") as file:
        file["v"].attrs["units"] = "days since 2000-01-01"
    with pytest.raises(ValueError, match=r"times .* are not decoded; pass decode_cf=False"):
        Hdf5Dataset(path, "v")
    assert Hdf5Dataset(path, "v", decode_cf=False)[0].dtype == torch.float64


def test_dimensions_of_netcdf4(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    path = tmp_path / "file.nc"
    data = xarray.Dataset(
        {
            "t": (("time", "y", "x"), _numbers("f4", (6, 5, 4))),
            "mask": (("y", "x"), _numbers("i2", (5, 4))),
            "name": (("y",), np.array(["a"] * 5)),
            "lat": (("y", "x"), _numbers("f8", (5, 4))),
        },
        {"time": np.arange(6), "y": np.arange(5.0)},
    ).set_coords("lat")
    data.to_netcdf(path, engine="h5netcdf", unlimited_dims=["time"])
    windows = Hdf5Dataset(path, window={"time": 2, "y": 2})
    assert list(windows[0]) == ["t"]
    assert np.array_equal(windows[3]["t"], data["t"].values[2:4, 2:4])
    assert np.array_equal(Hdf5Dataset(path, "y")[3], 3.0)
    both = Hdf5Dataset(path, ["mask", "t"], window={"time": 1, "y": 5})
    assert np.array_equal(both[4]["mask"], data["mask"].values)
    with h5py.File(path, "a") as file:
        file["time"].resize((9,))
    with pytest.raises(ValueError, match="it has 6 elements along dimension 'time', which has 9"):
        Hdf5Dataset(path, "t")


def test_odd_dimensions_of_netcdf4(tmp_path: Path) -> None:
    h5netcdf = pytest.importorskip("h5netcdf")
    path = tmp_path / "file.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"x": 5, "y": 3, "t": None}
        # A variable that has the name of another dimension, and one that is shorter than its dimension.
        file.create_variable("x", ("y",), "f4")[...] = np.arange(3) + 1.5
        file.resize_dimension("t", 6)
        file.create_variable("long", ("x", "t"), "f4")[...] = np.ones((5, 6))
        file.create_group("g").create_variable("y", ("x",), "i4")[...] = np.arange(5)
    assert Hdf5Dataset(path, "x").__getitems__([0, 2]) == [1.5, 3.5]
    assert Hdf5Dataset(path, "g/y").__getitems__([0, 4]) == [0, 4]
    # A dimension without coordinates has the size of its longest variable.
    assert Hdf5Dataset(path, "long", window={"t": 2})[1].shape == (5, 2)
    with h5py.File(path, "a") as file:
        short = file.create_dataset("short", (5, 0), "f4", chunks=(5, 2), maxshape=(5, None))
        for axis, name in enumerate(("x", "t")):
            short.dims[axis].attach_scale(file[name])
        # Scales that are none.
        for name, values in {"lost": np.arange(2), "scalar": 3}.items():
            file[name], file[f"of_{name}"] = values, np.arange(5)
            file[name].make_scale(name)
            file[f"of_{name}"].dims[0].attach_scale(file[name])
        del file["lost"]
    assert Hdf5Dataset(path, ["of_lost", "of_scalar"])[1] == {"of_lost": 1, "of_scalar": 1}
    with pytest.raises(ValueError, match="it has 0 elements along dimension 't', which has 6"):
        Hdf5Dataset(path, "short")
