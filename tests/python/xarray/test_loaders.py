"""`MapDataset` and `IterableDataset` against xbatcher's: the same tensors, with one import changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from checks.equality import assert_same
from checks.public_names import assert_named
from sluicegate import DataLoader

xarray = pytest.importorskip("xarray")
xbatcher = pytest.importorskip("xbatcher")
theirs = pytest.importorskip("xbatcher.loaders.torch")

import sluicegate.xarray  # noqa: E402
from sluicegate.xarray import IterableDataset, MapDataset  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore:::zarr"), pytest.mark.filterwarnings("ignore:::xarray")]


def _data(folder: Path, kind: str) -> tuple[Any, Any]:
    """Return inputs and targets as in xbatcher's tutorials: a Dataset of one variable, or an array."""
    generator = np.random.default_rng(0)
    coordinates = {"y": np.arange(10.0)}
    data = xarray.Dataset({"x": (("sample", "y"), generator.random((40, 10)))}, coordinates)
    target = (data.x * 2).to_dataset(name="z")
    if kind == "zarr":
        data.to_zarr(folder / "x")
        target.to_zarr(folder / "z")
        return xarray.open_zarr(folder / "x", chunks=None), xarray.open_zarr(folder / "z", chunks=None)
    return (data.x, target.z) if kind == "array" else (data, target)


@pytest.mark.parametrize("kind", ["dataset", "array", "zarr"])
@pytest.mark.parametrize(
    "cut", [{"input_dims": {"sample": 5}}, {"input_dims": {"sample": 8, "y": 4}, "input_overlap": {"sample": 2}}]
)
def test_tensors_are_those_of_xbatcher(tmp_path: Path, kind: str, cut: dict[str, Any]) -> None:
    data, target = _data(tmp_path, kind)
    inputs, targets = (xbatcher.BatchGenerator(each, preload_batch=False, **cut) for each in (data, target))
    for arguments in ((inputs,), (inputs, targets)):
        ours, expected = MapDataset(*arguments), theirs.MapDataset(*arguments)
        assert_same([ours[index] for index in range(len(ours))], [expected[index] for index in range(len(expected))])
        assert (ours.python_reason is None) == (kind == "zarr")
        batches = list(torch.utils.data.DataLoader(expected, batch_size=3))
        assert_same(list(DataLoader(ours, batch_size=3, num_workers=2 if kind == "zarr" else 0)), batches)
    expected_stream = theirs.IterableDataset(inputs, targets)
    assert_same(list(IterableDataset(inputs, targets)), list(expected_stream))
    assert_same(
        list(DataLoader(IterableDataset(inputs, targets), batch_size=None)),
        list(torch.utils.data.DataLoader(expected_stream, batch_size=None)),
    )


def test_transforms_get_xarray_objects(tmp_path: Path) -> None:
    data, target = _data(tmp_path, "zarr")
    data = data.assign(w=data.x + 1)
    inputs, targets = (xbatcher.BatchGenerator(each, {"sample": 5}, preload_batch=False) for each in (data, target))

    def transform(window: Any) -> torch.Tensor:
        return torch.tensor(window.to_array().values)

    def only(window: Any) -> torch.Tensor:
        return torch.tensor(window["z"].values + window.y.values)

    arguments = (inputs, targets, transform, only)
    ours, expected = MapDataset(*arguments), theirs.MapDataset(*arguments)
    assert_same([ours[index] for index in range(8)], [expected[index] for index in range(8)])
    joined = xbatcher.BatchGenerator(target, {"sample": 5}, batch_dims={"sample": 10}, concat_input_dims=True)
    assert_same(
        list(map(MapDataset(joined).__getitem__, range(4))), list(map(theirs.MapDataset(joined).__getitem__, range(4)))
    )


def test_loaders_name_invalid_arguments(tmp_path: Path) -> None:
    data, target = _data(tmp_path, "dataset")
    generator = xbatcher.BatchGenerator(data.assign(w=data.x), {"sample": 5})
    with pytest.raises(ValueError, match=r"X_generator: expected a Dataset with one variable, but got \['x', 'w'\]"):
        MapDataset(generator)
    with pytest.raises(TypeError, match=r"y_generator: expected an xbatcher\.BatchGenerator, but got Dataset"):
        MapDataset(xbatcher.BatchGenerator(target, {"sample": 5}), target)


def test_pickles_name_the_package() -> None:
    assert_named(sluicegate.xarray)
