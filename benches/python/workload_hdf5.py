"""Windows of a chunked array in HDF5: 24x64x64 over chunks of 24x128x128 in deflate with shuffle."""

from __future__ import annotations

from typing import Any

import throughput
from chunked_field import BATCH_SIZE, CHUNKS, SHAPE, TITLE, WINDOW, WORKERS, ByHand, check, place, slabs, starts
from loaders import IMPORTS, data_loader, present
from machine import CACHE
from protocol import Case, Contender, Epoch, Workload

FILE = place(CACHE / "field.h5")


def _open() -> Any:
    """Make the file once, of smooth numbers with noise, and return its array."""
    import h5py

    if not FILE.exists():
        part = FILE.with_name(f"{FILE.name}.part")
        with h5py.File(part, "w") as file:
            options = {"chunks": CHUNKS, "compression": "gzip", "shuffle": True}
            array = file.create_dataset("t", SHAPE, "<f4", **options)
            for axis, name in enumerate(WINDOW):
                array.dims[axis].label = name
            for start, values in slabs():
                array[start : start + CHUNKS[0]] = values
        part.rename(FILE)
    return h5py.File(FILE)["t"]


def _open_field() -> Any:
    import h5py

    return h5py.File(FILE)["t"]


def _torch(workers: int) -> Any:
    options = {"shuffle": True, "num_workers": workers}
    return lambda _: lambda: iter(data_loader("torch", ByHand(_open_field), batch_size=BATCH_SIZE, **options))


def _shuffled(threads: int) -> Any:
    def epoch(_: Any) -> Epoch:
        from sluicegate import Hdf5Dataset

        dataset = Hdf5Dataset(FILE, "t", window=WINDOW)
        return lambda: iter(
            data_loader("sluicegate", dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=threads)
        )

    return epoch


def _by_blocks(_: Any) -> Epoch:
    from sluicegate import BlockShuffleSampler, Hdf5Dataset

    dataset = Hdf5Dataset(FILE, "t", window=WINDOW, order="chunks")
    sampler = BlockShuffleSampler(dataset, window=32)
    return lambda: iter(data_loader("sluicegate", dataset, batch_size=BATCH_SIZE, sampler=sampler, num_workers=WORKERS))


WORKLOAD = Workload(
    name="hdf5",
    title="HDF5: windows of 24x64x64 over chunks of 24x128x128 in deflate with shuffle, batches of 8, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=lambda: (_open(), None)[1],
    cases=(
        Case(
            name="hdf5",
            title=TITLE,
            open=_open,
            samples=len(starts()),
            batch_size=BATCH_SIZE,
            check=check,
            contenders=present(
                Contender("by hand with h5py, no workers", _torch(0), (*IMPORTS["torch"], "h5py")),
                Contender("by hand with h5py, 2 workers", _torch(WORKERS), (*IMPORTS["torch"], "h5py")),
                Contender("sluicegate, 1 thread", _shuffled(1), IMPORTS["sluicegate"]),
                Contender("sluicegate, 2 threads", _shuffled(WORKERS), IMPORTS["sluicegate"]),
                Contender("sluicegate, 2 threads, by blocks", _by_blocks, IMPORTS["sluicegate"]),
            ),
        ),
    ),
)
