"""Files of netCDF-3 in `Hdf5Dataset`, against scipy and xarray."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.array_rows import assert_rows
from sluicegate import Hdf5Dataset

netcdf = pytest.importorskip("scipy.io").netcdf_file

KINDS = ["i1", ">i2", ">i4", ">f4", ">f8"]


def _file(path: Path, version: int, records: int | None, names: str = "abcde", trailing: int = 3) -> dict[str, Any]:
    """Write a file with variables of all data types, and return their values."""
    generator = np.random.default_rng(records or 0)
    values = {}
    with netcdf(path, "w", version=version) as file:
        file.history = "made by a test"
        file.createDimension("t", records)
        file.createDimension("y", 5)
        file.createDimension("x", trailing)
        length = records or 7
        for name, kind in zip(names, KINDS, strict=False):
            variable = file.createVariable(name, kind[-2:], ("t", "y", "x"))
            values[name] = generator.integers(-100, 100, (length, 5, trailing)).astype(kind)
            variable[:] = values[name]
            variable.units = "m"
        fixed = file.createVariable("fixed", "i4", ("y",))
        values["fixed"] = np.arange(5, dtype=">i4")
        fixed[:] = values["fixed"]
    return values


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("records", [None, 9])
@pytest.mark.parametrize("names", ["abcde", "a", "b", "e"])
def test_variables_are_those_of_scipy(tmp_path: Path, version: int, records: int | None, names: str) -> None:
    path = tmp_path / "file.nc"
    # Records of bytes or shorts are padded, unless there is only one variable of records.
    values = _file(path, version, records, names, trailing=3)
    for name, expected in values.items():
        assert_rows(Hdf5Dataset(path, name), expected)
    dataset = Hdf5Dataset(path, window={"t": 2, "x": 2}, edges="pad")
    assert set(dataset[0]) == set(names)
    assert np.array_equal(dataset[0][names[0]], values[names[0]][:2, :, :2])


def test_a_file_that_is_still_written_has_the_records_that_it_holds(tmp_path: Path) -> None:
    values = _file(tmp_path / "file.nc", 1, 9)
    data = bytearray((tmp_path / "file.nc").read_bytes())
    data[4:8] = b"\xff" * 4
    (tmp_path / "file.nc").write_bytes(data)
    assert_rows(Hdf5Dataset(tmp_path / "file.nc", "e"), values["e"])


def test_large_files_of_cdf5(tmp_path: Path) -> None:
    """A file with 64-bit counts and integers of all sizes, written by hand because scipy can't write it."""
    kinds = {7: ">u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8"}
    long = struct.Struct(">q").pack

    def name(text: bytes) -> bytes:
        return long(len(text)) + text + b"\0" * (-len(text) % 4)

    header = b"CDF\x05" + long(0) + struct.pack(">i", 10) + long(1) + name(b"row") + long(6)
    header += struct.pack(">i", 12) + long(1) + name(b"n") + struct.pack(">i", 10) + long(1) + long(-5)
    header += struct.pack(">i", 11) + long(len(kinds))
    entry = 8 + 4 + 8 + 8 + 12 + 4 + 8 + 8
    start, values, body = len(header) + len(kinds) * entry, {}, b""
    for number, kind in kinds.items():
        own = f"v{number}".ljust(3, "_")
        values[own] = (np.arange(6) * 40).astype(kind)
        data = values[own].tobytes()
        header += name(own.encode()) + long(1) + long(0) + struct.pack(">i", 0) + long(0)
        header += struct.pack(">i", number) + long(len(data)) + long(start + len(body))
        body += data
    assert len(header) == start
    (tmp_path / "file.nc").write_bytes(header + body)
    dataset = Hdf5Dataset(tmp_path / "file.nc")
    assert set(dataset[0]) == set(values)
    for own, expected in values.items():
        assert_rows(Hdf5Dataset(tmp_path / "file.nc", own), expected)


