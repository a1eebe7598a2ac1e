"""`stored_variable`: finds the stored array, and the part of it, that a variable of xarray reads when it is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray

# Layers around the stored array that only cache reads.
_CACHES = ("MemoryCachedArray", "CopyOnWriteArray")
_DECODING = ("_ElementwiseFunctionArray", "NativeEndiannessArray")


# The classes that read arrays of netCDF and HDF5, with their names as engines of xarray.
_ENGINES = {"H5NetCDFArrayWrapper": "h5netcdf", "NetCDF4ArrayWrapper": "netcdf4", "ScipyArrayWrapper": "scipy"}


@dataclass(frozen=True)
class StoredVariable:
    """The part of a stored array that is a variable.

    Attributes:
        engine: the name of the engine of xarray that reads the store.
        store: the folder of the store, or the file.
        path: the path of the array in the store.
        dimensions: the dimensions of the array.
        sizes: the size of the whole array, by dimension.
        starts: the first element of the part, by dimension.
        lengths: the number of elements of the part, by dimension.
        decoding: the steps that xarray applies to the stored values, in order; empty if they are left as stored.
    """

    engine: str
    store: str
    path: str
    dimensions: tuple[str, ...]
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    decoding: tuple[str, ...]


class NotStoredError(Exception):
    """The variable is not a part of an array that the core reads; the message says why."""


def stored_variable(variable: xarray.Variable) -> StoredVariable:
    """Return the part of a stored array that `variable` reads when it is loaded.

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
        raise NotStoredError(f"is in memory or computed ({layer}), not read from a store")
    engine, store, path, names, shape = _array(array.array, variable)
    parts = [_part(key, size) for key, size in zip(array.key.tuple, shape, strict=True)]
    kept = tuple(name for name, (_, _, is_kept) in zip(names, parts, strict=False) if is_kept)
    if kept != variable.dims:
        raise NotStoredError(f"has the dimensions {variable.dims}, which are called {kept} in the store")
    return StoredVariable(
        engine,
        store,
        path,
        names,
        shape,
        tuple(start for start, _, _ in parts),
        tuple(length for _, length, _ in parts),
        tuple(decoding),
    )


def _array(wrapper: Any, variable: xarray.Variable) -> tuple[str, str, str, tuple[str, ...], tuple[int, ...]]:
    """Return the engine, the store, the path, the dimensions, and the shape of the array that `wrapper` reads."""
    kind = type(wrapper).__name__
    if kind == "ZarrArrayWrapper":
        array = wrapper.get_array()
        # A URL, a zip file, or memory; and the package zarr before version 3.
        if type(getattr(array, "store", None)).__name__ != "LocalStore":
            raise NotStoredError("is not in a local folder")
        names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS") or ()
        return "zarr", str(array.store.root), array.path, tuple(names), tuple(array.shape)
    if kind not in _ENGINES:
        raise NotStoredError(f"is read by {kind}, not from Zarr, HDF5, or netCDF")
    opened = wrapper.datastore._manager._args[:1]
    if not (opened and isinstance(opened[0], str) and os.path.isfile(opened[0])):
        raise NotStoredError("is not in a local file")
    encoding = variable.encoding
    if getattr(encoding.get("dtype"), "byteorder", "=") == ">" and {"_Unsigned", "_FillValue"} <= set(encoding):
        raise NotStoredError("has a fill value in big-endian bytes that _Unsigned applies to")
    is_scipy = _ENGINES[kind] == "scipy"
    array = wrapper.get_variable(needs_lock=False) if is_scipy else wrapper.get_array(needs_lock=False)
    path = "/".join(part for part in (getattr(wrapper.datastore, "_group", None), wrapper.variable_name) if part)
    return _ENGINES[kind], os.path.abspath(opened[0]), path.strip("/"), tuple(array.dimensions), tuple(array.shape)


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
