"""The datasets of W10. As in users' files, their base class is torch's, so unpickling them imports torch."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

BLOB_BYTES = 1_000


class Rows(Dataset[tuple[npt.NDArray[np.float32], int]]):
    """Cheap samples of 8 floats and an index."""

    def __init__(self, count: int) -> None:
        self._rows = np.random.default_rng(10).random((count, 8), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.float32], int]:
        return self._rows[index], index


class Blobs(Dataset[tuple[npt.NDArray[np.uint8], int]]):
    """`count` bytes objects of 1 KB each: much to pickle, unless workers inherit it."""

    def __init__(self, count: int) -> None:
        generator = random.Random(10)
        self._blobs = [generator.randbytes(BLOB_BYTES) for _ in range(count)]

    def __len__(self) -> int:
        return len(self._blobs)

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.uint8], int]:
        # Copied, because torch warns about arrays that can't be written to.
        return np.frombuffer(self._blobs[index], np.uint8).copy(), index
