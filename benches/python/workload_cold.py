"""Files that are not in memory: the share of the disk's rate that remains when samples are read out of order."""

from __future__ import annotations

import importlib.util
import itertools
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import figures
import workload_w6
import workload_w7
from loaders import IMPORTS
from machine import CACHE
from protocol import Case, Contender, Metrics, Workload

BATCH_SIZE = 64
BATCHES = 250
ROWS = 81_380
ROW_BYTES = 12_288

_ARRAY = CACHE / "cold" / "rows.npy"


def _prepare() -> None:
    workload_w6.WORKLOAD.prepare()
    workload_w7.WORKLOAD.prepare()
    if not _ARRAY.exists():
        _ARRAY.parent.mkdir(parents=True, exist_ok=True)
        unfinished = _ARRAY.with_suffix(".unfinished.npy")
        np.save(unfinished, np.random.default_rng(0).integers(0, 256, (ROWS, ROW_BYTES), np.uint8))
        unfinished.rename(_ARRAY)
    # Pages that are not written yet can't be evicted.
    os.sync()


def _evict(paths: Iterable[Path]) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _read(paths: list[Path], sample_bytes: int, make: Callable[[], Iterable[Any]]) -> Metrics:
    """Read some batches of a loader whose files were evicted before it mapped any of them."""
    _evict(paths)
    batches = make()
    begin = time.perf_counter()
    samples = sum(1 for _batch in itertools.islice(batches, BATCHES)) * BATCH_SIZE
    return {"MB/s": samples * sample_bytes / 1e6 / (time.perf_counter() - begin)}


def _rows_by_torch(workers: int) -> Metrics:
    import torch.utils.data

    class Rows(torch.utils.data.Dataset[Any]):
        def __init__(self) -> None:
            self.rows = np.load(_ARRAY, mmap_mode="r")

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, index: int) -> Any:
            return self.rows[index].copy()

    def make() -> Iterable[Any]:
        return torch.utils.data.DataLoader(Rows(), batch_size=BATCH_SIZE, shuffle=True, num_workers=workers)

    return _read([_ARRAY], ROW_BYTES, make)


def _rows() -> Metrics:
    from sluicegate import DataLoader, NpyDataset

    return _read(
        [_ARRAY], ROW_BYTES, lambda: DataLoader(NpyDataset(_ARRAY), batch_size=BATCH_SIZE, shuffle=True, seed=1)
    )


def _archives_by_webdataset() -> Metrics:
    import webdataset

    paths = workload_w6.paths()

    def make() -> Iterable[Any]:
        dataset = webdataset.WebDataset(paths, shardshuffle=len(paths), empty_check=False)
        batches: Iterable[Any] = dataset.shuffle(workload_w6.WINDOW).batched(BATCH_SIZE, collation_fn=list)
        return batches

    return _read([Path(path) for path in paths], workload_w6.IMAGE_BYTES, make)


def _archives(by_blocks: bool) -> Metrics:
    from sluicegate import BlockShuffleSampler, DataLoader, TarDataset

    paths = workload_w6.paths()
    TarDataset(paths, {"jpg": "bytes"})  # creates the index

    def make() -> Iterable[Any]:
        dataset = TarDataset(paths, {"jpg": "bytes", "json": "bytes"})
        if not by_blocks:
            return DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True, seed=1)
        block = workload_w6.BLOCK
        sampler = BlockShuffleSampler(dataset, block=block, window=workload_w6.WINDOW // block, seed=1)
        return DataLoader(dataset, batch_size=BATCH_SIZE, sampler=sampler)

    return _read([Path(path) for path in paths], workload_w6.IMAGE_BYTES, make)


def _table(make: Callable[[], Iterable[Any]]) -> Metrics:
    """Read W7's table to its end."""
    size = os.path.getsize(workload_w7.PATH)
    _evict([workload_w7.PATH])
    begin, cpu = time.perf_counter(), time.process_time()
    batches = iter(make())
    next(batches)
    first = time.perf_counter() - begin
    for _batch in batches:
        pass
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return {
        "MB/s": size / 1e6 / seconds,
        "first batch, ms": first * 1e3,
        "CPU µs/row": cpu * 1e6 / workload_w7.ROWS,
    }


def _table_by_hand() -> Metrics:
    import pyarrow.parquet

    def make() -> Iterable[Any]:
        file = pyarrow.parquet.ParquetFile(workload_w7.PATH)
        return map(workload_w7.as_batch, file.iter_batches(workload_w7.BATCH_SIZE, use_threads=False))

    return _table(make)


def _table_of_ours(by_blocks: bool, workers: int) -> Metrics:
    from sluicegate import BlockShuffleSampler, DataLoader, ParquetDataset

    def make() -> Iterable[Any]:
        dataset = ParquetDataset(workload_w7.PATH, strings="bytes", cache_bytes=64 << 20)
        sampler = BlockShuffleSampler(dataset, window=workload_w7.WINDOW, seed=7) if by_blocks else None
        return DataLoader(dataset, batch_size=workload_w7.BATCH_SIZE, sampler=sampler, num_workers=workers)

    return _table(make)


_WEBDATASET = [
    Contender("WebDataset, a buffer of 5,000", lambda _: _archives_by_webdataset(), ("webdataset",), "WebDataset"),
] * (importlib.util.find_spec("webdataset") is not None)

WORKLOAD = Workload(
    name="cold",
    title=f"Cold: {BATCHES} batches of {BATCH_SIZE} from files that are not in memory",
    measure=figures.measure,
    tables=figures.tables,
    prepare=_prepare,
    cases=(
        Case(
            "rows",
            "rows of 12 KB out of an .npy file, shuffled",
            (
                Contender(
                    "torch over a memmap, 0 workers", lambda _: _rows_by_torch(0), IMPORTS["torch"], "torch, 0 workers"
                ),
                Contender("torch over a memmap, 2 workers", lambda _: _rows_by_torch(2), IMPORTS["torch"]),
                Contender("sluicegate", lambda _: _rows(), IMPORTS["sluicegate"]),
            ),
        ),
        Case(
            "tar",
            "W6's archives of samples of 10 KB",
            (
                *_WEBDATASET,
                Contender(
                    "sluicegate, shuffled over 5,000 by blocks", lambda _: _archives(True), IMPORTS["sluicegate"]
                ),
                Contender("sluicegate, shuffled over everything", lambda _: _archives(False), IMPORTS["sluicegate"]),
            ),
        ),
        Case(
            "parquet",
            "W7's table, all of it, in batches of 1,024",
            (
                Contender(
                    "pyarrow by hand",
                    lambda _: _table_by_hand(),
                    (*IMPORTS["torch"], "pyarrow", "pyarrow.parquet"),
                    "pyarrow by hand",
                ),
                Contender("sluicegate, in order", lambda _: _table_of_ours(False, 0), IMPORTS["sluicegate"]),
                Contender("sluicegate, by blocks", lambda _: _table_of_ours(True, 0), IMPORTS["sluicegate"]),
                Contender("sluicegate, in order, 2 threads", lambda _: _table_of_ours(False, 2), IMPORTS["sluicegate"]),
                Contender("sluicegate, by blocks, 2 threads", lambda _: _table_of_ours(True, 2), IMPORTS["sluicegate"]),
            ),
        ),
    ),
)
