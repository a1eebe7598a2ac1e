"""Trainings in Ray Train on two ranks, which are killed at a random step, and which Ray starts again.

`make test-trainers` installs Ray.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases.recorded_training import EPOCHS, ROWS
from checks.programs import Run
from checks.trained_ranks import by_epoch, evaluated, of_rank, read, samples, updates
from checks.trainer_lines import Lines, imported, written

ONCE = [*range(ROWS)]


@pytest.fixture(scope="module")
def ray() -> Iterator[Run]:
    yield from imported("ray", "ray.train.torch", "torch._dynamo")


def train(ray: Run, path: Path, kind: str, stop: int | None = None) -> list[Lines]:
    source = "import cases.ray_training; cases.ray_training.train(path, folder, kind=kind, stop=stop)"
    values = {"path": str(path), "folder": f"{path}-checkpoints", "kind": kind, "stop": stop}
    ray(source, deadline=150.0, **values).check(stderr=None)
    return [written(of_rank(path, rank)) for rank in range(2)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["seeded", "sampled"])
def test_ray(ray: Run, tmp_path: Path, kind: str) -> None:
    whole = train(ray, tmp_path / "whole", kind)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # Ray Train: sharded
    assert updates(whole) == [*range(2, 16)]
    assert evaluated(tmp_path / "whole") == [ONCE[: -3 if kind == "seeded" else None]] * EPOCHS
    stop = random.randrange(4, 15)
    assert train(ray, tmp_path / "killed", kind, stop) == [lines[:stop] for lines in whole]
    resumed = [written(of_rank(tmp_path / "killed-resumed", rank)) for rank in range(2)]
    # Ray may not have stored the last checkpoint yet.
    assert len(resumed[0]) in (15 - stop // 3 * 3, 15 - (stop // 3 - 1) * 3)
    assert resumed == [lines[-len(resumed[0]) :] for lines in whole]  # Ray Train: resumes
    assert read(tmp_path / "killed-resumed", 2) == Counter(samples(resumed))
