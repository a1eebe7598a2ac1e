"""W12: large samples. NumPy arrays of 3 MB from a Python dataset, batches of 16: the cost of moving them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import throughput
from loaders import contender
from processes import Processes
from protocol import Case, Contender, Epoch, Workload

SAMPLES = 2_048
SHAPE = (1_024, 1_024, 3)
SAMPLE_BYTES = 3 << 20
BATCH_SIZE = 16
# The samples overlap: together they are 134 MB, more than caches hold, and take no time to make.
STRIDE = 128 << 10

Image = npt.NDArray[np.uint8]


class Slices:
    """Sample i starts at byte i * STRIDE of random bytes, and its first 8 bytes are i."""

    def __init__(self) -> None:
        count = (SAMPLE_BYTES + (SAMPLES - 1) * STRIDE) // 8
        words = np.random.default_rng(12).integers(0, 2**63, size=count, dtype=np.int64)
        words[: SAMPLES * (STRIDE // 8) : STRIDE // 8] = np.arange(SAMPLES)
        self._bytes = words.view(np.uint8)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Image:
        begin = index * STRIDE
        return self._bytes[begin : begin + SAMPLE_BYTES].reshape(SHAPE)


def _check(source: Slices, batch: Any) -> npt.NDArray[np.int64]:
    if isinstance(batch, range):  # the limit delivers no data
        return np.arange(batch.start, batch.stop)
    images = np.asarray(batch)
    assert images.dtype == np.uint8, f"dtype {images.dtype}"
    ids: npt.NDArray[np.int64] = images.reshape(len(images), -1)[:, :8].copy().view(np.int64).ravel()
    assert all(np.array_equal(image, source[int(i)]) for image, i in zip(images, ids, strict=True)), "bytes differ"
    return ids


def _copy(source: Slices) -> Epoch:
    """Every process copies its samples into one batch, which it reuses."""
    buffers: list[Image] = []  # each process makes its own buffer, on first use after the fork

    def work(indices: range) -> None:
        if not buffers:
            buffers.append(np.zeros((BATCH_SIZE, *SHAPE), np.uint8))
        for row, index in zip(buffers[0], indices, strict=False):
            np.copyto(row, source[index])

    processes = Processes(2, work)
    return lambda: processes.epoch(SAMPLES, BATCH_SIZE)


def _loader(package: str, column: str | None = None) -> Contender:
    return contender(package, lambda source: source, 2, column=column, batch_size=BATCH_SIZE)


WORKLOAD = Workload(
    name="w12",
    title="W12: NumPy samples of 3 MB, batches of 16, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    cases=(
        Case(
            name="arrays",
            title="16 arrays of 1024x1024x3 bytes",
            open=Slices,
            samples=SAMPLES,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=(
                _loader("torch", column="torch"),
                Contender("memcpy into a reused batch, 2 processes", _copy, is_limit=True),
                _loader("sluicegate"),
            ),
        ),
    ),
)
