"""Random datasets of large samples, each determined by its number."""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from cases.sample_kinds import MAKERS, Mutator
from doubles.datasets import ManyAtOnce

# Bytes from which a sample counts as large in these tests; small, so that many samples take little time.
LARGE = 4096
SHAPES = [(40, 40), (32, 32), (32, 31), (3, 20, 20), (2, 3, 16, 16), (1, 1, 40, 40), (64, 1, 1, 64), (5,), ()]
DTYPES = ["float32", "float32", "float64", "int64", "uint8", "bool", "float16", "complex64"]
CONTAINERS = ["bare", "bare", "tuple", "tuple", "list", "dict", "nested", "point", "ordered"]


class Point(NamedTuple):
    x: Any
    y: Any


class LargeSamples(Dataset[Any]):
    """Samples in containers, most of them larger than `LARGE`; before each, those kept from earlier ones are modified.

    Args:
        number: determines everything else.
        size: the number of samples.
        names: the makers to choose from.
    """

    def __init__(self, number: int, size: int, names: list[str] | None = None) -> None:
        choose = random.Random(number)
        names = names or list(MAKERS)
        self.size = size
        self.container = choose.choice(CONTAINERS)
        likely = [name for name in ("fresh", "fresh_array") if name in names] or names
        leaf = lambda: (  # noqa: E731
            choose.choice(likely if choose.random() < 0.4 else names),
            choose.choice(SHAPES),
            choose.choice(DTYPES),
        )
        self.leaves = [leaf() for _ in range(choose.choice([1, 2, 3]))]
        self.keeps_container = choose.random() < 0.15
        self.repeats_leaf = choose.random() < 0.1
        # The index whose sample differs: in a leaf, its shape or type, its container, fewer parts, or an error.
        self.odd_index = choose.randrange(size) if choose.random() < 0.4 else None
        self.oddity = choose.choice(["leaf", "leaf", "leaf", "shape", "dtype", "container", "error", "fewer"])
        self.odd_leaf = leaf()
        self.buffers: dict[Any, Any] = {}
        self.mutators: list[Mutator] = []

    def __str__(self) -> str:
        facts = ["container", "leaves", "keeps_container", "repeats_leaf", "odd_index", "oddity", "odd_leaf"]
        return str({name: getattr(self, name) for name in facts})

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        for mutate in self.mutators[-40:]:
            mutate(float(index % 7))
        leaves, container = list(self.leaves), self.container
        if index == self.odd_index:
            if self.oddity == "error":
                raise KeyError(f"sample {index}")
            name, shape, dtype = self.odd_leaf
            place = self.size % len(leaves)
            before = leaves[place]
            wanted = {
                "leaf": (name, *before[1:]),
                "shape": (before[0], shape, before[2]),
                "dtype": (*before[:2], dtype),
            }
            leaves[place] = (wanted | {"whole leaf": self.odd_leaf}).get(self.oddity, before)
            container = "tuple" if self.oddity == "container" else container
            leaves = leaves[:1] if self.oddity == "fewer" else leaves
        parts = [MAKERS[name](self, index, shape, dtype) for name, shape, dtype in leaves]
        if self.repeats_leaf:
            parts.append(parts[0])
        sample = contained(container, parts, index)
        if self.keeps_container and container in ("list", "dict", "nested"):
            self.mutators.append(lambda number: refill(sample, number))
        return sample


def contained(container: str, parts: list[Any], index: int) -> Any:
    if container == "bare":
        return parts[0]
    if container == "tuple":
        return (*parts, index)
    if container == "list":
        return [index, *parts]
    if container == "dict":
        return {"label": index, **{f"part {number}": part for number, part in enumerate(parts)}}
    if container == "ordered":
        return OrderedDict(enumerate(parts))
    if container == "point":
        return Point(parts, index)
    return {"name": str(index), "parts": (parts, [{"first": parts[0] if len(parts) > 1 else 0}]), 3: tuple(parts)}


def refill(sample: Any, number: float) -> None:
    """Replace the tensors in a list or dictionary that the dataset has kept."""
    for key in list(sample) if isinstance(sample, dict) else range(len(sample)):
        if isinstance(sample[key], torch.Tensor | numpy.ndarray):
            sample[key] = sample[key] * 0


class FetchesMany(ManyAtOnce, LargeSamples):
    """Fetches all samples of a batch in one call."""


def arranged(kind: str, number: int, size: int, names: list[str] | None = None) -> Dataset[Any]:
    """Return a dataset of large samples, possibly wrapped in torch's combinators."""
    if kind == "subset":
        return Subset(LargeSamples(number, size, names), list(range(size - 1, -1, -1)))
    if kind == "subset of subset":
        inner = Subset(LargeSamples(number, size, names), list(itertools.chain(range(size), range(3))))
        return Subset(inner, list(range(1, size)))
    if kind == "concatenated":
        return ConcatDataset([LargeSamples(number, size, names), LargeSamples(number, 3, names)])
    if kind == "many":
        return FetchesMany(number, size, names)
    return LargeSamples(number, size, names)
