"""Windows of a chunked array in Zarr: 24x64x64 over chunks of 24x128x128 in zstd, shuffled, with two workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import throughput
from chunked_contenders import BySlab, ByWorker, decoding_alone, tensorstore_and_grain
from chunked_field import BATCH_SIZE, CHUNKS, SHAPE, TITLE, WINDOW, WORKERS, ByHand, check, place, slabs, starts
from loaders import IMPORTS, data_loader, present
from machine import CACHE
from protocol import Case, Contender, Epoch, Workload

FOLDER = place(CACHE / "zarr")
# A loader of time slices delivers nothing until its first slice is read.
_CUT = 20.0


def _open() -> Any:
    """Make the store once, of smooth numbers with noise; return it."""
    import zarr
    import zarr.codecs

    if not FOLDER.exists():
        part = FOLDER.with_name(f"{FOLDER.name}.part")
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
        part.rename(FOLDER)
    return zarr.open_array(FOLDER / "t", mode="r")


def _open_field() -> Any:
    import zarr

    return zarr.open_array(FOLDER / "t", mode="r")


def _by_hand() -> ByHand:
    return ByHand(_open_field)


def _by_worker() -> ByWorker:
    return ByWorker(_open_field)


def _by_slab() -> BySlab:
    return BySlab(_open_field)


class _Xbatcher:
    """xbatcher's generator as torch's dataset: its `MapDataset`, with tensors."""

    def __init__(self) -> None:
        import xarray
        import xbatcher

        opened = xarray.open_zarr(FOLDER, consolidated=False, chunks=None)["t"]
        self.generator = xbatcher.BatchGenerator(opened, WINDOW, preload_batch=False)

    def __len__(self) -> int:
        return len(self.generator)

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.from_numpy(self.generator[index].values)


def _by_blocks(_: Any) -> Epoch:
    from sluicegate import BlockShuffleSampler, ZarrDataset

    dataset = ZarrDataset(FOLDER, "t", window=WINDOW, order="chunks")
    sampler = BlockShuffleSampler(dataset, window=32)
    return lambda: iter(data_loader("sluicegate", dataset, batch_size=BATCH_SIZE, sampler=sampler, num_workers=WORKERS))


def _shuffled(_: Any) -> Epoch:
    from sluicegate import ZarrDataset

    dataset = ZarrDataset(FOLDER, "t", window=WINDOW)
    return lambda: iter(data_loader("sluicegate", dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=WORKERS))


def _torch(dataset: Callable[[], Any], *, shuffle: bool = True) -> Any:
    """Return epochs of torch's loader with persistent workers, because they are slow to spawn."""

    def epoch(_: Any) -> Epoch:
        options = {"multiprocessing_context": "spawn", "persistent_workers": True}
        loader = data_loader("torch", dataset(), batch_size=BATCH_SIZE, shuffle=shuffle, num_workers=WORKERS, **options)
        return lambda: iter(loader)

    return epoch


WORKLOAD = Workload(
    name="zarr",
    title="Zarr: windows of 24x64x64 over chunks of 24x128x128 in zstd, batches of 8, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=lambda: (_open(), None)[1],
    cases=(
        Case(
            name="zarr",
            title=f"{TITLE}, epochs cut after {_CUT:g} s",
            cut=_CUT,
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
                    column="by hand",
                ),
                Contender(
                    "by hand with zarr, as anemoi reads, 2 workers",
                    _torch(_by_worker, shuffle=False),
                    (*IMPORTS["torch"], "zarr"),
                ),
                Contender(
                    "by hand with zarr, slices of time, 2 workers",
                    _torch(_by_slab, shuffle=False),
                    (*IMPORTS["torch"], "zarr"),
                ),
                Contender(
                    "TensorStore + Grain, 4 threads",
                    lambda _: tensorstore_and_grain(FOLDER / "t"),
                    (*IMPORTS["grain"], "tensorstore"),
                ),
                Contender(
                    "decoding alone, 2 threads",
                    lambda _: decoding_alone(FOLDER / "t"),
                    ("numcodecs",),
                    is_limit=True,
                ),
                Contender("sluicegate, 2 threads", _shuffled, IMPORTS["sluicegate"]),
                Contender("sluicegate, 2 threads, by blocks", _by_blocks, IMPORTS["sluicegate"]),
            ),
        ),
    ),
)
