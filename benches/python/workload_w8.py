"""W8: the first batch of a shuffled epoch of any length: its time, and the memory that the order takes."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import figures
import machine
from loaders import IMPORTS, data_loader, present
from protocol import Case, Contender, Metrics, Workload

BATCH_SIZE = 256
REPEATS = 5
LONG = 2.0
# torch and torchdata draw and list the whole order first: a single call of 10^8 takes seconds and gigabytes.
LIMITS = {"torch": 10**8, "torchdata": 10**6}


class Numbers:
    """Sample i is i, so that any number of samples takes no memory."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        return int(index)


def _constant(count: int) -> Any:
    """Return a native dataset of `count` samples at a single address."""
    import torch

    import sluicegate

    return sluicegate.TensorDataset(torch.arange(1).expand(count))


def _check(batch: Any, count: int, is_constant: bool) -> None:
    samples = np.asarray(batch[0] if is_constant else batch)
    assert samples.shape == (BATCH_SIZE,), f"a batch of shape {samples.shape}"
    if is_constant:
        assert not samples.any(), "other samples than the source's"
        return
    assert len(np.unique(samples)) == BATCH_SIZE, "a sample came twice"
    assert 0 <= samples.min() <= samples.max() < count, "a sample that does not exist"
    assert abs(samples.mean() / count - 0.5) < 0.15, "samples that are not spread over all"


def _first(start: Callable[[], Iterator[Any]], count: int, *, is_constant: bool = False) -> Metrics:
    """Measure from making the loader to its first batch: once in this process, and then up to `LONG` seconds in total.

    The peak includes code that is read for the first time; anonymous memory is that of the order and the loader.
    """
    machine.forget_peak()
    peak, anonymous = machine.status_bytes("VmHWM"), machine.status_bytes("RssAnon")
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < LONG:
        begin = time.perf_counter()
        batches = start()
        batch = next(batches)
        times.append(time.perf_counter() - begin)
        if len(times) == 1:
            anonymous = machine.status_bytes("RssAnon") - anonymous
            peak = machine.status_bytes("VmHWM") - peak
        _check(batch, count, is_constant)
        del batch, batches
    return {
        "first in this process, ms": times[0] * 1e3,
        "later ones, ms": statistics.median(times[1:] or times) * 1e3,
        "anonymous MB": max(0, anonymous) / 1e6,
        "peak MB": max(0, peak) / 1e6,
    }


def _shuffled(package: str, count: int, **arguments: Any) -> Metrics:
    dataset = Numbers(count)
    return _first(lambda: iter(data_loader(package, dataset, batch_size=BATCH_SIZE, shuffle=True, **arguments)), count)


def _native(count: int) -> Metrics:
    dataset = _constant(count)
    return _first(
        lambda: iter(data_loader("sluicegate", dataset, batch_size=BATCH_SIZE, shuffle=True, seed=7)),
        count,
        is_constant=True,
    )


def _grain(count: int) -> Metrics:
    grain = importlib.import_module(IMPORTS["grain"][-1])
    dataset = Numbers(count)
    return _first(lambda: iter(grain.MapDataset.source(dataset).shuffle(seed=7).batch(BATCH_SIZE)), count)


def _case(exponent: int) -> Case:
    count = 10**exponent
    contenders = [
        Contender(package, lambda _, package=package: _shuffled(package, count), IMPORTS[package])  # type: ignore[misc]
        for package, limit in LIMITS.items()
        if count <= limit
    ]
    return Case(
        name=f"10^{exponent}",
        title=f"first batch of {BATCH_SIZE} of 10^{exponent} samples, 0 workers",
        contenders=present(
            *contenders,
            Contender("Grain, MapDataset.shuffle", lambda _: _grain(count), IMPORTS["grain"]),
            Contender("sluicegate, seed", lambda _: _shuffled("sluicegate", count, seed=7), IMPORTS["sluicegate"]),
            Contender("sluicegate, seed, native dataset", lambda _: _native(count), IMPORTS["sluicegate"]),
        ),
    )


WORKLOAD = Workload(
    name="w8",
    title="W8: the first batch of a shuffled epoch",
    measure=figures.measure,
    tables=figures.tables,
    cases=(_case(6), _case(8), _case(9)),
)
