"""A script for verl's supervised training: the loaders of a double of its trainer, and the loop and states of `fit`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torchdata.stateful_dataloader

import sluicegate
from cases.recorded_training import BATCH_SIZE, EPOCHS, Record, Rows, loss_of, model, ranks, start_ranks

torchdata.stateful_dataloader.StatefulDataLoader = sluicegate.DataLoader
sys.path.append(str(Path(__file__).parents[1] / "doubles" / "trainers"))
SFTTrainer = importlib.import_module("verl.trainer.sft_trainer").SFTTrainer


class Trainer(SFTTrainer):  # type: ignore[misc, valid-type]
    def __init__(self, path: str) -> None:
        rank, size = ranks()
        data = SimpleNamespace(train_batch_size=BATCH_SIZE * size, num_workers=2)
        self.config = SimpleNamespace(data=data)
        self.engine = SimpleNamespace(get_data_parallel_rank=lambda: rank, get_data_parallel_size=lambda: size)
        self.train_dataset, self.val_dataset = Rows(f"{path}-reads"), Rows(f"{path}-evaluation-reads")
        self.collate_fn = torch.utils.data.default_collate
        self._build_dataloader()


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of the checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the checkpoint.
    """
    rank, _ = ranks()
    start_ranks()
    torch.manual_seed(1 + rank)
    trainer, step, record = Trainer(path), 0, Record(path, stop)
    loader = trainer.train_dataloader
    assert type(loader) is type(trainer.val_dataloader) is sluicegate.DataLoader
    trained = torch.nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.AdamW(trained.parameters(), 0.01)
    if resumes:
        saved = torch.load(f"{folder}/data_{rank}.pt", weights_only=False)
        trained.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["generator"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]
    for epoch in range(step // len(loader), EPOCHS):
        trainer.train_sampler.set_epoch(epoch=epoch)
        for indices, features in loader:
            step += 1
            loss = loss_of(trained(features), indices)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.write(step, indices.tolist(), loss.item(), trained)
            if step % 3 == 0:
                states = {"model": trained.state_dict(), "optimizer": optimizer.state_dict()}
                states |= {"loader": loader.state_dict(), "generator": torch.get_rng_state(), "step": step}
                torch.save(states, f"{folder}/{rank}.tmp")
                os.replace(f"{folder}/{rank}.tmp", f"{folder}/data_{rank}.pt")
            record.after(step)
        record.evaluated(index for indices, _ in trainer.val_dataloader for index in indices.tolist())
