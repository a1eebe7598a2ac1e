"""The third part of `sluicegate demo`: the same training on image files, decoded by Pillow and in Rust.

The photographs become JPEG files in one folder per class. Torch's loader reads them with a typical handwritten dataset,
with Pillow in `__getitem__`; sluicegate's reads the same folder with `ImageFolderDataset`. Both decode the same pixels
and the training shrinks them in the same way, so the losses are equal and only the time differs.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.data
from torch import Tensor, nn
from torch.utils.data import Dataset

import sluicegate
from sluicegate import ImageFolderDataset, NpyDataset, transforms

from .demo import DATA, TRAIN_ROWS, Loader, MissingExtraError, Settings, first_difference, model, same_for_both

EPOCHS = 2
QUALITY = 90
# Small for photographs; but three times as wide as the originals, so that decoding is not all overhead.
SIDE = 84
LOADING_PASSES = 3


class PillowFolder(Dataset[tuple[Tensor, int]]):
    """The images in a folder, by class, as in a typical handwritten dataset."""

    def __init__(self, root: Path) -> None:
        from PIL import Image

        self._open_image = Image.open
        self.files = [
            (file, number)
            for number, folder in enumerate(sorted(root.iterdir()))
            for file in sorted(map(str, folder.iterdir()))
        ]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, label = self.files[index]
        with self._open_image(path) as image:
            return torch.from_numpy(np.array(image.convert("L"))).unsqueeze(0), label


def write_files(root: Path, samples: int) -> int:
    """Write the first photographs as JPEG files below `root`, and return their total size in bytes."""
    from PIL import Image

    photographs = NpyDataset(image=DATA / "images.npy", label=DATA / "labels.npy")
    written = 0
    for row in TRAIN_ROWS[:samples]:
        sample = photographs[row]
        folder = root / f"class-{int(sample['label'])}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{row:05}.jpg"
        Image.fromarray(sample["image"].numpy()).resize((SIDE, SIDE)).save(file, quality=QUALITY)
        written += file.stat().st_size
    return written


def _losses(loader: Loader, settings: Settings) -> Tensor:
    """Return the loss at every step of a training with these batches."""
    torch.manual_seed(settings.seed)
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(EPOCHS):
        for images, labels in loader:
            small = nn.functional.avg_pool2d(images.float().div_(255.0), SIDE // 28)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(small), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses)


def _rate(loader: Loader) -> float:
    begin = time.perf_counter()
    images = sum(len(labels) for _, labels in loader)
    return images / (time.perf_counter() - begin)


def run(settings: Settings) -> int:
    """Run this part of the demo; return 0 if the losses are equal at every step, otherwise 1."""
    with tempfile.TemporaryDirectory(prefix="sluicegate-demo-") as folder, same_for_both():
        root = Path(folder)
        try:
            size = write_files(root, settings.samples)
        except ImportError as error:
            raise MissingExtraError(f"the image files need Pillow ({error}): pip install 'sluicegate[demo]'") from error
        grey = ImageFolderDataset(root, transforms.Compose([transforms.CenterCrop(SIDE)]), mode="L")
        datasets: dict[type[Loader], Any] = {
            torch.utils.data.DataLoader: PillowFolder(root),
            sluicegate.DataLoader: grey,
        }
        print(
            f"The photographs as {len(grey):,} JPEG files of {SIDE} x {SIDE} pixels in {len(grey.classes)} folders, "
            f"{size / 1e6:.1f} MB: decoded by Pillow under torch's loader, and in Rust under sluicegate's",
            flush=True,
        )
        loaders = {cls: cls(of, batch_size=settings.batch_size, shuffle=True) for cls, of in datasets.items()}
        theirs, ours = (_losses(loader, settings) for loader in loaders.values())
        rates: dict[type[Loader], list[float]] = {cls: [] for cls in loaders}
        for _ in range(LOADING_PASSES):
            for cls, loader in loaders.items():
                rates[cls].append(_rate(loader))
    of_torch, of_ours = (statistics.median(found) for found in rates.values())
    print(f"images/s, loading alone, {os.cpu_count()} cores, num_workers=0: torch and Pillow {of_torch:,.0f}, ", end="")
    print(f"sluicegate {of_ours:,.0f}: {of_ours / of_torch:.1f}x as fast")
    step = first_difference(theirs, ours)
    if step is None:
        print(f"losses of images: equal to the bit at all {len(ours)} steps")
        return 0
    print(f"losses of images: DIFFERENT, first at step {step} of {len(theirs)} (torch), {len(ours)} (ours)")
    return 1
