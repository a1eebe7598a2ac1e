"""A script for Composer, as users write it: its trainer and its checkpoints, with our loaders, on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import composer
import pytest
import torch

from cases.recorded_training import (
    BATCH_SIZE,
    EPOCHS,
    MODULES,
    ROWS,
    Record,
    Rows,
    loader_of,
    loss_of,
    ranks,
    states_of_ranks,
)
from sluicegate import DataLoader


class Batches(composer.Callback):  # type: ignore[misc]
    """The loader that Composer sees, which is also the callback that puts its position into checkpoints."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader, self.batch_size, self.trained = loader, loader.batch_size, 0
        self.saved: list[Any] = []

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        yield from [None] * self.trained
        yield from self.loader

    def state_dict(self) -> dict[str, Any]:
        return {"ranks": states_of_ranks(self.loader.state_dict()), "batches": len(self)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert len(self) >= state["batches"], "on more processes, Composer would end the epoch early"
        self.saved = state["ranks"]

    def fit_start(self, state: composer.State, logger: Any) -> None:
        trained = int(state.timestamp.batch_in_epoch)
        self.trained = trained or 1  # Composer reads a batch from each epoch that was trained
        if 0 < trained < len(self):
            # With a seed, all ranks have the same state, which resumes on any number of ranks.
            rank, size = ranks()
            saved = self.saved[rank if len(self.saved) == size else 0] if self.saved else self.loader.state_dict()
            self.loader.load_state_dict(saved)
        self.saved = []

    def epoch_start(self, state: composer.State, logger: Any) -> None:
        self.trained = 0
        self.loader.set_epoch(int(state.timestamp.epoch))


class Model(composer.ComposerModel):  # type: ignore[misc]
    def __init__(self, record: Record) -> None:
        super().__init__()
        layers = (torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.layers, self.record = torch.nn.Sequential(*layers), record
        self.evaluated: list[int] = []

    def forward(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        found: torch.Tensor = self.layers(batch[1]).flatten()
        return found

    def loss(self, outputs: torch.Tensor, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return loss_of(outputs, batch[0])

    def eval_forward(self, batch: tuple[torch.Tensor, torch.Tensor], outputs: Any = None) -> torch.Tensor:
        self.evaluated += batch[0].tolist()
        return self(batch)


class Written(composer.Callback):  # type: ignore[misc]
    """Writes a line for each batch, and kills the process after one of them, once its checkpoint is saved."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def batch_end(self, state: composer.State, logger: Any) -> None:
        step, samples = int(state.timestamp.batch), state.batch[0].tolist()
        self.model.record.write(step, samples, state.loss.item(), state.model)

    # Composer saves a batch's checkpoint after all callbacks of that event, so the next event comes after it.
    def batch_start(self, state: composer.State, logger: Any) -> None:
        self.model.record.after(int(state.timestamp.batch))

    epoch_end = batch_start

    def eval_end(self, state: composer.State, logger: Any) -> None:
        self.model.record.evaluated(self.model.evaluated)
        self.model.evaluated.clear()


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "seeded",
    workers: int = 2,
    saves: str = "3ba",
) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        kind: of the loaders, as for `loader_of`.
        workers: the loaders'.
        saves: when Composer saves a checkpoint.
    """
    composer.utils.reproducibility.seed_all(1)
    _, size = ranks()
    if size > 1:
        os.environ |= {"LOCAL_WORLD_SIZE": f"{size}", "NODE_RANK": "0"}
    composer.utils.dist.initialize_dist("cpu")
    loader = loader_of(kind, Rows(f"{path}-reads"), workers=workers)
    # Composer drops the padding of torch's sampler.
    rows = Rows(f"{path}-evaluation-reads", ROWS - 3)
    sampler = composer.utils.dist.get_sampler(rows)
    evaluation = MODULES[kind].DataLoader(rows, BATCH_SIZE, num_workers=workers, sampler=sampler)
    model = Model(Record(path, stop))
    batches = loader if kind == "torch" else Batches(loader)
    trainer = composer.Trainer(
        model=model,
        optimizers=torch.optim.AdamW(model.parameters(), 0.01),
        train_dataloader=composer.DataSpec(batches, num_samples=ROWS),
        eval_dataloader=evaluation,
        callbacks=[Written(model)] if kind == "torch" else [batches, Written(model)],
        max_duration=f"{EPOCHS}ep",
        seed=1,
        save_folder=folder,
        save_interval=saves,
        load_path=f"{folder}/latest-rank0.pt" if resumes else None,
        device="cpu",
        progress_bar=False,
    )
    trainer.fit()
    assert type(loader) is MODULES[kind].DataLoader
    assert trainer.state.train_dataloader is batches
    assert type(trainer.state.evaluators[0].dataloader.dataloader) is MODULES[kind].DataLoader


def refused(path: str, folder: str) -> None:
    """Check that a checkpoint of fewer ranks is refused."""
    with pytest.raises(AssertionError, match="on more processes"):
        train(path, folder, resumes=True)
