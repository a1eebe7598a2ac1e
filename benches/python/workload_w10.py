"""W10: starting. From `iter` to the first batch, and from the last batch of an epoch to the first of the next."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import figures
import machine
from loaders import IMPORTS, data_loader
from protocol import Case, Contender, Metrics, Workload

WORKERS = 2
BATCH_SIZE = 64
BATCHES = 50
BLOBS = 50_000
EPOCHS = 20


def _rows() -> Any:
    from start_up import Rows

    return Rows(BATCHES * BATCH_SIZE)


def _blobs() -> Any:
    from start_up import Blobs

    return Blobs(BLOBS)


def _check(dataset: Any, number: int, batch: Any) -> None:
    """Compare batch `number` of an epoch in order with the dataset."""
    values, ids = (np.asarray(part) for part in batch)
    begin = number * BATCH_SIZE
    assert np.array_equal(ids, np.arange(begin, begin + BATCH_SIZE)), "other samples than those asked for"
    assert np.array_equal(values, np.stack([dataset[int(i)][0] for i in ids])), "values that are not those of the index"


def _starts(package: str, method: str, make: Callable[[], Any], repeats: int) -> Metrics:
    """Measure starts and ends of workers; the first start also starts the fork server, if there is one."""
    dataset = make()
    times, cpu_seconds, ends = [], [], []
    for _ in range(repeats):
        loader = data_loader(
            package, dataset, batch_size=BATCH_SIZE, num_workers=WORKERS, multiprocessing_context=method
        )
        cpu_before, begin = machine.tree_cpu_seconds(), time.perf_counter()
        batches = iter(loader)
        first = next(batches)
        times.append(time.perf_counter() - begin)
        cpu_seconds.append(machine.tree_cpu_seconds() - cpu_before)
        _check(dataset, 0, first)
        begin = time.perf_counter()
        del first, batches  # which ends the workers
        ends.append(time.perf_counter() - begin)
    found = {
        "first in this process, ms": times[0] * 1e3,
        "its CPU, ms": cpu_seconds[0] * 1e3,
        "ending the workers, ms": statistics.median(ends) * 1e3,
    }
    if repeats > 1:
        found |= {
            "later ones, ms": statistics.median(times[1:]) * 1e3,
            "their CPU, ms": statistics.median(cpu_seconds[1:]) * 1e3,
        }
    return found


def _edges(package: str) -> Metrics:
    """Measure the time between epochs: the last `next`, which ends the iteration, `iter`, and the first batch."""
    dataset = _rows()
    loader = data_loader(
        package,
        dataset,
        batch_size=BATCH_SIZE,
        num_workers=WORKERS,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    clock = time.perf_counter
    firsts, lasts = [], []
    for _ in range(1 + EPOCHS):
        came = [clock() for _batch in loader]
        assert len(came) == BATCHES, f"{len(came)} batches of {BATCHES}"
        firsts.append(came[0])
        lasts.append(came[-1])
    edges = [first - last for first, last in zip(firsts[1:], lasts[:-1], strict=True)]
    between = [last - first for first, last in zip(firsts, lasts, strict=True)]
    for number, batch in enumerate(loader):
        _check(dataset, number, batch)
    return {
        "last batch to first, ms": statistics.median(edges) * 1e3,
        "longest, ms": max(edges) * 1e3,
        "first batch to last, ms": statistics.median(between) * 1e3,
    }


def _case(name: str, title: str, measure: Callable[[str], Metrics]) -> Case:
    contenders = (
        Contender("torch", lambda _: measure("torch"), IMPORTS["torch"], column="torch"),
        Contender("sluicegate", lambda _: measure("sluicegate"), IMPORTS["sluicegate"]),
    )
    return Case(name, title, contenders)


def _start(method: str, make: Callable[[], Any], repeats: int, note: str = "") -> Case:
    name = f"{method}{note}"
    return _case(name, f"iter to first batch, {name}", lambda package: _starts(package, method, make, repeats))


WORKLOAD = Workload(
    name="w10",
    title="W10: starting two workers, and beginning the next epoch",
    measure=figures.measure,
    tables=figures.tables,
    cases=(
        _start("fork", _rows, repeats=6),
        _start("forkserver", _rows, repeats=1),
        _start("spawn", _rows, repeats=1),
        _start("spawn", _blobs, repeats=1, note=", the dataset a list of 50 MB of bytes"),
        _case(
            "edge",
            f"between epochs of {BATCHES} cheap batches, persistent workers, median of {EPOCHS}",
            _edges,
        ),
    ),
)
