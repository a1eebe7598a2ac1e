"""Stores that `write_zarr` writes, complete or interrupted, and their contents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluicegate import DataLoader, IterableDataset, StackDataset, ZarrDataset, write_zarr

X = np.random.default_rng(0).standard_normal((23, 7, 5)).astype(np.float32)
Y = np.arange(23) ** 9
ROWS = StackDataset(x=X, y=Y)
OPTIONS: dict[str, Any] = {
    "dims": {"x": ["time", "lat", "lon"], "y": ["time"]},
    "chunks": {"time": 2, "lat": 3},
    "shards": {"time": 4, "lat": 6},
    "attributes": {"model": "a", "limits": [0, 1.5, None]},
    "field_attributes": {"x": {"units": "K"}},
}


def assert_stored(path: Path, x: Any = X, y: Any = Y) -> None:
    """Assert that three readers find the arrays, bit for bit, and that nothing of the job is left."""
    # Tests are skipped if they are not installed.
    import xarray
    import zarr

    group = zarr.open(path)
    assert group["x"][:].tobytes() == x.tobytes()
    assert group["y"][:].tobytes() == y.tobytes()
    data = xarray.open_zarr(path, chunks=None)
    assert data["x"].dims == ("time", "lat", "lon")
    assert data["x"].values.tobytes() == x.tobytes()
    assert data["y"].values.tobytes() == y.tobytes()
    samples = ZarrDataset(path)
    assert len(samples) == len(x)
    for index in (0, len(x) // 2, len(x) - 1):
        assert samples[index]["x"].numpy().tobytes() == x[index].tobytes()
        assert samples[index]["y"].item() == y[index]
    assert sorted(os.listdir(path.parent)) == [path.name, f"{path.name}.shards.json"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def batches(start: int = 0, size: int = 5) -> Iterator[Any]:
    return ({"x": X[first : first + size], "y": Y[first : first + size]} for first in range(start, len(X), size))


class Interrupted(IterableDataset[Any]):
    def __init__(self, stop: int) -> None:
        self.stop = stop

    def __iter__(self) -> Iterator[Any]:
        for index in range(len(X)):
            if index == self.stop:
                raise ZeroDivisionError
            yield {"x": X[index], "y": Y[index]}


def begun(tmp_path: Path) -> Path:
    """Return the path of a store whose job was interrupted after some rows."""
    path = tmp_path / "store"
    with pytest.raises(ZeroDivisionError):
        write_zarr(DataLoader(Interrupted(14), batch_size=1), path, **OPTIONS)
    return path
