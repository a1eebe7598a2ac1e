"""Arrays of other packages as datasets: the batches of a NumPy array with the same values."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import StackDataset, Subset

from checks.equality import assert_same, error_of
from sluicegate import DataLoader
from sluicegate.fetch.lazy_arrays import ArrayRows, lazy_kinds, with_length

VALUES = np.random.default_rng(0).integers(0, 99, (14, 3, 4)).astype(np.float32)
WORKERS = [{}, {"num_workers": 2}, {"num_workers": 1, "multiprocessing_context": "forkserver"}]


def in_xarray(_: Path) -> Any:
    return pytest.importorskip("xarray").DataArray(VALUES, {"time": np.arange(14)}, ["time", "y", "x"])


def in_xarray_by_dask(_: Path) -> Any:
    pytest.importorskip("dask.array")
    return in_xarray(_).chunk({"time": 4})


def in_xarray_from_zarr(folder: Path) -> Any:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    in_xarray(folder).to_dataset(name="field").to_zarr(folder / "field.zarr", zarr_format=2)
    return xarray.open_zarr(folder / "field.zarr", chunks=None, consolidated=False)["field"]


def in_dask(_: Path) -> Any:
    return pytest.importorskip("dask.array").from_array(VALUES, chunks=(4, 3, 2))


def in_zarr(folder: Path) -> Any:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(store=str(folder / "array.zarr"), shape=VALUES.shape, chunks=(4, 3, 2), dtype="f4")
    array[:] = VALUES
    return array


def in_hdf5(folder: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "field.h5", "w") as file:
        file.create_dataset("field", data=VALUES, chunks=(4, 3, 2), compression="gzip")
    return h5py.File(folder / "field.h5")["field"]


def in_tensorstore(folder: Path) -> Any:
    tensorstore = pytest.importorskip("tensorstore")
    store = {"driver": "n5", "kvstore": {"driver": "file", "path": str(folder / "field.n5")}}
    metadata = {"dataType": "float32", "dimensions": VALUES.shape, "blockSize": (4, 3, 2)}
    array = tensorstore.open({**store, "metadata": metadata}, create=True).result()
    array.write(VALUES).result()
    return array


MAKERS = [in_xarray, in_xarray_by_dask, in_xarray_from_zarr, in_dask, in_zarr, in_hdf5, in_tensorstore]

pytestmark = [
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.mark.parametrize("make", MAKERS)
def test_an_array_gives_the_batches_of_a_numpy_array(make: Callable[[Path], Any], tmp_path: Path) -> None:
    array = make(tmp_path)

    def batches(dataset: Any) -> list[Any]:
        torch.manual_seed(3)
        return list(DataLoader(dataset, batch_size=4, shuffle=True))

    assert_same(batches(array), batches(VALUES))


@pytest.mark.parametrize("workers", WORKERS[1:], ids=["fork", "forkserver"])
@pytest.mark.parametrize("make", [in_xarray_by_dask, in_xarray_from_zarr, in_dask, in_zarr])
def test_workers_read_an_array(make: Callable[[Path], Any], workers: dict[str, Any], tmp_path: Path) -> None:
    batches = list(DataLoader(make(tmp_path), batch_size=4, **workers))
    assert_same(batches, list(DataLoader(VALUES, batch_size=4)))


@pytest.mark.parametrize("make", [in_xarray, in_dask, in_xarray_from_zarr])
def test_parts_of_samples_are_rows(make: Callable[[Path], Any], tmp_path: Path) -> None:
    array, labels = make(tmp_path), np.arange(14)
    found = list(DataLoader(Subset(StackDataset(inputs=array, label=labels), range(3, 12)), batch_size=4))
    assert_same(found, list(DataLoader(Subset(StackDataset(inputs=VALUES, label=labels), range(3, 12)), batch_size=4)))
    assert_same(list(DataLoader(array[:, 0, 0], batch_size=4)), list(DataLoader(VALUES[:, 0, 0], batch_size=4)))


@pytest.mark.parametrize("workers", WORKERS[:2], ids=["none", "fork"])
def test_a_user_collate_function_and_single_samples_match_torch(workers: dict[str, Any]) -> None:
    array = in_xarray(Path())
    for arguments in ({"batch_size": 4, "collate_fn": list}, {"batch_size": None}):
        ours = list(DataLoader(array, **arguments, **workers))
        theirs = list(torch.utils.data.DataLoader(array, **arguments, **workers))
        assert len(ours) == len(theirs)
        for batch, expected in zip(ours, theirs, strict=True):
            rows = (batch, expected) if isinstance(batch, list) else ([batch], [expected])
            assert all(row.identical(same) for row, same in zip(*rows, strict=True))


def test_one_call_reads_the_chunks_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    array = pytest.importorskip("dask.array")
    reads = []

    def chunk(block_info: Any = None) -> Any:
        reads.append(block_info)
        return np.ones((4, 3), np.float32)

    dataset = array.map_blocks(chunk, chunks=((4, 4), (3,)), dtype=np.float32, meta=np.ones((0, 0), np.float32))
    assert len(list(DataLoader(dataset, batch_size=8))) == 1
    assert len(reads) == 2


def test_dtypes_that_torch_has_not_are_an_error_as_in_numpy() -> None:
    times = np.datetime64("2020-01-01", "ns") + np.arange(4)
    array = pytest.importorskip("xarray").DataArray(times, dims=["time"])
    ours, theirs = (error_of(lambda each=each: list(DataLoader(each, batch_size=2))) for each in (array, times))
    assert type(ours) is type(theirs)


def test_classes_are_looked_up_where_their_module_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xarray", "dask.array", "tensorstore", "zarr"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert lazy_kinds() == {}
    # A module that is being imported has no classes yet.
    monkeypatch.setitem(sys.modules, "xarray", types.ModuleType("xarray"))
    assert lazy_kinds() == {}
    monkeypatch.delitem(sys.modules, "xarray")
    xarray = pytest.importorskip("xarray")
    monkeypatch.setitem(sys.modules, "xarray", importlib.import_module("xarray"))
    assert list(lazy_kinds()) == [xarray.DataArray]


def test_an_array_without_a_length_gets_one(tmp_path: Path) -> None:
    array = in_zarr(tmp_path)
    assert not hasattr(array, "__len__")
    loader = DataLoader(array, batch_size=4)
    assert (len(loader), len(loader.dataset)) == (4, 14)
    # With a user-defined order, torch reads the array as it is, and so do we.
    assert DataLoader(array, batch_size=4, sampler=[3, 1]).dataset is array
    assert with_length(VALUES) is VALUES
    assert "no axis" in str(error_of(lambda: len(ArrayRows(np.float32(3)))))
