"""Trainings on two ranks, killed at a random step and resumed: Lightning, Fabric, and trainers without a seed.

Each script trains as users of the trainer do, and writes a line for each batch: the step, the samples, the loss, and
the sum of the weights. The lines of a resumed training have to be those of an uninterrupted one, and without a seed
those with torch's loader, bit for bit. `make test-trainers` installs the trainers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.recorded_training import BATCH_SIZE, EPOCHS, ROWS
from checks.programs import Run
from checks.trained_ranks import by_epoch, evaluated, read, resumed_elsewhere, resumed_ranks, samples, train, updates
from checks.trainer_lines import Lines, imported

# Samples as trainings count them.
ONCE = [*range(ROWS)]
KINDS = ["seeded", "sampled"]


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
        patch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # Its checkpoints contain more than weights.
        patch.setenv("DS_ACCELERATOR", "cpu")  # mmengine imports DeepSpeed, which prints the detected device otherwise.
        yield from imported("mmengine", "mmengine.runner", "torch._dynamo")


@pytest.fixture(scope="module")
def ultralytics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOLO_CONFIG_DIR", str(tmp_path_factory.mktemp("settings")))
        # ultralytics itself is excluded, because it reads its rank when it is imported.
        yield from imported("ultralytics", "cv2", "matplotlib", "polars", "torchvision", "torch._dynamo")


@pytest.fixture(scope="module")
def verl() -> Iterator[Run]:
    yield from imported("torchdata", "torchdata.stateful_dataloader", "torch._dynamo")


# Lightning counts batches: with more ranks, it considers an unfinished epoch finished. timm drops the last batch, and
# fairseq2 has a file per rank.
OTHER_SIZES: list[tuple[str, int, dict[str, Any]]] = [
    ("fabric", 4, {}),
    ("lightning", 1, {}),
    ("mmengine", 1, {}),
    ("mmengine", 4, {}),
    ("timm", 1, {"kind": "seeded"}),
    ("open_clip", 1, {"kind": "seeded", "last": 10}),
    ("fairseq2", 1, {"saves": 2, "last": 9}),
    ("fully_shard", 1, {}),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("trainer", "size", "given"), OTHER_SIZES, ids=str)
def test_with_a_seed_another_number_of_ranks_resumes(
    request: pytest.FixtureRequest, tmp_path: Path, trainer: str, size: int, given: dict[str, Any]
) -> None:
    counts = resumed_elsewhere(request.getfixturevalue(trainer), f"{trainer}_training", tmp_path, size, **given)
    assert counts == dict.fromkeys(range(ROWS), 2 if trainer == "open_clip" else EPOCHS)


# An epoch has five batches on each rank; the last update of an epoch has fewer than the others.
ACCUMULATES = [("seeded", 2), ("sampled", 3)]
STEPS = 5
UPDATES = {1: [*range(2, 16)], 2: [2, 4, 5, 7, 9, 10, 12, 14, 15], 3: [3, 5, 8, 10, 13, 15]}


def without_draws(ranks: list[Lines]) -> list[Any]:
    """Return the lines without values that depend on augmentations: the steps and the samples of each rank."""
    return [[line[:2] for line in lines] for lines in ranks]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "accumulates"), [("seeded", 1), *ACCUMULATES])
def test_fabric(fabric: Run, tmp_path: Path, kind: str, accumulates: int) -> None:
    script, given = "fabric_training", {"kind": kind, "accumulates": accumulates}
    whole = train(fabric, script, tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # Fabric: sharded
    assert updates(whole) == UPDATES[accumulates]
    assert evaluated(tmp_path / "whole") == [ONCE[: -3 if kind == "seeded" else None]] * EPOCHS
    if kind == "sampled":
        assert whole == train(fabric, script, tmp_path / "torchs", tmp_path, **given | {"kind": "torch"})
    for resumed, rest in resumed_ranks(fabric, script, tmp_path, whole, **given):
        assert resumed == rest  # Fabric: resumes


LIGHTNING: list[tuple[str, dict[str, Any]]] = [
    *((kind, {"accumulates": accumulates}) for kind, accumulates in ACCUMULATES),
    *((kind, {"injects": True}) for kind in KINDS),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "given"), LIGHTNING, ids=str)
def test_lightning(lightning: Run, tmp_path: Path, kind: str, given: dict[str, Any]) -> None:
    script, given = "lightning_training", {"kind": kind, **given}
    whole = train(lightning, script, tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # Lightning: sharded
    assert updates(whole) == UPDATES[given.get("accumulates", 1)]
    assert evaluated(tmp_path / "whole") == [ONCE] * EPOCHS
    if kind == "sampled":
        assert whole == train(lightning, script, tmp_path / "torchs", tmp_path, **given | {"kind": "torch"})
    for resumed, rest in resumed_ranks(lightning, script, tmp_path, whole, **given):
        if kind == "sampled" and len(resumed[0]) % STEPS == 0:
            # The evaluation after the checkpoint drew from the unseeded generator; Lightning does not repeat it.
            assert without_draws(resumed) == without_draws(rest)
        else:
            assert resumed == rest  # Lightning: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_timm(timm: Run, tmp_path: Path, kind: str) -> None:
    whole = train(timm, "timm_training", tmp_path / "whole", tmp_path / "uninterrupted", kind=kind)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # timm: sharded
    assert evaluated(tmp_path / "whole") == [ONCE] * EPOCHS
    if kind == "sampled":
        assert whole == train(timm, "timm_training", tmp_path / "torchs", tmp_path, kind="torch")
    for resumed, rest in resumed_ranks(timm, "timm_training", tmp_path, whole, kind=kind):
        assert resumed == rest  # timm: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accumulates", [1, 4])
def test_mmengine(mmengine: Run, tmp_path: Path, kind: str, accumulates: int) -> None:
    """Accumulation continues in the next epoch, and ends with the training."""
    script, given = "mmengine_training", {"kind": kind, "accumulates": accumulates}
    whole = train(mmengine, script, tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # mmengine: sharded
    assert updates(whole) == (UPDATES[1] if accumulates == 1 else [4, 8, 12, 15])
    assert evaluated(tmp_path / "whole") == [ONCE[:-3]] * EPOCHS
    if kind == "sampled":
        assert whole == train(mmengine, script, tmp_path / "torchs", tmp_path / "torch", **given | {"kind": "torch"})
    for resumed, rest in resumed_ranks(mmengine, script, tmp_path, whole, max(3, accumulates), **given):
        assert resumed == rest  # mmengine: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_mmengine_without_epochs(mmengine: Run, tmp_path: Path, kind: str) -> None:
    script, given = "mmengine_training", {"kind": kind, "by_epoch": False}
    whole = train(mmengine, script, tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS
    assert evaluated(tmp_path / "whole") == [ONCE[:-3]] * EPOCHS
    # Two workers of each rank read two batches before the state is loaded, and at the end those after the last one: an
    # infinite sampler does not end with the training.
    ahead = 2 * 2 * 2 * BATCH_SIZE * (1 if kind == "seeded" else 2)
    for resumed, rest in resumed_ranks(mmengine, script, tmp_path, whole, ahead=ahead, **given):
        assert resumed == rest


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "size", "workers"), [("sampled", 1, 0), ("sampled", 2, 2), ("seeded", 2, 2)])
def test_open_clip(open_clip: Run, tmp_path: Path, kind: str, size: int, workers: int) -> None:
    """Only its first rank evaluates."""
    script, given = "open_clip_training", {"kind": kind, "workers": workers}
    whole = train(open_clip, script, tmp_path / "whole", tmp_path / "uninterrupted", size=size, **given)
    assert list(by_epoch(whole, 2)) == [ONCE] * 2  # OpenCLIP: sharded
    assert evaluated(tmp_path / "whole", size) == [ONCE] * 2
    if kind == "sampled":
        torchs = train(open_clip, script, tmp_path / "torchs", tmp_path, size=size, **given | {"kind": "torch"})
        assert whole == torchs
    for resumed, rest in resumed_ranks(open_clip, script, tmp_path, whole, **given):
        assert resumed == rest  # OpenCLIP: resumes


def samples_of(lines: Lines) -> list[list[int]]:
    return [line[1] for line in lines]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "size"), [("sampled", 1), ("sampled", 2), ("seeded", 2)])
def test_ultralytics(ultralytics: Run, tmp_path: Path, kind: str, size: int) -> None:
    """It evaluates after each epoch and, in a single process, evaluates the best weights at the end."""
    script, given = "ultralytics_training", {"kind": kind}
    whole = train(ultralytics, script, tmp_path / "whole", tmp_path / "results", size=size, **given)
    assert list(by_epoch(whole, 3)) == [ONCE] * 3  # ultralytics: sharded
    counts = Counter(index for each in evaluated(tmp_path / "whole", size) for index in each)
    assert counts == dict.fromkeys(range(8), 4 if size == 1 else 3)
    if kind == "sampled" and size == 2:
        torchs = train(ultralytics, script, tmp_path / "torchs", tmp_path / "torch", kind="torch")
        assert [*map(samples_of, whole)] == [*map(samples_of, torchs)]
    # Its checkpoints hold averaged weights in half precision, so only the samples are compared.
    for resumed, rest in resumed_ranks(ultralytics, script, tmp_path, whole, len(whole[0]) // 3, **given):
        assert [*map(samples_of, resumed)] == [*map(samples_of, rest)]  # ultralytics: resumes


@pytest.mark.timeout(300)
def test_with_a_seed_one_process_resumes_two_ranks_of_ultralytics(ultralytics: Run, tmp_path: Path) -> None:
    """Within an epoch, from the second epoch on."""
    script, stop = "ultralytics_training", random.randrange(6, 15)
    killed = train(ultralytics, script, tmp_path / "killed", tmp_path, stop=stop, kind="seeded")
    resumed = train(ultralytics, script, tmp_path / "resumed", tmp_path, size=1, resumes=True, kind="seeded")
    saved = (3 * ROWS - len(samples(resumed))) // (2 * BATCH_SIZE)
    assert stop - 3 < saved <= stop
    counts = Counter(samples([lines[:saved] for lines in killed]) + samples(resumed))
    assert counts == dict.fromkeys(range(ROWS), 3)
    assert read(tmp_path / "resumed", 1) == Counter(samples(resumed))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_supervised", [True, False])
def test_verl(verl: Run, tmp_path: Path, kind: str, is_supervised: bool) -> None:
    """Samples that the first rank reads for all are read once."""
    given: dict[str, Any] = {"kind": kind, "is_supervised": is_supervised}
    whole = train(verl, "verl_training", tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # verl: sharded
    assert evaluated(tmp_path / "whole") == [ONCE] * EPOCHS
    if kind == "sampled":
        assert whole == train(verl, "verl_training", tmp_path / "torchs", tmp_path, **given | {"kind": "torch"})
    for resumed, rest in resumed_ranks(verl, "verl_training", tmp_path, whole, **given):
        assert resumed == rest  # verl: resumes


@pytest.fixture(scope="module")
def doubles() -> Iterator[Run]:
    yield from imported("torch", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict")


@pytest.fixture(scope="module")
def fairseq2(doubles: Run) -> Run:
    return doubles


@pytest.fixture(scope="module")
def fully_shard(doubles: Run) -> Run:
    return doubles


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_fairseq2(fairseq2: Run, tmp_path: Path, kind: str) -> None:
    """An epoch of five batches has three steps."""
    script, given = "fairseq2_training", {"kind": kind}
    whole = train(fairseq2, script, tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # fairseq2: sharded
    assert updates(whole) == [*range(2, 10)]
    assert evaluated(tmp_path / "whole") == [ONCE[: -3 if kind == "seeded" else None]] * EPOCHS
    if kind == "sampled":
        assert whole == train(fairseq2, script, tmp_path / "torchs", tmp_path, kind="torch")
    for resumed, rest in resumed_ranks(fairseq2, script, tmp_path, whole, 2, **given):
        assert resumed == rest  # fairseq2: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_nanochat(doubles: Run, tmp_path: Path, kind: str) -> None:
    """It reads one batch ahead, and its first rank saves the state of the loader."""
    script, given = "nanochat_training", {"kind": kind}
    whole = train(doubles, script, tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # nanochat: sharded
    batches = [line[1] for line in whole[0]]
    assert (batches[:STEPS] == batches[STEPS : 2 * STEPS]) == (kind == "sampled")
    assert evaluated(tmp_path / "whole") == [ONCE] * EPOCHS
    # At the end, two workers of each rank have read two batches of the next epoch, and one waits.
    ahead = 2 * (2 * 2 + 1) * BATCH_SIZE
    for resumed, rest in resumed_ranks(doubles, script, tmp_path, whole, ahead=ahead, **given):
        assert resumed == rest  # nanochat: resumes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_fully_shard(fully_shard: Run, tmp_path: Path, kind: str) -> None:
    """The ranks have parts of the model, which `torch.distributed.checkpoint` saves with the loader."""
    script, given = "fully_shard_training", {"kind": kind}
    whole = train(fully_shard, script, tmp_path / "whole", tmp_path / "uninterrupted", **given)
    assert list(by_epoch(whole, EPOCHS)) == [ONCE] * EPOCHS  # torch.distributed.checkpoint: sharded
    assert evaluated(tmp_path / "whole") == [ONCE[: -3 if kind == "seeded" else None]] * EPOCHS
    if kind == "sampled":
        assert whole == train(fully_shard, script, tmp_path / "torchs", tmp_path, kind="torch")
    for resumed, rest in resumed_ranks(fully_shard, script, tmp_path, whole, **given):
        assert resumed == rest  # torch.distributed.checkpoint: resumes
