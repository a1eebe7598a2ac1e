"""Make the subset of Fashion-MNIST that `sluicegate demo` trains on.

    python examples/fashion_mnist_subset.py SOURCE TARGET

SOURCE is a folder with the four original IDX files (`train-images-idx3-ubyte.gz` and so on, from
https://github.com/zalandoresearch/fashion-mnist), TARGET the folder that gets `images.npy` and `labels.npy`.

The rule: of every class the first 600 images of the training set and the first 100 of the test set, each part in its
original order, the training part first. Rows 0 to 5,999 are thus for training and rows 6,000 to 6,999 for testing,
and no image of the original test set is ever trained on.
"""

from __future__ import annotations

import argparse
import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

CLASSES = 10
TRAIN_PER_CLASS = 600
TEST_PER_CLASS = 100

Bytes = npt.NDArray[np.uint8]


def read_idx(path: Path) -> Bytes:
    """Read a gzipped IDX file of unsigned bytes."""
    with gzip.open(path, "rb") as file:
        zeros, kind, dimensions = struct.unpack(">HBB", file.read(4))
        if zeros != 0 or kind != 8:
            raise ValueError(f"{path}: not an IDX file of unsigned bytes (magic {zeros:#06x}, type {kind:#04x})")
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return np.frombuffer(file.read(), dtype=np.uint8).reshape(shape)


def first_of_each_class(labels: Bytes, per_class: int) -> npt.NDArray[np.int64]:
    """Indices of the first `per_class` samples of every class, ascending."""
    return np.sort(np.concatenate([np.flatnonzero(labels == c)[:per_class] for c in range(CLASSES)]))


def main() -> None:
    """Write the two files of the subset."""
    parser = argparse.ArgumentParser(description="Make the subset of Fashion-MNIST that `sluicegate demo` trains on.")
    parser.add_argument("source", type=Path, help="folder with the four original *-ubyte.gz files")
    parser.add_argument("target", type=Path, help="folder that gets images.npy and labels.npy")
    args = parser.parse_args()

    images: list[Bytes] = []
    labels: list[Bytes] = []
    for part, per_class in (("train", TRAIN_PER_CLASS), ("t10k", TEST_PER_CLASS)):
        part_labels = read_idx(args.source / f"{part}-labels-idx1-ubyte.gz")
        chosen = first_of_each_class(part_labels, per_class)
        images.append(read_idx(args.source / f"{part}-images-idx3-ubyte.gz")[chosen])
        labels.append(part_labels[chosen])

    args.target.mkdir(parents=True, exist_ok=True)
    np.save(args.target / "images.npy", np.concatenate(images))
    np.save(args.target / "labels.npy", np.concatenate(labels).astype(np.int64))
    for name in ("images.npy", "labels.npy"):
        print(f"{args.target / name}: {(args.target / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
