"""A script for timm, as users write it, with the loaders that it creates, on the CPU."""

from __future__ import annotations

import os

import numpy as np
import timm.data
import torch
from PIL import Image

from cases.recorded_training import (
    BATCH_SIZE,
    EPOCHS,
    MODULES,
    ROWS,
    Record,
    note,
    patched,
    ranks,
    saved_by,
    set_epoch,
    start_ranks,
    state_of,
)


class Photographs(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    transform = None  # timm sets it.

    def __init__(self, reads: str) -> None:
        self.reads = reads

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        note(self.reads, index)
        assert self.transform is not None
        noise = np.random.default_rng(index).integers(0, 255, (16, 16, 3), np.uint8)
        return self.transform(Image.fromarray(noise)), index


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, kind: str = "sampled") -> None:
    """Train, and write a line for each batch to `path`.

    Args:
        path: a file of this process.
        folder: of the checkpoints.
        stop: the number of the batch after which the process is killed.
        resumes: True to begin with the checkpoint.
        kind: of the loaders, as for `patched`.
    """
    rank, world_size = ranks()
    is_distributed = world_size > 1
    if is_distributed:
        start_ranks()
    torch.manual_seed(1 + rank)
    arguments = {"input_size": 8, "batch_size": BATCH_SIZE, "num_workers": 2, "device": torch.device("cpu")}
    with patched(kind):
        loader, evaluation = (
            timm.data.create_loader(
                Photographs(f"{path}-{reads}"),
                is_training=reads == "reads",
                distributed=is_distributed,
                use_prefetcher=False,
                **arguments,
            )
            for reads in ("reads", "evaluation-reads")
        )
    assert type(loader) is type(evaluation) is MODULES[kind].DataLoader
    bare = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, ROWS))
    optimizer = torch.optim.AdamW(bare.parameters(), 0.01)
    model = torch.nn.parallel.DistributedDataParallel(bare) if is_distributed else bare
    first, step, record = 0, 0, Record(path, stop)
    if resumes:
        saved = torch.load(saved_by(rank, folder, "checkpoint-"))
        bare.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        torch.set_rng_state(saved["generator"])
        first, step = saved["epoch"], saved["step"]
    for epoch in range(first, EPOCHS):
        set_epoch(loader, epoch)
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            record.write(step, labels.tolist(), loss.item(), model)
            if step % 3 == 0:  # each rank has its own state, because it draws independently
                states = {"model": bare.state_dict(), "optimizer": optimizer.state_dict()}
                states["generator"] = torch.get_rng_state()
                place = {"epoch": epoch, "step": step, "loader": state_of(loader)}
                torch.save(states | place, f"{folder}/{rank}.tmp")
                os.replace(f"{folder}/{rank}.tmp", f"{folder}/checkpoint-{rank}.pt")
            record.after(step)
        record.evaluated(index for _, labels in evaluation for index in labels.tolist())
