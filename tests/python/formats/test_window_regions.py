"""`region`: windows of a part of a dimension are those of the sliced array."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cases.hdf5_files import write
from cases.number_arrays import numbers
from checks.equality import assert_same
from sluicegate import BlockShuffleSampler, DataLoader, Hdf5Dataset, ZarrDataset, write_zarr

SHAPE = (23, 17, 6)
X = numbers("<f4", SHAPE)
DIMS = ["time", "y", "z"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "x.zarr"
    write_zarr(X, path, fields="x", dims=DIMS, chunks={"time": 4, "y": 5})
    return path


def _windows(values: np.ndarray[Any, Any], window: tuple[int, int], stride: tuple[int, int]) -> list[torch.Tensor]:
    """Return the windows along two axes of `values` that fit, as nested loops find them."""
    starts = [range(0, values.shape[axis] - window[axis] + 1, stride[axis]) for axis in range(2)]
    return [torch.from_numpy(values[t : t + window[0], y : y + window[1]].copy()) for t in starts[0] for y in starts[1]]


def _rows(values: np.ndarray[Any, Any]) -> list[torch.Tensor]:
    return [torch.from_numpy(row.copy()) for row in values]


@pytest.mark.parametrize("time", [slice(0, 9), slice(3, None), slice(5, 14), slice(None, 8), slice(7, 10)])
@pytest.mark.parametrize("stride", [(3, 4), (2, 1), (5, 7)])
def test_windows_are_those_of_the_slice(store: Path, time: slice, stride: tuple[int, int]) -> None:
    arguments: dict[str, Any] = {"window": {"time": 3, "y": 4}, "stride": {"time": stride[0], "y": stride[1]}}
    region = {"time": time, "y": slice(2, 15), "z": slice(1, 5)}
    dataset = ZarrDataset(store, "x", **arguments, region=region)
    expected = _windows(X[time, 2:15, 1:5], (3, 4), stride)
    assert_same(list(dataset), expected)
    assert dataset.block_sizes.sum() == len(dataset)
    chunks = ZarrDataset(store, "x", **arguments, region=region, order="chunks")
    assert sorted(row.numpy().tobytes() for row in chunks) == sorted(row.numpy().tobytes() for row in expected)
    assert sorted(chunks[list(range(len(chunks)))].numpy().tobytes()) == sorted(np.stack(expected).tobytes())
    assert chunks.block_sizes.sum() == len(chunks)
    assert "region={" in repr(dataset)


def test_rows_and_shifted_windows(store: Path, tmp_path: Path) -> None:
    rows = ZarrDataset(store, ["x"], region={"time": slice(4, 9), "y": slice(1, 3)})
    assert_same([row["x"] for row in rows], _rows(X[4:9, 1:3]))
    assert len(ZarrDataset(store, "x", region={"time": slice(4, 4)})) == 0
    shifted = ZarrDataset(store, "x", window={"time": 3}, region={"time": slice(4, 12)}, edges="shift")
    assert_same(list(shifted), [torch.from_numpy(X[start : start + 3].copy()) for start in (4, 7, 9)])
    path = write(tmp_path / "x.h5", {"x": X}, chunks=(4, 5, 6), compression="gzip")
    assert_same(list(Hdf5Dataset(path, "x", region={"dim_0": slice(20, None)})), _rows(X[20:]))


def test_each_chunk_is_decoded_once_and_given_up_when_its_windows_were_read(store: Path) -> None:
    region = {"time": slice(6, 22), "y": slice(5, 15)}
    dataset = ZarrDataset(store, "x", window={"time": 2, "y": 5}, region=region, order="chunks", cache_bytes=2 * 480)
    loader = DataLoader(dataset, 3, sampler=BlockShuffleSampler(dataset, window=1, seed=0))
    assert sum(map(len, loader)) == len(dataset) == 16
    assert dataset.cache_info().decoded == 10


def test_only_chunks_of_the_region_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "x.h5", {"x": X}, chunks=(4, 17, 6), compression="gzip")
    import h5py

    data = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        data[file["x"].id.get_chunk_info(5).byte_offset + 9] ^= 0xFF
    path.write_bytes(data)
    assert Hdf5Dataset(path, "x", region={"dim_0": slice(0, 20)}, on_error="skip").damages == []
    whole = Hdf5Dataset(path, "x", on_error="skip")
    assert len(whole.damages) == 1
    assert len(whole) == 20


def test_regions_that_do_not_fit_the_arrays_are_named(store: Path) -> None:
    for region, message in (
        ({"time": slice(3, 99)}, 'region: expected elements of "time", which has 23, got 3 to 99'),
        ({"time": slice(9, 3)}, 'region: expected elements of "time", which has 23, got 9 to 3'),
        ({"time": slice(0, 9, 2)}, r"region\['time'\]: expected a slice without a step"),
        ({"time": slice(-3, None)}, r"region\['time'\] should be 0 or more.*, but got -3"),
        ({"lat": slice(0, 3)}, "region: expected dimensions of the arrays"),
        ({"time": slice(0, 2)}, 'window: expected at most 2 for dimension "time"'),
    ):
        with pytest.raises(ValueError, match=message):
            ZarrDataset(store, window={"time": 3}, region=region)
    with pytest.raises(TypeError, match="region: expected slices by dimension"):
        ZarrDataset(store, region={"time": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="edges: expected 'drop' or 'shift' with a region"):
        ZarrDataset(store, window={"time": 3}, region={"time": slice(0, 9)}, edges="pad")
