"""Samplers: the cost per index, in batches as the fetcher gets them, against torch's or users' samplers."""

from __future__ import annotations

import importlib.util
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import figures
import machine
import throughput
from handwritten_samplers import (
    BLOCK,
    CLASSES,
    CLASSES_PER_BATCH,
    WINDOW,
    Nodes,
    Size,
    by_length,
    folds,
    half_of_classes,
    m_per_class,
    mixed,
    random_labels,
    random_lengths,
    random_weights,
    shuffled_blocks,
)
from loaders import IMPORTS
from protocol import Case, Contender, Metrics, Standings, Workload
from report import Table, figure

BATCH_SIZE = 256
WORLD_SIZE = 4
WEIGHTS = 10**8


Maker = Callable[[Size], Any]
"""Makes a sampler for a number of samples and a batch size."""


def _torchs(name: str, arguments: Callable[[Size], tuple[Any, ...]], **named: Any) -> Maker:
    def make(size: Size) -> Any:
        from torch.utils import data

        sampler = getattr(data, name)(*arguments(size), **named)
        return data.BatchSampler(sampler, size.batch, False)

    return make


def _ours(name: str, arguments: Callable[[Size], tuple[Any, ...]], **named: Any) -> Maker:
    def make(size: Size) -> Any:
        import sluicegate

        return getattr(sluicegate, name)(*arguments(size), **named)

    return make


def _n(size: Size) -> tuple[Any, ...]:
    return (range(size.n),)


def _subset(size: Size) -> tuple[Any, ...]:
    return (list(range(size.n)),)


def _rank(size: Size) -> tuple[Any, ...]:
    return range(size.n), WORLD_SIZE, 1


def _mixture(size: Size) -> Any:
    import sluicegate

    half = size.n // 2
    return sluicegate.MixtureSampler([half, half], [3.0, 1.0], stop="CYCLE_FOREVER", num_samples=size.n)


def _bucketed(size: Size) -> Any:
    import sluicegate

    return sluicegate.LengthBucketBatchSampler(random_lengths(size), batch_size=size.batch)


def _repeated(size: Size) -> Any:
    import sluicegate

    return sluicegate.RepeatSampler(sluicegate.RandomSampler(range(size.n)), 2)


@dataclass(frozen=True)
class Measured:
    """One of our samplers, and its peer."""

    ours: Maker
    peer: Maker | None = None
    peer_name: str = "torch"
    most: int | None = 1
    """How often an index comes in an epoch at most, where that is known."""
    package: str = "torch"
    """What the peer is made of; a peer that is not installed is left out."""
    largest: int = 10**7
    """The most samples that the peer is measured with."""


