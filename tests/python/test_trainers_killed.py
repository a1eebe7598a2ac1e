"""Trainings that are killed at a random step and resumed, in trainers that `make test-trainers` installs.

Each script trains as users of the trainer do, and writes a line for each batch: the step, the samples, the loss, and
the sum of the weights. The lines of a resumed training have to be those of an uninterrupted one, bit for bit.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.recorded_training import noted
from checks.gloo_ranks import launch
from checks.programs import Run
from checks.trainer_lines import KILLS, Lines, imported, written

# Seconds that a training may take.
DEADLINE = 120.0


@pytest.fixture(scope="module")
def trl() -> Iterator[Run]:
    trainers = [f"trl.trainer.{name}_trainer" for name in ("sft", "dpo", "grpo")]
    yield from imported("trl", *trainers, "torch._dynamo")


@pytest.fixture(scope="module")
def torchtitan() -> Iterator[Run]:
    yield from imported("torchtitan", "torchtitan.trainer", "torch.distributed.checkpoint", "torch._dynamo")


@pytest.fixture(scope="module")
def deepspeed() -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DS_ACCELERATOR", "cpu")
        yield from imported("deepspeed", "deepspeed", "torch._dynamo")


@pytest.fixture(scope="module")
def open_clip() -> Iterator[Run]:
    yield from imported("open_clip_train", "open_clip_train.train", "open_clip_train.data", "torch._dynamo")


@pytest.fixture(scope="module")
def composer() -> Iterator[Run]:
    yield from imported("composer", "composer", "torch._dynamo")


def train(run: Run, script: str, path: Path, folder: Path, *, stop: int | None = None, **given: Any) -> Lines:
    """What a training wrote; with `stop`, it has killed itself after that many batches."""
    source = f"import cases.{script}; cases.{script}.train(path, folder, stop=stop, **given)"
    ended = run(source, deadline=DEADLINE, path=str(path), folder=str(folder), stop=stop, given=given)
    ended.check(code=0 if stop is None else -signal.SIGKILL, stderr=None)
    return written(path)


def killed_and_resumed(run: Run, script: str, path: Path, first: int, **given: Any) -> Iterator[tuple[Lines, Lines]]:
    """Yield what trainings wrote after they were resumed, and what they would have written.

    Args:
        run: runs programs.
        script: the name of a module of `cases`.
        path: a folder.
        first: the number of batches after which there is a checkpoint.
        given: what else `train` of the script is given.
    """
    whole = train(run, script, path / "whole", path / "uninterrupted", **given)
    assert len({str(line[1]) for line in whole}) >= len(whole) // 4  # Batches can be told apart.
    for stop in random.sample(range(first + 1, len(whole)), KILLS):
        folder = path / str(stop)
        killed = train(run, script, path / f"killed-{stop}", folder, stop=stop, **given)
        assert killed == whole[:stop], stop
        resumed = train(run, script, path / f"resumed-{stop}", folder, resumes=True, **given)
        assert len(whole) - stop <= len(resumed) < len(whole), stop
        reads = path / f"resumed-{stop}-reads"
        if reads.exists():
            assert len(noted(reads)) == sum(len(line[1]) for line in resumed), stop  # nothing twice
        yield resumed, whole[-len(resumed) :]


SEEDED: dict[str, Any] = {"loader_arguments": {"seed": 7}}
WORKERS = {"dataloader_num_workers": 2}
TRL: list[tuple[str, dict[str, Any]]] = [
    ("sft", {}),
    ("sft", {**SEEDED, **WORKERS}),
    ("dpo", {}),
    ("dpo", {**SEEDED, **WORKERS}),
    ("dpo", {"precompute_ref_log_probs": True}),
    ("grpo", {}),
    ("grpo", {**WORKERS, "gradient_accumulation_steps": 2}),
    # Two updates with each generation; checkpoints are between two generations.
    ("grpo", {"num_iterations": 2, "steps_per_generation": 2, "save_steps": 4}),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "given"), TRL, ids=str)
def test_trl_resumes(trl: Run, tmp_path: Path, kind: str, given: dict[str, Any]) -> None:
    first = given.get("save_steps", 2) * given.get("gradient_accumulation_steps", 1)
    for resumed, rest in killed_and_resumed(trl, "trl_training", tmp_path, first, kind=kind, **given):
        assert resumed == rest  # TRL: resumes


TRAIN = 'from cases import trl_training; trl_training.train(f"{path}-{rank}", f"{path}-checkpoints", **given)'


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "given", "repeats"), [("sft", SEEDED, 1), ("dpo", SEEDED, 1), ("grpo", {}, 2)])
def test_trl_is_sharded(trl: Run, tmp_path: Path, kind: str, given: dict[str, Any], repeats: int) -> None:
    launch(trl, TRAIN, 2, path=str(tmp_path / "lines"), given={"kind": kind, "num_train_epochs": 1, **given})
    ranks = [written(tmp_path / f"lines-{rank}") for rank in range(2)]
    counts = Counter(sample for lines in ranks for line in lines for sample in line[1])
    assert counts == dict.fromkeys(range(24), repeats)  # TRL: sharded
    assert len(ranks[0]) == len(ranks[1])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [0, 2])
def test_torchtitan_resumes(torchtitan: Run, tmp_path: Path, workers: int) -> None:
    for resumed, rest in killed_and_resumed(torchtitan, "torchtitan_training", tmp_path, 3, workers=workers):
        assert resumed == rest  # torchtitan: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("given", [{}, {"stage": 1, "accumulates": 2}], ids=str)
def test_deepspeed_resumes(deepspeed: Run, tmp_path: Path, given: dict[str, Any]) -> None:
    for resumed, rest in killed_and_resumed(deepspeed, "deepspeed_training", tmp_path, 4, **given):
        assert resumed == rest  # DeepSpeed: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("workers", [0, 2])
def test_open_clip_resumes(open_clip: Run, tmp_path: Path, workers: int) -> None:
    for resumed, rest in killed_and_resumed(open_clip, "open_clip_training", tmp_path, 3, workers=workers):
        assert resumed == rest  # OpenCLIP: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("saves", "first"), [("3ba", 3), ("5ba", 5), ("1ep", 10)])
def test_composer_resumes(composer: Run, tmp_path: Path, saves: str, first: int) -> None:
    """The second checkpoint of five batches is of a whole epoch that Composer has not counted yet."""
    for resumed, rest in killed_and_resumed(composer, "composer_training", tmp_path, first, saves=saves):
        assert resumed == rest  # Composer: resumes


COMPOSE = 'from cases import composer_training; composer_training.train(f"{path}-{rank}", f"{path}-checkpoints")'


@pytest.mark.timeout(300)
def test_composer_is_sharded(composer: Run, tmp_path: Path) -> None:
    launch(composer, COMPOSE, 2, path=str(tmp_path / "lines"))
    ranks = [written(tmp_path / f"lines-{rank}") for rank in range(2)]
    first = [sample for lines in ranks for line in lines[:5] for sample in line[1]]
    assert sorted(first) == [*range(40)]  # Composer: sharded
