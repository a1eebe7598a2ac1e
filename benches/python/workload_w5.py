"""W5: Python samples. 200 µs of Python with a small result, and 5 µs of NumPy with one of 4 KB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import throughput
from loaders import contender
from machine import CACHE
from processes import Processes
from protocol import Case, Contender, Epoch, Workload

BATCH_SIZE = 64
PYTHON_SAMPLES = 12_800
PYTHON_SECONDS = 200e-6
NUMPY_SAMPLES = 51_200
POOL = 1_024
PIXELS = 1_024

# One calibration for all turns, so that all of them do the same work.
_STEPS_FILE = CACHE / "w5-steps.txt"
_CALIBRATED_STEPS = 5_000


def _burn(steps: int) -> int:
    total = 0
    for step in range(steps):
        total = (total * 31 + step) & 0xFFFF
    return total


def _prepare() -> None:
    """Measure how many steps take 200 µs; the fastest of many attempts is the least disturbed."""
    fastest = float("inf")
    for _ in range(100):
        begin = time.perf_counter()
        _burn(_CALIBRATED_STEPS)
        fastest = min(fastest, time.perf_counter() - begin)
    CACHE.mkdir(parents=True, exist_ok=True)
    _STEPS_FILE.write_text(str(round(_CALIBRATED_STEPS * PYTHON_SECONDS / fastest)))


class Computed:
    """200 µs of Python, which never releases the GIL, for 8 floats and the sample's index."""

    def __init__(self) -> None:
        self._steps = int(_STEPS_FILE.read_text())
        self._rows = np.random.default_rng(5).random((PYTHON_SAMPLES, 8), dtype=np.float32)

    def __len__(self) -> int:
        return PYTHON_SAMPLES

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.float32], int]:
        _burn(self._steps)
        return self.result(index)

    def result(self, index: int) -> tuple[npt.NDArray[np.float32], int]:
        """Return the sample, without the work."""
        return self._rows[index], index


class Normalized:
    """A few NumPy calls, about 5 µs, for 1,024 floats from a pool of bytes, and the sample's index."""

    def __init__(self) -> None:
        self._pool = np.random.default_rng(5).integers(0, 256, size=(POOL, PIXELS), dtype=np.uint8)

    def __len__(self) -> int:
        return NUMPY_SAMPLES

    def __getitem__(self, index: int) -> tuple[npt.NDArray[np.float32], int]:
        row = self._pool[index % POOL].astype(np.float32)
        row /= np.float32(255)
        row -= np.float32(0.5)
        row *= np.float32(index + 1)
        return row, index

    result = __getitem__


Source = Computed | Normalized


def _check(source: Source, batch: Any) -> npt.NDArray[np.int64]:
    if isinstance(batch, range):  # the bare function delivers no data
        return np.arange(batch.start, batch.stop)
    rows, ids = (np.asarray(part) for part in batch)
    dtypes = f"{rows.dtype}, {ids.dtype}"
    assert dtypes == "float32, int64", f"dtypes {dtypes}"
    expected = np.stack([source.result(int(i))[0] for i in ids])
    assert np.array_equal(rows, expected), "values that are not those of the index"
    return ids.astype(np.int64)


def _call(source: Source, indices: range) -> None:
    for index in indices:
        source[index]


def _bare(source: Source) -> Epoch:
    def epoch() -> Iterator[range]:
        for begin in range(0, len(source), BATCH_SIZE):
            indices = range(begin, min(begin + BATCH_SIZE, len(source)))
            _call(source, indices)
            yield indices

    return epoch


def _bare_on_two(source: Source) -> Epoch:
    processes = Processes(2, lambda indices: _call(source, indices))
    return lambda: processes.epoch(len(source), BATCH_SIZE)


def _loader(package: str, workers: int, **arguments: Any) -> Contender:
    return contender(package, lambda source: source, workers, batch_size=BATCH_SIZE, **arguments)


def _case(name: str, title: str, source: Callable[[], Source], samples: int, *contenders: Contender) -> Case:
    return Case(name, title, contenders, open=source, samples=samples, batch_size=BATCH_SIZE, check=_check)


WORKLOAD = Workload(
    name="w5",
    title="W5: samples that Python makes, batches of 64, shuffled",
    measure=throughput.measure,
    tables=throughput.tables,
    prepare=_prepare,
    cases=(
        _case(
            "python",
            "W5a: 200 µs of pure Python, 8 floats",
            Computed,
            PYTHON_SAMPLES,
            _loader("torch", 2, column="torch"),
            Contender("the bare function, 2 processes", _bare_on_two, is_limit=True),
            _loader("sluicegate", 2),
            _loader("sluicegate", 2, note=" (threads)", worker_type="thread"),
        ),
        _case(
            "numpy",
            "W5b: 5 µs of NumPy, 1,024 floats",
            Normalized,
            NUMPY_SAMPLES,
            _loader("torch", 0, column="torch, 0 workers"),
            _loader("torch", 2, column="torch, 2 workers"),
            Contender("the bare function, 1 process", _bare, column="1 process", is_limit=True),
            Contender("the bare function, 2 processes", _bare_on_two, is_limit=True),
            _loader("sluicegate", 0),
            _loader("sluicegate", 2),
        ),
    ),
)
