"""W11: memory of forked workers. The dataset is a list of small dicts; reading them copies their pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import figures
import machine
from loaders import IMPORTS, data_loader
from protocol import Case, Contender, Metrics, Turn, Workload

ROWS = 2_000_000
BATCH_SIZE = 1_024
WORKERS = 2
START = 2 * WORKERS  # batches after which every worker has delivered
STEP = 104_729  # a prime


class Labels:
    """Reads both entries of a dict, as if to open an image, and returns the label, which is the sample's index."""

    def __init__(self, samples: Any) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> int:
        sample = self._samples[index]
        path, label = sample["path"], sample["label"]
        return int(label) if path else -1


class Scattered:
    """Every index once, far from the previous one: each worker reads from every page, as in a shuffled epoch.

    A permutation would itself be memory that comes and goes during the epoch.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[int]:
        return (place * STEP % self._rows for place in range(self._rows))


def _dicts(rows: int) -> Iterator[dict[str, Any]]:
    return ({"path": f"images/{index:07}.jpg", "label": index} for index in range(rows))


def _shared(rows: int) -> Any:
    from sluicegate import SharedList

    return SharedList(_dicts(rows))


def _listed(rows: int) -> Any:
    return list(_dicts(rows))


def _epoch(package: str, samples: Callable[[int], Any], turn: Turn) -> Metrics:
    """Measure one epoch; pages that processes share count once."""
    rows = round(ROWS * min(1.0, turn.seconds))  # short turns have fewer rows
    dataset = Labels(samples(rows))
    # Shared memory counts once it is mapped, page by page as it is read, so all of it is read first.
    for index in range(0, rows, 16):
        _ = dataset[index]
    loader = data_loader(
        package,
        dataset,
        batch_size=BATCH_SIZE,
        sampler=Scattered(rows),
        num_workers=WORKERS,
        # The workers have to exist at the end of the epoch to be measured.
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    came = at_start = 0
    for number, batch in enumerate(loader):
        ids = np.asarray(batch)
        assert np.array_equal(ids, np.arange(came, came + len(ids)) * STEP % rows), "other samples than those asked for"
        came += len(ids)
        if number + 1 == START:
            at_start = machine.tree_anonymous_bytes()
            cpu_before, begin, came_before = machine.tree_cpu_seconds(), time.perf_counter(), came
    seconds, cpu_seconds = time.perf_counter() - begin, machine.tree_cpu_seconds() - cpu_before
    assert came == rows, f"{came} samples of {rows}"
    at_end = machine.tree_anonymous_bytes()
    return {
        "growth, %": (at_end - at_start) / at_start * 100,
        "growth, MB": (at_end - at_start) / 1e6,
        f"after {START} batches, MB": at_start / 1e6,
        "after the epoch, MB": at_end / 1e6,
        "samples/s": (came - came_before) / seconds,
        "CPU µs/sample": cpu_seconds / (came - came_before) * 1e6,
    }


def _contender(package: str, kind: str, samples: Callable[[int], Any]) -> Contender:
    imports = IMPORTS["sluicegate"] if samples is _shared else IMPORTS[package]
    return Contender(f"{package}, {kind}", lambda turn: _epoch(package, samples, turn), imports)


WORKLOAD = Workload(
    name="w11",
    title="W11: memory of two forked workers and their parent while they read a list of small dicts",
    measure=figures.measure,
    tables=figures.tables,
    cases=(
        Case(
            name="dicts",
            title="an epoch over 2,000,000 dicts of two entries (fewer with --quick), batches of 1,024, scattered",
            contenders=(
                _contender("torch", "list", _listed),
                _contender("torch", "SharedList", _shared),
                _contender("sluicegate", "list", _listed),
                _contender("sluicegate", "SharedList", _shared),
            ),
        ),
    ),
)
