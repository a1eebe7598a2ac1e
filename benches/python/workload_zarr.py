"""Windows of a chunked array in Zarr: 24x64x64 over chunks of 24x128x128 in zstd, shuffled, with two workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import throughput
from loaders import IMPORTS, data_loader, present
from machine import CACHE
from protocol import Case, Contender, Epoch, Workload

SHAPE = (240, 1024, 1024)
CHUNKS = (24, 128, 128)
WINDOW = {"time": 24, "y": 64, "x": 64}
BATCH_SIZE = 8
WORKERS = 2

_FOLDER = CACHE / "zarr"


def _open() -> Any:
    """Make the store once, about 1 GB of smooth numbers with noise; return it."""
    import zarr

    if not _FOLDER.exists():
        part = _FOLDER.with_name("zarr.part")
        array = zarr.open_group(part, mode="w").create_array(
            "t",
            shape=SHAPE,
            chunks=CHUNKS,
            dtype="float32",
            compressors=zarr.codecs.ZstdCodec(level=3),
            dimension_names=["time", "y", "x"],
        )
        generator = np.random.default_rng(0)
        y, x = np.mgrid[: SHAPE[1], : SHAPE[2]].astype(np.float32)
        for start in range(0, SHAPE[0], CHUNKS[0]):
            hours = np.arange(start, start + CHUNKS[0], dtype=np.float32)[:, None, None]
            field = 280 + 10 * np.sin(y / 90 + hours / 12) * np.cos(x / 120 - hours / 24)
            values = np.round(field + generator.normal(0, 0.1, field.shape), 1).astype(np.float32)
            # The first number of each window is its own, by which a batch is recognized.
            first = _starts().index((start, 0, 0))
            corners = values[0, :: WINDOW["y"], :: WINDOW["x"]]
            corners[...] = np.arange(first, first + corners.size).reshape(corners.shape)
            array[start : start + CHUNKS[0]] = values
        part.rename(_FOLDER)
    return zarr.open_array(_FOLDER / "t", mode="r")


def _starts() -> list[tuple[int, int, int]]:
    steps = [range(0, size - window + 1, window) for size, window in zip(SHAPE, WINDOW.values(), strict=True)]
    return [(time, y, x) for time in steps[0] for y in steps[1] for x in steps[2]]


class _ByHand:
    """What one writes with the package zarr."""

    def __init__(self) -> None:
        self.array: Any = None
        self.starts = _starts()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Any:
        import torch
        import zarr

        if self.array is None:
            self.array = zarr.open_array(_FOLDER / "t", mode="r")
        cut = tuple(slice(start, start + size) for start, size in zip(self.starts[index], WINDOW.values(), strict=True))
        return torch.from_numpy(np.asarray(self.array[cut]))


class _Xbatcher:
    """xbatcher's generator as a dataset of torch's: its `MapDataset`, with tensors."""

    def __init__(self) -> None:
        import xarray
        import xbatcher

        opened = xarray.open_zarr(_FOLDER, consolidated=False, chunks=None)["t"]
        self.generator = xbatcher.BatchGenerator(opened, WINDOW, preload_batch=False)

    def __len__(self) -> int:
        return len(self.generator)

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.from_numpy(self.generator[index].values)


def _by_blocks(_: Any) -> Epoch:
    from sluicegate import BlockShuffleSampler, ZarrDataset

    dataset = ZarrDataset(_FOLDER, "t", window=WINDOW, order="chunks")
    sampler = BlockShuffleSampler(dataset, window=32)
    return lambda: iter(data_loader("sluicegate", dataset, batch_size=BATCH_SIZE, sampler=sampler, num_workers=WORKERS))


def _shuffled(_: Any) -> Epoch:
    from sluicegate import ZarrDataset

    dataset = ZarrDataset(_FOLDER, "t", window=WINDOW)
    return lambda: iter(data_loader("sluicegate", dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=WORKERS))


def _torch(dataset: type) -> Any:
    options = {"shuffle": True, "num_workers": WORKERS, "multiprocessing_context": "spawn"}
    return lambda _: lambda: iter(data_loader("torch", dataset(), batch_size=BATCH_SIZE, **options))


def _check(batch: Any, opened: Any) -> npt.NDArray[np.int64]:
    windows, starts = np.asarray(batch), _starts()
    indices = windows[:, 0, 0, 0].astype(np.int64)
    for window, index in zip(windows, indices, strict=True):
        cut = tuple(slice(start, start + size) for start, size in zip(starts[index], WINDOW.values(), strict=True))
        assert np.array_equal(window, opened[cut]), f"window {index} is another one"
    return indices


WORKLOAD = Workload(
    name="zarr",
    title="Zarr: windows of 24x64x64 over chunks of 24x128x128 in zstd, batches of 8, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=lambda: (_open(), None)[1],
    cases=(
        Case(
            name="zarr",
            title="1 GB of float32, page cache warm",
            open=_open,
            samples=len(_starts()),
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=present(
                Contender(
                    "xbatcher under torch, 2 workers", _torch(_Xbatcher), (*IMPORTS["torch"], "xarray", "xbatcher")
                ),
                Contender("by hand with zarr under torch, 2 workers", _torch(_ByHand), (*IMPORTS["torch"], "zarr")),
                Contender("sluicegate, 2 threads", _shuffled, IMPORTS["sluicegate"]),
                Contender("sluicegate, 2 threads, by blocks", _by_blocks, IMPORTS["sluicegate"]),
            ),
        ),
    ),
)
