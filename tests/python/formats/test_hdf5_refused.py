"""Features that `Hdf5Dataset` does not read, and files that are damaged or changed: an error names them."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
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
from sluicegate import BlockShuffleSampler, DataLoader, Hdf5Dataset

h5py = pytest.importorskip("h5py")


def test_arrays_and_files_that_are_not_supported_are_named(tmp_path: Path) -> None:
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
        "scaled": r"filter scale-offset \(number 6\) is not supported in Rust, only deflate.*leave out fallback=False",
        "bits": r"filter bitshuffle \(number 32008\) is not supported in Rust",
        "narrow": "an unusual bit layout",
        "float": "an unusual bit layout",
        "outside": r"in other files \(external storage\)",
        "virtual": r"in other files \(a virtual dataset\)",
        "empty": "a null dataspace",
        "ragged": "variable-length data is not supported",
        "quad": "data type float128 is not supported",
        "scalar": "expected arrays with axes, got the scalar",
    }.items():
        with pytest.raises(ValueError, match=message):
            Hdf5Dataset(path, name, fallback=False)
    with pytest.raises(ValueError, match=r"array '\w+': .*pass fields= with the arrays to read"):
        Hdf5Dataset(path, fallback=False)
    with pytest.raises(ValueError, match=r"filter bitshuffle \(number 32008\) is not available .* such as hdf5plugin"):
        Hdf5Dataset(path, "bits")
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(ValueError, match=r"text\.h5: not a complete HDF5 or netCDF file"):
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
                assert_rows(Hdf5Dataset(path, name), file[name][...])
                assert_rows(Hdf5Dataset(path, name, fallback=False), file[name][...])
            except ValueError as error:
                assert re.search("at wrong offsets|too few of its chunks", str(error))  # noqa: PT017
                refused += 1
    assert refused == 0 or (limits.count(None) == 1 and limits[0] is not None)
    assert Hdf5Dataset(path, "shrunk")[4].shape == (0, 7)


def test_chunks_at_the_edges_without_filters(tmp_path: Path) -> None:
    """An option that h5py can't set; only the HDF5 library can."""
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
        assert_rows(Hdf5Dataset(path, f"{name}False"), values.astype("<i4"))
        with pytest.raises(ValueError, match="its edge chunks are stored without the filters"):
            Hdf5Dataset(path, f"{name}True", fallback=False)
        assert_rows(Hdf5Dataset(path, f"{name}True"), values.astype("<i4"))


def test_links_are_followed_within_the_file_and_otherwise_refused(tmp_path: Path) -> None:
    other = write(tmp_path / "other.h5", {"x": np.arange(100, 104), "g/x": np.arange(200, 204)})
    path = write(tmp_path / "file.h5", {"own": np.arange(4), "g/own": np.arange(4) + 10})
    with h5py.File(path, "a") as file:
        file["outside"] = h5py.ExternalLink(str(other), "/x")
        file["outside_group"] = h5py.ExternalLink(str(other), "/g")
        file["soft"], file["nowhere"] = h5py.SoftLink("/g/own"), h5py.SoftLink("/none")
        file["lost"] = h5py.ExternalLink(str(tmp_path / "none.h5"), "/x")
    assert Hdf5Dataset(path, "soft").__getitems__([1, 3]) == [11, 13]
    for name in ("outside", "outside_group/x"):
        with pytest.raises(ValueError, match=rf"array '{name}': a link points to another file, '{other}'"):
            Hdf5Dataset(path, name, fallback=False)
        assert Hdf5Dataset(path, name)[3].item() in (103, 203)
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
    assert_rows(Hdf5Dataset(path, "complex"), np.array([1 + 2j, 3, 4j, -1], np.complex64))
    assert set(Hdf5Dataset(path, "swapped")[0]) == {"swapped/i", "swapped/r"}
    for name in ("flags", "padded"):
        with pytest.raises(ValueError, match=r"an unusual bit layout"):
            Hdf5Dataset(path, name, fallback=False)
    for name in ("texts", "texts/a"):
        with pytest.raises(ValueError, match="its records have variable-length text"):
            Hdf5Dataset(path, name, fallback=False)


def test_a_file_that_changes_while_it_is_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.formats import hdf5

    path = write(tmp_path / "file.h5", {"x": np.arange(4)})
    found = hdf5.hdf5_arrays

    def slow(*arguments: Any) -> Any:
        arrays = found(*arguments)
        write(path, {"y": np.arange(9), "x": np.arange(4) + 7})
        return arrays

    monkeypatch.setattr(hdf5, "hdf5_arrays", slow)
    with pytest.raises(OSError, match="changed while it was being opened"):
        Hdf5Dataset(path, "x")


def test_damage_and_changes_are_errors(tmp_path: Path) -> None:
    values = numbers("<f4", (64, 64))
    for name, options in {"zlib": {"compression": "gzip"}, "fletcher32": {"fletcher32": True}}.items():
        path = write(tmp_path / f"{name}.h5", {"x": values}, chunks=(16, 64), **options)
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
        # This dataset was opened before the damage.
        with pytest.raises(OSError, match="changed while it was in use: it was modified"):
            dataset[3]
        os.truncate(path, len(data) // 2)
        with pytest.raises((ValueError, OSError)):
            Hdf5Dataset(path, "x")[40]


def test_windows_of_damaged_chunks_are_skipped(tmp_path: Path) -> None:
    values = numbers("<f4", (20, 12))
    path = write(tmp_path / "x.h5", {"x": values, "y": values * 2}, chunks=(4, 6), fletcher32=True)
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
