"""The part of the demo that kills a training: its report if the resumed one differs. (`test_cli` runs it.)"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from sluicegate import DataLoader
from sluicegate.cli import demo, demo_resume
from sluicegate.cli.demo_resume import Augmented, Job

SETTINGS = demo.Settings(output=Path("demo.png"), epochs=1, batch_size=64, samples=64, seed=3)
STEPS = 96
LOSSES = {step: 1.0 / step for step in range(1, STEPS + 1)}


def training(resumed: dict[int, float], killed: dict[int, float] = LOSSES) -> type[Any]:
    """Replace the training process by one with known losses."""

    class Known:
        def __init__(self, job: Job) -> None:
            self.job = job

        def __enter__(self) -> Known:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def losses(self, kill_after: int | None = None) -> dict[int, float]:
            if self.job.resumes:
                return resumed
            return LOSSES if kill_after is None else {step: killed[step] for step in range(1, kill_after + 1)}

    return Known


def rest(**changes: float) -> dict[int, float]:
    return {step: LOSSES[step] for step in range(41, STEPS + 1)} | {int(step): loss for step, loss in changes.items()}


@pytest.mark.parametrize(
    ("resumed", "weights_are_equal", "code", "verdict"),
    [
        (rest(), True, 0, "resumed: losses equal to the bit at all 56 batches after the checkpoint"),
        (rest(), False, 1, "resumed: weights DIFFERENT at the end"),
        (rest(**{"50": 0.02000001}), True, 1, "resumed: losses DIFFERENT, first at batch 9 of the 56"),
        ({41: LOSSES[41]}, True, 1, "resumed: losses DIFFERENT, first at batch 1 of the 56"),
    ],
)
def test_the_demo_reports_whether_the_resumed_run_is_equal(
    resumed: dict[int, float],
    weights_are_equal: bool,
    code: int,
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo_resume, "_Training", training(resumed))
    monkeypatch.setattr(demo_resume, "_are_equal", lambda a, b: weights_are_equal)
    assert demo_resume.run(SETTINGS) == code
    told = capsys.readouterr().out
    assert verdict in told
    assert "epoch, batch  never interrupted" in told
    # With 32 batches per epoch: two steps before the checkpoint, step 41 after it, and the last one.
    assert all(f" {place}  " in told for place in ("1, 6", "1, 7", "1, 8", "2, 31"))


def test_losses_that_differ_before_the_kill_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_resume, "_Training", training(rest(), LOSSES | {7: 0.5}))
    monkeypatch.setattr(demo_resume, "_are_equal", lambda a, b: True)
    assert demo_resume.run(SETTINGS) == 1
    assert "DIFFERENT before the kill" in capsys.readouterr().out


def test_a_training_that_fails_is_an_error(tmp_path: Path) -> None:
    job = Job(8, 2, 0, 0, 1, tmp_path / "no such folder" / "checkpoint.pt")
    with demo_resume._Training(job) as failing, pytest.raises(RuntimeError, match="ended with exit code 1"):
        failing.losses()


def test_photographs_are_altered_by_every_global_generator() -> None:
    photographs = Augmented(4)
    photograph = photographs.photographs[demo.TRAIN_ROWS[3]]
    for seeded in (random.seed, numpy.random.seed, torch.manual_seed):
        random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
        altered = set()
        for seed in range(20):
            seeded(seed)
            sample = photographs[3]
            assert sample["label"] == photograph["label"]
            assert sample["image"].dtype == torch.uint8
            altered.add(sample["image"].numpy().tobytes())
        assert len(altered) > 1
    batches = [
        torch.cat([batch["image"] for batch in DataLoader(photographs, 2, shuffle=True, num_workers=workers, seed=7)])
        for workers in (0, 1)
    ]
    assert torch.equal(*batches)
