"""`NativeWindows`: windows of the variables of an xarray object that the core reads from a store."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import xarray

from sluicegate import _core
from sluicegate.formats.hdf5 import Hdf5Dataset
from sluicegate.formats.zarr import ZarrDataset

from .stored import NotStoredError, StoredVariable, stored_variable
from .windows import Windows


@dataclass(frozen=True)
class NativeWindows:
    """The windows of variables that are parts of arrays of one store.

    Attributes:
        core: the core's dataset; a field for each variable.
        names: the names of the variables, in the order of the fields.
        is_whole: True if samples have the dimensions of the variables: `isel` with a number removed none.
        block_sizes: the number of windows in each row of chunks along the first dimension.
    """

    core: _core.Dataset
    names: tuple[Any, ...]
    is_whole: bool
    block_sizes: np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class _Axis:
    """A dimension of the arrays: the windows of the whole dimension that the store has, and which are wanted."""

    length: int
    step: int
    count: int
    wanted: np.ndarray[Any, np.dtype[np.int64]]


def native_windows(variables: Mapping[Any, xarray.Variable], windows: Windows, cache_bytes: int) -> NativeWindows:
    """Return the windows of `variables` as the core reads them.

    Raises:
        NotStoredError: the core cannot read them as xarray does; the message says why.
    """
    stored = {name: _stored(name, variable) for name, variable in variables.items()}
    if not stored:
        raise NotStoredError("there is no variable")
    first = next(iter(stored.values()))
    for name, part in stored.items():
        if (part.store, part.engine) != (first.store, first.engine):
            raise NotStoredError(f"variable {name!r} is in another store than the first variable")
    axes = _axes(stored, windows)
    kind: Any = ZarrDataset if first.engine == "zarr" else Hdf5Dataset
    # What the core cannot read is left to xarray.
    options = {} if kind is ZarrDataset else {"fallback": False}
    try:
        dataset = kind(
            first.store,
            [part.path for part in stored.values()],
            window={name: axis.length for name, axis in axes.items()},
            stride={name: axis.step for name, axis in axes.items()},
            decode_cf=_is_decoded(stored),
            cache_bytes=cache_bytes,
            **options,
        )
    except (ValueError, OSError, ImportError) as error:
        raise NotStoredError(f"cannot be read by {kind.__name__}: {error}") from error
    if len(dataset) != math.prod(axis.count for axis in axes.values()):
        raise NotStoredError(f"its dimensions have other sizes for {kind.__name__} than for xarray")
    for (name, variable), part, (_, dtype, shape) in zip(
        variables.items(), stored.values(), dataset.core.fields, strict=True
    ):
        if variable.dtype.name != dtype:
            raise NotStoredError(f"variable {name!r} has the data type {variable.dtype}, not {dtype}")
        expected = [
            axes[each].length if each in axes else size for each, size in zip(part.dimensions, part.sizes, strict=True)
        ]
        if list(shape) != expected:
            raise NotStoredError(f"variable {name!r} has windows of {list(shape)}, not {expected}")
    core, block_sizes = dataset.core, dataset.block_sizes
    if any(len(axis.wanted) != axis.count for axis in axes.values()):
        core, block_sizes = _subset(core, block_sizes, list(axes.values()))
    parts = zip(variables.values(), stored.values(), strict=True)
    is_whole = all(variable.ndim == len(part.dimensions) for variable, part in parts)
    return NativeWindows(core, tuple(stored), is_whole, block_sizes)


def _stored(name: Any, variable: xarray.Variable) -> StoredVariable:
    try:
        return stored_variable(variable)
    except NotStoredError as error:
        raise NotStoredError(f"variable {name!r} {error}") from None


def _axes(stored: Mapping[Any, StoredVariable], windows: Windows) -> dict[str, _Axis]:
    """Return the dimensions along which the arrays are cut, those of the windows first."""
    regions: dict[str, tuple[int, int, int]] = {}
    for name, part in stored.items():
        for dimension, *region in zip(part.dimensions, part.sizes, part.starts, part.lengths, strict=True):
            if regions.setdefault(dimension, (region[0], region[1], region[2])) != tuple(region):
                raise NotStoredError(f"variable {name!r} has other elements of {dimension!r} than another variable")
    axes = {}
    for dimension, length, stride in zip(windows.dimensions, windows.lengths, windows.strides, strict=True):
        if dimension not in regions:
            raise NotStoredError(f"there is no variable with dimension {dimension!r}")
        size, start, _ = regions[dimension]
        axes[dimension] = _axis(size, length, start, stride, windows.starts_along(dimension))
    for dimension, (size, start, length) in regions.items():
        # A dimension of which a part is selected is cut into windows as long as the part.
        if dimension not in axes and (start, length) != (0, size):
            axes[dimension] = _axis(size, length, start, length, np.zeros(1, np.int64))
    return axes


def _axis(size: int, length: int, start: int, stride: int, starts: np.ndarray[Any, np.dtype[np.int64]]) -> _Axis:
    if length == 0:
        raise NotStoredError("has no elements")
    # The windows of a part that does not start at a multiple of the stride are among these, too.
    step = math.gcd(start, stride)
    return _Axis(length, step, (size - length) // step + 1, (start + starts) // step)


def _is_decoded(stored: Mapping[Any, StoredVariable]) -> bool:
    """Return True if the variables are decoded as xarray decodes them by default, False if they are not at all."""
    groups: dict[str, xarray.Dataset] = {}
    are_default, are_plain = True, True
    for name, part in stored.items():
        folder, own_name = posixpath.split(part.path)
        if folder not in groups:
            groups[folder] = _opened(part.engine, part.store, folder)
        are_default &= part.decoding == _stored(name, groups[folder].variables[own_name]).decoding
        are_plain &= not part.decoding
    if not (are_default or are_plain):
        raise NotStoredError("variables are decoded in another way than by default")
    return are_default


def _opened(engine: str, store: str, group: str) -> xarray.Dataset:
    options: dict[str, Any] = {"consolidated": False} if engine == "zarr" else {}
    if group:
        options["group"] = group
    try:
        # Without times: their numbers are not read by the core in any case, and some cannot be decoded.
        return xarray.open_dataset(store, engine=engine, chunks=None, decode_times=False, **options)
    except (ValueError, OSError, KeyError) as error:
        raise NotStoredError(f"cannot be opened again: {error}") from error


def _subset(
    core: _core.Dataset, block_sizes: np.ndarray[Any, np.dtype[np.int64]], axes: list[_Axis]
) -> tuple[_core.Dataset, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the wanted windows, and how many of them are in each block."""
    indices = reduce(lambda before, axis: np.add.outer(before * axis.count, axis.wanted), axes, np.zeros((), np.int64))
    indices = np.ascontiguousarray(indices.ravel(), np.int64)
    subset = _core.Dataset.subset(core, _core.Indices(indices.ctypes.data, len(indices), indices))
    assert subset is not None
    counts = np.bincount(np.searchsorted(np.cumsum(block_sizes), indices, "right"))
    return subset, counts[counts > 0].astype(np.int64)