MEASURED = {
    "SequentialSampler": Measured(_ours("SequentialSampler", _n), _torchs("SequentialSampler", _n)),
    "RandomSampler": Measured(_ours("RandomSampler", _n), _torchs("RandomSampler", _n)),
    "RandomSampler, replacement": Measured(
        _ours("RandomSampler", _n, replacement=True), _torchs("RandomSampler", _n, replacement=True), most=None
    ),
    "SubsetRandomSampler": Measured(_ours("SubsetRandomSampler", _subset), _torchs("SubsetRandomSampler", _subset)),
    "WeightedRandomSampler": Measured(
        _ours("WeightedRandomSampler", lambda size: (random_weights(size), size.n)),
        _torchs("WeightedRandomSampler", lambda size: (random_weights(size), size.n)),
        most=None,
    ),
    f"DistributedSampler, 1 of {WORLD_SIZE}": Measured(
        _ours("DistributedSampler", _rank), _torchs("DistributedSampler", _rank)
    ),
    "BlockShuffleSampler": Measured(
        _ours("BlockShuffleSampler", lambda size: (range(size.n), BLOCK, WINDOW)),
        shuffled_blocks,
        "lists of blocks, shuffled",
    ),
    "ClassSampler": Measured(
        _ours("ClassSampler", lambda size: (random_labels(size), list(range(CLASSES // 2))), shuffle=True, seed=7),
        half_of_classes,
        "torch's SubsetRandomSampler",
    ),
    "BalancedBatchSampler": Measured(
        _ours(
            "BalancedBatchSampler",
            lambda size: (random_labels(size), CLASSES_PER_BATCH, size.batch // CLASSES_PER_BATCH),
        ),
        m_per_class,
        "as MPerClassSampler",
        most=None,
        largest=10**6,
    ),
    "StratifiedBatchSampler": Measured(
        _ours("StratifiedBatchSampler", lambda size: (random_labels(size), size.batch)),
        folds,
        "as StratifiedKFold",
        largest=10**6,
    ),
    "LengthBucketBatchSampler": Measured(
        _bucketed,
        by_length,
        "as LengthGroupedSampler",
    ),
    "MixtureSampler": Measured(_mixture, mixed, "a part for each sample", most=None),
    "MixtureSampler (torchdata)": Measured(
        _mixture, Nodes, "torchdata's MultiNodeWeightedSampler", most=None, package="torchdata", largest=10**6
    ),
    "RepeatSampler": Measured(
        _repeated,
        lambda size: _torchs("RandomSampler", _n, num_samples=2 * size.n)(size),
        "torch, num_samples=2n",
        most=2,
    ),
}


def _of_peer(measured: Measured, size: Size) -> Metrics:
    """Measure lists of Python integers, as torch's loader passes them to its fetcher."""
    assert measured.peer is not None
    sampler = measured.peer(size)
    begin = time.perf_counter()
    batches = iter(sampler)
    count = len(next(batches))
    first = time.perf_counter() - begin
    count += sum(map(len, batches))
    seconds = time.perf_counter() - begin
    return {"ns": seconds / count * 1e9, "first_ms": first * 1e3}


def _of_ours(measured: Measured, size: Size) -> Metrics:
    """Measure arrays, as our loader in seed mode requests them: those of the second epoch; the first is checked."""
    from torch.utils.data import BatchSampler

    from sluicegate.order.plan import Ordering, make_plan

    sampler = measured.ours(size)
    if not hasattr(sampler, "batches"):
        sampler = BatchSampler(sampler, size.batch, False)
    ordering = Ordering(sampler, auto_collation=True, seed=7, shard=None, remainder="pad")

    begin = time.perf_counter()
    plan = make_plan(ordering, 0, 0, iter)
    plan.batch(0)
    first = time.perf_counter() - begin
    _check(b"".join(plan.batch(number)[0] for number in range(len(plan))), size.n, measured.most)

    begin = time.perf_counter()
    plan = make_plan(ordering, 1, 0, iter)
    count = sum(map(len, map(operator.itemgetter(0), map(plan.batch, range(len(plan)))))) // 8
    seconds = time.perf_counter() - begin
    return {"ns": seconds / count * 1e9, "first_ms": first * 1e3}


def _check(epoch: bytes, n: int, most: int | None) -> None:
    indices = np.frombuffer(epoch, np.int64)
    assert 0 <= indices.min() <= indices.max() < n, "an index of no sample"
    if most is not None:
        assert np.bincount(indices).max() <= most, f"an index came more than {most} times"


def _alias_table() -> Metrics:
    """Measure more than the 2^24 weights that torch allows; the memory is that of the table."""
    import sluicegate

    weights = random_weights(Size(WEIGHTS, BATCH_SIZE))
    sampler = sluicegate.WeightedRandomSampler(weights, WEIGHTS, seed=7)
    before = machine.status_bytes("RssAnon")
    begin = time.perf_counter()
    order = sampler.order(0)
    order.indices(0, BATCH_SIZE)
    seconds = time.perf_counter() - begin
    grown = machine.status_bytes("RssAnon") - before
    drawn = np.frombuffer(order.indices(0, 1_000_000), np.int64)
    # Drawn in proportion to uniform weights in [0, 1), weights have a mean of 2/3.
    mean = float(weights.numpy()[drawn].mean())
    assert abs(mean - 2 / 3) < 0.002, f"drawn weights of {mean} in the mean"
    begin = time.perf_counter()
    for start in range(0, 10_000_000, BATCH_SIZE):
        order.indices(start, start + BATCH_SIZE)
    return {
        "table and first batch, s": seconds,
        "memory MB": grown / 1e6,
        "ns/index": (time.perf_counter() - begin) / 10_000_000 * 1e9,
    }


def _tables(case: Case, standings: Standings) -> list[Table]:
    if case.name == "weights":
        return figures.tables(case, standings)
    table = Table(
        case.title, ["sampler", "against", "its ns/index", "ours", "ratio", "its first batch, ms", "ours, ms"]
    )
    for name, measured in MEASURED.items():
        if name not in standings:
            continue
        failure = standings[name].failure
        title = f"{name}: {measured.peer_name}"
        peer = title if title in standings else None
        failure = failure or (standings[peer].failure if peer else None)
        if failure is not None:
            table.add_failed(name, failure)
            continue

        def of(who: str | None, metric: str, form: str = ".3g") -> str:
            return "-" if who is None else figure(throughput.median(standings, who, metric), form)

        ratio = None if peer is None else throughput.ratio(standings, peer, "ns", name, "ns")
        table.add(
            name,
            measured.peer_name if peer else "-",
            of(peer, "ns"),
            of(name, "ns"),
            "-" if ratio is None else f"{ratio:.3g}x",
            of(peer, "first_ms"),
            of(name, "first_ms"),
        )
    return [table]


def _is_measured(measured: Measured, n: int) -> bool:
    return n <= measured.largest and importlib.util.find_spec(measured.package) is not None


def _case(exponent: int, batch_size: int) -> Case:
    size = Size(10**exponent, batch_size)
    contenders = []
    for name, measured in MEASURED.items():
        if measured.package != "torch" and not _is_measured(measured, size.n):
            continue
        if measured.peer is not None and _is_measured(measured, size.n):
            title, imports = f"{name}: {measured.peer_name}", IMPORTS[measured.package]
            contenders.append(Contender(title, lambda _, measured=measured: _of_peer(measured, size), imports))  # type: ignore[misc]
        contenders.append(Contender(name, lambda _, measured=measured: _of_ours(measured, size), IMPORTS["sluicegate"]))  # type: ignore[misc]
    return Case(f"10^{exponent}", f"an index in batches of {batch_size}, of 10^{exponent} samples", tuple(contenders))


WORKLOAD = Workload(
    name="samplers",
    title="Samplers: what an index costs on its way to the fetcher",
    measure=figures.measure,
    tables=_tables,
    cases=(
        _case(6, 256),
        _case(7, 1024),
        Case(
            "weights",
            "WeightedRandomSampler of 10^8 weights (torch refuses more than 1.7 * 10^7)",
            (Contender("sluicegate", lambda _: _alias_table(), IMPORTS["sluicegate"]),),
        ),
    ),
)
