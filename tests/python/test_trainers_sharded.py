"""Trainings on several ranks: each sample once per epoch, also when all ranks are killed at a random step and resumed.

Each script trains as users of the trainer do, and writes a line for each batch: the step, the samples, the loss, and
the sum of the weights. `make test-trainers` installs the trainers.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.recorded_training import ROWS, noted
from checks.gloo_ranks import launch
from checks.programs import Run
from checks.trainer_lines import KILLS, Lines, imported, written

TRAIN = "from cases import {script}; {script}.train(f'{{path}}-{{rank}}', folder, **given)"


@pytest.fixture(scope="module")
def fabric() -> Iterator[Run]:
    yield from imported("lightning", "lightning", "torch._dynamo")


@pytest.fixture(scope="module")
def lightning(fabric: Run) -> Run:
    return fabric


@pytest.fixture(scope="module")
def timm() -> Iterator[Run]:
    yield from imported("timm", "timm.data", "torch._dynamo")


@pytest.fixture(scope="module")
def open_clip() -> Iterator[Run]:
    yield from imported("open_clip_train", "open_clip_train.train", "open_clip_train.data", "torch._dynamo")


@pytest.fixture(scope="module")
def mmengine() -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # Its checkpoints are not of weights alone.
        patch.setenv("DS_ACCELERATOR", "cpu")  # mmengine imports DeepSpeed, which prints what it finds otherwise.
        yield from imported("mmengine", "mmengine.runner", "torch._dynamo")


@pytest.fixture(scope="module")
def ultralytics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOLO_CONFIG_DIR", str(tmp_path_factory.mktemp("settings")))
        # Without ultralytics itself, which finds its rank when it is imported.
        yield from imported("ultralytics", "cv2", "matplotlib", "polars", "torchvision", "torch._dynamo")


@pytest.fixture(scope="module")
def verl() -> Iterator[Run]:
    yield from imported("torchdata", "torchdata.stateful_dataloader", "torch._dynamo")


def train(run: Run, script: str, path: Path, folder: Path, *, size: int = 2, **given: Any) -> list[Lines]:
    """Train on `size` ranks, and return the lines of each."""
    folder.mkdir(exist_ok=True)
    launch(run, TRAIN.format(script=script), size, path=str(path), folder=str(folder), given=given)
    return [written(path.with_name(f"{path.name}-{rank}")) for rank in range(size)]


def samples(ranks: list[Lines]) -> list[int]:
    return [sample for lines in ranks for line in lines for sample in line[1]]


def read(path: Path, size: int = 2) -> Counter[int]:
    """Count what the ranks of a training read."""
    return Counter(index for rank in range(size) for index in noted(path.with_name(f"{path.name}-{rank}-reads")))


def by_epoch(ranks: list[Lines], epochs: int) -> Iterator[list[int]]:
    """Yield the samples of each epoch on all ranks, in order; the ranks have as many batches."""
    (steps,) = {len(lines) for lines in ranks}
    assert steps % epochs == 0
    for epoch in range(epochs):
        first = epoch * steps // epochs
        yield sorted(samples([lines[first : first + steps // epochs] for lines in ranks]))


def resumed_ranks(
    run: Run, script: str, path: Path, whole: list[Lines], **given: Any
) -> Iterator[tuple[list[Lines], list[Lines]]]:
    """Yield the lines of ranks that were killed at a random step and resumed, and those of the uninterrupted run."""
    for stop in random.sample(range(4, len(whole[0])), KILLS):
        folder, name = path / str(stop), path / f"resumed-{stop}"
        killed = train(run, script, path / f"killed-{stop}", folder, stop=stop, **given)
        assert killed == [lines[:stop] for lines in whole], stop
        resumed = train(run, script, name, folder, resumes=True, **given)
        count = len(resumed[0])
        assert len(whole[0]) - stop <= count < len(whole[0]), stop
        assert read(name) == Counter(samples(resumed))  # nothing twice
        yield resumed, [lines[-count:] for lines in whole]


# Lightning counts batches: with more ranks, it takes an epoch for finished that is not.
OTHER_SIZES = [("fabric", 1), ("fabric", 4), ("lightning", 1), ("mmengine", 1), ("mmengine", 4)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("trainer", "size"), OTHER_SIZES)
def test_with_a_seed_another_number_of_ranks_resumes(
    request: pytest.FixtureRequest, tmp_path: Path, trainer: str, size: int
) -> None:
    run, script = request.getfixturevalue(trainer), f"{trainer}_training"
    stop = random.randrange(4, 15)
    killed = train(run, script, tmp_path / "killed", tmp_path, stop=stop)
    saved = [lines[: stop // 3 * 3] for lines in killed]
    resumed = train(run, script, tmp_path / "resumed", tmp_path, size=size, resumes=True)
    assert Counter(samples(saved) + samples(resumed)) == dict.fromkeys(range(ROWS), 3), stop
    assert read(tmp_path / "resumed", size) == Counter(samples(resumed)), stop


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeded", [False, True])
def test_fabric(fabric: Run, tmp_path: Path, seeded: bool) -> None:
    whole = train(fabric, "fabric_training", tmp_path / "whole", tmp_path / "uninterrupted", seeded=seeded)
    assert list(by_epoch(whole, 3)) == [[*range(ROWS)]] * 3  # Fabric: sharded
    for resumed, rest in resumed_ranks(fabric, "fabric_training", tmp_path, whole, seeded=seeded):
        assert resumed == rest  # Fabric: resumes


def evaluated(path: Path) -> list[list[int]]:
    return [json.loads(line) for line in path.with_name(f"{path.name}-evaluated").read_text().splitlines()]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeded", [False, True])
def test_lightning(lightning: Run, tmp_path: Path, seeded: bool) -> None:
    whole = train(lightning, "lightning_training", tmp_path / "whole", tmp_path / "uninterrupted", seeded=seeded)
    assert list(by_epoch(whole, 3)) == [[*range(ROWS)]] * 3  # Lightning: sharded
    both = zip(*(evaluated(tmp_path / f"whole-{rank}") for rank in range(2)), strict=True)
    assert [sorted(first + second) for first, second in both] == [[*range(ROWS)]] * 3
    for resumed, rest in resumed_ranks(lightning, "lightning_training", tmp_path, whole, seeded=seeded):
        assert resumed == rest  # Lightning: resumes


@pytest.mark.timeout(300)
def test_timm(timm: Run, tmp_path: Path) -> None:
    whole = train(timm, "timm_training", tmp_path / "whole", tmp_path / "uninterrupted")
    assert list(by_epoch(whole, 3)) == [[*range(ROWS)]] * 3  # timm: sharded
    both = zip(*(evaluated(tmp_path / f"whole-{rank}") for rank in range(2)), strict=True)
    assert [sorted(first + second) for first, second in both] == [[*range(ROWS)]] * 3
    for resumed, rest in resumed_ranks(timm, "timm_training", tmp_path, whole):
        assert resumed == rest  # timm: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seeded", [False, True])
def test_mmengine(mmengine: Run, tmp_path: Path, seeded: bool) -> None:
    whole = train(mmengine, "mmengine_training", tmp_path / "whole", tmp_path / "uninterrupted", seeded=seeded)
    assert list(by_epoch(whole, 3)) == [[*range(ROWS)]] * 3  # mmengine: sharded
    assert [sorted(each) for each in evaluated(tmp_path / "whole-0")] == [[*range(ROWS - 3)]] * 3
    for resumed, rest in resumed_ranks(mmengine, "mmengine_training", tmp_path, whole, seeded=seeded):
        assert resumed == rest  # mmengine: resumes


@pytest.mark.timeout(300)
def test_open_clip(open_clip: Run, tmp_path: Path) -> None:
    """Its first rank evaluates."""
    whole = train(open_clip, "open_clip_training", tmp_path / "whole", tmp_path / "uninterrupted")
    assert list(by_epoch(whole, 2)) == [[*range(ROWS)]] * 2  # OpenCLIP: sharded
    assert evaluated(tmp_path / "whole-0") == [[*range(ROWS)]] * 2
    for resumed, rest in resumed_ranks(open_clip, "open_clip_training", tmp_path, whole):
        assert resumed == rest  # OpenCLIP: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [1, 2])
def test_ultralytics(ultralytics: Run, tmp_path: Path, size: int) -> None:
    """It evaluates after each epoch, and in one process the best weights at the end."""
    whole = train(ultralytics, "ultralytics_training", tmp_path / "whole", tmp_path / "results", size=size)
    assert list(by_epoch(whole, 3)) == [[*range(ROWS)]] * 3  # ultralytics: sharded
    counts = Counter(index for rank in range(size) for each in evaluated(tmp_path / f"whole-{rank}") for index in each)
    assert counts == dict.fromkeys(range(8), 4 if size == 1 else 3)


@pytest.mark.timeout(300)
def test_verl(verl: Run, tmp_path: Path) -> None:
    whole = train(verl, "verl_training", tmp_path / "whole", tmp_path / "uninterrupted")
    assert list(by_epoch(whole, 3)) == [[*range(ROWS)]] * 3  # verl: sharded
    both = zip(*(evaluated(tmp_path / f"whole-{rank}") for rank in range(2)), strict=True)
    assert [sorted(first + second) for first, second in both] == [[*range(ROWS)]] * 3
    for resumed, rest in resumed_ranks(verl, "verl_training", tmp_path, whole):
        assert resumed == rest  # verl: resumes
