"""A script for Lightning's Fabric, as users write it, with our loader, on the CPU."""

from __future__ import annotations

import os

import torch
from lightning.fabric import Fabric

from cases.recorded_training import (
    EPOCHS,
    MODULES,
    ROWS,
    Record,
    Rows,
    counted,
    loader_of,
    loss_of,
    model,
    ranks,
    set_epoch,
    state_of,
)


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    kind: str = "seeded",
    accumulates: int = 1,
) -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of the checkpoint.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the checkpoint.
        kind: of the loaders, as for `loader_of`.
        accumulates: the number of batches per update.
    """
    rank, world_size = ranks()
    fabric = Fabric(accelerator="cpu", devices=world_size, strategy="ddp" if world_size > 1 else "auto")
    fabric.launch()
    torch.manual_seed(1)
    loader = loader_of(kind, Rows(f"{path}-reads"))
    # If padding is marked, the number of samples does not divide evenly among the ranks.
    evaluation = loader_of(kind, Rows(f"{path}-evaluation-reads", ROWS - 3 * (kind == "seeded")), shuffle=False)
    assert type(loader) is type(evaluation) is MODULES[kind].DataLoader
    trained = model()
    trained, optimizer = fabric.setup(trained, torch.optim.AdamW(trained.parameters(), 0.01))
    place, record = {"epoch": 0, "batch": 0, "step": 0}, Record(path, stop)
    checkpoint = {"model": trained, "optimizer": optimizer}
    if resumes:
        rest = fabric.load(f"{folder}/checkpoint", checkpoint)
        place = {name: rest[name] for name in place}
        loader.load_state_dict(rest["loader"])
        torch.set_rng_state(rest["generator"])
    step = place["step"]
    for epoch in range(place["epoch"], EPOCHS):
        set_epoch(loader, epoch)
        first = place["batch"] + 1 if epoch == place["epoch"] else 1
        for batch, (indices, features) in enumerate(map(fabric.to_device, loader), first):
            updates = batch % accumulates == 0 or batch == len(loader)
            with fabric.no_backward_sync(trained, enabled=not updates):
                loss = loss_of(trained(features), indices)
                fabric.backward(loss)
            if updates:
                optimizer.step()
                optimizer.zero_grad()
            step += 1
            record.write(step, indices.tolist(), loss.item(), trained)
            if updates and (accumulates > 1 or step % 3 == 0):
                states = {"epoch": epoch, "batch": batch, "step": step, "loader": state_of(loader)}
                states["generator"] = torch.get_rng_state()
                fabric.save(f"{folder}/checkpoint.tmp", checkpoint | states)
                if rank == 0:
                    os.replace(f"{folder}/checkpoint.tmp", f"{folder}/checkpoint")
            record.after(step)
        record.evaluated(counted(evaluation))
