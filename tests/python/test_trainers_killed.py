"""Trainings on one process and on two ranks, killed at a random step and resumed: TRL, torchtitan, DeepSpeed, Composer.

Each script trains as users of the trainer do, and writes a line for each batch: the step, the samples, the loss, and
the sum of the weights. The lines of a resumed training have to be those of an uninterrupted one, bit for bit.
`make test-trainers` installs the trainers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.recorded_training import EPOCHS, ROWS
from checks.gloo_ranks import launch
from checks.programs import Run
from checks.trained_ranks import by_epoch, evaluated, resumed_elsewhere, resumed_ranks, samples, train, updates
from checks.trainer_lines import imported

# Samples as trainings count them.
ONCE = [*range(ROWS)]
KINDS = ["seeded", "sampled"]


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
def composer() -> Iterator[Run]:
    yield from imported("composer", "composer", "torch._dynamo")


SEEDED: dict[str, Any] = {"loader_arguments": {"seed": 7}}
WORKERS = {"dataloader_num_workers": 2}
# On two ranks, an epoch has three batches, the last of which makes a separate update.
ACCUMULATES = {"gradient_accumulation_steps": 2, "save_steps": 1}
TRL: list[tuple[str, int, dict[str, Any]]] = [
    ("sft", 1, {}),
    ("sft", 2, {**SEEDED, **WORKERS, **ACCUMULATES}),
    ("sft", 2, ACCUMULATES),
    ("dpo", 1, {**SEEDED, **WORKERS}),
    ("dpo", 2, {}),
    ("dpo", 1, {"precompute_ref_log_probs": True}),
    ("grpo", 2, {}),
    ("grpo", 1, {**WORKERS, "gradient_accumulation_steps": 2}),
    # Each generation is used for two updates; checkpoints are between generations.
    ("grpo", 1, {"num_iterations": 2, "steps_per_generation": 2, "save_steps": 4}),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "size", "given"), TRL, ids=str)
def test_trl(trl: Run, tmp_path: Path, kind: str, size: int, given: dict[str, Any]) -> None:
    given = {"kind": kind, **given}
    whole = train(trl, "trl_training", tmp_path / "whole", tmp_path / "uninterrupted", size=size, **given)
    per_generation = given.get("steps_per_generation", given.get("gradient_accumulation_steps", 1))
    repeats = 2 * given.get("num_iterations", 1) * per_generation if kind == "grpo" else 1
    assert list(by_epoch(whole, 2)) == [sorted([*range(24)] * repeats)] * 2  # TRL: sharded
    counted = evaluated(tmp_path / "whole", size)
    assert counted == [sorted([*range(10)] * (2 if kind == "grpo" else 1))] * len(counted) != []
    if "loader_arguments" not in given:
        oracle = train(
            trl, "trl_training", tmp_path / "oracle", tmp_path / "torchs", size=size, is_torchs=True, **given
        )
        assert whole == oracle
    first = given.get("save_steps", 2) * given.get("gradient_accumulation_steps", 1)
    for resumed, rest in resumed_ranks(trl, "trl_training", tmp_path, whole, first, **given):
        assert resumed == rest  # TRL: resumes


@pytest.mark.timeout(300)
def test_with_a_seed_one_process_resumes_two_ranks_of_trl(trl: Run, tmp_path: Path) -> None:
    """A step has the same number of samples on one process as on two."""
    killed = train(trl, "trl_training", tmp_path / "killed", tmp_path, stop=3, kind="sft", **SEEDED)
    given: dict[str, Any] = {"size": 1, "resumes": True, "kind": "sft", "gradient_accumulation_steps": 2, **SEEDED}
    resumed = train(trl, "trl_training", tmp_path / "resumed", tmp_path, **given)
    counts = Counter(samples([lines[:2] for lines in killed]) + samples(resumed))
    assert counts == dict.fromkeys(range(24), 2)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_torchtitan(torchtitan: Run, tmp_path: Path, size: int, kind: str) -> None:
    given = {"kind": kind, "accumulates": 2 // size}
    whole = train(torchtitan, "torchtitan_training", tmp_path / "whole", tmp_path / "uninterrupted", size=size, **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # torchtitan: sharded
    assert updates(whole) == [*range(2, len(whole[0]) + 1)]
    assert evaluated(tmp_path / "whole", size) == [ONCE]
    if kind == "sampled":
        given_torchs = {"size": size, **given, "kind": "torch"}
        assert whole == train(
            torchtitan, "torchtitan_training", tmp_path / "torchs", tmp_path / "torch", **given_torchs
        )
    for resumed, rest in resumed_ranks(torchtitan, "torchtitan_training", tmp_path, whole, **given):
        assert resumed == rest  # torchtitan: resumes


@pytest.mark.timeout(300)
def test_with_a_seed_one_process_resumes_two_ranks_of_torchtitan(torchtitan: Run, tmp_path: Path) -> None:
    """torchtitan counts steps: after the saved ones, one process needs twice as many for the rest."""
    script, saved = "torchtitan_training", random.randrange(3, 13, 3)
    killed = train(torchtitan, script, tmp_path / "killed", tmp_path, stop=saved + 1)
    given = {"size": 1, "resumes": True, "steps": saved + (EPOCHS * ROWS - saved * 8) // 4}
    resumed = train(torchtitan, script, tmp_path / "resumed", tmp_path, **given)
    counts = Counter(samples([lines[:saved] for lines in killed]) + samples(resumed))
    assert counts == dict.fromkeys(range(ROWS), EPOCHS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "given"), [(1, {}), (2, {}), (2, {"stage": 1, "accumulates": 2})], ids=str)
def test_deepspeed(deepspeed: Run, tmp_path: Path, kind: str, size: int, given: dict[str, Any]) -> None:
    """Accumulation continues in the next epoch."""
    given = {"kind": kind, **given}
    whole = train(deepspeed, "deepspeed_training", tmp_path / "whole", tmp_path / "uninterrupted", size=size, **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # DeepSpeed: sharded
    steps = range(2, len(whole[0]) + 1)
    assert updates(whole) == [step for step in steps if step % given.get("accumulates", 1) == 0]
    counted = ONCE[: -3 if kind == "seeded" else None]
    assert evaluated(tmp_path / "whole", size) == [counted] * (len(whole[0]) // 5)
    if kind == "sampled":
        given_torchs = {"size": size, **given, "kind": "torch"}
        assert whole == train(deepspeed, "deepspeed_training", tmp_path / "torchs", tmp_path / "torch", **given_torchs)
    for resumed, rest in resumed_ranks(deepspeed, "deepspeed_training", tmp_path, whole, 4, **given):
        assert resumed == rest  # DeepSpeed: resumes


@pytest.mark.timeout(300)
def test_with_a_seed_one_process_resumes_two_ranks_of_deepspeed(deepspeed: Run, tmp_path: Path) -> None:
    counts = resumed_elsewhere(deepspeed, "deepspeed_training", tmp_path, 1, saves=4)
    assert counts == dict.fromkeys(range(ROWS), EPOCHS)


COMPOSER = [
    (1, {"saves": "3ba", "kind": "seeded"}),
    # The second checkpoint is after a whole epoch, which Composer has not counted yet.
    (1, {"saves": "5ba", "kind": "seeded"}),
    (1, {"saves": "1ep", "kind": "seeded"}),
    (2, {"saves": "3ba", "kind": "seeded"}),
    (2, {"saves": "3ba", "kind": "sampled"}),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("size", "given"), COMPOSER, ids=str)
def test_composer(composer: Run, tmp_path: Path, size: int, given: dict[str, Any]) -> None:
    whole = train(composer, "composer_training", tmp_path / "whole", tmp_path / "uninterrupted", size=size, **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # Composer: sharded
    assert evaluated(tmp_path / "whole", size) == [ONCE[:-3]] * EPOCHS
    first = {"3ba": 3, "5ba": 5, "1ep": ROWS // 4 // size}[given["saves"]]
    for resumed, rest in resumed_ranks(composer, "composer_training", tmp_path, whole, first, **given):
        assert resumed == rest  # Composer: resumes


@pytest.mark.timeout(300)
def test_composer_reads_as_with_torchs_loader(composer: Run, tmp_path: Path) -> None:
    sampled, torchs = (
        train(composer, "composer_training", tmp_path / kind, tmp_path / f"{kind}-folder", kind=kind)
        for kind in ("sampled", "torch")
    )
    assert sampled == torchs


@pytest.mark.timeout(300)
def test_with_a_seed_one_process_resumes_two_ranks_of_composer(composer: Run, tmp_path: Path) -> None:
    counts = resumed_elsewhere(composer, "composer_training", tmp_path, 1)
    assert counts == dict.fromkeys(range(ROWS), EPOCHS)


@pytest.mark.timeout(300)
def test_composer_is_not_resumed_on_more_processes(composer: Run, tmp_path: Path) -> None:
    train(composer, "composer_training", tmp_path / "killed", tmp_path, size=1, stop=4)
    refused = "from cases import composer_training; composer_training.refused(f'{path}-{rank}', folder)"
    launch(composer, refused, 2, path=str(tmp_path / "refused"), folder=str(tmp_path))
