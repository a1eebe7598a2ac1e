"""Workloads whose contenders measure themselves: `make` takes the turn and returns figures by name."""

from __future__ import annotations

import throughput
from protocol import Case, Contender, Metrics, Standings, Turn
from report import Table, figure


def measure(case: Case, contender: Contender, turn: Turn) -> Metrics:
    """Run one turn."""
    found: Metrics = contender.make(turn)
    return found


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}x"


def tables(case: Case, standings: Standings) -> list[Table]:
    """Return a table of the medians of all figures, with ratios of the first one to contenders that have a column."""
    measured = [turn for standing in standings.values() for turn in standing.turns if turn is not None]
    metrics = list(measured[0]) if measured else ["figure"]
    references = [(c.name, c.column) for c in case.contenders if c.column]
    table = Table(case.title, ["contender", *metrics, *(f"to {column}" for _, column in references)])
    for name, standing in standings.items():
        if standing.failure is not None:
            table.add_failed(name, standing.failure)
            continue
        table.add(
            name,
            *(figure(throughput.median(standings, name, metric)) for metric in metrics),
            *(_ratio(throughput.ratio(standings, name, metrics[0], other, metrics[0])) for other, _ in references),
        )
    return [table]
