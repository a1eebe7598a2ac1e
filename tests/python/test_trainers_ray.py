"""Trainings in Ray Train on two ranks, which are killed at a random step and restarted by Ray.

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


def train(ray: Run, path: Path, kind: str, stop: int | None = None, then: int | None = None) -> list[Lines]:
    source = "import cases.ray_training; cases.ray_training.train(path, folder, kind=kind, stop=stop, then=then)"
    values = {"path": str(path), "folder": f"{path}-checkpoints", "kind": kind, "stop": stop, "then": then}
    ray(source, deadline=280.0, **values).check(stderr=None)
    return [written(of_rank(path, rank)) for rank in range(2)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["seeded", "sampled"])
def test_ray(ray: Run, tmp_path: Path, kind: str) -> None:
    """Without a seed, a killed and resumed training equals the uninterrupted run with torch's loader."""
    whole = train(ray, tmp_path / "whole", "seeded" if kind == "seeded" else "torch")
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # Ray Train: sharded
    assert updates(whole) == [*range(2, 16)]
    stop = random.randrange(7, 15)
    assert train(ray, tmp_path / "killed", kind, stop) == [lines[:stop] for lines in whole]
    resumed = [written(of_rank(tmp_path / "killed-resumed", rank)) for rank in range(2)]
    # Ray may not have stored the last checkpoint yet.
    assert len(resumed[0]) in (15 - stop // 3 * 3, 15 - (stop // 3 - 1) * 3)
    assert resumed == [lines[-len(resumed[0]) :] for lines in whole]  # Ray Train: resumes
    assert read(tmp_path / "killed-resumed", 2) == Counter(samples(resumed))
    counted = evaluated(tmp_path / "killed-resumed")
    assert counted == [ONCE[: -3 if kind == "seeded" else None]] * len(counted) != []


@pytest.mark.timeout(600)
def test_with_a_seed_one_process_resumes_two_ranks_of_ray(ray: Run, tmp_path: Path) -> None:
    killed = train(ray, tmp_path / "killed", "seeded", random.randrange(7, 15), then=1)
    resumed = written(of_rank(tmp_path / "killed-resumed", 0))
    batches = 30 - len(resumed)  # of the run that saved the checkpoint, on both ranks
    assert 0 < batches <= 2 * len(killed[0])
    counts = Counter(samples([lines[: batches // 2] for lines in killed]) + samples([resumed]))
    assert counts == dict.fromkeys(range(ROWS), EPOCHS)
    assert read(tmp_path / "killed-resumed", 1) == Counter(samples([resumed]))
