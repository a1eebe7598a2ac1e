"""Windows of `ZarrDataset`: those that loops over the array with the package zarr find, in either order."""

from __future__ import annotations

import itertools
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from cases.number_arrays import numbers
from cases.zarr_arrays import write
from checks.equality import assert_same
from sluicegate import BlockShuffleSampler, DataLoader, ZarrDataset

zarr = pytest.importorskip("zarr")

pytestmark = [
    # Warnings of the packages about the future of the format, and about themselves.
    pytest.mark.filterwarnings("ignore:::zarr"),
    pytest.mark.filterwarnings("ignore:::numcodecs"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Windows(torch.utils.data.Dataset[torch.Tensor]):
    """The windows as a user would write them by hand."""

    def __init__(self, values: Any, window: dict[int, int], stride: dict[int, int]) -> None:
        self.values = values
        starts = [range(0, values.shape[axis] - size + 1, stride.get(axis, size)) for axis, size in window.items()]
        self.window, self.starts = window, list(itertools.product(*starts))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> torch.Tensor:
        cut = [slice(None)] * self.values.ndim
        for (axis, size), start in zip(self.window.items(), self.starts[index], strict=True):
            cut[axis] = slice(start, start + size)
        return torch.from_numpy(self.values[tuple(cut)].copy())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write(tmp_path, 3, "a", numbers("f4", (9, 14, 10)), (4, 5, 6), units="K")
    return tmp_path


@pytest.mark.parametrize("stride", [{}, {"time": 1, "x": 2}])
@pytest.mark.parametrize("order", [["time", "y", "x"], ["x", "time", "y"], ["time", "x"], ["y"]])
def test_windows_are_those_of_a_plain_dataset_under_torchs_loader(
    store: Path, stride: dict[str, int], order: list[str]
) -> None:
    sizes, axes = {"time": 3, "y": 4, "x": 5}, {"time": 0, "y": 1, "x": 2}
    stride = {name: number for name, number in stride.items() if name in order}
    ours = ZarrDataset(store, "a", window={name: sizes[name] for name in order}, stride=stride)
    plain = Windows(
        zarr.open_array(store / "a", mode="r")[:],
        {axes[name]: sizes[name] for name in order},
        {axes[name]: number for name, number in stride.items()},
    )
    assert len(ours) == len(plain)
    for shuffle, workers in ((False, 0), (True, 0), (True, 2)):
        batches = []
        for loader, dataset in ((torch.utils.data.DataLoader, plain), (DataLoader, ours)):
            torch.manual_seed(5)
            batches.append(list(loader(dataset, 3, shuffle=shuffle, num_workers=workers)))
        assert_same(batches[1], batches[0])
    assert_same(list(pickle.loads(pickle.dumps(ours))), list(plain))


def test_windows_at_edges_are_dropped_shifted_or_padded(store: Path) -> None:
    values = zarr.open_array(store / "a", mode="r")[:]
    padded = np.zeros((9, 16, 10), np.float32)
    padded[:, :14] = values
    dropped = ZarrDataset(store, "a", window={"y": 4})
    filled = ZarrDataset(store, "a", window={"y": 4}, edges="pad")
    shifted = ZarrDataset(store, "a", window={"y": 4}, edges="shift")
    assert [len(each) for each in (dropped, filled, shifted)] == [3, 4, 4]
    assert_same(list(filled), [torch.from_numpy(padded[:, start : start + 4].copy()) for start in (0, 4, 8, 12)])
    assert_same(list(shifted), [torch.from_numpy(values[:, start : start + 4].copy()) for start in (0, 4, 8, 10)])
    assert_same(
        ZarrDataset(store, "a", window={"y": 20}, edges="pad")[0][:, :14].contiguous(), torch.from_numpy(values)
    )


def test_windows_chunk_by_chunk_are_the_same_windows(store: Path) -> None:
    window, stride = {"time": 2, "y": 2, "x": 3}, {"time": 1, "y": 2, "x": 1}
    rows = ZarrDataset(store, window=window, stride=stride)
    chunks = ZarrDataset(store, window=window, stride=stride, order="chunks")
    assert len(rows) == len(chunks) == int(rows.block_sizes.sum()) == int(chunks.block_sizes.sum())
    assert len(rows.block_sizes) == 2 < len(chunks.block_sizes)
    found = [{each["a"].numpy().tobytes() for each in list(dataset)} for dataset in (rows, chunks)]
    assert found[0] == found[1]
    # All windows of a block begin in one chunk.
    first = chunks[int(chunks.block_sizes[0]) - 1]["a"]
    values = zarr.open_array(store / "a", mode="r")[:]
    assert_same(first, torch.from_numpy(values[3:5, 4:6, 5:8].copy()))


@pytest.mark.parametrize("order", ["rows", "chunks"])
def test_by_blocks_each_chunk_is_decoded_once_in_an_epoch(tmp_path: Path, order: Any) -> None:
    write(tmp_path, 3, "a", numbers("f4", (16, 16, 16)), (4, 8, 8))
    dataset = ZarrDataset(tmp_path, window={"time": 2, "y": 4, "x": 4}, order=order, cache_bytes=8 * 1024 * 3)
    sampler = BlockShuffleSampler(dataset, window=2 if order == "chunks" else 1, seed=3)
    loader = DataLoader(dataset, 8, sampler=sampler)
    windows = [window.numpy().tobytes() for batch in loader for window in batch["a"]]
    assert len(set(windows)) == len(dataset) == 8 * 4 * 4
    assert dataset.cache_info().decoded == 16
    assert dataset.block_size == (8 if order == "chunks" else 32)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_help_the_calling_thread_with_large_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    values = numbers("f4", (8, 512, 512))
    write(tmp_path, 3, "a", values, (4, 256, 256))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    dataset = ZarrDataset(tmp_path, window={"time": 6, "y": 300, "x": 300}, stride={"time": 2, "y": 100, "x": 100})
    (found,) = DataLoader(dataset, len(dataset))
    expected = [
        values[t : t + 6, y : y + 300, x : x + 300] for t in (0, 2) for y in (0, 100, 200) for x in (0, 100, 200)
    ]
    assert_same(found["a"], torch.from_numpy(np.stack(expected)))
    assert dataset.cache_info().decoded == 8
    for damaged in ("c/0/1/1", "c/1/0/0"):
        (tmp_path / "a" / damaged).write_bytes(b"damaged")
    damaged_dataset = ZarrDataset(tmp_path, window={"time": 6, "y": 300, "x": 300})
    with pytest.raises(ValueError, match="c/0/1/1"):
        next(iter(DataLoader(damaged_dataset, 1)))


def test_ids_seeds_and_resume(store: Path) -> None:
    dataset = ZarrDataset(store, window={"time": 3, "y": 4, "x": 5})
    loader = DataLoader(dataset, 2, shuffle=True, seed=3, num_workers=2)
    batches = list(loader.with_ids())
    for batch, ids in batches:
        assert_same(batch["a"], torch.stack([dataset[index]["a"] for index in ids.sample_indices.tolist()]))
    loader = DataLoader(dataset, 2, shuffle=True, seed=3, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    resumed = DataLoader(dataset, 2, shuffle=True, seed=3, num_workers=2)
    resumed.load_state_dict(state)
    assert_same(list(resumed), list(iterator))


def test_the_first_of_a_billion_windows_comes_at_once(tmp_path: Path) -> None:
    zarr.create_array(
        store=tmp_path, shape=(1000, 1000, 1003), chunks=(8, 16, 16), dtype="f4", dimension_names=["time", "y", "x"]
    )
    begin = time.perf_counter()
    dataset = ZarrDataset(
        tmp_path, window=dict.fromkeys(("time", "y", "x"), 4), stride=dict.fromkeys("yx", 1) | {"time": 1}
    )
    first = next(iter(DataLoader(dataset, 1)))
    passed = time.perf_counter() - begin
    assert len(dataset) == 997 * 997 * 1000
    assert first.shape == (1, 4, 4, 4)
    assert passed < 1, "it is 10 ms on a machine that has nothing else to do"


def test_windows_that_do_not_fit_the_arrays_are_named(store: Path, tmp_path: Path) -> None:
    write(store, 3, "b", numbers("f4", (9, 15, 10)), (4, 5, 6))
    write(store, 3, "c", numbers("f4", (14, 10)), (5, 6))
    for arguments, message in (
        ({"window": {"z": 2}}, r"window: expected dimensions of the arrays, which are .*time.*, got \"z\""),
        ({"window": {"time": 10}}, r"window: expected at most 9 for dimension \"time\".*got 10"),
        ({"window": {"time": 0}}, r"window: expected a positive number for dimension \"time\""),
        ({"window": {"time": 3}, "stride": {"y": 1}}, r"stride: expected dimensions of the window.*got \"y\""),
        ({"window": {"y": 3}}, r"fields: expected arrays on the same coordinates, got \"b\" with 15 .* 14 "),
        ({"fields": ["d"]}, r"fields: expected names of arrays.*\[\"a\", \"b\", \"c\"\], got \"d\""),
        ({"fields": ["../a"]}, "fields: expected names of arrays"),
        ({"fields": ["a", "a"]}, "fields: expected each name once"),
        ({"fields": []}, "fields: expected at least one name"),
        ({"fields": ["a", "c"]}, r"fields: expected arrays with one first dimension, \"time\", got \"c\""),
        ({"fields": ["c"], "window": {"time": 3}}, "window: expected dimensions of the arrays"),
        (
            {"fields": ["a", "c"], "window": {"time": 3}},
            r"fields: expected arrays with a dimension of the windows, got \"c\"",
        ),
        ({"edges": "keep"}, "edges: expected one of 'drop', 'pad', 'shift', but got 'keep'"),
        ({"window": {}}, "window: expected the size of a window"),
    ):
        with pytest.raises(ValueError, match=message):
            ZarrDataset(store, **arguments)
    with pytest.raises(TypeError, match="window: expected numbers by dimension"):
        ZarrDataset(store, window=[3])  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        ZarrDataset(tmp_path / "nothing")
    (tmp_path / "store.zip").write_bytes(b"")
    with pytest.raises(ValueError, match=r"path: expected the folder of a Zarr store, .* got the file"):
        ZarrDataset(tmp_path / "store.zip")
