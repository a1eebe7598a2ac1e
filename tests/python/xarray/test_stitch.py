"""`stitch`: reassembles predictions for windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate import DataLoader

xarray = pytest.importorskip("xarray")
pytest.importorskip("zarr")

from sluicegate.xarray import WindowDataset, stitch  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::xarray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def _field() -> Any:
    values = np.random.default_rng(0).standard_normal((11, 7, 9))
    coordinates = {"time": np.datetime64("2020-01-01", "ns") + np.arange(11), "x": np.arange(9) * 0.5}
    return xarray.DataArray(values, coordinates, ["time", "y", "x"])


@pytest.mark.parametrize(
    ("cut", "overlap"),
    [
        ({"time": 4, "x": 3}, {"time": 3, "x": 1}),
        ({"x": 4, "time": 5, "y": 3}, {"x": 2, "time": 1, "y": 2}),
        ({"y": 2, "x": 9}, {}),
        ({"time": 11, "x": 9}, {}),
    ],
)
@pytest.mark.parametrize("dims", [["time", "y", "x"], ["x", "time", "y"]])
def test_the_mean_over_overlaps(tmp_path: Path, cut: Any, overlap: Any, dims: list[str]) -> None:
    field = _field()
    dataset = WindowDataset(field, cut, overlap)
    sums, counts = np.zeros(field.shape), np.zeros(field.shape)
    predictions = []
    for index in range(len(dataset)):
        prediction = dataset[index].numpy() * (index + 1)
        place = tuple(dataset.windows.selector(index).get(name, slice(None)) for name in field.dims)
        sums[place] += prediction
        counts[place] += 1
        predictions.append(np.moveaxis(prediction, range(3), [dims.index(name) for name in field.dims]))
    batches = (torch.tensor(np.stack(predictions[start : start + 4])) for start in range(0, len(predictions), 4))
    stitch(batches, dataset, tmp_path / "out", dims)
    found = xarray.open_zarr(tmp_path / "out", chunks=None)["prediction"]
    with np.errstate(invalid="ignore"):
        expected = xarray.DataArray(sums / counts, field.coords, field.dims).transpose(*dims)
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.dims == tuple(dims)
    np.testing.assert_array_equal(found["time"].values, field["time"].values)


def test_a_dimension_of_the_prediction_alone(tmp_path: Path) -> None:
    field = _field().astype(np.float32)
    dataset = WindowDataset(field, {"time": 4, "y": 7, "x": 3})
    loader = DataLoader(dataset, batch_size=3, num_workers=2)
    stitch((torch.stack([batch, -batch], 1) for batch in loader), dataset, tmp_path / "out", ["sign", *field.dims])
    found = xarray.open_zarr(tmp_path / "out", chunks=None)["prediction"]
    assert (found.dtype, found.shape) == (np.float32, (2, 11, 7, 9))
    np.testing.assert_array_equal(found[0, :8].values, field[:8].values)
    assert np.isnan(found[:, 8:].values).all()


def test_stitch_names_mismatched_predictions(tmp_path: Path) -> None:
    dataset = WindowDataset(_field(), {"time": 4, "x": 3})
    dims = ["time", "y", "x"]
    whole = [dataset[index][None] for index in range(len(dataset))]
    with pytest.raises(ValueError, match=r"dims: .* \['time', 'x'\]"):
        stitch(whole, dataset, tmp_path / "a", ["y", "x"])
    with pytest.raises(ValueError, match="predictions: expected one for each of 6 windows, but got 5"):
        stitch(whole[:-1], dataset, tmp_path / "b", dims)
    with pytest.raises(ValueError, match="but got more"):
        stitch([*whole, whole[0]], dataset, tmp_path / "c", dims)
    with pytest.raises(ValueError, match="expected the shape"):
        stitch([part[:, 1:] for part in whole], dataset, tmp_path / "d", dims)
    with pytest.raises(FileExistsError, match="path: "):
        stitch(whole, dataset, tmp_path, dims)
