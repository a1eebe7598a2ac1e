"""Runs contenders side by side: every turn in a fresh process, turns interleaved over the rounds."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import machine
from protocol import Case, Metrics, Standing, Standings, Turn, Workload

CHILD = Path(__file__).with_name("contender.py")
TURN_TIMEOUT = 180
# Where cores are shared, spinning OpenMP threads make torch's operations extremely slow, so all threads wait passively.
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True)
class Plan:
    """The number of rounds, and the durations in seconds."""

    rounds: int
    warm_up: float
    seconds: float
    cut: float
    verify: float


@dataclass
class Log:
    """Facts about the whole run, in addition to the figures."""

    versions: dict[str, str] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)
    """Per turn, the cores that other processes and the host took."""
    failed: bool = False
    show_progress: bool = False

    def progress(self, text: str) -> None:
        """Show the current turn, on one line of a terminal."""
        if self.show_progress:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def load(self) -> str:
        """Return a description of the other load on the machine."""
        if not self.others:
            return "other load: unknown"
        cores = machine.usable_cores()
        return (
            f"other load during the turns: {statistics.median(self.others):.2f} of {cores} cores in the median, "
            f"{max(self.others):.2f} at most"
        )


class TurnFailedError(RuntimeError):
    """A contender's process failed; the text is the last line it wrote to stderr."""


def _take(turn: Turn, log: Log) -> Metrics:
    """Run one turn in a fresh process."""
    before, begin = machine.Busy.now(), time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(CHILD), json.dumps(asdict(turn))],
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=TURN_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TurnFailedError(f"no answer within {TURN_TIMEOUT} s") from None
    log.others.append(machine.Busy.now().others_since(before) / (time.perf_counter() - begin))
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise TurnFailedError(lines[-1] if lines else f"exit code {done.returncode}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    log.versions |= answer["versions"]
    metrics: Metrics = answer["metrics"]
    return metrics


def _consumer_seconds(case: Case, turn: Turn, log: Log) -> float:
    """Return the consumer's time per batch: the fastest limit's, measured in a turn of each limit that starts fast."""
    rates = []
    for contender in case.contenders:
        if contender.is_limit and not contender.imports:
            log.progress(f"{turn.workload}, {case.name}: how fast is {contender.name}?")
            try:
                rates.append(_take(replace(turn, contender=contender.name, verify=0.0), log)["rate"])
            except TurnFailedError:
                continue  # it fails again in the rounds, and is shown there
    return case.batch_size / max(rates) if rates else 0.0


def _rotated(case: Case, by: int) -> Iterable[str]:
    """Return the contenders' names, rotated so that each round starts with a different one."""
    names = [contender.name for contender in case.contenders]
    by %= len(names)
    return names[by:] + names[:by]


def compete(workload: Workload, case: Case, plan: Plan, log: Log) -> tuple[Standings, float]:
    """Run all rounds of one case; return the results, and the consumer's time per batch."""
    standings: Standings = {contender.name: Standing() for contender in case.contenders}
    cut = max(plan.cut, case.cut)
    turn = Turn(workload.name, case.name, "", plan.warm_up, plan.seconds, cut, consumer=0.0, verify=0.0)
    if case.with_consumer:
        turn = replace(turn, consumer=_consumer_seconds(case, turn, log))
    for number in range(plan.rounds):
        for name in _rotated(case, number):
            standing = standings[name]
            if standing.failure is not None:
                standing.turns.append(None)
                continue
            log.progress(f"{workload.name}, {case.name}, round {number + 1} of {plan.rounds}: {name}")
            try:
                verify = plan.verify if number == 0 else 0.0
                standing.turns.append(_take(replace(turn, contender=name, verify=verify), log))
            except TurnFailedError as failure:
                standing.turns.append(None)
                standing.failure = str(failure)
                log.failed = True
    log.progress("")
    return standings, turn.consumer
