"""The Trainer of transformers in one process: our loaders, torch's samples, and resumed trainings."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import transformers
from accelerate.data_loader import DataLoaderShard

import sluicegate
from cases.transformers_training import SAMPLES, Rows, collate, counted, refused, train, trainer_of
from cases.transformers_training import Model as Small
from checks.programs import Run
from sluicegate.accelerate.prepared_loader import PreparedLoader
from sluicegate.transformers import LoaderMixin, Trainer


def trained(path: Path, kind: str, **arguments: Any) -> list[list[Any]]:
    """Return the lines that a training wrote."""
    train(str(path), kind, **arguments)
    return [json.loads(line) for line in path.read_text().splitlines()]


def after(lines: list[list[Any]], step: int) -> list[list[Any]]:
    """Return the lines of a whole training that a training resumed at `step` writes too."""
    return [line for line in lines if line[1] > step or (line[1] == step and line[0] == "step")]


def test_the_package_alone_does_not_import_transformers(run: Run) -> None:
    run("import sluicegate.accelerate; assert 'transformers' not in sys.modules").check()


def test_the_package_is_the_installed_one() -> None:
    """This folder has the same name, and is also on the path."""
    assert transformers.__file__ is not None
    print(f"transformers {transformers.__version__}")


WORKERS = {"dataloader_num_workers": 2}
ALIKE: list[dict[str, Any]] = [
    {"draws": True, "dropout": 0.5},
    {"draws": True, "dropout": 0.5, **WORKERS},
    {"draws": True, **WORKERS, "dataloader_persistent_workers": True, "dataloader_prefetch_factor": 3},
    {"data_seed": 4, "gradient_accumulation_steps": 3},
    {"train_sampling_strategy": "group_by_length", "gradient_accumulation_steps": 2},
    {"train_sampling_strategy": "batch_rebalance"},
    {"train_sampling_strategy": "sequential", "dataloader_drop_last": True},
    {"stream": "sized", **WORKERS},
    {"stream": "endless", "max_steps": 13, "eval_strategy": "no"},
    {"accelerator_config": {"use_seedable_sampler": False}, "draws": True},
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("arguments", ALIKE, ids=str)
def test_without_a_seed_it_trains_as_with_torchs_loader(tmp_path: Path, arguments: dict[str, Any]) -> None:
    expected = trained(tmp_path / "torch", "torch", folder=str(tmp_path), **arguments)
    assert trained(tmp_path / "ours", "sluicegate", folder=str(tmp_path), **arguments) == expected
    assert len(expected) > 10


def test_every_argument_for_loaders_arrives(tmp_path: Path) -> None:
    given = {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 5, "in_order": False, "drop_last": True}
    arguments = {f"dataloader_{name}": value for name, value in given.items()}
    trainer = trainer_of("sluicegate", **arguments, loader_arguments={"seed": 3, "worker_type": "thread"})
    training, evaluation = trainer.get_train_dataloader(), trainer.get_eval_dataloader()
    for loader in (training, evaluation, trainer.get_test_dataloader(Rows())):
        assert isinstance(loader, sluicegate.DataLoader)
        assert {name: getattr(loader, name) for name in given} == given
        assert (loader.seed, loader.worker_type, loader.pin_memory) == (3, "thread", False)
    assert training.worker_init_fn.func is transformers.trainer_utils.seed_worker
    assert trainer.get_eval_dataloader() is evaluation  # Its workers persist.
    trainer = trainer_of("sluicegate", per_device_train_batch_size=5)
    trainer.args.dataloader_pin_memory = True  # `TrainingArguments` turn it off on the CPU.
    loader = trainer.get_train_dataloader()
    assert (loader.pin_memory, loader.batch_size, loader.drop_last) == (True, 5, False)


def test_loader_arguments_of_the_trainer_are_refused() -> None:
    with pytest.raises(TypeError, match=r"loader_arguments: takes .*, got 'batch_size'"):
        trainer_of("sluicegate", loader_arguments={"batch_size": 3})


@pytest.mark.parametrize("seed", [None, 7])
def test_an_evaluation_counts_each_sample_once(seed: int | None) -> None:
    """The last batch is shorter, but the trainer repeats its loss as for a whole batch."""
    metrics = {}
    for kind in ("torch", "sluicegate"):
        trainer = trainer_of(kind, per_device_eval_batch_size=8, loader_arguments={"seed": seed})
        found = trainer.evaluate()
        assert found["eval_counted"] == list(range(SAMPLES))
        metrics[kind] = found["eval_loss"]
        assert sorted(trainer.predict(Rows(size=9)).predictions.tolist()) == list(range(9))
    assert metrics["sluicegate"] == metrics["torch"]


RESUMED: list[dict[str, Any]] = [
    {},
    WORKERS,
    {**WORKERS, "dataloader_persistent_workers": True, "gradient_accumulation_steps": 3},
    {"train_sampling_strategy": "batch_rebalance"},
    {"stream": "sized"},
    {"stream": "endless", "max_steps": 9},
    {"stream": "sized", **WORKERS},
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("arguments", RESUMED, ids=str)
def test_a_resumed_training_is_the_uninterrupted_one(
    tmp_path: Path, arguments: dict[str, Any], seed: int | None
) -> None:
    given = {"draws": True, "dropout": 0.5, "folder": str(tmp_path), "loader_arguments": {"seed": seed}, **arguments}
    # Evaluations draw, so they come before saving. If their workers persist, the first one draws more.
    saves = {"save_strategy": "steps", "save_steps": 1, "eval_strategy": "steps", "eval_steps": 5}
    if "dataloader_persistent_workers" in arguments:
        saves["eval_strategy"] = "no"
    whole = trained(tmp_path / "whole", "sluicegate", **given, **saves)
    last = max(line[1] for line in whole)
    for step in {last // 2, random.choice([3, last - 2])}:  # the first is the end of an epoch, except for streams
        (tmp_path / "reads-1").unlink(missing_ok=True)
        checkpoint = str(tmp_path / f"checkpoints/checkpoint-{step}")
        lines = trained(tmp_path / f"resumed-{step}", "sluicegate", **given, **saves, resumes=checkpoint)
        assert lines == after(whole, step), step
        order = [int(line) for line in (tmp_path / "reads-1").read_text().split()]
        reads = Counter(order)
        steps = Counter(index for line in lines if line[0] == "step" for index in line[2])
        if arguments.get("train_sampling_strategy") == "batch_rebalance":
            reads -= Counter(range(SAMPLES))  # the sampler of transformers reads the lengths
            assert (reads - steps).total() <= 2
        elif "stream" in arguments:
            assert order[0] >= lines[0][2][0], "an earlier sample was read"  # later ones may be prefetched
        else:
            assert reads == steps, "the resumed training has read other samples than it trained with"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [None, 7])
def test_lengths_are_grouped_when_it_resumes_in_a_later_epoch(tmp_path: Path, seed: int | None) -> None:
    """With torch's loader, the resumed epoch has a different order, which repeats samples."""
    given: dict[str, Any] = {"train_sampling_strategy": "group_by_length", "dropout": 0.5, "folder": str(tmp_path)}
    given |= {"loader_arguments": {"seed": seed}, "save_strategy": "steps", "save_steps": 7, "eval_strategy": "no"}
    whole = trained(tmp_path / "whole", "sluicegate", **given)
    checkpoint = str(tmp_path / "checkpoints/checkpoint-14")
    assert trained(tmp_path / "resumed", "sluicegate", **given, resumes=checkpoint) == after(whole, 14)
    indices = sorted(index for line in whole if line[1] >= 10 for index in line[2])
    assert indices == list(range(SAMPLES))


