"""`Windows`: the position of each window in the dimensions of an xarray object, computed from its index."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.checked_number import checked_numbers


@dataclass(frozen=True)
class Windows:
    """The windows along some dimensions: their product, the last dimension changing fastest, as in xbatcher.

    Attributes:
        dimensions: the names of the dimensions, slowest first.
        lengths: the number of elements of a window, by dimension.
        strides: how far windows are apart, in elements, by dimension.
        counts: the number of windows by dimension.
        inputs: the dimensions that a model sees; xbatcher stacks the others of a window if there are several.
    """

    dimensions: tuple[str, ...]
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    counts: tuple[int, ...]
    inputs: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of windows."""
        return math.prod(self.counts)

    def starts(self, index: int) -> tuple[int, ...]:
        """Return the first element of window `index` along each dimension."""
        numbers = []
        for count in reversed(self.counts):
            index, number = divmod(index, count)
            numbers.append(number)
        return tuple(map(int.__mul__, reversed(numbers), self.strides))

    def selector(self, index: int) -> dict[str, slice]:
        """Return window `index` as an argument of `isel`."""
        parts = zip(self.dimensions, self.starts(index), self.lengths, strict=True)
        return {dimension: slice(start, start + length) for dimension, start, length in parts}


def windows_of(
    sizes: Mapping[Any, int],
    input_dims: Mapping[Any, int],
    input_overlap: Mapping[Any, int] | None,
    batch_dims: Mapping[Any, int] | None,
) -> Windows:
    """Return the windows of an object whose dimensions have these `sizes`.

    Raises:
        TypeError: an argument is not a mapping of names to integers.
        ValueError: a dimension does not exist, a window does not fit into it, or windows overlap as a whole.
    """
    inputs = checked_numbers("input_dims", input_dims, 1)
    batches = checked_numbers("batch_dims", batch_dims or {}, 1)
    overlaps = checked_numbers("input_overlap", input_overlap or {}, 0)
    cut = {**{name: length for name, length in batches.items() if name not in inputs}, **inputs}
    if not cut:
        raise ValueError("input_dims: expected the length of a window along at least one dimension, but got none")
    if unknown := [name for name in overlaps if name not in cut]:
        raise ValueError(f"input_overlap: expected dimensions of the windows, {list(cut)}, but got {unknown[0]!r}")
    for name, length in cut.items():
        argument = "input_dims" if name in inputs else "batch_dims"
        if name not in sizes:
            raise ValueError(f"{argument}: expected dimensions of the data, {list(sizes)}, but got {name!r}")
        if length > sizes[name]:
            raise ValueError(
                f"{argument}: expected at most {sizes[name]} for dimension {name!r}, which has that size, but got "
                f"{length}; pass a smaller window"
            )
        if overlaps.get(name, 0) >= length:
            raise ValueError(
                f"input_overlap: expected less than the window of {length} for dimension {name!r}, but got "
                f"{overlaps[name]}"
            )
    strides = {name: length - overlaps.get(name, 0) for name, length in cut.items()}
    counts = [(sizes[name] - length) // strides[name] + 1 for name, length in cut.items()]
    return Windows(tuple(cut), tuple(cut.values()), tuple(strides.values()), tuple(counts), tuple(inputs))
