"""Costs that do not grow with the samples: the hand-over of a batch, the first batch, and memory over epochs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import figures
import machine
from protocol import Case, Contender, Metrics, Workload

if TYPE_CHECKING:
    from torch import Tensor

SMALL_ROWS = 20_000
ROWS = 1_000_000
REPEATS = 7
EPOCHS = (1, 2, 10, 30)


def _rows(count: int) -> tuple[Tensor, Tensor]:
    import torch

    return torch.rand(count, 8), torch.arange(count)


def _dataset(loader: str, *tensors: Tensor) -> Any:
    if loader == "torch":
        from torch.utils.data import TensorDataset

        return TensorDataset(*tensors)
    import sluicegate

    return sluicegate.TensorDataset(*tensors)


def _loader(loader: str, dataset: Any, **arguments: Any) -> Any:
    if loader == "torch":
        from torch.utils.data import DataLoader

        return DataLoader(dataset, **arguments)
    import sluicegate

    return sluicegate.DataLoader(dataset, **arguments)


def _hand_over(loader: str) -> Metrics:
    """Measure batches of two rows: nearly all the time is the hand-over."""
    batches = _loader(loader, _dataset(loader, *_rows(SMALL_ROWS)), batch_size=2)
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for _batch in batches:
            pass
        times.append((time.perf_counter() - begin) / len(batches))
    return {"µs/batch": statistics.median(times) * 1e6}


def _first_batch(loader: str, dataset: Any, repeats: int, **arguments: Any) -> Metrics:
    """Measure the first batch of a shuffled epoch, with a new loader each time."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        batches = iter(_loader(loader, dataset, batch_size=256, shuffle=True, **arguments))
        next(batches)
        times.append(time.perf_counter() - begin)
    return {"first in this process, ms": times[0] * 1e3, "median of all, ms": statistics.median(times) * 1e3}


def _first_of_rows(loader: str) -> Metrics:
    return _first_batch(loader, _dataset(loader, *_rows(ROWS)), REPEATS)


def _by_hand(tensors: tuple[Tensor, Tensor]) -> Any:
    """Iterate as `x[perm[i:i+b]]`: the memory of a torch permutation without a loader."""
    import torch

    class ByHand:
        def __iter__(self) -> Iterator[Any]:
            permutation = torch.randperm(ROWS)
            for begin in range(0, ROWS, 256):
                chosen = permutation[begin : begin + 256]
                yield tuple(tensor[chosen] for tensor in tensors)

    return ByHand()


def _memory(loader: str, **arguments: Any) -> Metrics:
    """Measure the anonymous memory of all processes beyond that before the loader was made: the peak of an epoch."""
    tensors = _rows(ROWS)
    dataset = None if loader == "by hand" else _dataset(loader, *tensors)
    before = machine.tree_anonymous_bytes()
    batches = _by_hand(tensors) if dataset is None else _loader(loader, dataset, batch_size=256, **arguments)
    peaks = []
    for _ in range(max(EPOCHS)):
        peak = 0
        for number, _batch in enumerate(batches):
            if number % 1_000 == 500:
                peak = max(peak, machine.tree_anonymous_bytes())
        peaks.append((peak - before) / 1e6)
    return {f"in epoch {epoch}, MB": peaks[epoch - 1] for epoch in EPOCHS}


IMPORTS = ("torch", "torch.utils.data")
OURS = (*IMPORTS, "sluicegate")

WORKLOAD = Workload(
    name="costs",
    title="Costs that do not grow with the samples",
    measure=figures.measure,
    tables=figures.tables,
    cases=(
        Case(
            name="hand-over",
            title="handing over a batch of two tensors: 2 rows of 8 floats and a label, 0 workers",
            contenders=(
                Contender("torch", lambda _: _hand_over("torch"), IMPORTS),
                Contender("sluicegate", lambda _: _hand_over("sluicegate"), OURS),
            ),
        ),
        Case(
            name="first batch",
            title="first batch of 256 of a shuffled epoch, 0 workers",
            contenders=(
                Contender("torch, 10^6 rows", lambda _: _first_of_rows("torch"), IMPORTS),
                Contender("sluicegate, 10^6 rows", lambda _: _first_of_rows("sluicegate"), OURS),
            ),
        ),
        Case(
            name="memory",
            title="memory while loading 10^6 rows of 8 floats and a label (a permutation of them is 8 MB)",
            contenders=(
                Contender("by hand, x[perm[i:i+b]]", lambda _: _memory("by hand"), IMPORTS),
                Contender("sluicegate, in order", lambda _: _memory("sluicegate"), OURS),
                Contender("sluicegate, shuffled", lambda _: _memory("sluicegate", shuffle=True), OURS),
                Contender(
                    "sluicegate, shuffled, 2 workers",
                    lambda _: _memory("sluicegate", shuffle=True, num_workers=2),
                    OURS,
                ),
            ),
        ),
    ),
)
