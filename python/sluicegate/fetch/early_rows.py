"""`EarlyRows`: the large samples of the batch under way, copied into their rows as they arrive.

A batch of large samples costs page faults: each sample is a fresh mapping as long as the others are kept. A sample that
is released at once leaves its memory to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from sluicegate import _torch

from .sole_owner import is_held_once, owns_its_memory

# From this size on, the memory of one sample instead of 32 saves more than the counting takes, about 4 µs.
SMALLEST = 512 << 10
# Of more parts, a sample is not searched: the search costs time in every batch, and a large part is rarely one of many.
_MOST_PARTS = 64


class Room(Protocol):
    """Memory for one tensor of a batch, before its samples exist."""

    @property
    def batch(self) -> Any:
        """The object that replaces the tensor in the batch."""

    def row(self, number: int) -> torch.Tensor:
        """Return a tensor over row `number`, to be written at once."""


class EarlyRows:
    """Copies large tensors and arrays into their rows of the batch, and replaces them by tensors over the rows.

    Only objects without other references are replaced, so the dataset cannot notice. A row has the values, shape, and
    strides of its sample: if samples turn out not to match, torch collates the rows, and raises the same errors.

    Args:
        count: the number of samples in the batch.
        make_room: returns the room for a tensor of this data type (by torch's name) and shape, or None.
        suits: returns True for a first sample whose batch may be made in such room; None if all may.
    """

    def __init__(
        self,
        count: int,
        make_room: Callable[[str, tuple[int, ...]], Room | None],
        suits: Callable[[Any], bool] | None = None,
    ) -> None:
        self._count = count
        self._make_room = make_room
        self._suits = suits
        self._plan: _Column | _Parts | None = None
        # By the id of their first row, which they keep.
        self._columns: dict[int, _Column] = {}

    def take(self, samples: list[Any]) -> bool:
        """Copy the large parts of the last of `samples`, which has just arrived, and replace them by their rows.

        Returns False if no parts of the other samples will be taken.
        """
        number = len(samples) - 1
        if number == 0:
            # The first sample determines which parts of the others are checked.
            self._plan = _planned(samples[0])
            if self._plan is not None and self._suits is not None and not self._suits(samples[0]):
                self._plan = None
        if self._plan is None:
            return False
        if _torch.operations_are_plain():
            self._take(samples, number, self._plan, number)
        return bool(self._columns)

    @property
    def has_any(self) -> bool:
        """True if something of the samples was taken."""
        return bool(self._columns)

    def batch_of(self, samples: Sequence[Any]) -> Any:
        """Return the batch of these tensors or arrays if their rows are already in it, or None.

        Samples that could not be released early are copied into their rows now.
        """
        column = self._columns.get(id(samples[0]))
        return column.completed(samples) if column is not None and column.holds(samples) else None

    def _take(self, holder: Any, key: Any, plan: _Column | _Parts, number: int) -> None:
        if not is_held_once(holder, key):
            return
        item = holder[key]
        if isinstance(plan, _Column):
            row = self._row(plan, item, number)
            if row is not None:
                holder[key] = row
            return
        if not plan.fits(item):
            return
        parts = item
        if plan.kind is tuple:
            # The new list adds a reference to each part until the tuple is freed.
            holder[key] = parts = list(item)
        del item
        for part_key, part_plan in plan.parts:
            self._take(parts, part_key, part_plan, number)
        if plan.kind is tuple:
            holder[key] = tuple(parts)

    def _row(self, column: _Column, item: Any, number: int) -> Any:
        if not column.fits(item) or not owns_its_memory(item):
            return None
        if number == 0:
            column.begin(self._count, self._make_room)
        row = column.copy(item, number)
        if number == 0 and row is not None:
            self._columns[id(row)] = column
        return row


class _Column:
    """One tensor of a batch, and the parts of samples that are its rows.

    Args:
        first: the part of the first sample, a tensor or an array.
    """

    def __init__(self, first: Any) -> None:
        self._kind = type(first)
        self._dtype, self._shape, self._is_array = first.dtype, first.shape, type(first) is np.ndarray
        self._strides = _c_strides(first.shape, first.itemsize if self._is_array else 1)
        self._room: Room | None = None
        self._rows: list[Any] = []

    def fits(self, item: Any) -> bool:
        """Return True if `item` is the same as its row once it is copied there."""
        if type(item) is not self._kind or item.dtype != self._dtype or item.shape != self._shape:
            return False
        # Strides of axes of size 1 count: torch chooses the layout of the batch by them.
        if self._is_array:
            return bool(item.strides == self._strides)
        return _torch.tensor_is_plain(item) and item.stride() == self._strides

    def begin(self, count: int, make_room: Callable[[str, tuple[int, ...]], Room | None]) -> None:
        name = self._dtype.name if self._is_array else _torch.dtype_name(self._dtype)
        self._room = make_room(name, (count, *self._shape))
        self._rows = [None] * count

    def copy(self, item: Any, number: int) -> Any:
        """Copy `item` into row `number`, and return the row, or None if there is no room for this tensor."""
        if self._room is None:
            return None
        row: Any = self._room.row(number)
        if self._is_array:
            row = row.numpy()
            np.copyto(row, item)
        else:
            row.copy_(item)
        self._rows[number] = row
        return row

    def holds(self, samples: Sequence[Any]) -> bool:
        """Return True if each of `samples` is its row already, or fits into it."""
        pairs = zip(samples, self._rows, strict=True)
        return all(sample is row or (row is None and self.fits(sample)) for sample, row in pairs)

    def completed(self, samples: Sequence[Any]) -> Any:
        """Copy those of `samples` that are not rows yet, and return the object that replaces the tensor."""
        assert self._room is not None
        for number, sample in enumerate(samples):
            if sample is not self._rows[number]:
                self.copy(sample, number)
        return self._room.batch


class _Parts:
    """A builtin container, and the parts of it that are checked.

    Args:
        container: the container in the first sample.
        parts: the keys of these parts, and their plans.
    """

    def __init__(self, container: Any, parts: list[tuple[Any, _Column | _Parts]]) -> None:
        self.kind = type(container)
        self.parts = parts
        self._size = len(container)

    def fits(self, item: Any) -> bool:
        if type(item) is not self.kind or len(item) != self._size:
            return False
        return self.kind is not dict or all(key in item for key, _ in self.parts)


def _planned(item: Any) -> _Column | _Parts | None:
    """Return the plan for the large parts of the first sample of a batch; None if it has none."""
    kind = type(item)
    if kind is torch.Tensor or kind is np.ndarray:
        # Sparse tensors have no `nbytes`.
        is_large = item.itemsize * (item.numel() if kind is torch.Tensor else item.size) >= SMALLEST
        return _Column(item) if is_large and _is_known(item) else None
    if kind not in (tuple, list, dict) or len(item) > _MOST_PARTS:
        return None
    # Keys of other types may define their own comparison, which must not be called more often than in torch.
    pairs = ((key, item[key]) for key in item if type(key) is str) if kind is dict else enumerate(item)
    parts = [(key, plan) for key, part in pairs if (plan := _planned(part)) is not None]
    return _Parts(item, parts) if parts else None


def _is_known(item: Any) -> bool:
    if isinstance(item, np.ndarray):
        return item.dtype.isnative and item.dtype.kind in "biufc" and item.dtype.name in _torch.DTYPES
    return _torch.tensor_is_plain(item) and item.dtype in _torch.DTYPE_NAMES


def _c_strides(shape: tuple[int, ...], step: int) -> tuple[int, ...]:
    strides = []
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
