"""Windows of a chunked array in Zarr: 24x64x64 over chunks of 24x128x128 in zstd, shuffled, with two workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import throughput
from chunked_field import BATCH_SIZE, CHUNKS, SHAPE, WINDOW, WORKERS, ByHand, check, slabs, starts
from loaders import IMPORTS, data_loader, present
from machine import CACHE
from protocol import Case, Contender, Epoch, Workload

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
        for start, values in slabs():
            array[start : start + CHUNKS[0]] = values
        part.rename(_FOLDER)
    return zarr.open_array(_FOLDER / "t", mode="r")


def _open_field() -> Any:
    import zarr

    return zarr.open_array(_FOLDER / "t", mode="r")


def _by_hand() -> ByHand:
    return ByHand(_open_field)


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


def _torch(dataset: Callable[[], Any]) -> Any:
    options = {"shuffle": True, "num_workers": WORKERS, "multiprocessing_context": "spawn"}
    return lambda _: lambda: iter(data_loader("torch", dataset(), batch_size=BATCH_SIZE, **options))


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
            samples=len(starts()),
            batch_size=BATCH_SIZE,
            check=check,
            contenders=present(
                Contender(
                    "xbatcher under torch, 2 workers", _torch(_Xbatcher), (*IMPORTS["torch"], "xarray", "xbatcher")
                ),
                Contender(
                    "by hand with zarr under torch, 2 workers",
                    _torch(_by_hand),
                    (*IMPORTS["torch"], "zarr"),
                ),
                Contender("sluicegate, 2 threads", _shuffled, IMPORTS["sluicegate"]),
                Contender("sluicegate, 2 threads, by blocks", _by_blocks, IMPORTS["sluicegate"]),
            ),
        ),
    ),
)
