"""`WindowDataset` against xbatcher: the same windows and values, bit for bit, for every kind of storage."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from cases.pairs import in_pairs
from checks.equality import assert_same
from sluicegate import BlockShuffleSampler, DataLoader

xarray = pytest.importorskip("xarray")
xbatcher = pytest.importorskip("xbatcher")
pytest.importorskip("zarr")

from sluicegate.xarray import WindowDataset  # noqa: E402

pytestmark = [
    # Warnings of the packages about the future of the format, and about themselves.
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::xarray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def _weather() -> Any:
    generator = np.random.default_rng(0)
    temperature = generator.integers(-500, 500, (13, 3, 11, 9)) * 0.01
    temperature[2, 1, 3, 4] = np.nan
    wind = generator.standard_normal((13, 3, 11, 9)).astype(np.float32)
    rain = generator.integers(0, 99, (13, 11, 9)).astype(np.int16)
    return xarray.Dataset(
        {
            "temperature": (("time", "level", "y", "x"), temperature),
            "wind": (("time", "level", "y", "x"), wind, {"units": "m/s"}),
            "rain": (("time", "y", "x"), rain),
        },
        {
            "time": np.datetime64("2020-01-01", "ns") + np.arange(13) * np.timedelta64(6, "h"),
            "level": [1000.0, 850.0, 500.0],
            "y": np.linspace(60, 50, 11),
            "x": np.arange(9),
            "altitude": (("y", "x"), generator.random((11, 9))),
            "station": ("y", [f"s{number}" for number in range(11)]),
        },
    )


PACKED = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 3.0, "_FillValue": -9999}


def _written(folder: Path, version: int | str) -> Path:
    if version == "scipy":
        _weather().to_netcdf(folder.with_suffix(".nc3"), engine="scipy", encoding={"temperature": PACKED})
        return folder.with_suffix(".nc3")
    if version == "h5netcdf":
        pytest.importorskip("h5netcdf")
        chunked = {"temperature": {**PACKED, "chunksizes": (4, 2, 5, 4)}, "wind": {"chunksizes": (4, 1, 5, 4)}}
        packed = {name: {**each, "zlib": True, "shuffle": True} for name, each in chunked.items()}
        _weather().to_netcdf(folder.with_suffix(".nc"), engine="h5netcdf", encoding=packed)
        return folder.with_suffix(".nc")
    encoding = {
        "temperature": {**PACKED, "chunks": (4, 2, 5, 4)},
        "wind": {"chunks": (4, 1, 5, 4)},
        "rain": {"chunks": (5, 11, 9)},
    }
    _weather().to_zarr(folder, encoding=encoding, zarr_format=version)
    return folder


STORES: list[Any] = [2, 3, "h5netcdf", "scipy"]


@pytest.fixture(scope="module", params=STORES)
def either_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("weather") / "store", request.param)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("weather") / "store", 3)


def _opened(store: Path, **options: Any) -> Any:
    if store.is_file():
        return xarray.open_dataset(store, engine="scipy" if store.suffix == ".nc3" else "h5netcdf", **options)
    return xarray.open_zarr(store, chunks=None, **options)


def _tensors(window: Any) -> Any:
    if isinstance(window, xarray.DataArray):
        return torch.tensor(window.values)
    return {name: torch.tensor(array.values) for name, array in window.data_vars.items()}


def _assert_equals(dataset: Any, generator: Any, with_workers: bool = False) -> None:
    """Assert that the samples and batches of `dataset` are the windows of `generator`, in bytes and data type."""
    expected = [_tensors(window) for window in generator]
    assert len(dataset) == len(expected) == len(generator)
    assert_same([dataset[index] for index in range(len(dataset))], expected)
    # Threads are cheap; processes are not.
    for num_workers in (0, 2) if dataset.python_reason is None or with_workers else (0,):
        batches = list(DataLoader(dataset, batch_size=3, num_workers=num_workers))
        assert_same(batches, list(torch.utils.data.DataLoader(expected, batch_size=3)))


CUTS: dict[str, dict[str, Any]] = {
    "all": {"input_dims": {"time": 4, "level": 1, "y": 5, "x": 3}},
    "whole levels": {"input_dims": {"time": 4, "y": 5, "x": 3}, "input_overlap": {"time": 1, "x": 2}},
    "batches": {"input_dims": {"y": 5, "x": 3}, "batch_dims": {"time": 2}},
    "overlapping batches": {
        "input_dims": {"x": 3, "level": 2, "y": 5},
        "input_overlap": {"y": 4, "time": 1},
        "batch_dims": {"time": 2, "x": 8},
    },
}
SLICES: dict[str, Callable[[Any], Any]] = {
    "whole": lambda data: data,
    "start": lambda data: data.isel(time=slice(0, 9)),
    "middle": lambda data: data.isel(time=slice(3, 12), y=slice(1, None), level=slice(1, 3)),
    "labels": lambda data: data.sel(y=slice(59, 51), time=slice("2020-01-02", "2020-01-04")),
    "twice": lambda data: data.isel(time=slice(1, 12)).isel(time=slice(2, 10), x=slice(2, None)),
}


# Every two values of different parameters occur together; all combinations would take half a minute.
@pytest.mark.parametrize(("cut", "part", "either_store"), in_pairs(CUTS, SLICES, STORES), indirect=["either_store"])
@pytest.mark.filterwarnings("ignore:The following dimensions were included")
def test_stored_windows_are_those_of_xbatcher(either_store: Path, cut: str, part: str) -> None:
    data = SLICES[part](_opened(either_store)[["temperature", "wind"]])
    dataset = WindowDataset(data, **CUTS[cut])
    if "batch" not in cut:
        assert dataset.python_reason is None
        assert DataLoader(dataset, num_workers=2).explain().engine == "rust"
        assert dataset.block_sizes.sum() == len(dataset)
    _assert_equals(dataset, xbatcher.BatchGenerator(data, **CUTS[cut]))


@pytest.mark.parametrize("name", ["temperature", "wind", "rain"])
def test_a_data_array_has_tensors(store: Path, name: str) -> None:
    data = SLICES["middle"](_opened(store))[name]
    dataset = WindowDataset(data, {"time": 2, "y": 4, "x": 4})
    assert dataset.python_reason is None
    _assert_equals(dataset, xbatcher.BatchGenerator(data, {"time": 2, "y": 4, "x": 4}))


OTHERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "in memory": (lambda data: data.load(), "in memory"),
    "computed": (lambda data: data * 2, "in memory"),
    "dask": (lambda data: data.chunk({"time": 5}), "dask"),
    "transposed": (lambda data: data.transpose("x", "y", "level", "time"), "transposed"),
    "with steps": (lambda data: data.isel(time=slice(0, None, 2)), "step of 2"),
    "picked": (lambda data: data.isel(time=[0, 2, 3, 7]), "indexed by arrays"),
    "renamed": (lambda data: data.rename(time="day").rename(day="time", y="x", x="y"), "called"),
    "shifted": (
        lambda data: (
            data[["wind"]]
            .isel(time=slice(0, 9))
            .drop_vars("time")
            .assign(temperature=data["temperature"].variable.isel(time=slice(2, 11)))
        ),
        "different elements",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_data_is_read_through_xarray(store: Path, case: str) -> None:
    make, reason = OTHERS[case]
    data = make(_opened(store)[["temperature", "wind"]])
    dataset = WindowDataset(data, {"time": 2, "y": 4, "x": 4})
    assert reason in str(dataset.python_reason)
    assert reason in str(DataLoader(dataset).explain())
    _assert_equals(dataset, xbatcher.BatchGenerator(data, {"time": 2, "y": 4, "x": 4}), with_workers=True)


@pytest.mark.parametrize(
    "options",
    [{"mask_and_scale": False}, {"decode_cf": False}, {"decode_times": False}, {"drop_variables": ["rain"]}],
)
def test_options_of_open_zarr_are_followed(store: Path, options: dict[str, Any]) -> None:
    data = _opened(store, **options)[["temperature", "wind"]]
    dataset = WindowDataset(data, {"time": 2, "y": 4, "x": 4})
    assert dataset.python_reason is None
    _assert_equals(dataset, xbatcher.BatchGenerator(data, {"time": 2, "y": 4, "x": 4}))


def test_another_scale_than_that_of_the_store_is_followed(store: Path) -> None:
    data = _opened(store, decode_cf=False)
    data["temperature"].attrs["scale_factor"] = 7.0
    data = xarray.decode_cf(data)[["temperature"]]
    dataset = WindowDataset(data, {"time": 2, "y": 4, "x": 4})
    assert "not decoded with xarray's defaults" in str(dataset.python_reason)
    _assert_equals(dataset, xbatcher.BatchGenerator(data, {"time": 2, "y": 4, "x": 4}))


def test_a_dimension_that_was_removed_stays_removed(store: Path) -> None:
    data = _opened(store)[["temperature", "wind"]].isel(level=1, time=slice(1, None))
    dataset = WindowDataset(data, {"time": 2, "y": 4, "x": 4})
    assert "removed" in str(dataset.python_reason)
    _assert_equals(dataset, xbatcher.BatchGenerator(data, {"time": 2, "y": 4, "x": 4}))


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("options", [{}, {"concat_input_dims": True, "batch_dims": {"time": 4}}])
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_generators_are_taken_as_they_are(store: Path, is_stored: bool, options: dict[str, Any]) -> None:
    data = (_opened(store) if is_stored else _weather())[["temperature", "wind"]]
    generator = xbatcher.BatchGenerator(data, {"y": 4, "x": 4}, input_overlap={"x": 2}, **options)
    _assert_equals(WindowDataset(generator), generator)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_joined_windows_have_no_places() -> None:
    cut: dict[str, Any] = {"ds": _weather(), "input_dims": {"y": 4, "x": 4}, "batch_dims": {"time": 4}}
    dataset = WindowDataset(xbatcher.BatchGenerator(**cut, concat_input_dims=True))
    with pytest.raises(AttributeError, match="windows: not available for a BatchGenerator that joins"):
        _ = dataset.windows


def test_targets_are_windows_of_other_variables_or_data(store: Path) -> None:
    cut: dict[str, Any] = {"input_dims": {"time": 2, "y": 4, "x": 4}, "input_overlap": {"y": 1}}
    data = _opened(store)
    inputs = xbatcher.BatchGenerator(data[["temperature", "wind"]], **cut)
    rain = xbatcher.BatchGenerator(data["rain"], **cut)
    expected = [(_tensors(window), _tensors(target)) for window, target in zip(inputs, rain, strict=True)]
    for source, target in (
        (data, "rain"),
        (data[["temperature", "wind"]], data["rain"]),
        (data[["temperature", "wind"]], rain),
        (_opened(store)[["temperature", "wind"]].load(), data["rain"]),
    ):
        dataset = WindowDataset(source, **cut, target=target)
        assert_same([dataset[index] for index in range(len(dataset))], expected)
        batches = list(DataLoader(dataset, batch_size=4, num_workers=2))
        assert_same(batches, list(torch.utils.data.DataLoader(expected, batch_size=4)))
    dataset = WindowDataset(data, **cut, target=["rain"])
    assert dataset.python_reason is None
    assert_same(dataset[0], (expected[0][0], {"rain": expected[0][1]}))


@pytest.mark.parametrize("is_stored", [False, True])
def test_transforms_get_tensors_or_xarray_objects(store: Path, is_stored: bool) -> None:
    data = _opened(store) if is_stored else _weather()
    cut = {"time": 2, "y": 4, "x": 4}
    generator = xbatcher.BatchGenerator(_opened(store) if is_stored else _weather(), cut)
    dataset = WindowDataset(data, cut, target="rain", transform=lambda window: window, as_xarray=True)
    for index, expected in enumerate(generator):
        window, rain = dataset[index]
        xarray.testing.assert_identical(window, expected.drop_vars("rain"))
        assert_same(rain, torch.tensor(expected["rain"].values))
    plain = WindowDataset(data, cut, transform=lambda window: window["wind"] * 2, target="rain")
    assert_same(plain[3][0], torch.tensor(generator[3]["wind"].values) * 2)
    assert "transform" in str(plain.python_reason) or not is_stored


def test_coordinates_come_along(store: Path) -> None:
    cut = {"time": 2, "y": 4, "x": 4}
    dataset = WindowDataset(_opened(store)["wind"], cut, with_coords=True)
    window, coordinates = dataset[5]
    expected = xbatcher.BatchGenerator(_opened(store)["wind"], cut)[5]
    assert_same(window, torch.tensor(expected.values))
    assert sorted(coordinates) == ["altitude", "level", "time", "x", "y"]
    assert_same(coordinates["time"], torch.tensor(expected["time"].values.astype("M8[ns]").astype(np.int64)))
    assert_same(coordinates["altitude"], torch.tensor(expected["altitude"].values))
    batch, together = next(iter(DataLoader(dataset, batch_size=2, num_workers=2)))
    assert (batch.shape, together["time"].shape) == ((2, 2, 3, 4, 4), (2, 2))


@pytest.mark.parametrize("is_stored", [False, True])
def test_seeds_shards_ids_and_resume(store: Path, is_stored: bool) -> None:
    data = _opened(store)[["temperature", "wind"]] if is_stored else _weather()[["temperature", "wind"]]
    dataset = WindowDataset(data, {"time": 2, "y": 4, "x": 4})
    options: dict[str, Any] = {"batch_size": 2, "shuffle": True, "seed": 3, "num_workers": 2}
    expected = [dataset[index]["wind"] for index in range(len(dataset))]
    loader = DataLoader(dataset, **options).with_ids()
    for batch, ids in loader:
        assert_same(batch["wind"], torch.stack([expected[index] for index in ids.sample_indices.tolist()]))
    whole = list(DataLoader(dataset, **options))
    loader = DataLoader(dataset, **options)
    batches = iter(loader)
    begun = [next(batches) for _ in range(3)]
    state = loader.state_dict()
    rest = DataLoader(dataset, **options)
    rest.load_state_dict(state)
    assert_same([*begun, *rest], whole)
    shards = [
        index
        for rank in range(2)
        for _, ids in DataLoader(dataset, **options, shard=(rank, 2)).with_ids()
        for index in ids.sample_indices.tolist()
    ]
    assert sorted(set(shards)) == list(range(len(dataset)))


def test_a_pickled_window_dataset_yields_the_same(store: Path) -> None:
    dataset = WindowDataset(SLICES["middle"](_opened(store))[["wind"]], {"time": 2, "y": 4, "x": 4})
    again = pickle.loads(pickle.dumps(dataset))
    assert again.python_reason is None
    assert_same([again[index] for index in range(len(again))], [dataset[index] for index in range(len(dataset))])
    memory = WindowDataset(_weather()[["wind"]], {"time": 2, "y": 4, "x": 4})
    for context in ("fork", "forkserver"):
        loader = DataLoader(memory, batch_size=4, num_workers=1, multiprocessing_context=context)
        assert_same([row.clone() for batch in loader for row in batch["wind"]], [one["wind"] for one in memory])


def test_blocks_are_rows_of_chunks(store: Path) -> None:
    data = _opened(store)["wind"]
    whole = WindowDataset(data, {"time": 2, "y": 4, "x": 4})
    assert whole.block_sizes.tolist() == [8, 8, 8]
    part = WindowDataset(data.isel(time=slice(2, None)), {"time": 2, "y": 4, "x": 4})
    assert part.block_sizes.tolist() == [4, 8, 8]
    sampler = BlockShuffleSampler(part, window=1, seed=0)
    assert sorted(sampler) == list(range(len(part)))


def test_window_dataset_names_invalid_arguments() -> None:
    data = _weather()
    for arguments, error, message in (
        ({"ds": data}, ValueError, "input_dims: expected window lengths"),
        ({"ds": np.zeros(3), "input_dims": {"x": 1}}, TypeError, "wrap an array in xarray.DataArray"),
        ({"ds": data, "input_dims": {"z": 1}}, ValueError, r"input_dims: expected dimensions of the data.* 'z'"),
        ({"ds": data, "input_dims": {"x": 10}}, ValueError, "at most 9 for dimension 'x'.* got 10"),
        ({"ds": data, "input_dims": {"x": 2}, "input_overlap": {"x": 2}}, ValueError, "less than the window of 2"),
        ({"ds": data, "input_dims": {"x": 2}, "input_overlap": {"q": 2}}, ValueError, "input_overlap: .* 'q'"),
        ({"ds": data, "input_dims": {"x": 2}, "target": "snow"}, ValueError, "target: expected variables .* 'snow'"),
        ({"ds": data["wind"], "input_dims": {"x": 2}, "target": "snow"}, ValueError, "ds is a DataArray"),
        ({"ds": data, "input_dims": {"x": 2}, "target": data.isel(x=slice(4))}, ValueError, "as many windows .* 4"),
        ({"ds": data, "input_dims": {"x": 2}, "target_transform": str}, ValueError, "pass target"),
        ({"ds": data, "input_dims": 3}, TypeError, "numbers by dimension"),
    ):
        with pytest.raises(error, match=message):
            WindowDataset(**arguments)
    dataset = WindowDataset(data, {"time": 2})
    with pytest.raises(IndexError, match="out of range"):
        dataset[len(dataset)]
    words = WindowDataset(data.reset_coords("station"), {"y": 2})
    with pytest.raises(TypeError, match=r"variable 'station' has the data type .*; leave it out"):
        words[0]


def test_a_billion_windows_cost_nothing() -> None:
    data = xarray.DataArray(np.broadcast_to(np.float32(3), (1 << 15, 1 << 15)), dims=["y", "x"])
    dataset = WindowDataset(data, {"y": 2, "x": 2}, {"y": 1, "x": 1})
    assert len(dataset) == (2**15 - 1) ** 2
    assert_same(dataset[len(dataset) - 1], torch.full((2, 2), 3.0))


def test_xarray_is_not_imported_with_the_package(run: Any) -> None:
    ended = run("import sys, sluicegate\nprint('xarray' in sys.modules, 'xbatcher' in sys.modules)")
    assert ended.stdout.split() == ["False", "False"]
    assert "xarray" in sys.modules
