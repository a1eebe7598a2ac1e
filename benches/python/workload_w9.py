"""W9: resuming at 90 % of an epoch of 1,000,000 samples, against a fresh start of the same loader."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import figures
from loaders import IMPORTS, data_loader, present
from protocol import Case, Contender, Metrics, Workload

ROWS = 1_000_000
SHARE = 0.9
REPEATS = 7


def _tensors(package: str) -> Any:
    """W1's rows, which the core reads without Python."""
    import torch

    from_torch = (torch.rand(ROWS, 8), torch.arange(ROWS))
    if package == "sluicegate":
        import sluicegate

        return sluicegate.TensorDataset(*from_torch)
    return torch.utils.data.TensorDataset(*from_torch)


class Pairs:
    """Python samples."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[int, int]:
        return -index, index


def _pairs(_package: str) -> Any:
    return Pairs()


def _equal(batch: Any, other: Any) -> bool:
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(batch, other, strict=True))


def _resumed(package: str, make: Callable[[str], Any], batch_size: int, workers: int, **arguments: Any) -> Metrics:
    """Alternate fresh starts and resumes, each with a new loader."""
    dataset = make(package)

    def loader() -> Any:
        return data_loader(package, dataset, batch_size=batch_size, shuffle=True, num_workers=workers, **arguments)

    running = loader()
    batches = iter(running)
    for _batch in itertools.islice(batches, int(SHARE * ROWS) // batch_size):
        pass
    # As read from a file; torchdata's contains tensors.
    state = running.state_dict()
    state = state if package == "torchdata" else json.loads(json.dumps(state))
    following = next(batches)
    del batches, running

    fresh, loaded = [], []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        batches = iter(loader())
        next(batches)
        fresh.append(time.perf_counter() - begin)
        del batches
        begin = time.perf_counter()
        resumed = loader()
        resumed.load_state_dict(state)
        batches = iter(resumed)
        batch = next(batches)
        loaded.append(time.perf_counter() - begin)
        assert _equal(batch, following), "another batch than that of the run that was not interrupted"
        del batches, resumed
        if sum(loaded) > 10.0:
            break
    return {
        "fresh start, ms": statistics.median(fresh) * 1e3,
        "load_state_dict and first batch, ms": statistics.median(loaded) * 1e3,
        "more, ms": statistics.median(b - a for a, b in zip(fresh, loaded, strict=True)) * 1e3,
        "of a fresh start": statistics.median(b / a for a, b in zip(fresh, loaded, strict=True)),
    }


def _case(name: str, title: str, make: Callable[[str], Any], batch_size: int, workers: int) -> Case:
    def contender(title: str, package: str, **arguments: Any) -> Contender:
        return Contender(title, lambda _: _resumed(package, make, batch_size, workers, **arguments), IMPORTS[package])

    contenders = [contender("sluicegate", "sluicegate"), contender("sluicegate, seed", "sluicegate", seed=7)]
    if batch_size > 1:  # torchdata takes minutes just to reach that position otherwise
        contenders.insert(0, contender("torchdata, StatefulDataLoader", "torchdata"))
    return Case(f"{name}, {workers}", f"{title}, {workers} workers", present(*contenders))


WORKLOAD = Workload(
    name="w9",
    title="W9: resuming at 90 % of 1,000,000 samples, shuffled",
    measure=figures.measure,
    tables=figures.tables,
    cases=(
        *(_case("rows, 256", "tensors, batches of 256", _tensors, 256, workers) for workers in (0, 2)),
        *(_case("rows, 1", "tensors, batches of 1", _tensors, 1, workers) for workers in (0, 2)),
        *(_case("Python, 256", "a Python dataset, batches of 256", _pairs, 256, workers) for workers in (0, 2)),
    ),
)
