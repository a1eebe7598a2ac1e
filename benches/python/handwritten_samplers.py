"""The samplers of users and of other packages, written in Python: what our samplers are measured against."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

CLASSES = 100
CLASSES_PER_BATCH = 64
BLOCK, WINDOW = 1_000, 16


class Size(NamedTuple):
    """The number of samples, and of samples per batch."""

    n: int
    batch: int


def random_labels(size: Size) -> Any:
    return np.random.default_rng(1).integers(0, CLASSES, size.n)


def random_lengths(size: Size) -> Any:
    return np.random.default_rng(1).integers(10, 500, size.n)


def random_weights(size: Size) -> Any:
    import torch

    return torch.from_numpy(np.random.default_rng(1).random(size.n))


def _cut(indices: Iterator[int], size: Size) -> Iterator[list[int]]:
    while batch := list(itertools.islice(indices, size.batch)):
        yield batch


class Written:
    """Batches of a generator function, which is called for every epoch."""

    def __init__(self, epoch: Callable[[], Iterator[list[int]]]) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return self._epoch()


def shuffled_blocks(size: Size) -> Written:
    """Lists of whole blocks, joined and shuffled per window."""

    def indices() -> Iterator[int]:
        blocks = [range(begin, min(begin + BLOCK, size.n)) for begin in range(0, size.n, BLOCK)]
        random.shuffle(blocks)
        for first in range(0, len(blocks), WINDOW):
            together = list(itertools.chain.from_iterable(blocks[first : first + WINDOW]))
            random.shuffle(together)
            yield from together

    return Written(lambda: _cut(indices(), size))


def half_of_classes(size: Size) -> Any:
    """A `SubsetRandomSampler` over the indices of the classes."""
    from torch.utils import data

    indices = np.flatnonzero(random_labels(size) < CLASSES // 2).tolist()
    return data.BatchSampler(data.SubsetRandomSampler(indices), size.batch, False)


def m_per_class(size: Size) -> Written:
    """As in pytorch-metric-learning's `MPerClassSampler`: draws samples of each class of the batch."""
    labels = random_labels(size)
    of_class = [np.flatnonzero(labels == label) for label in range(CLASSES)]

    def batches() -> Iterator[list[int]]:
        for _ in range(size.n // size.batch):
            chosen = random.sample(range(CLASSES), CLASSES_PER_BATCH)
            each = size.batch // CLASSES_PER_BATCH
            drawn = [np.random.choice(of_class[label], size=each, replace=False) for label in chosen]
            yield np.concatenate(drawn).tolist()

    return Written(batches)


def by_length(size: Size) -> Written:
    """As in transformers' `LengthGroupedSampler`: megabatches of a permutation, each sorted."""
    lengths = random_lengths(size).tolist()

    def indices() -> Iterator[int]:
        import torch

        permutation = torch.randperm(size.n)
        for begin in range(0, size.n, 50 * size.batch):
            window = permutation[begin : begin + 50 * size.batch].tolist()
            yield from sorted(window, key=lambda index: lengths[index], reverse=True)

    return Written(lambda: _cut(indices(), size))


def mixed(size: Size) -> Written:
    """Draws a part for each sample, and takes the next index of its permutation."""
    starts, half = (0, size.n // 2), size.n // 2

    def indices() -> Iterator[int]:
        import torch

        def part(start: int) -> Iterator[int]:
            while True:
                yield from (torch.randperm(half) + start).tolist()

        parts = [part(start) for start in starts]
        for chosen in torch.multinomial(torch.tensor([3.0, 1.0]), size.n, replacement=True).tolist():
            yield next(parts[chosen])

    return Written(lambda: _cut(indices(), size))


class Nodes:
    """torchdata's nodes: a sampler for each part, and a part drawn for each sample."""

    def __init__(self, size: Size) -> None:
        from torch.utils.data import RandomSampler
        from torchdata import nodes

        parts = {"a": range(size.n // 2), "b": range(size.n // 2)}
        sources = {name: nodes.SamplerWrapper(RandomSampler(part)) for name, part in parts.items()}
        stop = nodes.StopCriteria.CYCLE_FOREVER
        mixed = nodes.MultiNodeWeightedSampler(sources, {"a": 3.0, "b": 1.0}, stop_criteria=stop)
        self._batches, self._count = nodes.Loader(nodes.Batcher(mixed, size.batch)), size.n // size.batch

    def __iter__(self) -> Iterator[list[int]]:
        return itertools.islice(iter(self._batches), self._count)


def folds(size: Size) -> Written:
    """As in scikit-learn's `StratifiedKFold`, with a fold per batch: assigns the samples of each class to folds."""
    labels, count = random_labels(size), size.n // size.batch

    def batches() -> Iterator[list[int]]:
        folds = np.empty(size.n, np.int64)
        # Sorted labels are dealt to the folds in turn, which gives the number of each class in a fold.
        dealt = np.sort(labels)
        of_fold = np.array([np.bincount(dealt[fold::count], minlength=CLASSES) for fold in range(count)])
        for label in range(CLASSES):
            mine = np.arange(count).repeat(of_fold[:, label])
            np.random.shuffle(mine)
            folds[labels == label] = mine
        for fold in range(count):
            yield np.flatnonzero(folds == fold).tolist()

    return Written(batches)
