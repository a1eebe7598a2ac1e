"""A user-defined Trainer that returns our loader: stopped within an epoch, and resumed from its checkpoint."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import sluicegate
import sluicegate.transformers
from checks.public_names import assert_named

SAMPLES = 24
STOPS = [4, 8]  # Epochs have six steps.


class Numbers(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.tensor([float(index)])}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        self.seen.append(x.flatten().int().tolist())
        return {"loss": self.layer(x).sum() * 0}


class Stopped(transformers.TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True


def batches(
    folder: Path, num_workers: int, is_prepared: bool, stop: int | None = None, resumed: int | None = None
) -> list[list[int]]:
    """Return the batches of a training that stops after a step, or that was stopped at one."""

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self) -> Any:
            loader = sluicegate.DataLoader(Numbers(), 4, shuffle=True, seed=7, num_workers=num_workers)
            return self.accelerator.prepare(loader) if is_prepared else loader

    arguments = transformers.TrainingArguments(
        str(folder), num_train_epochs=2, save_strategy="no", logging_strategy="no", report_to=[], use_cpu=True,
        disable_tqdm=True, remove_unused_columns=False, dataloader_pin_memory=False,
    )  # fmt: skip
    model = Model()
    trainer = Trainer(model, arguments, callbacks=[] if stop is None else [Stopped(stop)])
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=None if resumed is None else f"{folder}/checkpoint-{resumed}")
    return model.seen


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("num_workers", "is_prepared"), [(0, False), (2, False), (0, True)])
def test_a_trainer_resumes_within_an_epoch_of_a_seeded_loader(
    tmp_path: Path, num_workers: int, is_prepared: bool
) -> None:
    whole = batches(tmp_path, num_workers, is_prepared)
    epochs = [whole[:6], whole[6:]]
    assert epochs[0] != epochs[1]
    assert all(sorted(itertools.chain(*epoch)) == list(range(SAMPLES)) for epoch in epochs)
    for stop in STOPS:
        first = batches(tmp_path, num_workers, is_prepared, stop=stop)
        assert first + batches(tmp_path, num_workers, is_prepared, resumed=stop) == whole


def test_pickles_name_the_package() -> None:
    assert_named(sluicegate.transformers)
