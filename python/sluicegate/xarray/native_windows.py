"""`NativeWindows`: windows of the variables of an xarray object that the core reads from a store."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import xarray

from sluicegate.formats.hdf5 import Hdf5Dataset
from sluicegate.formats.zarr import ZarrDataset

from .stored import NotStoredError, StoredVariable, stored_variable
from .windows import Windows


@dataclass(frozen=True)
class NativeWindows:
    """The windows of variables that are parts of arrays of one store.

    Attributes:
        dataset: the windows; a field for each variable.
        names: the names of the variables, in the order of the fields.
        is_whole: True if samples have the dimensions of the variables: `isel` with a number removed none.
    """

    dataset: ZarrDataset | Hdf5Dataset
    names: tuple[Any, ...]
    is_whole: bool


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
            raise NotStoredError(f"{_shown(name)} is in a different store than the first variable")
    regions = _regions(stored, windows)
    lengths = dict(zip(windows.dimensions, windows.lengths, strict=True))
    kind: Any = ZarrDataset if first.engine == "zarr" else Hdf5Dataset
    # xarray reads the arrays that the core cannot.
    options = {} if kind is ZarrDataset else {"fallback": False}
    try:
        dataset = kind(
            first.store,
            [part.path for part in stored.values()],
            window=lengths,
            stride=dict(zip(windows.dimensions, windows.strides, strict=True)),
            region={name: slice(start, start + length) for name, (_, start, length) in regions.items()},
            decode_cf=_is_decoded(stored),
            cache_bytes=cache_bytes,
            **options,
        )
    except (ValueError, OSError, ImportError) as error:
        raise NotStoredError(f"cannot be read by {kind.__name__}: {error}") from error
    if len(dataset) != len(windows):
        raise NotStoredError(f"its dimensions have different sizes in {kind.__name__} and in xarray")
    for (name, variable), part, (_, dtype, shape) in zip(
        variables.items(), stored.values(), dataset.core.fields, strict=True
    ):
        if variable.dtype.name != dtype:
            raise NotStoredError(f"{_shown(name)} has the data type {variable.dtype}, not {dtype}")
        expected = [lengths.get(each, length) for each, length in zip(part.dimensions, part.lengths, strict=True)]
        if list(shape) != expected:
            raise NotStoredError(f"{_shown(name)} has windows of {list(shape)}, not {expected}")
    parts = zip(variables.values(), stored.values(), strict=True)
    is_whole = all(variable.ndim == len(part.dimensions) for variable, part in parts)
    return NativeWindows(dataset, tuple(stored), is_whole)


def _shown(name: Any) -> str:
    return "the array" if name is None else f"variable {name!r}"


def _stored(name: Any, variable: xarray.Variable) -> StoredVariable:
    try:
        return stored_variable(variable)
    except NotStoredError as error:
        raise NotStoredError(f"{_shown(name)} {error}") from None


def _regions(stored: Mapping[Any, StoredVariable], windows: Windows) -> dict[str, tuple[int, int, int]]:
    """Return the size of each dimension of the arrays, and which part of it is read: its start and its length."""
    regions: dict[str, tuple[int, int, int]] = {}
    for name, part in stored.items():
        for dimension, *region in zip(part.dimensions, part.sizes, part.starts, part.lengths, strict=True):
            if regions.setdefault(dimension, (region[0], region[1], region[2])) != tuple(region):
                raise NotStoredError(
                    f"{_shown(name)} selects different elements of {dimension!r} than another variable"
                )
    for dimension in windows.dimensions:
        if dimension not in regions:
            raise NotStoredError(f"there is no variable with dimension {dimension!r}")
    if any(length == 0 for _, _, length in regions.values()):
        raise NotStoredError("has no elements")
    return regions


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
        raise NotStoredError("variables are not decoded with xarray's defaults")
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
