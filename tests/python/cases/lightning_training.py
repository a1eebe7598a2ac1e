"""A script for Lightning, as users write it: its trainer and its checkpoints, with our loaders, on the CPU."""

from __future__ import annotations

import logging
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DistributedSampler

from cases.recorded_training import BATCH_SIZE, EPOCHS, Record, Rows, loss_of, model, ranks
from sluicegate import DataLoader


class Model(lightning.LightningModule):
    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record, self.layers = record, model()
        self.evaluated: list[int] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        assert type(self.trainer.train_dataloader) is DataLoader
        self.record.after(self.trainer.global_step)  # the checkpoint was saved
        return loss_of(self.layers(batch[1]), batch[0])

    def on_train_batch_end(self, outputs: Any, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> None:
        self.record.write(self.trainer.global_step, batch[0].tolist(), outputs["loss"].item(), self)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> None:
        assert type(self.trainer.val_dataloaders) is DataLoader
        self.evaluated += batch[0].tolist()

    def on_validation_epoch_end(self) -> None:
        self.record.evaluated(self.evaluated)
        self.evaluated.clear()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["generator"] = torch.get_rng_state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        torch.set_rng_state(checkpoint["generator"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 0.01)


def loader_of(rows: Rows, seeded: bool, shuffle: bool) -> DataLoader[Any]:
    if seeded:
        return DataLoader(rows, BATCH_SIZE, shuffle=shuffle, num_workers=2, seed=7, shard=ranks())
    rank, size = ranks()
    return DataLoader(rows, BATCH_SIZE, num_workers=2, sampler=DistributedSampler(rows, size, rank, shuffle))


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, seeded: bool = True) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the last checkpoint.
        seeded: True for loaders with a seed and shards, False for ones with a sampler.
    """
    logging.disable()
    _, size = ranks()
    torch.manual_seed(1)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=size,
        strategy="ddp" if size > 1 else "auto",
        use_distributed_sampler=False,
        callbacks=[ModelCheckpoint(folder, every_n_train_steps=3, save_last=True)],
        num_sanity_val_steps=0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        Model(Record(path, stop)),
        loader_of(Rows(f"{path}-reads"), seeded, shuffle=True),
        loader_of(Rows(f"{path}-evaluation-reads"), seeded, shuffle=False),
        ckpt_path=f"{folder}/last.ckpt" if resumes else None,
    )