@pytest.mark.timeout(300)
def test_prompts_that_are_repeated_stay_together(tmp_path: Path) -> None:
    given: dict[str, Any] = {"repeats": True, "per_device_train_batch_size": 6, "dropout": 0.5, "eval_strategy": "no"}
    given |= {"folder": str(tmp_path), "save_strategy": "steps", "save_steps": 3}
    whole = trained(tmp_path / "whole", "sluicegate", **given)
    assert len(whole) == 2 * 18
    for first, second in zip(whole[::2], whole[1::2], strict=True):
        assert first[2] == second[2] == [index for index in first[2][::2] for _ in range(2)]
    assert [line[2] for line in whole[:18]] != [line[2] for line in whole[18:]]
    assert whole == trained(tmp_path / "torch", "torch", **given)
    for step in (3, 18, 21):
        checkpoint = str(tmp_path / f"checkpoints/checkpoint-{step}")
        assert trained(tmp_path / f"resumed-{step}", "sluicegate", **given, resumes=checkpoint) == after(whole, step)
    loader: Any = trainer_of("sluicegate", repeats=True, loader_arguments={"seed": 7}).get_train_dataloader()
    assert loader.seed is None  # with one, states would not contain the sampler's generator


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", [7, 10, 14])
def test_a_checkpoint_of_another_trainer_resumes_as_with_torchs_loader(tmp_path: Path, step: int) -> None:
    given: dict[str, Any] = {"dropout": 0.5, "folder": str(tmp_path), "eval_strategy": "no"}
    train(str(tmp_path / "whole"), "torch", **given, save_strategy="steps", save_steps=step)
    checkpoint = str(tmp_path / f"checkpoints/checkpoint-{step}")
    expected = trained(tmp_path / "torch", "torch", **given, resumes=checkpoint)
    (tmp_path / "reads-1").unlink()
    lines = trained(tmp_path / "ours", "sluicegate", **given, resumes=checkpoint)
    assert lines == expected
    assert len((tmp_path / "reads-1").read_text().split()) == sum(len(line[2]) for line in lines)


