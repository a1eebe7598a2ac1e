"""A script for OpenCLIP, as users write it: its loop over an epoch and its data, with our loader, on the CPU."""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from open_clip_train.data import get_data
from open_clip_train.train import train_one_epoch
from PIL import Image
from torchvision.transforms.functional import pil_to_tensor

import sluicegate

ROWS, EPOCHS, BATCH_SIZE = 40, 2, 4
VISION = {"image_size": 8, "layers": 1, "width": 16, "head_width": 8, "patch_size": 4}
TEXT = {"context_length": 4, "vocab_size": ROWS, "width": 16, "heads": 2, "layers": 1}


def transform(image: Image.Image) -> torch.Tensor:
    """Augment with noise that is drawn, which hides no number: images of `ROWS` colors."""
    return pil_to_tensor(image) / 255 + torch.rand(1) / 1000


def tokenize(texts: list[str]) -> torch.Tensor:
    return torch.tensor([[int(text)] * 4 for text in texts])


def write_images(folder: str) -> str:
    """Write a table of images, and return its path."""
    table = Path(folder, "train.csv")
    if not table.exists():
        for index in range(ROWS):
            Image.fromarray(np.full((8, 8, 3), index * 6, np.uint8)).save(f"{folder}/{index}.png")
        rows = [f"{folder}/{index}.png\t{index}\n" for index in range(ROWS)]
        table.write_text("filepath\ttitle\n" + "".join(rows))
    return str(table)


def train(path: str, folder: str, *, stop: int | None = None, resumes: bool = False, workers: int = 2) -> None:
    """Train, and write a line for each batch to `path`: the step, the samples, the loss, and the sum of weights.

    Args:
        path: a file of this process.
        folder: of images and of the checkpoint.
        stop: the number of the batch after which the process kills itself.
        resumes: True to begin with the checkpoint.
        workers: the loader's.
    """
    os.makedirs(folder, exist_ok=True)
    args = argparse.Namespace(
        train_data=write_images(folder),
        val_data=None,
        imagenet_val=None,
        imagenet_v2=None,
        dataset_type="csv",
        csv_img_key="filepath",
        csv_caption_key="title",
        csv_separator="\t",
        distributed=False,
        batch_size=BATCH_SIZE,
        workers=workers,
        device="cpu",
        precision="fp32",
        distill=False,
        accum_freq=1,
        skip_scheduler=True,
        grad_clip_norm=None,
        log_every_n_steps=1000,
        rank=0,
        local_rank=0,
        world_size=1,
        wandb=False,
    )
    torch.manual_seed(1)
    with sluicegate.patch():
        data = get_data(args, (transform, transform), tokenizer=tokenize)
    loader = data["train"].dataloader
    assert type(loader) is sluicegate.DataLoader
    model = open_clip.CLIP(16, VISION, TEXT, output_dict=True)
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    first, step = 0, 0
    if resumes:
        checkpoint = torch.load(f"{folder}/checkpoint.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
        first, step = checkpoint["epoch"], checkpoint["step"]
    compute = open_clip.ClipLoss()

    def loss(**outputs: Any) -> dict[str, torch.Tensor]:
        losses: dict[str, torch.Tensor] = compute(**outputs)
        computed.append(losses["contrastive_loss"].item())
        return losses

    def record(module: Any, inputs: tuple[torch.Tensor, torch.Tensor]) -> None:
        read.append(inputs[1][:, 0].tolist())

    def after_step(*_: Any) -> None:
        nonlocal step
        step += 1
        weights = sum(float(each.detach().double().sum()) for each in model.parameters())
        print(json.dumps([step, read[-1], computed[-1], weights]), file=file, flush=True)
        if step % 3 == 0:
            states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict()}
            torch.save({"epoch": epoch, "step": step, **states}, f"{folder}/checkpoint.tmp")
            os.replace(f"{folder}/checkpoint.tmp", f"{folder}/checkpoint.pt")
        if step == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    computed: list[float] = []
    read: list[list[int]] = []
    model.register_forward_pre_hook(record)
    # OpenCLIP saves between epochs; this saves within one.
    optimizer.register_step_post_hook(after_step)
    with open(path, "a") as file:
        for epoch in range(first, EPOCHS):
            train_one_epoch(model, data, loss, epoch, optimizer, None, None, None, args)
