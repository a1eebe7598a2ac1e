"""Collation in a worker process: torch's default, with tensors stacked straight into the batch that is being made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from sluicegate import _core, _torch

from .collate import StackingCollate, stacking, stacks_in_c_order
from .early_rows import EarlyRows

# For samples in user-defined containers, whose code must not see a `Placed`: they are collated in private memory first.
_PRIVATE_SLOTS = 2


class Placed(NamedTuple):
    """A tensor that was stacked straight into the shared segment, by the number of its leaf."""

    leaf: int


class PlacingCollate:
    """Does what torch's `default_collate` does in a worker; tensors are already in the batch, as `Placed`.

    Args:
        end: where the batch is being made.
    """

    def __init__(self, end: _core.WorkerEnd, collate_fn: Callable[[Any], Any]) -> None:
        self._end = end
        self._place = StackingCollate(self._stack, self._make_room)
        self._in_private = stacking(collate_fn, _core.Engine(0, _PRIVATE_SLOTS))

    def begin(self, count: int) -> EarlyRows | None:
        """Return an object that takes the samples of a batch of `count` as they arrive, or None if all are kept."""
        return self._place.begin(count, _is_plain)

    def __call__(self, samples: Any, rows: EarlyRows | None = None) -> Any:
        """Return the batch of these samples, some of which `rows` may have taken as they arrived."""
        plain = isinstance(samples, list) and samples and _is_plain(samples[0])
        return self._place(samples, rows) if plain else self._in_private(samples)

    def _make_room(self, dtype: str, shape: tuple[int, ...]) -> _PlacedRows:
        return _PlacedRows(self._end, self._end.place(dtype, shape)[0])

    def _stack(self, samples: Any) -> Any:
        leaf = self._end.stack(samples)
        if leaf is not None:
            return Placed(leaf)
        first = samples[0]
        if not stacks_in_c_order(samples):
            return None  # torch raises its own error
        leaf, room = self._end.place(_torch.dtype_name(first.dtype), (len(samples), *first.shape))
        # Torch's worker does the same, with a different kind of shared memory.
        stacked = torch.stack(samples, 0, out=room)
        return Placed(leaf) if stacked is room else stacked


class _PlacedRows:
    """Room for a tensor in the batch that is being made."""

    def __init__(self, end: _core.WorkerEnd, leaf: int) -> None:
        self._end = end
        self._placed = 0
        self._rows: Sequence[torch.Tensor] = ()
        self.batch = Placed(leaf)

    def row(self, number: int) -> torch.Tensor:
        if self._end.placed != self._placed:
            # Placing a tensor that does not fit moves the whole batch to a larger block.
            self._placed = self._end.placed
            self._rows = self._end.tensor(self.batch.leaf).unbind(0)
        return self._rows[number]


def placing(collate_fn: Callable[[Any], Any], end: _core.WorkerEnd) -> Callable[[Any], Any]:
    """Return `collate_fn` or, if it is torch's default, an equivalent that places tensors in the batch of `end`."""
    return PlacingCollate(end, collate_fn) if _torch.collate_is_default(collate_fn) else collate_fn


def stacks_as_torch(collate_fn: Callable[[Any], Any]) -> bool:
    """Return True if `collate_fn` is torch's default collate, or its replacement here."""
    return isinstance(collate_fn, (StackingCollate, PlacingCollate)) or _torch.collate_is_default(collate_fn)


def _is_plain(sample: Any) -> bool:
    """Return True if the containers of `sample` are built-in: torch makes the batch's containers of their classes."""
    kind = type(sample)
    if kind is dict:
        return all(map(_is_plain, sample.values()))
    if kind is list or kind is tuple or (kind.__bases__ == (tuple,) and hasattr(kind, "_fields")):
        return all(map(_is_plain, sample))
    return isinstance(sample, (str, bytes)) or not isinstance(sample, (Mapping, Sequence))
