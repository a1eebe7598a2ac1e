"""Arrays of xarray, dask, TensorStore, and Zarr as datasets of their rows.

A row of a lazy array is again a lazy array, which torch's default collate refuses. Its values are read when the batch
is made, so that the rows of a batch are read together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def _in_dask(samples: Sequence[Any]) -> list[Any]:
    # One call for all rows: each chunk is read once.
    return [np.asarray(row) for row in sys.modules["dask"].compute(*samples)]


def _in_xarray(samples: Sequence[Any]) -> list[Any]:
    if any(sample.chunks is not None for sample in samples):
        return _in_dask(samples)
    return [np.asarray(row) for row in samples]


def _in_tensorstore(samples: Sequence[Any]) -> list[Any]:
    # All reads begin before the first one is waited for.
    return [np.asarray(read.result()) for read in [sample.read() for sample in samples]]


_READERS: Mapping[tuple[str, str], Callable[[Sequence[Any]], list[Any]]] = {
    ("xarray", "DataArray"): _in_xarray,
    ("dask.array", "Array"): _in_dask,
    ("tensorstore", "TensorStore"): _in_tensorstore,
}


def _imported(module: str, name: str) -> Any:
    """Return the class of that name; None if its package is not imported, or while it is being imported."""
    return getattr(sys.modules.get(module), name, None)


def lazy_kinds() -> dict[Any, Callable[[Sequence[Any]], list[Any]]]:
    """Return the functions that read rows, by class, of the packages imported so far. Called for each batch."""
    return {kind: read for (module, name), read in _READERS.items() if (kind := _imported(module, name)) is not None}


# They have a shape, but no `len`, which torch's samplers ask for.
_WITHOUT_LENGTH = (("zarr", "Array"), ("tensorstore", "TensorStore"))


class ArrayRows:
    """An array that has no `len` of its own, as a dataset of its rows.

    Args:
        array: the array.
    """

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: int) -> Any:
        return self.array[index]

    def __len__(self) -> int:
        shape = self.array.shape
        if not shape:
            raise TypeError("dataset: the array has no axis, got shape (); pass one with at least one axis")
        return int(shape[0])


def with_length(dataset: Any) -> Any:
    """Return `dataset`, or its rows if it is an array that has no `len`."""
    kinds = (_imported(module, name) for module, name in _WITHOUT_LENGTH)
    is_array = any(kind is not None and isinstance(dataset, kind) for kind in kinds)
    return ArrayRows(dataset) if is_array and not hasattr(dataset, "__len__") else dataset
