"""Other readers of the windows of a field in Zarr: loops of weather models, TensorStore with Grain, and a limit."""

from __future__ import annotations

import collections
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset, get_worker_info

from chunked_field import BATCH_SIZE, CHUNKS, SHAPE, WINDOW, WORKERS, cut, starts
from protocol import Epoch

# The size of sluicegate's cache.
_CACHE_BYTES = 256 << 20
# The number of chunks decoded in advance, and of the buffers for them.
_AHEAD = 8


class ByWorker(IterableDataset[Any]):
    """As in anemoi-training: each worker has a part of the windows, shuffles it, and reads one window after another."""

    def __init__(self, open_field: Callable[[], Any]) -> None:
        self.open_field = open_field

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the windows of this worker."""
        import torch

        worker, field, windows = get_worker_info(), self.open_field(), starts()
        assert worker is not None
        own = windows[worker.id * len(windows) // worker.num_workers : (worker.id + 1) * len(windows) // WORKERS]
        random.shuffle(own)
        for start in own:
            yield torch.from_numpy(np.asarray(field[cut(start)]))


class BySlab(IterableDataset[Any]):
    """As in scripts for WeatherBench: a slice of time is loaded as a whole, and its windows are shuffled."""

    def __init__(self, open_field: Callable[[], Any]) -> None:
        self.open_field = open_field

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the windows of this worker's slices."""
        import torch

        worker, field = get_worker_info(), self.open_field()
        assert worker is not None
        times = list(range(0, SHAPE[0], WINDOW["time"]))[worker.id :: worker.num_workers]
        random.shuffle(times)
        for time in times:
            slab = np.asarray(field[time : time + WINDOW["time"]])
            own = [start for start in starts() if start[0] == time]
            random.shuffle(own)
            for start in own:
                place = (slice(None), *cut(start)[1:])
                yield torch.from_numpy(slab[place].copy())


def tensorstore_and_grain(folder: Path) -> Epoch:
    """Return epochs of TensorStore's windows, read ahead and batched by Grain on threads."""
    import grain.python as grain
    import tensorstore

    store = tensorstore.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder)}},
        context=tensorstore.Context({"cache_pool": {"total_bytes_limit": _CACHE_BYTES}}),
        recheck_cached_data=False,
        read=True,
    ).result()

    class Windows:
        """A source of the windows by number."""

        def __init__(self) -> None:
            self.starts = starts()

        def __len__(self) -> int:
            return len(self.starts)

        def __getitem__(self, index: int) -> npt.NDArray[np.float32]:
            return np.asarray(store[cut(self.starts[int(index)])].read().result())

    options = grain.ReadOptions(num_threads=2 * WORKERS, prefetch_buffer_size=2 * BATCH_SIZE)
    dataset = grain.MapDataset.source(Windows()).shuffle(seed=0).to_iter_dataset(options).batch(BATCH_SIZE)
    return lambda: iter(dataset)


class _Decoded:
    """The windows of decoded chunks, which are copied only to be compared."""

    def __init__(self, chunks: list[npt.NDArray[np.float32]]) -> None:
        self.chunks = chunks

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.float32]:
        y, x = range(0, CHUNKS[1], WINDOW["y"]), range(0, CHUNKS[2], WINDOW["x"])
        return np.stack(
            [
                chunk[:, first : first + WINDOW["y"], second : second + WINDOW["x"]]
                for chunk in self.chunks
                for first in y
                for second in x
            ]
        )


def decoding_alone(folder: Path) -> Epoch:
    """Return epochs that read each chunk once and decode it into a reused buffer, on threads."""
    from numcodecs import Zstd

    grid = [range(size // chunk) for size, chunk in zip(SHAPE, CHUNKS, strict=True)]
    files = [str(folder / "c" / f"{t}/{y}/{x}") for t in grid[0] for y in grid[1] for x in grid[2]]
    per_batch = BATCH_SIZE * WINDOW["y"] * WINDOW["x"] // (CHUNKS[1] * CHUNKS[2])
    local, buffers = threading.local(), [np.empty(CHUNKS, np.float32) for _ in range(_AHEAD + per_batch)]

    def decode(file: str, buffer: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if not hasattr(local, "codec"):
            local.codec = Zstd()
        with open(file, "rb") as opened:
            local.codec.decode(opened.read(), out=buffer)
        return buffer

    pool = ThreadPoolExecutor(WORKERS)

    def epoch() -> Iterator[_Decoded]:
        pending: collections.deque[Future[npt.NDArray[np.float32]]] = collections.deque()
        for number, file in enumerate(files):
            pending.append(pool.submit(decode, file, buffers[number % len(buffers)]))
            if len(pending) == _AHEAD:
                yield _Decoded([pending.popleft().result() for _ in range(per_batch)])
        while pending:
            yield _Decoded([pending.popleft().result() for _ in range(per_batch)])

    return epoch
