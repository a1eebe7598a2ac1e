"""A script for Lightning's Fabric, as users write it, with our loader, on the CPU."""

from __future__ import annotations

import os

import torch
from lightning.fabric import Fabric
from torch.utils.data import DistributedSampler

from cases.recorded_training import BATCH_SIZE, EPOCHS, Record, Rows, loss_of, model, ranks
from sluicegate import DataLoader


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, seeded: bool = True) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of the checkpoint.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the checkpoint.
        seeded: True for a loader with a seed and a shard, False for one with a sampler.
    """
    rank, world_size = ranks()
    fabric = Fabric(accelerator="cpu", devices=world_size, strategy="ddp" if world_size > 1 else "auto")
    fabric.launch()
    torch.manual_seed(1)
    rows = Rows(f"{path}-reads")
    if seeded:
        loader = DataLoader(rows, BATCH_SIZE, shuffle=True, num_workers=2, seed=7, shard=(rank, world_size))
    else:
        loader = DataLoader(rows, BATCH_SIZE, num_workers=2, sampler=DistributedSampler(rows, world_size, rank))
    trained = model()
    trained, optimizer = fabric.setup(trained, torch.optim.AdamW(trained.parameters(), 0.01))
    first, step, record = 0, 0, Record(path, stop)
    checkpoint = {"model": trained, "optimizer": optimizer}
    if resumes:
        rest = fabric.load(f"{folder}/checkpoint", checkpoint)
        first, step = rest["epoch"], rest["step"]
        loader.load_state_dict(rest["loader"])
        torch.set_rng_state(rest["generator"])
    assert type(loader) is DataLoader
    for epoch in range(first, EPOCHS):
        loader.set_epoch(epoch)
        for indices, features in map(fabric.to_device, loader):
            loss = loss_of(trained(features), indices)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
            step += 1
            record.write(step, indices.tolist(), loss.item(), trained)
            if step % 3 == 0:
                place = {"epoch": epoch, "step": step, "loader": loader.state_dict()}
                place["generator"] = torch.get_rng_state()
                fabric.save(f"{folder}/checkpoint.tmp", checkpoint | place)
                if rank == 0:
                    os.replace(f"{folder}/checkpoint.tmp", f"{folder}/checkpoint")
            record.after(step)
