"""`Source`: a dataset as the core reads it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluicegate import _core, _torch
from sluicegate.native.dataset import Kind, collate, hand_over, has_own_batches


@dataclass(frozen=True)
class Source:
    """A native dataset, ready to be read by the core.

    Attributes:
        dataset: the core's dataset.
        structure: how its fields are nested in a batch: field numbers in lists and dicts.
        kinds: by field, its type in Python: as in `NativeDataset`, or "array" or "scalar" for NumPy's. Torch collates
            each of them differently.
        checks: each returns True if a tensor still has the memory that the core reads.
        is_captured: True if it is the dataset as it was when the epoch began, as worker processes have it.
        captured: that dataset, for batches that Python makes; None for the dataset itself.
        falls_back: True if Python makes a batch at which the core fails: Python may succeed, or raise a different
            error.
    """

    dataset: _core.Dataset
    structure: Any
    kinds: tuple[Kind, ...]
    checks: tuple[Callable[[], bool], ...] = ()
    is_captured: bool = False
    captured: Any = None
    falls_back: bool = False

    # Random values of samples are drawn before they are read.
    draws_on_delivery = False

    @property
    def draws_in_order(self) -> bool:
        """True if samples are random and can draw in sequence from one generator, as torch's do."""
        return _core.draws_in_order(self.dataset)

    @property
    def draws_from_python(self) -> bool:
        """True if they may then draw from Python's generator, too."""
        return _core.draws_from_python(self.dataset)

    @property
    def is_random(self) -> bool:
        """True if a sample is different in each epoch: its random values follow from a seed."""
        return self.dataset.is_random

    def is_current(self, collate_fn: Callable[[Any], Any]) -> bool:
        """Return True if the core may still read: no tensor was resized since, and nothing was replaced."""
        return _torch.collate_is_default(collate_fn) and all(check() for check in self.checks)

    def window(self, engine: _core.Engine, in_order: bool, seed: int | None) -> _core.Prefetch:
        """Return a window on its batches; random values are drawn from `seed`."""
        how = hand_over(self.dataset, self.structure, self.kinds)
        return _core.Prefetch(engine, self.dataset, how, in_order, seed)

    def collate_fn(self, default: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that makes the same batch from samples that Python has fetched: `default` if it can."""
        if not has_own_batches(self.kinds):
            return default
        return functools.partial(collate, structure=self.structure, kinds=self.kinds)
