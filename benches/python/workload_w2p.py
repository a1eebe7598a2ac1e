"""W2p: the images of W2 from a Python dataset. Rows of 12 KB of an array in memory, one `__getitem__` each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import throughput
from gather import Gather
from loaders import contender
from protocol import Case, Contender, Epoch, Workload

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 32_768
SHAPE = (3, 64, 64)
BATCH_SIZE = 256
KEPT_BATCHES = 2  # a batch must stay intact while the next one is made

Images = npt.NDArray[np.uint8]


class Photographs:
    """A dataset as users write it: a row of the array as a tensor, without a copy."""

    def __init__(self, images: Images) -> None:
        import torch

        self._images = images
        self._from_numpy = torch.from_numpy

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Tensor:
        return self._from_numpy(self._images[index])


def _open() -> Images:
    """Make random pixels; an image's first 8 bytes hold its index."""
    words = np.random.default_rng(2).integers(0, 2**63, size=(ROWS, int(np.prod(SHAPE)) // 8), dtype=np.int64)
    words[:, 0] = np.arange(ROWS)
    return words.view(np.uint8).reshape(ROWS, *SHAPE)


def _check(source: Images, batch: Any) -> npt.NDArray[np.int64]:
    images = np.asarray(batch)
    assert images.dtype == np.uint8, f"dtype {images.dtype}"
    ids: npt.NDArray[np.int64] = images.reshape(len(images), -1)[:, :8].copy().view(np.int64).ravel()
    assert np.array_equal(images, source[ids]), "pixels differ"
    return ids


def _gather_in_c(images: Images) -> Epoch:
    buffers = [np.zeros((BATCH_SIZE, *SHAPE), np.uint8) for _ in range(KEPT_BATCHES)]
    gathers = [Gather([images], [target], threads=2) for target in buffers]
    generator = np.random.default_rng(0)

    def epoch() -> Iterator[Any]:
        permutation = generator.permutation(ROWS)
        address = permutation.ctypes.data
        for number, begin in enumerate(range(0, ROWS, BATCH_SIZE)):
            count = min(BATCH_SIZE, ROWS - begin)
            which = number % KEPT_BATCHES
            gathers[which](address + 8 * begin, count)
            yield buffers[which][:count]

    return epoch


def _loader(package: str, workers: int, column: str | None = None) -> Contender:
    return contender(package, Photographs, workers, column=column, batch_size=BATCH_SIZE)


WORKLOAD = Workload(
    name="w2p",
    title="W2p: rows of a uint8 array in memory through a Python dataset, batches of 256, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    cases=(
        Case(
            name="rows",
            title="256 images of 3x64x64 from __getitem__",
            open=_open,
            samples=ROWS,
            batch_size=BATCH_SIZE,
            check=_check,
            contenders=(
                _loader("torch", 0, column="torch, 0 workers"),
                _loader("torch", 2, column="torch, 2 workers"),
                Contender("gather in C, 2 threads", _gather_in_c, is_limit=True),
                _loader("sluicegate", 0),
                _loader("sluicegate", 2),
            ),
        ),
    ),
)
