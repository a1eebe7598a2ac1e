"""A script for OpenCLIP, as users write it: its loop over an epoch and its data, with our loader, on the CPU."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from open_clip_train.data import get_data
from open_clip_train.train import evaluate, train_one_epoch
from PIL import Image
from torchvision.transforms.functional import pil_to_tensor

from cases.recorded_training import MODULES, Record, note, patched, ranks, saved_by, start_ranks, state_of

ROWS, EPOCHS, BATCH_SIZE = 40, 2, 4
VISION = {"image_size": 8, "layers": 1, "width": 16, "head_width": 8, "patch_size": 4}
TEXT = {"context_length": 4, "vocab_size": ROWS, "width": 16, "heads": 2, "layers": 1}


def transform(image: Image.Image) -> torch.Tensor:
    """Augment with random noise that leaves the number readable: images have `ROWS` colors."""
    return pil_to_tensor(image) / 255 + torch.rand(1) / 1000


def tokenizer_of(reads: str) -> Callable[[list[str]], torch.Tensor]:
    """Return a tokenizer that records what it reads; the text of a row is its number."""

    def tokenize(texts: list[str]) -> torch.Tensor:
        for text in texts:
            note(reads, int(text))
        return torch.tensor([[int(text)] * 4 for text in texts])

    return tokenize


def write_images(folder: str) -> str:
    """Write a table of images, and return its path."""
    table = Path(folder, "train.csv")
    if not table.exists():
        for index in range(ROWS):
            Image.fromarray(np.full((8, 8, 3), index * 6, np.uint8)).save(f"{folder}/{index}.png")
        rows = [f"{folder}/{index}.png\t{index}\n" for index in range(ROWS)]
        with open(f"{table}.{os.getpid()}", "w") as file:
            file.write("filepath\ttitle\n" + "".join(rows))
        os.replace(file.name, table)
    return str(table)


def train(
    path: str,
    folder: str,
    *,
    stop: int | None = None,
    resumes: bool = False,
    workers: int = 2,
    kind: str = "sampled",
) -> None:
    """Train, and write a line for each batch to `path`: the step, the samples, the loss, and the sum of weights.

    Args:
        path: a file of this process.
        folder: of images and of the checkpoints.
        stop: the number of the batch after which the process kills itself.
        resumes: True to begin with the checkpoint.
        workers: the loader's.
        kind: of the loaders, as for `patched`.
    """
    os.makedirs(folder, exist_ok=True)
    rank, world_size = ranks()
    if world_size > 1:
        start_ranks()
    args = argparse.Namespace(
        train_data=write_images(folder),
        val_data=write_images(folder),
        val_frequency=1,
        epochs=EPOCHS,
        imagenet_val=None,
        imagenet_v2=None,
        dataset_type="csv",
        csv_img_key="filepath",
        csv_caption_key="title",
        csv_separator="\t",
        distributed=world_size > 1,
        horovod=False,
        batch_size=BATCH_SIZE,
        workers=workers,
        device="cpu",
        precision="fp32",
        distill=False,
        accum_freq=1,
        skip_scheduler=True,
        grad_clip_norm=None,
        log_every_n_steps=1000,
        rank=rank,
        local_rank=rank,
        world_size=world_size,
        save_logs=False,
        wandb=False,
    )
    torch.manual_seed(1 + rank)
    with patched(kind):
        data = get_data(args, (transform, transform), tokenizer=tokenizer_of(f"{path}-reads"))
        data["val"] = get_data(args, (transform, transform), tokenizer=tokenizer_of(f"{path}-evaluation"))["val"]
    loader = data["train"].dataloader
    assert type(loader) is type(data["val"].dataloader) is MODULES[kind].DataLoader
    clip = open_clip.CLIP(16, VISION, TEXT, output_dict=True)
    model = torch.nn.parallel.DistributedDataParallel(clip) if world_size > 1 else clip
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    first, step = 0, 0
    if resumes:
        checkpoint = torch.load(saved_by(rank, folder, "checkpoint-"))
        clip.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
        torch.set_rng_state(checkpoint["generator"])
        first, step = checkpoint["epoch"], checkpoint["step"]
    compute = open_clip.ClipLoss(rank=rank, world_size=world_size)

    def loss(**outputs: Any) -> dict[str, torch.Tensor]:
        losses: dict[str, torch.Tensor] = compute(**outputs)
        computed.append(losses["contrastive_loss"].item())
        return losses

    def collect(module: Any, inputs: tuple[torch.Tensor, torch.Tensor]) -> None:
        (read if module.training else evaluated).append(inputs[1][:, 0].tolist())

    def after_step(*_: Any) -> None:
        nonlocal step
        step += 1
        record.write(step, read[-1], computed[-1], model)
        if step % 3 == 0:  # each rank has its own state, because it draws independently
            states = {"model": clip.state_dict(), "optimizer": optimizer.state_dict(), "loader": state_of(loader)}
            states["generator"] = torch.get_rng_state()
            torch.save({"epoch": epoch, "step": step, **states}, f"{folder}/{rank}.tmp")
            os.replace(f"{folder}/{rank}.tmp", f"{folder}/checkpoint-{rank}.pt")
        record.after(step)

    computed: list[float] = []
    read: list[list[int]] = []
    evaluated: list[list[int]] = []
    record = Record(path, stop)
    clip.register_forward_pre_hook(collect)
    # OpenCLIP saves between epochs; this saves within one.
    optimizer.register_step_post_hook(after_step)
    for epoch in range(first, EPOCHS):
        train_one_epoch(model, data, loss, epoch, optimizer, None, None, None, args)
        evaluated.clear()
        evaluate(model, data, epoch + 1, args)
        record.evaluated(index for batch in evaluated for index in batch)