def test_places_past_the_end_have_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    with netcdf(path, "w") as file:
        file.createDimension("x", 3)
        for name, kind in (("a", "i2"), ("b", "i2"), ("c", "f4")):
            file.createVariable(name, kind, ("x",))[:] = np.arange(3)
        file.variables["b"]._FillValue = np.int16(-5)
    for decode_cf, b in ((False, -5), (True, np.nan)):
        last = Hdf5Dataset(path, window={"x": 2}, edges="pad", decode_cf=decode_cf)[1]
        assert last["a"].tolist() == [2, -32767]
        assert np.array_equal(last["b"].numpy(), [2, b], equal_nan=True)
        assert last["c"][1].item() == float(np.float32(9.969209968386869e36))


@pytest.mark.filterwarnings("ignore::xarray.coding.common.SerializationWarning")
def test_numbers_are_decoded_as_by_xarray(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    generator = np.random.default_rng(0)
    factors = [None, np.float32(0.1), np.float64(0.01), np.float64(-273.15)]
    checked = 0
    for number in range(150):
        path = tmp_path / f"{number}.nc"
        kind = KINDS[generator.integers(len(KINDS))]
        values = generator.integers(-100, 100, (6, 5)).astype(kind)
        attributes: dict[str, Any] = {}
        for name in ("scale_factor", "add_offset"):
            factor = factors[generator.integers(len(factors))]
            if factor is not None:
                attributes[name] = factor
        if generator.random() < 0.5:
            attributes["_FillValue"] = values[2, 2]
        if generator.random() < 0.3:
            attributes["missing_value"] = values[1, 1]
        if kind == "i1" and generator.random() < 0.5:
            attributes["_Unsigned"] = "true"
        with netcdf(path, "w") as file:
            file.createDimension("t", None if generator.random() < 0.5 else 6)
            file.createDimension("x", 5)
            variable = file.createVariable("v", kind[-2:], ("t", "x"))
            variable[:] = values
            for name, value in attributes.items():
                setattr(variable, name, value)
        with xarray.open_dataset(path, engine="scipy") as opened:
            expected = opened["v"].values
        try:
            assert_rows(Hdf5Dataset(path, "v"), expected)
        except AssertionError as error:
            raise AssertionError(f"{kind} {attributes}: {error}") from error
        checked += 1
    assert checked == 150


def test_unknown_fields_and_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    _file(path, 2, None)
    with pytest.raises(ValueError, match=r"fields: expected names of arrays in .*\[\"a\", .*got \"z\""):
        Hdf5Dataset(path, "z")
    with pytest.raises(ValueError, match="group: expected '/', because netCDF-3 has no groups, but got 'a'"):
        Hdf5Dataset(path, group="a")
    data = path.read_bytes()
    dataset = Hdf5Dataset(path, "e", cache_bytes=0)
    path.write_bytes(data[:-30])
    with pytest.raises(ValueError, match=r"chunk \[6, 0, 0\] of array \"e\": its .* bytes .* are outside the file"):
        Hdf5Dataset(path, "e")[6]
    with pytest.raises(OSError, match="changed while it was in use"):
        dataset[0]
    for length in range(4, 300, 7):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"header of netCDF: |path: expected"):
            Hdf5Dataset(path, "e")


def test_changed_bytes_of_the_header_never_crash(tmp_path: Path) -> None:
    path = tmp_path / "file.nc"
    _file(path, 1, 4)
    data, generator, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(400):
        changed = bytearray(data)
        for place in generator.integers(4, 400, 2):
            changed[place] = generator.integers(256)
        path.write_bytes(changed)
        try:
            dataset = Hdf5Dataset(path, window={"t": 1})
            dataset[len(dataset) - 1]
        except (ValueError, OSError, MemoryError):
            refused += 1
        except IndexError:
            assert len(dataset) == 0
    assert 50 < refused < 400
