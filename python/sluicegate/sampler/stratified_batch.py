"""`StratifiedBatchSampler`: the class proportions of the dataset in every batch."""

from __future__ import annotations

from typing import Any

import torch

from sluicegate import _core

from .class_index import ClassIndex
from .core_batch import CoreBatchSampler, positive


class StratifiedBatchSampler(CoreBatchSampler):
    """Batches with the classes in the proportions of the dataset, as closely as integers allow.

    Each sample comes once per epoch. A class with c of the n samples has `batch_size * c / n` samples in every batch,
    rounded up or down; the same holds for a smaller last batch. `drop_last` drops different samples each epoch. Within
    a batch, the samples come in random order.

    Args:
        labels: the class of each sample: a list, array or tensor of integers, strings or anything that can be a dict
            key; or the `index` of another sampler, which is then shared.
        batch_size: samples per batch.
        drop_last: True to drop the last batch if it is smaller. Default False.
        seed: an integer from 0 to 2**64 - 1; the batches are a function of it and the epoch (`set_epoch`). Default
            None: drawn at the first `next` of each iteration.
        generator: the source of the drawn seed, instead of torch's global generator.

    Raises:
        ValueError: `batch_size` is not positive, or `seed` is out of range.

    Examples:
        >>> labels = [0, 0, 0, 0, 0, 0, 1, 1, 1]
        >>> [sorted(labels[index] for index in batch) for batch in StratifiedBatchSampler(labels, 3)]
        [[0, 0, 1], [0, 0, 1], [0, 0, 1]]
    """

    def __init__(
        self,
        labels: Any,
        batch_size: int,
        drop_last: bool = False,
        *,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(seed, generator)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.index = ClassIndex.of(labels)
        self.batch_size = positive("batch_size", batch_size)
        self.drop_last = drop_last

    def _make(self, seed: int) -> _core.BatchingSampler:
        return _core.stratified_batch_sampler(self.index.core, self.batch_size, self.drop_last, seed)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        full, rest = divmod(len(self.index), self.batch_size)
        return full + (rest > 0 and not self.drop_last)
