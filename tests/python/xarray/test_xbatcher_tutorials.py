"""The code of xbatcher's tutorials gives the same tensors and the same training with one import changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from checks.equality import assert_same
from sluicegate import DataLoader

xarray = pytest.importorskip("xarray")
xbatcher = pytest.importorskip("xbatcher")
pytest.importorskip("zarr")
theirs = pytest.importorskip("xbatcher.loaders.torch")

from sluicegate import xarray as ours  # noqa: E402  (only where xarray is installed)
from sluicegate.xarray import WindowDataset  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::xarray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Write images with labels, as the tutorials write Fashion-MNIST."""
    generator = np.random.default_rng(0)
    data = xarray.Dataset(
        {
            "images": (["sample", "channel", "height", "width"], generator.random((230, 1, 28, 28), dtype="float32")),
            "labels": (["sample"], generator.integers(0, 10, 230)),
        },
        coords={"sample": np.arange(230)},
    )
    data.to_zarr(tmp_path / "images", encoding={"images": {"chunks": (50, 1, 28, 28)}})
    return tmp_path / "images"


@pytest.fixture
def climate(tmp_path: Path) -> Any:
    """Write temperatures on a globe, as in the demo, and return the opened store."""
    generator = np.random.default_rng(0)
    values = {name: (["time", "lat", "lon"], generator.random((41, 18, 20), dtype="float32")) for name in ("a", "b")}
    times = np.datetime64("2015-01-01", "ns") + np.arange(41) * np.timedelta64(1, "D")
    coordinates = {"time": times, "lat": np.linspace(-90, 90, 18), "lon": np.arange(20) * 18.0}
    xarray.Dataset(values, coordinates).to_zarr(tmp_path / "climate", encoding={"a": {"chunks": (10, 18, 20)}})
    return tmp_path / "climate"


def _generators(path: Path, chunks: Any) -> tuple[Any, Any]:
    data = xarray.open_dataset(path, engine="zarr", chunks=chunks)
    dims = {"sample": 40, "channel": 1, "height": 28, "width": 28}
    return (
        xbatcher.BatchGenerator(data["images"], input_dims=dims, preload_batch=False),
        xbatcher.BatchGenerator(data["labels"], input_dims={"sample": 40}, preload_batch=False),
    )


