"""The third part of `sluicegate demo`: two scripts as people write them, with only the import of the loader changed.

Both use torchvision's datasets and transforms: photographs in memory, and photographs as JPEG files in one folder per
class. Sluicegate recognizes them and does the work in Rust, with the same random draws, so the losses are equal and
only the time differs.
"""

from __future__ import annotations

import os
import statistics
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.data
from torch import Tensor, nn

import sluicegate

from .demo import (
    DATA,
    EXTRA_HINT,
    TRAIN_ROWS,
    Loader,
    MissingExtraError,
    Settings,
    first_difference,
    model,
    one_compute_thread,
)

EPOCHS = 2
QUALITY = 90
# Small for photographs; but three times as wide as the originals, so that decoding is not all overhead.
SIDE = 84
LOADING_PASSES = 3


@dataclass(frozen=True)
class Script:
    """A training script's dataset, with its description."""

    title: str
    dataset: Any


def _write_array(path: Path, array: Any) -> None:
    """Write an array of bytes in IDX, the format of MNIST's files."""
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.astype(np.uint8).tobytes())


def in_memory(root: Path, samples: int) -> Script:
    """Return a script for photographs in memory, like those for CIFAR: crops, flips, normalized floats."""
    from torchvision import datasets, transforms  # type: ignore[import-untyped, unused-ignore]

    images, labels = np.load(DATA / "images.npy"), np.load(DATA / "labels.npy")
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    for name, rows in (("train", TRAIN_ROWS[:samples]), ("t10k", TRAIN_ROWS[:1])):
        _write_array(folder / f"{name}-images-idx3-ubyte", images[list(rows)])
        _write_array(folder / f"{name}-labels-idx1-ubyte", labels[list(rows)])
    steps = transforms.Compose(
        [
            transforms.RandomCrop(28, padding=3),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.286,), (0.353,)),
        ]
    )
    return Script("FashionMNIST in memory: crop, flip, normalize", datasets.FashionMNIST(str(root), transform=steps))


def in_files(root: Path, samples: int) -> Script:
    """Return a script for JPEG files in a folder per class: decode, crop, resize, flip, normalize."""
    from PIL import Image
    from torchvision import datasets, transforms  # type: ignore[import-untyped, unused-ignore]

    images, labels = np.load(DATA / "images.npy"), np.load(DATA / "labels.npy")
    for row in TRAIN_ROWS[:samples]:
        folder = root / f"class-{labels[row]}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[row]).resize((SIDE, SIDE)).save(folder / f"{row:05}.jpg", quality=QUALITY)
    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(28, scale=(0.5, 1.0)),
            transforms.RandomHorizontalFlip(),
            transforms.Grayscale(),
            transforms.ToTensor(),
            transforms.Normalize((0.286,), (0.353,)),
        ]
    )
    title = f"ImageFolder of JPEG files, {SIDE} x {SIDE}: decode, crop, resize, flip, gray, normalize"
    return Script(title, datasets.ImageFolder(str(root), steps))


def _losses(loader: Loader, settings: Settings) -> Tensor:
    """Return the loss at every step of a training with these batches."""
    torch.manual_seed(settings.seed)
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(EPOCHS):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)


def _rate(loader: Loader) -> float:
    begin = time.perf_counter()
    images = sum(len(labels) for _, labels in loader)
    return images / (time.perf_counter() - begin)


def _compare(script: Script, settings: Settings) -> bool:
    """Train the script with both loaders, print differences, and return True if no losses differ."""
    kinds: tuple[type[Loader], ...] = (torch.utils.data.DataLoader, sluicegate.DataLoader)
    loaders = [kind(script.dataset, batch_size=settings.batch_size, shuffle=True) for kind in kinds]
    theirs, ours = (_losses(loader, settings) for loader in loaders)
    rates: list[list[float]] = [[], []]
    for _ in range(LOADING_PASSES):
        for found, loader in zip(rates, loaders, strict=True):
            found.append(_rate(loader))
    of_torch, of_ours = map(statistics.median, rates)
    print(f"{script.title}\n  read by: {loaders[1].explain()}")  # type: ignore[attr-defined]
    print(f"  images/s, loading alone: torch {of_torch:,.0f}, sluicegate {of_ours:,.0f}: {of_ours / of_torch:.1f}x")
    step = first_difference(theirs, ours)
    if step is None:
        print(f"  losses: equal to the bit at all {len(ours)} steps", flush=True)
        return True
    print(f"  losses: DIFFERENT, first at step {step} of {len(theirs)} (torch), {len(ours)} (ours)", flush=True)
    return False


def run(settings: Settings) -> int:
    """Run this part of the demo; return 0 if the losses are equal at every step, otherwise 1."""
    with tempfile.TemporaryDirectory(prefix="sluicegate-demo-") as folder, one_compute_thread():
        print(f"Two scripts with only the import changed, {os.cpu_count()} cores, num_workers=0, one compute thread")
        try:
            scripts = [make(Path(folder, make.__name__), settings.samples) for make in (in_memory, in_files)]
        except ImportError as error:
            raise MissingExtraError(f"the scripts need torchvision ({error}): {EXTRA_HINT}") from error
        are_equal = [_compare(script, settings) for script in scripts]
    return 0 if all(are_equal) else 1
