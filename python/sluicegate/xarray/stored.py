"""`stored_variable`: finds the Zarr array, and the part of it, that a variable of xarray reads when it is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray

# Layers around the stored array that only cache what is read.
_CACHES = ("MemoryCachedArray", "CopyOnWriteArray")
_DECODING = ("_ElementwiseFunctionArray", "NativeEndiannessArray")


@dataclass(frozen=True)
class StoredVariable:
    """The part of a Zarr array that is a variable.

    Attributes:
        store: the folder of the store.
        path: the path of the array in the store.
        dimensions: the dimensions of the array.
        sizes: the size of the whole array, by dimension.
        starts: the first element of the part, by dimension.
        lengths: the number of elements of the part, by dimension.
        decoding: what xarray does with the stored values, in order; empty if they are left as stored.
    """

    store: str
    path: str
    dimensions: tuple[str, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    decoding: tuple[str, ...]


class NotStoredError(Exception):
    """The variable is not a part of a Zarr array in a local folder; the message says why."""


def stored_variable(variable: xarray.Variable) -> StoredVariable:
    """Return the part of a Zarr array that `variable` reads when it is loaded.

    Raises:
        NotStoredError: it is in memory already, computed, stored in another format, or a part that is not contiguous.
    """
    array: Any = variable._data
    decoding = []
    while (layer := type(array).__name__) in _CACHES or layer in _DECODING:
        if layer in _DECODING:
            decoding.append(f"{layer} {_in_words(getattr(array, 'func', None))}")
        array = array.array
    if hasattr(array, "dask"):
        raise NotStoredError("is computed by dask; open the store with chunks=None")
    if layer == "LazilyVectorizedIndexedArray":
        raise NotStoredError("is indexed by arrays, or transposed; load it, or select by slices")
    if layer != "LazilyIndexedArray":
        raise NotStoredError(f"is in memory or computed ({layer}), not read from a Zarr store")
    if type(array.array).__name__ != "ZarrArrayWrapper":
        raise NotStoredError(f"is read by {type(array.array).__name__}, not from a Zarr store")
    zarr_array = array.array.get_array()
    # A URL, a zip file, or memory; and the package zarr before version 3.
    if type(getattr(zarr_array, "store", None)).__name__ != "LocalStore":
        raise NotStoredError("is not in a local folder")
    names = getattr(zarr_array.metadata, "dimension_names", None) or zarr_array.attrs.get("_ARRAY_DIMENSIONS") or ()
    parts = [_part(key, size) for key, size in zip(array.key.tuple, zarr_array.shape, strict=True)]
    kept = tuple(name for name, (_, _, is_kept) in zip(names, parts, strict=False) if is_kept)
    if kept != variable.dims:
        raise NotStoredError(f"has the dimensions {variable.dims}, which are called {kept} in the store")
    return StoredVariable(
        str(zarr_array.store.root),
        zarr_array.path,
        tuple(names),
        tuple(zarr_array.shape),
        tuple(start for start, _, _ in parts),
        tuple(length for _, length, _ in parts),
        tuple(decoding),
    )


def _in_words(function: Any) -> str:
    """Return the name and the arguments of a function of xarray's decoding, exactly."""
    name = getattr(getattr(function, "func", function), "__qualname__", "")
    arguments = sorted(getattr(function, "keywords", {}).items())
    # Arrays are shown with eight digits, their values with all.
    return name + "".join(
        f", {key}={value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value!r}"
        for key, value in arguments
    )


def _part(key: Any, size: int) -> tuple[int, int, bool]:
    """Return where the part along an axis starts, how long it is, and if the axis is kept."""
    if isinstance(key, slice):
        start, stop, step = key.indices(size)
        if step != 1:
            raise NotStoredError(f"is selected with a step of {step}")
        return start, max(stop - start, 0), True
    if getattr(key, "ndim", 0):
        raise NotStoredError("is indexed by arrays; select by slices")
    return int(key) % size, 1, False
