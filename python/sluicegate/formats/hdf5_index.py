"""`hdf5_arrays`: describes the arrays of an HDF5 file and where their chunks are, for Rust to read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .hdf5_array import Hdf5Array, described
from .hdf5_dimensions import NOT_COORDINATE, Dimensions, is_scale, text_of
from .hdf5_library import LibraryFile
from .hdf5_types import LibraryOnlyError, NoNumbersError, NotReadError


def hdf5_arrays(
    path: str, group: str, fields: Sequence[str] | None, are_rows: bool, falls_back: bool
) -> list[Hdf5Array]:
    """Return the arrays called `fields` in `group` of the file, as `_core.hdf5_windows` takes them.

    Without `fields`, those that are not coordinates of others and have a data type that is read. Text is among them
    only if samples are rows (`are_rows`). With `falls_back`, h5py reads the chunks that Rust cannot: `library` is then
    the `LibraryArray`.

    Raises:
        ImportError: h5py is not installed.
        FileNotFoundError: the file does not exist.
        OSError: it cannot be read.
        ValueError: it is not a file of HDF5, has no such group or array, or an array that is not read.
    """
    try:
        import h5py  # Optional: only this needs it.
    except ImportError as error:
        raise ImportError(
            "Hdf5Dataset needs the package h5py to find the chunks of HDF5 files; install it (pip install h5py)"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            found = file.get(group)
            if not isinstance(found, h5py.Group):
                raise _NamedError(f"group: expected the name of a group in {path!r}, but got {group!r}")
            index = _Index(path, found, LibraryFile(path) if falls_back else None)
            return index.all(are_rows) if fields is None else [index.named(field) for field in fields]
    except _NamedError as error:
        raise ValueError(_printable(str(error))) from None
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, _printable(str(error)), path) from error
        raise _not_whole(path, error) from error
    # Raised by the library for damaged structures.
    except (RuntimeError, ValueError, KeyError, MemoryError) as error:
        raise _not_whole(path, error) from error


class _NamedError(Exception):
    """An error whose message names the argument or the file."""


def _not_whole(path: str, error: Exception) -> ValueError:
    text = f"{path}: not a complete HDF5 or netCDF file: {error}; write or copy it again"
    return ValueError(_printable(text))


def _printable(text: str) -> str:
    # Names that are not UTF-8 contain surrogates, which cannot be printed.
    return os.fsencode(text).decode(errors="replace")


class _Index:
    """The arrays of a group."""

    def __init__(self, path: str, group: Any, library: LibraryFile | None) -> None:
        self._path = path
        self._group = group
        self._library = library
        self._dimensions = Dimensions()

    def named(self, field: str) -> Hdf5Array:
        """Return the array, or the member of records, that is called `field`."""
        dataset, member = self._find(field), None
        for place in [place for place, letter in enumerate(field) if letter == "/"] if dataset is None else []:
            table = self._find(field[:place])
            if table is not None and field[place + 1 :] in (table.dtype.names or ()):
                dataset, member = table, field[place + 1 :]
        if dataset is None:
            names = [name.removeprefix(NOT_COORDINATE) for name in self._group if self._find(name) is not None]
            raise _NamedError(
                f"fields: expected names of arrays in {self._path!r}, which has {names}, but got {field!r}"
            )
        try:
            return self._described(field, dataset, member, with_text=True)
        except NotReadError as error:
            raise _NamedError(f"{self._path}: array {field!r}: {_with_remedy(error)}") from None

    def all(self, are_rows: bool) -> list[Hdf5Array]:
        """Return the arrays that are not coordinates of others."""
        coordinates = set(text_of(self._group.attrs.get("coordinates", "")).split())
        arrays: dict[str, Hdf5Array] = {}
        unread: dict[str, NotReadError] = {}
        for name in self._group:
            dataset = self._find(name)
            if dataset is None or is_scale(dataset):
                continue
            coordinates.update(text_of(dataset.attrs.get("coordinates", "")).split())
            shown = name.removeprefix(NOT_COORDINATE)
            try:
                arrays[shown] = self._described(shown, dataset, None, with_text=are_rows and dataset.ndim == 1)
            except NotReadError as error:
                unread[shown] = error
        kept = [array for name, array in arrays.items() if name not in coordinates]
        # Text next to the arrays is left out; an array of numbers that can't be read is not.
        for name, reason in unread.items():
            if name not in coordinates and not isinstance(reason, NoNumbersError):
                raise _NamedError(
                    f"{self._path}: array {name!r}: {_with_remedy(reason)}; to leave it out, pass fields= with the "
                    "arrays to read"
                )
        if not kept:
            reasons = "".join(f"; {name!r}: {reason}" for name, reason in unread.items())
            group = self._group.name
            raise _NamedError(
                f"path: expected a file with arrays of numbers in group {group!r}, but got {self._path!r}{reasons}"
            )
        return kept

    def _find(self, name: str) -> Any:
        """Return the array called `name`, if there is one; it may have another name in a file of netCDF-4."""
        import h5py

        folder, slash, last = name.rpartition("/")
        for each in (NOT_COORDINATE + last, last) if last else ():
            path = folder + slash + each
            # A link that leads nowhere is not an array; an array whose header is damaged raises KeyError.
            if path not in self._group:
                continue
            try:
                found = self._group[path]
            except (KeyError, OSError):
                if isinstance(self._group.get(path, getlink=True), h5py.HardLink):
                    raise
                continue
            if isinstance(found, h5py.Dataset):
                return found
        return None

    def _described(self, name: str, dataset: Any, member: str | None, *, with_text: bool) -> Hdf5Array:
        return described(name, dataset, member, self._dimensions, self._library, path=self._path, with_text=with_text)


def _with_remedy(error: NotReadError) -> str:
    if isinstance(error, LibraryOnlyError):
        return f"{error}; leave out fallback=False to read it with h5py"
    return str(error)
