"""The command `sluicegate`: its help, its errors, and the smallest demo."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sluicegate
from sluicegate.cli import command as cli
from sluicegate.cli import demo, demo_scripts


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for option in ("--output", "--epochs", "--batch-size", "--samples", "--seed"):
        assert option in text


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"sluicegate {sluicegate.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "JOB"),
        (["demo", "--epochs", "0"], "argument --epochs: expected a whole number of at least 1, got '0'"),
        (["demo", "--samples", "many"], "argument --samples: expected a whole number of at least 1, got 'many'"),
        (["demo", "--output", "demo.jpg"], "argument --output: expected a name that ends in .png, got 'demo.jpg'"),
        (["demo", "--output", "no/such/folder/demo.png"], "is not a folder; create it first"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_without_the_extra_the_demo_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main(["demo", "--output", str(tmp_path / "demo.png")]) == 2
    assert "pip install 'sluicegate[demo]'" in capsys.readouterr().err


def test_shipped_data_is_balanced_and_small() -> None:
    images, labels = np.load(demo.DATA / "images.npy"), np.load(demo.DATA / "labels.npy")
    assert (images.shape, images.dtype) == ((7_000, 28, 28), np.uint8)
    assert (labels.shape, labels.dtype) == ((7_000,), np.int64)
    assert np.bincount(labels[demo.TRAIN_ROWS]).tolist() == [600] * 10
    assert np.bincount(labels[demo.TEST_ROWS]).tolist() == [100] * 10
    assert sum((demo.DATA / name).stat().st_size for name in ("images.npy", "labels.npy")) < 6_000_000
    assert "Zalando SE" in (demo.DATA / "LICENSE.txt").read_text(encoding="utf-8")


@pytest.mark.timeout(300)
def test_demo_runs_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "demo.png"
    done = subprocess.run(
        [sys.executable, "-m", "sluicegate", "demo", "--epochs", "1", "--samples", "600", "--output", str(picture)],
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "losses: equal to the bit at all 10 steps" in done.stdout
    # For both scripts, which are read in Rust.
    assert done.stdout.count("  losses: equal to the bit at all 20 steps") == 2
    assert done.stdout.count("  read by: rust") == 2
    assert f"picture: {picture}" in done.stdout
    for line in ("loading alone, samples/s", "first batch after, ms", "training loop waits for data"):
        assert line in done.stdout
    assert "training with both in turns: step 20 of 20" in done.stderr
    losses = re.search(r"^last training loss +(\S+) +\S+  the same$", done.stdout, flags=re.MULTILINE)
    assert losses
    assert float(losses[1]) < 2.2, "it has learned something: guessing among ten classes, it would be log(10)"
    assert re.search(r"^killed by SIGKILL: in epoch 1, after batch \d+ of 34$", done.stdout, flags=re.MULTILINE)
    assert re.search(
        r"^resumed: losses equal to the bit at all \d+ batches after the checkpoint, and so are the weights$",
        done.stdout,
        flags=re.MULTILINE,
    )
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_script_whose_losses_differ_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Reversed(sluicegate.DataLoader[Any]):
        def __iter__(self) -> Any:
            return iter(list(super().__iter__())[::-1])

    monkeypatch.setattr(sluicegate, "DataLoader", Reversed)
    settings = demo.Settings(tmp_path / "demo.png", epochs=1, batch_size=8, samples=40, seed=0)
    assert demo_scripts.run(settings) == 1
    assert "losses: DIFFERENT, first at step 0 of 10" in capsys.readouterr().out


def test_first_difference_is_found_in_any_bit() -> None:
    import torch

    losses = torch.tensor([0.5, 0.0, float("nan")])
    assert demo.first_difference(losses, losses.clone()) is None
    assert demo.first_difference(losses, torch.tensor([0.5, -0.0, float("nan")])) == 1
    assert demo.first_difference(losses, losses[:2]) == 2
