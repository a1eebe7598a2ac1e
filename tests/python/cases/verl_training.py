"""Scripts for verl: loaders of doubles of its trainers, with the loops and states of their `fit`."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed
import torchdata.stateful_dataloader
from torchdata.stateful_dataloader.sampler import RandomSampler

from cases.recorded_training import (
    BATCH_SIZE,
    EPOCHS,
    MODULES,
    ROWS,
    Record,
    Rows,
    loss_of,
    model,
    ranks,
    start_ranks,
    state_of,
)

# Per epoch, on two ranks.
STEPS = ROWS // (2 * BATCH_SIZE)

sys.path.append(str(Path(__file__).parents[1] / "doubles" / "trainers"))


def class_of(module: str, name: str, kind: str) -> Any:
    """Return a class of verl's double, which creates loaders of this kind."""
    given = {"seed": 7} if kind == "seeded" else {}
    torchdata.stateful_dataloader.StatefulDataLoader = functools.partial(MODULES[kind].DataLoader, **given)
    return getattr(importlib.import_module(f"verl.trainer.{module}"), name)


def sft_trainer(path: str, kind: str) -> Any:
    """Return the supervised trainer of this rank, with its loaders."""
    rank, size = ranks()
    trainer = class_of("sft_trainer", "SFTTrainer", kind)()
    trainer.config = SimpleNamespace(data=SimpleNamespace(train_batch_size=BATCH_SIZE * size, num_workers=2))
    trainer.engine = SimpleNamespace(get_data_parallel_rank=lambda: rank, get_data_parallel_size=lambda: size)
    trainer.train_dataset, trainer.val_dataset = Rows(f"{path}-reads"), Rows(f"{path}-evaluation-reads")
    trainer.collate_fn = torch.utils.data.default_collate
    trainer._build_dataloader()
    return trainer


class Settings(dict[str, Any]):
    """A configuration as the reinforcement trainer reads it."""

    __getattr__ = dict.__getitem__


def ppo_trainer(path: str, kind: str) -> Any:
    """Return the reinforcement trainer, which reads for all ranks, with its loaders."""
    trainer = class_of("ppo.ray_trainer", "RayPPOTrainer", kind)()
    data = Settings(train_batch_size=BATCH_SIZE * ranks()[1], val_batch_size=None, dataloader_num_workers=2)
    trainer.config = Settings(data=data)
    rows, sampled = Rows(f"{path}-reads"), torch.Generator().manual_seed(1)
    collate = torch.utils.data.default_collate
    trainer._create_dataloader(rows, Rows(f"{path}-evaluation-reads"), collate, RandomSampler(rows, generator=sampled))
    return trainer


def parts(loader: Any) -> Iterator[Any]:
    """Yield this rank's parts of the batches that the first rank reads."""
    rank, size = ranks()
    batches = iter(loader if rank == 0 else ())
    while True:
        sent = [next(batches, None)]
        torch.distributed.broadcast_object_list(sent)
        if sent[0] is None:
            return
        yield [part.chunk(size)[rank] for part in sent[0]]


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "sampled",
    is_supervised: bool = True,
) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of the checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the checkpoint.
        kind: "seeded" for loaders with a seed, "sampled" for ours with the trainer's samplers alone, "torch" for
            torch's.
        is_supervised: True for the trainer whose ranks read, False for the one that reads for all ranks.
    """
    rank, _ = ranks()
    start_ranks()
    torch.manual_seed(1 + rank)
    reads = is_supervised or rank == 0
    trainer: Any = (sft_trainer if is_supervised else ppo_trainer)(path, kind) if reads else None
    loader: Any = trainer.train_dataloader if reads else None
    assert not reads or type(loader) is type(trainer.val_dataloader) is MODULES[kind].DataLoader
    trained = torch.nn.parallel.DistributedDataParallel(model())
    optimizer = torch.optim.AdamW(trained.parameters(), 0.01)
    step, record = 0, Record(path, stop)
    if resumes:
        saved = torch.load(f"{folder}/data_{rank}.pt", weights_only=False)
        trained.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["generator"])
        if reads:
            loader.load_state_dict(saved["loader"])
        step = saved["step"]
    for epoch in range(step // STEPS, EPOCHS):
        if is_supervised:
            trainer.train_sampler.set_epoch(epoch=epoch)
        for indices, features in loader if is_supervised else parts(loader):
            step += 1
            loss = loss_of(trained(features), indices)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record.write(step, indices.tolist(), loss.item(), trained)
            if step % 3 == 0:
                states = {"model": trained.state_dict(), "optimizer": optimizer.state_dict()}
                states |= {"generator": torch.get_rng_state(), "step": step}
                states["loader"] = state_of(loader)
                torch.save(states, f"{folder}/{rank}.tmp")
                os.replace(f"{folder}/{rank}.tmp", f"{folder}/data_{rank}.pt")
            record.after(step)
        if reads:
            record.evaluated(index for indices, _ in trainer.val_dataloader for index in indices.tolist())
