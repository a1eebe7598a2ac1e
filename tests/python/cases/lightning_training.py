"""A script for Lightning, as users write it: its trainer and its checkpoints, with our loaders, on the CPU."""

from __future__ import annotations

import logging
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from cases.recorded_training import BATCH_SIZE, EPOCHS, MODULES, Record, Rows, loader_of, loss_of, model, ranks


class Model(lightning.LightningModule):
    def __init__(self, record: Record, kind: str) -> None:
        super().__init__()
        self.record, self.kind, self.layers, self.batches = record, kind, model(), 0
        self.evaluated: list[int] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        assert type(self.trainer.train_dataloader) is MODULES[self.kind].DataLoader
        self.record.after(self.batches)  # after the checkpoint was saved
        self.batches += 1
        return loss_of(self.layers(batch[1]), batch[0])

    def on_train_batch_end(self, outputs: Any, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> None:
        self.record.write(self.batches, batch[0].tolist(), outputs["loss"].item(), self)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> None:
        assert type(self.trainer.val_dataloaders) is MODULES[self.kind].DataLoader
        self.evaluated += batch[0].tolist()

    def on_validation_epoch_end(self) -> None:
        self.record.evaluated(self.evaluated)
        self.evaluated.clear()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["generator"] = torch.get_rng_state()
        checkpoint["batches"] = self.batches

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        torch.set_rng_state(checkpoint["generator"])
        self.batches = checkpoint["batches"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 0.01)


def whole_loader_of(kind: str, rows: Rows, *, shuffle: bool = True) -> Any:
    """Return a loader of all samples, as for a single process."""
    seeded = {"seed": 7} if kind == "seeded" else {}
    workers = 2 if shuffle else 0
    return MODULES[kind].DataLoader(rows, BATCH_SIZE, shuffle=shuffle, num_workers=workers, **seeded)


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "seeded",
    accumulates: int = 1,
    injects: bool = False,
) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        kind: of the loaders, as for `loader_of`.
        accumulates: the number of batches per update.
        injects: True for loaders of all samples, which Lightning divides with its own sampler.
    """
    logging.disable()
    _, size = ranks()
    torch.manual_seed(1)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=size,
        strategy="ddp" if size > 1 else "auto",
        use_distributed_sampler=injects,
        accumulate_grad_batches=accumulates,
        callbacks=[ModelCheckpoint(folder, every_n_train_steps=3 if accumulates == 1 else 1, save_last=True)],
        num_sanity_val_steps=0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    make = whole_loader_of if injects else loader_of
    trainer.fit(
        Model(Record(path, stop), kind),
        make(kind, Rows(f"{path}-reads")),
        make(kind, Rows(f"{path}-evaluation-reads"), shuffle=False),
        ckpt_path=f"{folder}/last.ckpt" if resumes else None,
    )
