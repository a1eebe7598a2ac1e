"""Check that a network learns as well from our images as from torchvision's: ResNet-18 on Fashion-MNIST as JPEG files.

    python benches/python/training_check.py [--source ../shared/data/fashion-mnist] [--epochs 4] [--seeds 3]

A subset of Fashion-MNIST (6,000 images for training, 2,000 of the test set) is written as folders of JPEG files, and a
ResNet-18 of a quarter of the width is trained on it from scratch, with random resized crops and flips: once with
torchvision's ImageFolder and transforms with torch's DataLoader, once with ours. Each seed gives both the same initial
weights. Prints the accuracies on the test images. The exit code is 1 if the means differ by more than the variation
among seeds explains, by Student's t with 95 % confidence. Needs torchvision and Pillow.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from machine import CACHE, ROOT
from photographs import make_whole

BATCH_SIZE = 64
SIDE = 28
SCALE = (0.6, 1.0)
MEAN, STD = (0.286,) * 3, (0.353,) * 3
CLASSES = 10
PER_CLASS = {"train": 600, "t10k": 200}
QUALITY = 95
WIDTH = 16
# Quantiles of Student's distribution, two-sided, by degrees of freedom.
T_95 = {2: 4.30, 4: 2.78, 6: 2.45, 8: 2.31}

Pipeline = Callable[[Path, bool, int], Iterable[Any]]


def torchvision_pipeline(folder: Path, training: bool, seed: int) -> Iterable[Any]:
    """Return torchvision's folder and transforms with torch's loader, with one worker process."""
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    transforms = [
        v2.ToImage(),
        *([v2.RandomResizedCrop(SIDE, scale=SCALE), v2.RandomHorizontalFlip()] if training else []),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD),
    ]
    dataset = ImageFolder(folder, v2.Compose(transforms))
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(
        dataset, BATCH_SIZE, shuffle=training, num_workers=1, persistent_workers=True, generator=generator
    )


def our_pipeline(folder: Path, training: bool, seed: int) -> Iterable[Any]:
    """Return the same pipeline with our classes and one thread."""
    from sluicegate import DataLoader, ImageFolderDataset
    from sluicegate import transforms as ours

    transforms = [
        *([ours.RandomResizedCrop(SIDE, scale=SCALE), ours.RandomHorizontalFlip()] if training else []),
        ours.ToDtype(torch.float32, scale=True),
        ours.Normalize(MEAN, STD),
    ]
    dataset = ImageFolderDataset(folder, ours.Compose(transforms))
    return DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=training, num_workers=1, seed=seed)


PIPELINES: dict[str, Pipeline] = {"torchvision": torchvision_pipeline, "sluicegate": our_pipeline}


class Block(nn.Module):
    """Two convolutions and their shortcut (He et al., 2016, "Deep Residual Learning for Image Recognition")."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(out)
        self.past: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.past = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.past(x))


def resnet18() -> nn.Module:
    """Return ResNet-18 for small images: a stem of 3x3 without pooling, and a quarter of the channels."""
    layers: list[nn.Module] = [nn.Conv2d(3, WIDTH, 3, 1, 1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU()]
    channels = WIDTH
    for stage in range(4):
        out = WIDTH << stage
        for number in range(2):
            layers.append(Block(channels, out, 2 if stage and not number else 1))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def write_folders(source: Path, target: Path) -> None:
    """Write the first images of each class of both sets, as `train/CLASS/NUMBER.jpg` and `t10k/CLASS/NUMBER.jpg`."""
    sys.path.append(str(ROOT / "examples"))
    from fashion_mnist_subset import first_of_each_class, read_idx
    from PIL import Image

    for part, per_class in PER_CLASS.items():
        images = read_idx(source / f"{part}-images-idx3-ubyte.gz")
        labels = read_idx(source / f"{part}-labels-idx1-ubyte.gz")
        for index in first_of_each_class(labels, per_class):
            path = target / part / str(labels[index]) / f"{index:05}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[index]).save(path, quality=QUALITY)


def accuracy(pipeline: Pipeline, folder: Path, epochs: int, seed: int) -> float:
    """Return the percentage on the test images of a network trained from scratch, with a cosine learning rate."""
    torch.manual_seed(seed)
    network = resnet18()
    train = pipeline(folder / "train", True, seed)
    steps = epochs * math.ceil(PER_CLASS["train"] * CLASSES / BATCH_SIZE)
    optimizer = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=steps)
    network.train()
    for _epoch in range(epochs):
        for images, labels in train:
            optimizer.zero_grad()
            functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
            schedule.step()
    network.eval()
    right = total = 0
    with torch.no_grad():
        for images, labels in pipeline(folder / "t10k", False, seed):
            right += int((network(images).argmax(1) == labels).sum())
            total += len(labels)
    assert total == PER_CLASS["t10k"] * CLASSES, f"{total} test images"
    return 100 * right / total


def main() -> int:
    """Train, and print the results."""
    parser = argparse.ArgumentParser(description="ResNet-18 on Fashion-MNIST as JPEG, our images and torchvision's.")
    default = ROOT.parent / "shared" / "data" / "fashion-mnist"
    parser.add_argument("--source", type=Path, default=default, help="folder with the four IDX files")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3, help="2 to 5")
    args = parser.parse_args()
    if not args.source.is_dir():
        print(f"left out: {args.source} is not there")
        return 0
    folder = CACHE / "fashion-mnist-jpeg"
    make_whole(folder, lambda target: write_folders(args.source, target))

    found: dict[str, list[float]] = {name: [] for name in PIPELINES}
    for seed in range(args.seeds):
        for name, pipeline in PIPELINES.items():
            begin = time.perf_counter()
            found[name].append(accuracy(pipeline, folder, args.epochs, seed))
            print(f"seed {seed}, {name}: {found[name][-1]:.2f} % ({time.perf_counter() - begin:.0f} s)", flush=True)
    for name, values in found.items():
        mean, deviation = statistics.mean(values), statistics.stdev(values)
        print(f"{name}: {mean:.2f} % in the mean, standard deviation {deviation:.2f}, of {args.seeds} seeds")
    theirs, ours = found.values()
    difference = statistics.mean(ours) - statistics.mean(theirs)
    error = math.sqrt((statistics.variance(theirs) + statistics.variance(ours)) / args.seeds)
    noise = T_95[2 * args.seeds - 2] * error
    within = abs(difference) <= noise
    print(f"ours differ by {difference:+.2f} points, {'within' if within else 'beyond'} noise of {noise:.2f}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
