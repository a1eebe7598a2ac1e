"""Rates: measured in the contender's process, and shown by the harness."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from itertools import chain

import numpy as np

import machine
from gather import Consumer
from protocol import Case, Contender, Epoch, Metrics, Standings, Turn
from report import Table, figure

MEMORY_SECONDS = 0.4
SETTLE_SECONDS = 0.05  # lets workers that are ahead in an epoch that was cut short come to rest
METHOD = (
    "Rate: samples/s over whole epochs until {seconds:g} s have passed, an epoch being cut after {cut:g} s; before "
    "it, untimed, one epoch (cut after {warm_up:g} s) to warm up. Every figure is the median of {rounds} rounds, "
    "every ratio the median of the rounds' ratios. Of the possible: with a consumer, a batch takes at least the "
    "longer of its time and the limit's. CPU: user and system time of the process and its workers. Anonymous: "
    "growth of anonymous and shared memory while loading, workers included (sampled afterwards, untimed). Peak: "
    "growth of the main process's resident peak, mapped files included. First batch: from making the loader in a "
    "fresh process. Contents: in the first round, after the timed part, the batches of an epoch (for at most "
    "{verify:g} s) are compared with the source, and no sample may come twice or, in a whole epoch, be missing."
)


@dataclass(frozen=True)
class _Timing:
    samples: int
    batches: int
    seconds: float
    cpu_seconds: float
    waited_seconds: float


def _timed(case: Case, epoch: Epoch, turn: Turn, consumer: Consumer | None) -> _Timing:
    time.sleep(SETTLE_SECONDS)
    clock = time.perf_counter
    cpu_before = machine.tree_cpu_seconds()
    samples = batches = 0
    consumed = 0.0
    begin = now = clock()
    while now - begin < turn.seconds:
        in_epoch = 0
        cut = now + turn.cut
        for _batch in epoch():
            in_epoch += 1
            now = clock()
            if consumer is not None:
                consumer()
                after = clock()
                consumed += after - now
                now = after
            if now > cut:
                break
        now = clock()
        batches += in_epoch
        samples += min(in_epoch * case.batch_size, case.samples)
    seconds = now - begin
    return _Timing(samples, batches, seconds, machine.tree_cpu_seconds() - cpu_before, seconds - consumed)


def _verify(case: Case, source: object, epoch: Epoch, limit: float) -> None:
    """Compare an epoch with the source, for at most `limit` seconds."""
    assert case.check is not None
    seen = np.zeros(case.samples, dtype=np.uint8)
    end = time.perf_counter() + limit
    for batch in epoch():
        ids = case.check(source, batch)
        seen[ids] += 1
        assert len(ids) == len(np.unique(ids)), "a sample came twice in one batch"
        assert seen[ids].max() == 1, "a sample came twice"
        if time.perf_counter() > end:
            return
    assert seen.all(), f"{int((seen == 0).sum())} samples of {case.samples} never came"


def _anonymous_peak(epoch: Epoch) -> int:
    """Return the largest anonymous memory of this process and its workers seen while loading."""
    peak = 0
    begin = looked = time.perf_counter()
    while looked - begin < MEMORY_SECONDS:
        for _batch in epoch():
            now = time.perf_counter()
            if now - looked > MEMORY_SECONDS / 8:
                peak = max(peak, machine.tree_anonymous_bytes())
                looked = time.perf_counter()
                if looked - begin > MEMORY_SECONDS:
                    break
    return peak


def measure(case: Case, contender: Contender, turn: Turn) -> Metrics:
    """Run one turn."""
    source = case.open()
    anonymous_before = machine.tree_anonymous_bytes()
    machine.forget_peak()
    peak_before = machine.status_bytes("VmHWM")

    begin = time.perf_counter()
    epoch: Epoch = contender.make(source)
    batches = epoch()
    first = next(batches)
    first_batch = time.perf_counter() - begin
    for _batch in chain((first,), batches):
        if time.perf_counter() - begin > turn.warm_up:
            break
    del first, batches, _batch

    alone = _timed(case, epoch, turn, None)
    metrics = {
        "rate": alone.samples / alone.seconds,
        "cpu_us": alone.cpu_seconds / alone.samples * 1e6,
        "first_ms": first_batch * 1e3,
    }
    if turn.consumer:
        ahead = _timed(case, epoch, turn, Consumer(turn.consumer))
        metrics |= {
            "ahead_rate": ahead.samples / ahead.seconds,
            "possible_rate": min(metrics["rate"], case.batch_size / turn.consumer),
            "ahead_cpu_us": ahead.cpu_seconds / ahead.samples * 1e6,
            "ahead_waited_us": ahead.waited_seconds / ahead.batches * 1e6,
            "ahead_waited_share": ahead.waited_seconds / ahead.seconds,
        }
    metrics["peak_mb"] = max(0, machine.status_bytes("VmHWM") - peak_before) / 1e6
    metrics["anonymous_mb"] = max(0, _anonymous_peak(epoch) - anonymous_before) / 1e6
    if turn.verify:
        _verify(case, source, epoch, turn.verify)
    return metrics


def median(standings: Standings, name: str, metric: str) -> float | None:
    """Return the median of a metric over the turns that did not fail."""
    values = [turn[metric] for turn in standings[name].turns if turn is not None]
    return statistics.median(values) if values else None


def ratio(standings: Standings, name: str, metric: str, other: str | None, other_metric: str) -> float | None:
    """Return the median of the rounds' ratios of a metric to a different contender's."""
    if other is None:
        return None
    pairs = zip(standings[name].turns, standings[other].turns, strict=True)
    ratios = [a[metric] / b[other_metric] for a, b in pairs if a is not None and b is not None]
    return statistics.median(ratios) if ratios else None


def limit_of(case: Case, standings: Standings) -> str | None:
    """Return the fastest of the contenders that are limits."""
    rates = {c.name: rate for c in case.contenders if c.is_limit and (rate := median(standings, c.name, "rate"))}
    return max(rates, key=lambda name: rates[name]) if rates else None


def _times(value: float | None) -> str:
    if value is None:
        return "-"
    form = ".0f" if value >= 100 else ".1f" if value >= 10 else ".2f" if value >= 0.1 else ".2g"
    return f"{value:{form}}x"


def tables(case: Case, standings: Standings) -> list[Table]:
    """Return tables of loading alone and, if the case has a consumer, of loading ahead of it."""
    limit = limit_of(case, standings)
    references = [(c.name, c.column) for c in case.contenders if c.column]
    limit_text = f"the limit is {limit!r}" if limit else "no limit was measured"
    alone = Table(
        f"{case.title}: loading alone ({limit_text})",
        ["contender", "samples/s"]
        + [f"to {column}" for _, column in references]
        + ["of the limit", "CPU µs/sample", "anonymous MB", "peak MB", "first batch ms"],
    )
    ahead = Table(
        f"{case.title}: ahead of a consumer that takes as long for a batch as the limit",
        ["contender", "samples/s", "of the limit", "of the possible", "waits µs/batch", "waits", "CPU µs/sample"],
    )
    for contender in case.contenders:
        name = contender.name
        if (failure := standings[name].failure) is not None:
            alone.add_failed(name, failure)
            ahead.add_failed(name, failure)
            continue

        def of(metric: str, form: str, name: str = name) -> str:
            return figure(median(standings, name, metric), form)

        alone.add(
            name,
            of("rate", ",.0f"),
            *(_times(ratio(standings, name, "rate", other, "rate")) for other, _ in references),
            _times(ratio(standings, name, "rate", limit, "rate")),
            of("cpu_us", ".3g"),
            of("anonymous_mb", ".1f"),
            of("peak_mb", ".1f"),
            of("first_ms", ".3g"),
        )
        if case.with_consumer:
            ahead.add(
                name,
                of("ahead_rate", ",.0f"),
                _times(ratio(standings, name, "ahead_rate", limit, "rate")),
                _times(ratio(standings, name, "ahead_rate", limit, "possible_rate")),
                of("ahead_waited_us", ".0f"),
                of("ahead_waited_share", ".0%"),
                of("ahead_cpu_us", ".3g"),
            )
    return [alone, ahead] if case.with_consumer else [alone]
