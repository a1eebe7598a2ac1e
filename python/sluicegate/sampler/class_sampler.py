"""`ClassSampler`: the samples of one or more classes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from sluicegate import _core

from .class_index import ClassIndex
from .positional import Positional, ints
from .seed import checked_seed


class ClassSampler(Positional, Sampler[int]):
    """The indices of the samples of some classes, each once: class by class, or shuffled.

    Args:
        labels: the class of each sample: a list, array or tensor of integers, strings or anything that can be a dict
            key; or the `index` of another sampler, which is then shared.
        classes: a class, or a list of classes.
        shuffle: True for a new random order every epoch. Default False: the classes in the given sequence, the samples
            of each in ascending order.
        seed: an integer from 0 to 2**64 - 1; the order is a function of it and the epoch (`set_epoch`). Default None:
            drawn at the first `next` of each iteration.
        generator: the source of the drawn seed, instead of torch's global generator.

    Raises:
        KeyError: a class has no samples; the message names some that do.
        ValueError: a class comes twice, or `seed` is out of range.

    Examples:
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
        self.index = ClassIndex.of(labels)
        self.classes: list[Any] = list(classes) if isinstance(classes, (list, set, range, np.ndarray)) else [classes]
        self.shuffle = bool(shuffle)
        self.generator = generator
        self.seed = checked_seed(seed)
        self._places = [self.index.place_of(label) for label in self.classes]
        self._length = sum(self.index.counts[number] for number in self._places)
        self._make(0)  # To raise the core's argument errors now.

    def __len__(self) -> int:
        """Return the number of samples of these classes."""
        return self._length

    def _is_random(self) -> bool:
        return self.shuffle

    def _unseeded(self) -> Iterator[int]:
        seed = self._seed_of_pass(self.generator) if self.shuffle else 0
        yield from ints(self._make(seed).order(0), 0)

    def _facts(self) -> tuple[Any, ...]:
        return self.index, self._places, self.shuffle

    def _make(self, seed: int) -> _core.Sampler:
        return _core.class_sampler(self.index.core, self._places, seed if self.shuffle else None)
