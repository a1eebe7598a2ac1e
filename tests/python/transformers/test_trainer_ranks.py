"""The Trainer of transformers with two processes: trained, killed, and resumed, with torch's loader as the oracle."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.transformers_training import EPOCHS, SAMPLES
from checks.gloo_ranks import launch
from checks.programs import Run, zygote

TRAIN = 'from cases import transformers_training; transformers_training.train(f"{path}-{rank}", kind, **arguments)'
REFUSED = 'from cases import transformers_training; transformers_training.refused(text, f"{path}-{rank}", **arguments)'


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run programs in a process that has imported the Trainer, and the modules that the trainings import."""
    later = ("accelerate", "torch._dynamo", "torch.distributed.fsdp")
    yield from zygote("transformers", "transformers.trainer", *later, "cases.transformers_training")


def train(run: Run, path: Path, world_size: int, kind: str = "sluicegate", **arguments: Any) -> list[list[Any]]:
    """Return the lines that each process wrote."""
    launch(run, TRAIN, world_size, path=str(path), kind=kind, arguments=arguments)
    texts = [Path(f"{path}-{rank}").read_text() for rank in range(world_size)]
    return [[json.loads(line) for line in text.splitlines()] for text in texts]


def trained(ranks: list[list[Any]]) -> list[int]:
    return [index for lines in ranks for line in lines if line[0] == "step" for index in line[2]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "arguments",
    [
        {"draws": True, "dropout": 0.5},
        {"draws": True, "dropout": 0.5, "dataloader_num_workers": 2, "gradient_accumulation_steps": 2},
        {"train_sampling_strategy": "batch_rebalance"},
        {"accelerator_config": {"use_seedable_sampler": False}},
    ],
    ids=str,
)
def test_without_a_seed_it_trains_as_with_torchs_loader(run: Run, tmp_path: Path, arguments: dict[str, Any]) -> None:
    expected = train(run, tmp_path / "torch", 2, "torch", **arguments)
    assert train(run, tmp_path / "ours", 2, **arguments) == expected
    assert set(trained(expected)) == set(range(SAMPLES))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("strategy", "seed"), [("random", 7), ("group_by_length", 7), ("group_by_length", None)])
def test_each_sample_is_trained_and_counted_once(run: Run, tmp_path: Path, strategy: str, seed: int | None) -> None:
    """Even if processes draw differently, as in this script, in which torch's loader groups lengths differently."""
    arguments = {"train_sampling_strategy": strategy, "loader_arguments": {"seed": seed}}
    ranks = train(run, tmp_path / "lines", 2, **arguments)
    counts = Counter(trained(ranks))
    assert sorted(counts) == list(range(SAMPLES))  # Transformers: sharded
    # The last step of an epoch is padded; without a seed, to complete batches.
    padding = 1 if seed is not None else -SAMPLES % 6
    assert counts.total() == EPOCHS * (SAMPLES + padding)
    assert min(counts.values()) == EPOCHS
    for lines in ranks:
        evaluations = [line[3] for line in lines if line[0] == "evaluation"]
        assert evaluations == [list(range(SAMPLES))] * EPOCHS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("workers", "stop"), [(0, None), (0, 5), (2, None)])
def test_killed_it_resumes_bit_for_bit(
    run: Run, tmp_path: Path, workers: int, stop: int | None, seed: int | None
) -> None:
    stop = stop or random.randrange(1, 10)
    arguments: dict[str, Any] = {"draws": True, "dropout": 0.5, "loader_arguments": {"seed": seed}}
    arguments |= {"folder": str(tmp_path), "dataloader_num_workers": workers, "eval_strategy": "no"}
    whole = train(run, tmp_path / "whole", 2, **arguments)
    train(run, tmp_path / "killed", 2, **arguments, save_strategy="steps", save_steps=1, stop=stop)
    resumed = train(run, tmp_path / "resumed", 2, **arguments, resumes=True)
    for lines, expected in zip(resumed, whole, strict=True):
        assert lines == [line for line in expected if line[1] >= stop], stop  # Transformers: resumes
    reads = Counter(map(int, (tmp_path / "reads-1").read_text().split()))
    assert reads == Counter(trained(resumed)), "the resumed training has read other samples than it trained with"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_with_a_seed_another_number_of_processes_resumes(run: Run, tmp_path: Path, before: int, after: int) -> None:
    arguments: dict[str, Any] = {"folder": str(tmp_path), "eval_strategy": "no", "loader_arguments": {"seed": 7}}
    saves = {"save_strategy": "steps", "save_steps": 1, "stop": 3}
    first = train(run, tmp_path / "before", before, **arguments, **saves, per_device_train_batch_size=4 // before)
    second = train(run, tmp_path / "after", after, **arguments, resumes=True, per_device_train_batch_size=4 // after)
    counts = Counter(trained(first)) + Counter(trained(second))
    assert len(trained(first)) == 12
    assert sorted(counts) == list(range(SAMPLES))
    assert min(counts.values()) == EPOCHS
    assert counts.total() <= EPOCHS * (SAMPLES + 1)
    refuse = {**arguments, "resumes": True, "per_device_train_batch_size": 4, "kind": "sluicegate"}
    if after == 2:
        launch(run, REFUSED, 2, path=str(tmp_path / "x"), text="4 samples per update, got 8", arguments=refuse)


@pytest.mark.timeout(300)
def test_without_a_seed_another_number_of_processes_is_refused(run: Run, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"folder": str(tmp_path), "eval_strategy": "no"}
    train(run, tmp_path / "before", 2, **arguments, save_strategy="steps", save_steps=1, stop=3)
    refuse = {**arguments, "resumes": True, "per_device_train_batch_size": 6, "kind": "sluicegate"}
    launch(run, REFUSED, 1, path=str(tmp_path / "x"), text="saved by 2 processes, got 1", arguments=refuse)


@pytest.mark.timeout(300)
def test_a_stream_is_left_to_torchs_loader_with_a_warning(run: Run, tmp_path: Path) -> None:
    program = """
            import warnings
            from cases import transformers_training
            warnings.filterwarnings("error", message="sluicegate")
            trainer = transformers_training.trainer_of("sluicegate", stream="sized")
            try:
                trainer.get_train_dataloader()
            except UserWarning as warning:
                assert "torch's loader reads it" in str(warning)
            else:
                raise AssertionError("no warning")
"""
    launch(run, program.strip(), 2)