@pytest.mark.timeout(300)
def test_a_position_of_another_training_is_refused(tmp_path: Path) -> None:
    given: dict[str, Any] = {"folder": str(tmp_path), "eval_strategy": "no"}
    train(str(tmp_path / "whole"), "sluicegate", **given, max_steps=4, save_strategy="steps", save_steps=4)
    given["resumes"] = str(tmp_path / "checkpoints/checkpoint-4")
    path = str(tmp_path / "refused")
    refused("3 samples per update, got 6", path, "sluicegate", **given, gradient_accumulation_steps=2)
    refused("updates per epoch, got 9", path, "sluicegate", **given, dataloader_drop_last=True)
    refused("seed", path, "sluicegate", **given, loader_arguments={"seed": 7})
    # As the trainer documents, the epoch then starts over.
    lines = trained(tmp_path / "again", "sluicegate", **given, gradient_accumulation_steps=2, ignore_data_skip=True)
    assert lines[0][1] == 4


def test_the_function_of_the_trainer_is_restored(tmp_path: Path) -> None:
    before = transformers.trainer.skip_first_batches
    train(str(tmp_path / "lines"), "sluicegate", max_steps=1, eval_strategy="no")
    assert transformers.trainer.skip_first_batches is before


@pytest.mark.parametrize("workers", [0, 2])
def test_a_table_is_read_in_rust(tmp_path: Path, workers: int) -> None:
    """The trainer drops columns, and its collate function and `worker_init_fn` are recognized."""
    losses = []
    rows = [[1.0, index / SAMPLES, (index % 5) / 5] for index in range(SAMPLES)]
    columns = {"row": rows, "labels": list(range(SAMPLES)), "index": list(range(SAMPLES)), "text": ["a"] * SAMPLES}
    for kind in (transformers.Trainer, Trainer):
        transformers.set_seed(1)
        arguments = transformers.TrainingArguments(
            str(tmp_path), num_train_epochs=2, use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True,
            dataloader_num_workers=workers, dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = kind(Small(0.5), arguments, train_dataset=datasets.Dataset.from_dict(columns))
        losses.append(trainer.train().training_loss)
    assert trainer.callback_handler.train_dataloader.explain().engine == "rust"
    assert losses[0] == losses[1]


class Subclass(torch.utils.data.DataLoader):
    pass


def test_a_loader_of_the_users_own_is_kept() -> None:
    """A sluicegate.DataLoader returned by an overridden method, and a subclass of torch's loader, are kept."""

    class Own(LoaderMixin, transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            return self.accelerator.prepare(sluicegate.DataLoader(self.train_dataset, 2, seed=5, collate_fn=collate))

        def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
            return self.accelerator.prepare(Subclass(Rows(), 2, collate_fn=collate))

    arguments = transformers.TrainingArguments("/nonexistent", use_cpu=True, report_to="none")
    trainer = Own(Small(0.0), arguments, train_dataset=Rows())
    assert isinstance(trainer.get_train_dataloader(), PreparedLoader)
    assert trainer.get_train_dataloader().seed == 5
    assert isinstance(trainer.get_eval_dataloader(), DataLoaderShard)


def test_a_smaller_batch_size_that_the_trainer_finds_is_the_loaders(tmp_path: Path) -> None:
    sizes = []

    class Large(Small):
        def forward(self, row: torch.Tensor, labels: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
            sizes.append(len(row))
            if len(row) > 4:
                raise RuntimeError("CUDA out of memory.")
            return super().forward(row, labels, index)

    arguments = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=8, auto_find_batch_size=True, max_steps=2, use_cpu=True,
        report_to="none", save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
        dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = Trainer(Large(0.0), arguments, collate, Rows(), compute_metrics=counted, loader_arguments={"seed": 7})
    trainer.train()
    assert sizes[0] == 8
    assert set(sizes[-2:]) == {4}
