"""`BalancedBatchSampler`: the same number of samples of each class in a batch."""

from __future__ import annotations

from typing import Any

import torch

from sluicegate import _core

from .class_index import ClassIndex
from .core_batch import CoreBatchSampler, positive


class BalancedBatchSampler(CoreBatchSampler):
    """Batches of `classes_per_batch` classes with `samples_per_class` samples each, class after class.

    For losses that compare samples of the same and of different classes, and against imbalance: all classes come
    equally often (within one) however many samples they have, and so do all samples of a class. No class comes twice in
    a batch, nor does a sample, unless its class has fewer than `samples_per_class`. Batches are computed, not stored.

    Args:
        labels: the class of each sample: a list, array or tensor of integers, strings or anything that can be a dict
            key; or the `index` of another sampler, which is then shared.
        classes_per_batch: classes in a batch; at most the number of classes.
        samples_per_class: samples of each class in a batch.
        num_batches: batches in an epoch. Default: as many as the samples fill, `len(labels) // batch_size`.
        seed: an integer from 0 to 2**64 - 1; the batches are a function of it and the epoch (`set_epoch`). Default
            None: drawn at the first `next` of each iteration.
        generator: the source of the drawn seed, instead of torch's global generator.

    Raises:
        ValueError: a number is not positive, `classes_per_batch` exceeds the number of classes, or `seed` is out of
            range.

    Examples:
        >>> labels = ["cat", "cat", "dog", "cat", "dog", "emu", "cat", "emu"]
        >>> sampler = BalancedBatchSampler(labels, classes_per_batch=2, samples_per_class=2, seed=7)
        >>> [[labels[index] for index in batch] for batch in sampler]
        [['dog', 'dog', 'emu', 'emu'], ['cat', 'cat', 'dog', 'dog']]
    """

    def __init__(
        self,
        labels: Any,
        classes_per_batch: int,
        samples_per_class: int,
        *,
        num_batches: int | None = None,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(seed, generator)
        self.index = ClassIndex.of(labels)
        self.classes_per_batch = positive("classes_per_batch", classes_per_batch)
        self.samples_per_class = positive("samples_per_class", samples_per_class)
        self.num_batches = None if num_batches is None else positive("num_batches", num_batches)
        self.batch_size = classes_per_batch * samples_per_class
        self.drop_last = True
        self._make(0)  # To raise the core's argument errors now.

    def _make(self, seed: int) -> _core.BatchingSampler:
        return _core.balanced_batch_sampler(
            self.index.core, self.classes_per_batch, self.samples_per_class, self.num_batches, seed
        )
