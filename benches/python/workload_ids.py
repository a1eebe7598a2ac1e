"""The cost of ids, states, and seeds: `with_ids` on W1, a call of `state_dict`, the seeding of a sample."""

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
BATCH_SIZE = 256
EPOCHS = 4
# Batches per turn: the plain loop and the one with ids alternate, so that disturbances affect both.
TURN = 25
CALLS = 2_000
BLOCKS = 9


def _loader(package: str, workers: int, **arguments: Any) -> Any:
    import torch

    tensors = (torch.rand(ROWS, 8), torch.arange(ROWS))
    if package == "sluicegate":
        import sluicegate

        dataset: Any = sluicegate.TensorDataset(*tensors)
    else:
        dataset = torch.utils.data.TensorDataset(*tensors)
    return data_loader(package, dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=workers, **arguments)


def _with_ids(workers: int, **arguments: Any) -> Metrics:
    loader = _loader("sluicegate", workers, **arguments)
    for (_, label), ids in itertools.islice(loader.with_ids(), 200):
        assert np.array_equal(label.numpy(), ids.sample_indices), "ids of other samples"
    clock = time.perf_counter
    plain, with_ids = [], []
    for _ in range(EPOCHS):
        batches, pairs = iter(loader), loader.with_ids()
        for turn in range(len(loader) // TURN):
            for is_plain in (True, False) if turn % 2 else (False, True):
                if is_plain:
                    begin = clock()
                    for _batch in itertools.islice(batches, TURN):
                        pass
                    plain.append(clock() - begin)
                else:
                    begin = clock()
                    for _batch, _ids in itertools.islice(pairs, TURN):
                        pass
                    with_ids.append(clock() - begin)
        del batches, pairs
    return {
        "plain, µs/batch": statistics.median(plain) / TURN * 1e6,
        "with ids, µs/batch": statistics.median(with_ids) / TURN * 1e6,
        "ratio": statistics.median(b / a for a, b in zip(plain, with_ids, strict=True)),
    }


def _fastest(call: Callable[[], object], calls: int = CALLS) -> float:
    """Return the seconds per call in the fastest of some blocks of calls, which is the least disturbed."""
    times = []
    for _ in range(BLOCKS):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls)
    return min(times)


def _state_dict(package: str, workers: int, **arguments: Any) -> Metrics:
    """Measure `state_dict` in the middle of an epoch."""
    loader = _loader(package, workers, **arguments)
    batches = iter(loader)
    for _batch in itertools.islice(batches, 100):
        pass
    seconds = _fastest(loader.state_dict, 20)
    state = loader.state_dict()
    return {"µs/call": seconds * 1e6, "JSON, bytes": len(json.dumps(state, default=str))}


def _seeded(what: str) -> Metrics:
    """Measure seeding a sample as the fetcher does, and then requesting the generator, if any, once."""
    from sluicegate import sample_rng
    from sluicegate.rng.sample import SampleSeeding

    seeding = SampleSeeding(seed=7, seed_globals=what != "nothing global")
    seeding.begin(epoch=0)
    index = itertools.count()

    def seed() -> None:
        seeding.sample(next(index))

    def seed_and_ask() -> None:
        seeding.sample(next(index))
        getattr(sample_rng(), what)

    call = seed_and_ask if what in ("python", "numpy", "torch") else seed
    with seeding.batch():
        counting = _fastest(lambda: next(index))
        seconds = _fastest(call) - counting
    return {"µs/sample": seconds * 1e6}


def _ids(name: str, workers: int, **arguments: Any) -> Contender:
    return Contender(name, lambda _: _with_ids(workers, **arguments), IMPORTS["sluicegate"])


def _state(name: str, package: str, workers: int, **arguments: Any) -> Contender:
    return Contender(name, lambda _: _state_dict(package, workers, **arguments), IMPORTS[package])


def _seeding(name: str, what: str) -> Contender:
    return Contender(name, lambda _: _seeded(what), IMPORTS["sluicegate"])


WORKLOAD = Workload(
    name="ids",
    title="Identities, states and seeds",
    measure=figures.measure,
    tables=figures.tables,
    cases=(
        Case(
            "with_ids",
            "W1 with ids: 1,000,000 rows of 8 float32 and an int64 label, batches of 256, shuffled",
            (
                _ids("0 workers", 0),
                _ids("2 workers", 2),
                _ids("seed, 0 workers", 0, seed=7),
                _ids("seed, 2 workers", 2, seed=7),
            ),
        ),
        Case(
            "state_dict",
            "state_dict() after 100 batches of W1",
            present(
                _state("torchdata, 0 workers", "torchdata", 0),
                _state("sluicegate, 0 workers", "sluicegate", 0),
                _state("sluicegate, 2 workers", "sluicegate", 2),
                _state("sluicegate, seed, 0 workers", "sluicegate", 0, seed=7),
                _state("sluicegate, seed, 2 workers", "sluicegate", 2, seed=7),
            ),
        ),
        Case(
            "seeding",
            "setting what is random about a sample",
            (
                _seeding("the three global generators", "all"),
                _seeding("seed_samples=False", "nothing global"),
                _seeding("all, and sample_rng().python", "python"),
                _seeding("all, and sample_rng().numpy", "numpy"),
                _seeding("all, and sample_rng().torch", "torch"),
            ),
        ),
    ),
)
