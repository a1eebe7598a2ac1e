"""A field whose windows can be recognized, for the formats of arrays in chunks: 1 GB, or FIELD_GB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# In multiples of 0.1, for each of which 24 hours are stored.
GIGABYTES = float(os.environ.get("FIELD_GB", "1"))
SHAPE = (24 * max(1, round(10 * GIGABYTES)), 1024, 1024)
TITLE = f"{GIGABYTES:g} GB of float32, page cache warm"
CHUNKS = (24, 128, 128)
WINDOW = {"time": 24, "y": 64, "x": 64}
BATCH_SIZE = 8
WORKERS = 2


def place(path: Path) -> Path:
    """Return the path of a field of this size, given the path of one of 1 GB."""
    return path if GIGABYTES == 1 else path.with_name(f"{GIGABYTES:g}_{path.name}")


def starts() -> list[tuple[int, int, int]]:
    """Return the starts of all windows, by number."""
    steps = [range(0, size - window + 1, window) for size, window in zip(SHAPE, WINDOW.values(), strict=True)]
    return [(time, y, x) for time in steps[0] for y in steps[1] for x in steps[2]]


def cut(start: tuple[int, int, int]) -> tuple[slice, ...]:
    """Return the window that starts at `start` as an index into the field."""
    return tuple(slice(first, first + size) for first, size in zip(start, WINDOW.values(), strict=True))


class ByHand:
    """The dataset that users write with a format's package: it opens the field in the worker."""

    def __init__(self, open_field: Callable[[], Any]) -> None:
        self.open_field = open_field
        self.field: Any = None
        self.starts = starts()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> Any:
        import torch

        if self.field is None:
            self.field = self.open_field()
        return torch.from_numpy(np.asarray(self.field[cut(self.starts[index])]))


def slabs() -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Yield the first row and the values of each slab of chunks: smooth numbers with noise."""
    generator, all_starts = np.random.default_rng(0), starts()
    y, x = np.mgrid[: SHAPE[1], : SHAPE[2]].astype(np.float32)
    for start in range(0, SHAPE[0], CHUNKS[0]):
        hours = np.arange(start, start + CHUNKS[0], dtype=np.float32)[:, None, None]
        field = 280 + 10 * np.sin(y / 90 + hours / 12) * np.cos(x / 120 - hours / 24)
        values = np.round(field + generator.normal(0, 0.1, field.shape), 1).astype(np.float32)
        # The first value of each window is its number, which identifies it in a batch.
        first = all_starts.index((start, 0, 0))
        corners = values[0, :: WINDOW["y"], :: WINDOW["x"]]
        corners[...] = np.arange(first, first + corners.size).reshape(corners.shape)
        yield start, values


def check(stored: Any, batch: Any) -> npt.NDArray[np.int64]:
    """Assert that `batch` has windows of `stored`, and return their numbers."""
    windows, all_starts = np.asarray(batch), starts()
    indices = windows[:, 0, 0, 0].astype(np.int64)
    for window, index in zip(windows, indices, strict=True):
        assert np.array_equal(window, stored[cut(all_starts[index])]), f"window {index} is another one"
    return indices
