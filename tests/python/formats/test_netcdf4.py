"""Files of netCDF-4 in `Hdf5Dataset`, against xarray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from cases.number_arrays import numbers
from cases.pairs import in_pairs
from checks.array_rows import assert_rows
from sluicegate import Hdf5Dataset

h5py = pytest.importorskip("h5py")


@pytest.mark.filterwarnings("ignore::xarray.coding.common.SerializationWarning")
def test_netcdf4_as_xarray_decodes_it(tmp_path: Path) -> None:
    """Random packings, fill values, data types, and signs, written by HDF5 and read by xarray."""
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    generator = np.random.default_rng(0)
    kinds = ["i1", "u1", "<i2", ">i2", "<u2", "<i4", "<i8", "<f4", ">f4", "<f8"]
    factors = [None, np.float32(0.01), np.float64(0.01), np.float64(-273.15), np.float32(3)]
    checked = 0
    # Every two values of different parameters occur together.
    for number, (kind, scale, offset) in enumerate(in_pairs(kinds, factors, factors)):
        path = tmp_path / f"{number}.nc"
        dtype = np.dtype(kind)
        low, high = (-100, 100) if dtype.kind == "f" else (max(np.iinfo(dtype).min, -1000), np.iinfo(dtype).max)
        values = generator.integers(low, min(high, 1000), (6, 5)).astype(dtype)
        attributes: dict[str, Any] = {}
        if generator.random() < 0.5:
            attributes["_FillValue"] = values[2, 2]
        if generator.random() < 0.3:
            attributes["missing_value"] = values[[0, 1], 1] if generator.random() < 0.5 else values[0, 1]
        # Xarray reads the bytes of a big-endian fill value in the wrong order.
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
                # netCDF stores a number as an array of one element.
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
            assert_rows(dataset, expected)
        except AssertionError as error:
            raise AssertionError(f"{kind} {attributes}: {error}") from error
        assert len(Hdf5Dataset(path, window={"y": 2, "x": 2})) == 6
        checked += 1
    assert checked > 40
    with h5py.File(path, "a") as file:
        file["v"].attrs["units"] = "days since 2000-01-01"
    with pytest.raises(ValueError, match=r"times .* are not supported; pass decode_cf=False"):
        Hdf5Dataset(path, "v")
    assert Hdf5Dataset(path, "v", decode_cf=False)[0].dtype == torch.float64


def test_dimensions_of_netcdf4(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    path = tmp_path / "file.nc"
    data = xarray.Dataset(
        {
            "t": (("time", "y", "x"), numbers("f4", (6, 5, 4))),
            "mask": (("y", "x"), numbers("i2", (5, 4))),
            "name": (("y",), np.array(["a"] * 5)),
            "lat": (("y", "x"), numbers("f8", (5, 4))),
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
        # Variables that have the name of a dimension that is not theirs.
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
        # Dimension scales that are deleted or scalar.
        for name, values in {"lost": np.arange(2), "scalar": 3}.items():
            file[name], file[f"of_{name}"] = values, np.arange(5)
            file[name].make_scale(name)
            file[f"of_{name}"].dims[0].attach_scale(file[name])
        del file["lost"]
    assert Hdf5Dataset(path, ["of_lost", "of_scalar"])[1] == {"of_lost": 1, "of_scalar": 1}
    with pytest.raises(ValueError, match="it has 0 elements along dimension 't', which has 6"):
        Hdf5Dataset(path, "short")
