"""The terms of the harness: a workload has cases, a case has contenders, a contender gets turns.

A new workload is one file `workload_NAME.py` with a constant `WORKLOAD`; run.py finds it by its name. Contenders
import torch and similar packages when they are made, not at the top of the file: the harness does not need these, and
a contender's process should contain only what that contender needs.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from report import Table

Metrics = dict[str, float]
"""What one turn found, by name."""

Epoch = Callable[[], Iterator[Any]]
"""Starts an epoch: an iterator over its batches."""


@dataclass(frozen=True)
class Contender:
    """One way to load a case."""

    name: str
    make: Callable[[Any], Any]
    """Makes it from what the case opened; for throughput an `Epoch`."""
    imports: tuple[str, ...] = ()
    """Modules to import before anything is measured; their versions are printed."""
    column: str | None = None
    """Title of the column with the ratios to this contender."""
    is_limit: bool = False
    """True if it is one of the limits, the fastest of which is *the* limit."""


@dataclass(frozen=True)
class Case:
    """One data set, opened and checked in one way, and its contenders."""

    name: str
    title: str
    contenders: tuple[Contender, ...]
    open: Callable[[], Any] = lambda: None
    """Makes or maps the data; runs in the contender's process before the memory is first read."""
    samples: int = 0
    batch_size: int = 0
    check: Callable[[Any, Any], npt.NDArray[np.int64]] | None = None
    """Compares a batch with what was opened; returns the indices of its samples, or raises AssertionError."""
    cut: float = 0.0
    """An epoch is cut after this time, if it is longer than that of all workloads: for contenders that begin slowly."""
    with_consumer: bool = False
    """True if it is also measured with a slow consumer."""


@dataclass(frozen=True)
class Turn:
    """A request of the harness to a contender's process."""

    workload: str
    case: str
    contender: str
    warm_up: float
    """One epoch to warm up, cut after this time."""
    seconds: float
    """Timed for whole epochs until this time has passed ..."""
    cut: float
    """... but an epoch is cut here."""
    consumer: float
    """Seconds a batch that the consumer takes; 0: there is none."""
    verify: float
    """Seconds that the comparison with the source may take; 0: none in this turn."""


@dataclass
class Standing:
    """All turns of one contender in one case; a failed turn is None."""

    turns: list[Metrics | None] = field(default_factory=list)
    failure: str | None = None


Standings = dict[str, Standing]


@dataclass(frozen=True)
class Workload:
    """Cases that are measured and shown in the same way."""

    name: str
    title: str
    cases: tuple[Case, ...]
    measure: Callable[[Case, Contender, Turn], Metrics]
    tables: Callable[[Case, Standings], list[Table]]
    prepare: Callable[[], None] = lambda: None
    """Makes files that all turns share; runs once, in the harness."""


def names() -> list[str]:
    """Return the names of all workloads: w1, w2, and so on, then the others."""
    found = (path.stem.removeprefix("workload_") for path in Path(__file__).parent.glob("workload_*.py"))
    return sorted(found, key=lambda name: (re.fullmatch(r"w\d+", name) is None, len(name), name))


def load(name: str) -> Workload:
    """Return the workload `name`."""
    workload = importlib.import_module(f"workload_{name}").WORKLOAD
    assert isinstance(workload, Workload)
    return workload
