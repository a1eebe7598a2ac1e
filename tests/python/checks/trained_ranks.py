"""Trainings of scripts in `cases`, on one or more processes, which are killed and resumed."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases.recorded_training import noted

from .gloo_ranks import launch
from .programs import Run
from .trainer_lines import KILLS, Lines, written

_TRAIN = "from cases import {script}; {script}.train(f'{{path}}-{{rank}}', folder, **given)"


def of_rank(path: Path, rank: int, kind: str = "") -> Path:
    """Return a file of a rank: its lines or, with `kind`, its other output."""
    return path.with_name(f"{path.name}-{rank}{kind}")


def train(
    run: Run, script: str, path: Path, folder: Path, *, size: int = 2, stop: int | None = None, **given: Any
) -> list[Lines]:
    """Train on `size` ranks, and return the lines of each; with `stop`, all are killed after that many batches."""
    folder.mkdir(exist_ok=True)
    end = 0 if stop is None else -signal.SIGKILL
    given |= {} if stop is None else {"stop": stop}
    launch(run, _TRAIN.format(script=script), size, end=end, path=str(path), folder=str(folder), given=given)
    return [written(of_rank(path, rank)) for rank in range(size)]


def samples(ranks: list[Lines]) -> list[int]:
    return [sample for lines in ranks for line in lines for sample in line[1]]


def read(path: Path, size: int) -> Counter[int]:
    """Count the samples that the ranks of a training read; one rank may read for all."""
    files = [of_rank(path, rank, "-reads") for rank in range(size)]
    return Counter(index for file in files if file.exists() for index in noted(file))


def by_epoch(ranks: list[Lines], epochs: int) -> Iterator[list[int]]:
    """Yield the samples of each epoch on all ranks, in order; all ranks have the same number of batches."""
    (steps,) = {len(lines) for lines in ranks}
    assert steps % epochs == 0
    for epoch in range(epochs):
        first = epoch * steps // epochs
        yield sorted(samples([lines[first : first + steps // epochs] for lines in ranks]))


def evaluated(path: Path, size: int = 2) -> list[list[int]]:
    """Return the samples that all ranks counted in each evaluation, in order."""
    files = [of_rank(path, rank, "-evaluated") for rank in range(size)]
    ranks = [[json.loads(line) for line in file.read_text().splitlines()] for file in files if file.exists()]
    return [sorted(index for each in evaluation for index in each) for evaluation in zip(*ranks, strict=True)]


def updates(ranks: list[Lines]) -> list[int]:
    """Return the numbers of the batches after which the weights changed, which must be equal on all ranks."""
    (weights,) = {tuple(line[3] for line in lines) for lines in ranks}
    return [number for number in range(1, len(weights) + 1) if weights[number - 1] != weights[max(0, number - 2)]]


def resumed_ranks(
    run: Run, script: str, path: Path, whole: list[Lines], first: int = 3, ahead: int = 0, **given: Any
) -> Iterator[tuple[list[Lines], list[Lines]]]:
    """Yield the lines of ranks that were killed at a random step and resumed, and those of the uninterrupted run.

    Args:
        run: runs programs.
        script: the name of a module of `cases`.
        path: a folder.
        whole: the lines of the uninterrupted run.
        first: the number of batches after which there is a checkpoint.
        ahead: the number of samples that workers may have read but not delivered.
        given: further arguments of the script's `train`.
    """
    size = len(whole)
    for stop in random.sample(range(first + 1, len(whole[0])), KILLS):
        folder, name = path / str(stop), path / f"resumed-{stop}"
        killed = train(run, script, path / f"killed-{stop}", folder, size=size, stop=stop, **given)
        assert killed == [lines[:stop] for lines in whole], stop
        resumed = train(run, script, name, folder, size=size, resumes=True, **given)
        count = len(resumed[0])
        assert len(whole[0]) - stop <= count < len(whole[0]), stop
        others = read(name, size)
        others.subtract(samples(resumed))
        assert min(others.values()) >= 0, stop
        assert others.total() <= ahead, stop  # no sample is read twice
        yield resumed, [lines[-count:] for lines in whole]


def resumed_elsewhere(
    run: Run, script: str, path: Path, size: int, saves: int = 3, last: int = 15, **given: Any
) -> Counter[int]:
    """Kill two ranks at a random step, resume with `size` ranks, and count all samples up to the end.

    Args:
        run: runs programs.
        script: the name of a module of `cases`.
        path: a folder.
        size: the number of ranks that resume.
        saves: the number of batches from checkpoint to checkpoint.
        last: the limit of the random step: less than this.
        given: further arguments of the script's `train`.
    """
    stop = random.randrange(saves, last)
    killed = train(run, script, path / "killed", path, stop=stop, **given)
    resumed = train(run, script, path / "resumed", path, size=size, resumes=True, **given)
    assert read(path / "resumed", size) == Counter(samples(resumed)), stop
    return Counter(samples([lines[: stop // saves * saves] for lines in killed]) + samples(resumed))