@pytest.mark.parametrize("chunks", [None, {}])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_network_trains_to_the_same_losses(images: Path, chunks: Any, workers: int) -> None:
    losses = []
    for module, loader in (
        (theirs, torch.utils.data.DataLoader),
        (ours, torch.utils.data.DataLoader),
        (ours, DataLoader),
    ):
        torch.manual_seed(3)
        options: dict[str, Any] = {}
        if workers:
            options = {"prefetch_factor": 3, "persistent_workers": True, "multiprocessing_context": "forkserver"}
        batches = loader(
            module.MapDataset(*_generators(images, chunks)), batch_size=None, num_workers=workers, **options
        )
        model = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(784, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        found = []
        for _ in range(2):
            for features, labels in batches:
                assert features.shape == (40, 1, 28, 28)
                loss = torch.nn.functional.cross_entropy(model(features), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        losses.append(found)
    assert len(losses[0]) == 10
    assert losses[1] == losses[0] == losses[2]


GENERATORS: dict[str, dict[str, Any]] = {
    "samples of ten days": {"input_dims": {"time": 10}},
    "batches of two samples": {"input_dims": {"time": 10}, "batch_dims": {"time": 20}, "concat_input_dims": True},
    "the rest of the last batch": {"input_dims": {"time": 31}},
    "overlapping samples": {
        "input_dims": {"time": 10},
        "batch_dims": {"time": 20},
        "concat_input_dims": True,
        "input_overlap": {"time": 9},
    },
    "patches": {"input_dims": {"lat": 9, "lon": 9, "time": 10}, "input_overlap": {"lat": 8, "lon": 8, "time": 9}},
}


@pytest.mark.parametrize("name", list(GENERATORS))
@pytest.mark.parametrize("chunks", [None, {}])
def test_generators_of_the_demo_give_the_same_tensors(climate: Path, name: str, chunks: Any) -> None:
    data = xarray.open_dataset(climate, engine="zarr", chunks=chunks)
    if name == "patches":
        data = data.isel(lat=slice(0, 10), lon=slice(0, 10), time=slice(0, 12))
    generator = xbatcher.BatchGenerator(ds=data, **GENERATORS[name])
    dataset = WindowDataset(generator)
    assert len(dataset) == len(generator) > 0
    for index in range(len(generator)):
        expected = generator[index].load()
        assert_same(
            dataset[index],
            {key: torch.tensor(np.ascontiguousarray(value.values)) for key, value in expected.data_vars.items()},
        )
        assert dataset.window(index).identical(expected)


def test_features_and_labels_are_cut_from_one_patch(climate: Path) -> None:
    data = xarray.open_dataset(climate, engine="zarr", chunks=None)[["a"]]
    generator = xbatcher.BatchGenerator(
        ds=data.isel(lat=slice(0, 12), lon=slice(0, 12), time=slice(0, 30)),
        input_dims={"lat": 9, "lon": 9, "time": 10},
        batch_dims={"lat": 12, "lon": 12, "time": 15},
        concat_input_dims=True,
        input_overlap={"lat": 8, "lon": 8, "time": 9},
    )

    def cut(batch: Any) -> tuple[torch.Tensor, torch.Tensor, int]:
        batch = batch.transpose("input_batch", "lat_input", "lon_input", "time_input")
        features = batch.a.isel(time_input=slice(0, 9)).stack(features=["lat_input", "lon_input", "time_input"])
        labels = batch.a.isel(lat_input=5, lon_input=5, time_input=9)
        return ours.to_tensor(features), ours.to_tensor(labels), labels.coords["lat"].size

    dataset = WindowDataset(generator, transform=cut, as_xarray=True)
    for batch, expected in zip(DataLoader(dataset, batch_size=None), generator, strict=True):
        assert_same(batch, list(cut(expected)))


def test_batches_come_from_a_cache(climate: Path) -> None:
    def doubled(batch: Any) -> Any:
        batch["twice"] = batch["a"] * 2
        return batch

    data = xarray.open_dataset(climate, engine="zarr", chunks={})
    cache: dict[str, Any] = {}
    options: dict[str, Any] = {"input_dims": {"lat": 9, "lon": 10}, "cache_preprocess": doubled}
    generator = xbatcher.BatchGenerator(data, cache=cache, **options)
    plain = xbatcher.BatchGenerator(data, input_dims={"lat": 9, "lon": 10})
    try:
        generator[0]
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        pytest.skip(f"these versions of xbatcher and zarr cannot cache: {error}")
    dataset = WindowDataset(generator)
    for _ in range(2):
        for index in range(len(plain)):
            expected = plain[index].load()
            assert_same(dataset[index]["a"], torch.tensor(expected["a"].values))
            assert_same(dataset[index]["twice"], torch.tensor(expected["a"].values * 2))


@pytest.mark.parametrize("name", ["x", ["x"]])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_datasets_of_the_reference_give_the_same_tensors(name: Any, is_chunked: bool) -> None:
    generator = np.random.default_rng(0)
    data = xarray.Dataset(
        {"x": (["sample", "feature"], generator.random((100, 5))), "y": (["sample"], generator.random(100))}
    )
    data = data.chunk({"sample": 10}) if is_chunked else data
    target = ["y"] if isinstance(name, list) else "y"
    pair = [xbatcher.BatchGenerator(data[each], {"sample": 10}) for each in (name, target)]

    def ones(batch: Any) -> torch.Tensor:
        return ours.to_tensor(batch * 0 + 1)

    for options in ({}, {"transform": ones, "target_transform": theirs.to_tensor}, {"transform": ours.to_tensor}):
        expected = list(torch.utils.data.DataLoader(theirs.MapDataset(*pair, **options), batch_size=None))
        dataset = ours.MapDataset(*pair, **options)
        for loader in (torch.utils.data.DataLoader, DataLoader):
            assert_same([tuple(each) for each in loader(dataset, batch_size=None)], [tuple(each) for each in expected])
        assert_same(dataset[torch.tensor([1])], theirs.MapDataset(*pair, **options)[torch.tensor([1])])
    streams = [list(DataLoader(module.IterableDataset(*pair), batch_size=None)) for module in (theirs, ours)]
    assert_same([tuple(each) for each in streams[1]], [tuple(each) for each in streams[0]])
