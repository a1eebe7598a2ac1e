"""`ClassSampler`: the samples of one class, or of some."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from sluicegate import _core
from sluicegate.class_index import ClassIndex

from .iteration import Iteration
from .seed import checked_seed, missing_seed

# Indices that cross to Python at once.
_BLOCK = 4096


class ClassSampler(Iteration, Sampler[int]):
    """The indices of the samples of some classes, each once: class by class, or shuffled.

    Args:
        labels: the class of each sample: a list, array or tensor of integers, strings or whatever can be a dict's key;
            or the `index` of another sampler, which is then shared.
        classes: a class, or a list of classes.
        shuffle: a new random order every epoch. Default False: the classes in the sequence given, their samples
            ascending.
        seed: an integer from 0 to 2**64 - 1, for an order that is a function of it and the epoch (`set_epoch`). Default
            None: drawn at the first `next` of each iteration.
        generator: where it is drawn from instead of torch's global generator.

    Raises:
        KeyError: no sample is of such a class; the text names some of those that there are.
        ValueError: a class comes twice; a seed out of range.

    Example:
        >>> labels = ["cat", "dog", "cat", "emu", "dog"]
        >>> list(ClassSampler(labels, "dog")), list(ClassSampler(labels, ["emu", "cat"]))
        ([1, 4], [3, 0, 2])
    """

    def __init__(
        self,
        labels: Any,
        classes: Hashable | Iterable[Hashable],
        shuffle: bool = False,
        *,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(seed, generator)
        self.index = ClassIndex.of(labels)
        self.classes: list[Any] = list(classes) if isinstance(classes, (list, set, range, np.ndarray)) else [classes]
        self.shuffle = bool(shuffle)
        self._places = [self.index.place_of(label) for label in self.classes]
        self._length = sum(self.index.counts[place] for place in self._places)
        self._kept: tuple[tuple[int, int], _core.Order] | None = None
        _core.class_sampler(self.index.core, self._places, None)  # What the core refuses, it refuses now.

    def order(self, epoch: int, seed: int | None = None) -> _core.Order:
        """The order of `epoch`.

        Args:
            epoch: from 0.
            seed: the loader's, used when the sampler has none of its own.

        Raises:
            ValueError: neither has a seed, and the order is a random one.
        """
        seed = checked_seed(seed) if self.seed is None else self.seed
        if seed is None and self.shuffle:
            raise missing_seed(type(self).__name__)
        return _core.class_sampler(self.index.core, self._places, seed if self.shuffle else None).order(epoch)

    def index_at(self, position: int) -> int:
        """The index at `position` of the current epoch."""
        kept, key = self._kept, (self.epoch, self.seed or 0)
        if kept is None or kept[0] != key:
            self._kept = kept = (key, self.order(self.epoch))
        return kept[1].index_at(position)

    def __len__(self) -> int:
        """The number of samples of these classes."""
        return self._length

    def __iter__(self) -> Iterator[int]:
        """The indices of the current epoch."""
        seed, start = self._begin()
        order = self.order(self.epoch, seed)
        for block in range(start, len(order), _BLOCK):
            stop = min(block + _BLOCK, len(order))
            for index in np.frombuffer(order.indices(block, stop), np.int64).tolist():
                self.yielded += 1
                yield index

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what can be made anew."""
        return {**vars(self), "_kept": None}
