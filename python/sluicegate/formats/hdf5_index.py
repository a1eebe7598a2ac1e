"""`hdf5_arrays`: describes the arrays of an HDF5 file and where their chunks are, for Rust to read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .hdf5_chunks import chunk_table
from .hdf5_dimensions import NOT_COORDINATE, Dimensions, is_scale, text_of
from .hdf5_types import NoNumbersError, NotReadError, check_fill, check_numbers, fill_value, record_members

# The filters that are read, by number, and the names that Zarr has for them.
_CODECS = {1: "zlib", 2: "shuffle", 3: "fletcher32", 32000: "lzf", 32001: "blosc", 32015: "zstd"}
# The names of others.
_FILTERS = {4: "szip", 5: "n-bit", 6: "scale-offset", 307: "bzip2", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp"}

# Attributes that determine the values.
_ATTRIBUTES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "dtype")

# The last axis of records, which are read as bytes.
_RECORD = "(bytes of a record)"


def hdf5_arrays(path: str, group: str, fields: Sequence[str] | None, are_rows: bool) -> list[dict[str, Any]]:
    """Return the arrays called `fields` in `group` of the file, as `_core.hdf5_windows` takes them.

    Without `fields`, those that are not coordinates of others and have a data type that is read. Text is among them
    only if samples are rows (`are_rows`).

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
            "Hdf5Dataset finds the chunks of HDF5 with the package h5py: install it (pip install h5py)"
        ) from error
    try:
        with h5py.File(path, "r") as file:
            found = file.get(group)
            if not isinstance(found, h5py.Group):
                raise _NamedError(f"group: expected the name of a group in {path!r}, but got {group!r}")
            index = _Index(path, found)
            return index.all(are_rows) if fields is None else [index.named(field) for field in fields]
    except _NamedError as error:
        raise ValueError(_printable(str(error))) from None
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, _printable(str(error)), path) from error
        raise _not_whole(path, error) from error
    # What the library raises for structures that are damaged.
    except (RuntimeError, ValueError, KeyError, MemoryError) as error:
        raise _not_whole(path, error) from error


class _NamedError(Exception):
    """An error whose message names the argument or the file."""


def _not_whole(path: str, error: Exception) -> ValueError:
    text = f"{path}: expected a file of HDF5 or netCDF that is whole: {error}; write or copy it again"
    return ValueError(_printable(text))


def _printable(text: str) -> str:
    # Names that are not UTF-8 contain surrogates, which cannot be printed.
    return os.fsencode(text).decode(errors="replace")


class _Index:
    """The arrays of a group."""

    def __init__(self, path: str, group: Any) -> None:
        self._path = path
        self._group = group
        self._dimensions = Dimensions()

    def named(self, field: str) -> dict[str, Any]:
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
            return self._described(field, dataset, member)
        except NotReadError as error:
            raise _NamedError(f"{self._path}: array {field!r}: {error}") from None

    def all(self, are_rows: bool) -> list[dict[str, Any]]:
        """Return the arrays that are not coordinates of others."""
        coordinates = set(text_of(self._group.attrs.get("coordinates", "")).split())
        arrays: dict[str, dict[str, Any]] = {}
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
                    f"{self._path}: array {name!r}: {reason}; pass fields= with the arrays to read, if this is none of "
                    "them"
                )
        if not kept:
            reasons = "".join(f"; {name!r}: {reason}" for name, reason in unread.items())
            group = self._group.name
            raise _NamedError(f"path: expected a file with numbers in group {group!r}, but got {self._path!r}{reasons}")
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

    def _described(self, name: str, dataset: Any, member: str | None, *, with_text: bool = True) -> dict[str, Any]:
        import h5py

        if dataset.shape is None:
            raise NoNumbersError("it is empty (a null dataspace)")
        try:
            dtype = dataset.dtype
        except TypeError as error:
            raise NoNumbersError(f"{error}; read it with h5py") from error
        members = record_members(name, dataset, member, with_text)
        base, inner = dtype.subdtype if dtype.subdtype else (dtype, ())
        if members:
            check_fill(dataset, members)
            base, inner, fill = np.dtype(np.uint8), (dtype.itemsize,), b"\0"
        else:
            check_numbers(dtype, dataset.id.get_type())
            fill = np.asarray(fill_value(dataset)).astype(base.newbyteorder("=")).tobytes()[: base.itemsize]
        properties = dataset.id.get_create_plist()
        layout = properties.get_layout()
        self._check_place(name, dataset, layout == h5py.h5d.VIRTUAL, bool(properties.get_external_count()))
        shape = (*dataset.shape, *inner)
        chunk = tuple(max(size, 1) for size in shape)
        offset: int | None = None
        chunks: bytes | None = None
        inline: bytes | None = None
        if layout == h5py.h5d.CHUNKED:
            chunk, chunks = (*dataset.chunks, *inner), chunk_table(dataset)
        elif layout == h5py.h5d.COMPACT:
            inline = dataset[()].tobytes()
        elif dataset.id.get_storage_size():
            offset = dataset.id.get_offset()
        else:
            # Nothing was ever written; the offset alone does not say so if there is a user block.
            chunks = b""
        single, attributes = _attributes(dataset) if not members else ([], {})
        names = self._dimensions.names(dataset)
        names += [_RECORD] if members else [f"dim_{axis}" for axis in range(dataset.ndim, len(shape))]
        metadata = {
            "zarr_format": 2,
            "shape": shape,
            "chunks": chunk,
            "dtype": base.str,
            "fill_value": None,
            "order": "C",
            "filters": _codecs(properties, dtype.itemsize),
            "compressor": None,
        }
        return {
            "name": name,
            "path": self._path,
            "metadata": json.dumps(metadata),
            "attributes": json.dumps({**attributes, "_ARRAY_DIMENSIONS": names}),
            "single_attributes": single,
            "fill": fill,
            "members": members,
            "offset": offset,
            "chunks": chunks,
            "inline": inline,
        }

    def _check_place(self, name: str, dataset: Any, is_virtual: bool, is_external: bool) -> None:
        """Refuse an array whose elements are in another file."""
        other = dataset.file.filename
        if not os.path.samefile(other, self._path):
            raise NotReadError(f"it is in another file, to which a link leads: open {other!r}")
        if is_virtual or is_external:
            kind = "a virtual dataset" if is_virtual else "external storage"
            raise NotReadError(
                f"its elements are in other files ({kind}); read it with h5py: "
                f"DataLoader(file[{name!r}], num_workers=4)"
            )


def _codecs(properties: Any, element: int) -> list[dict[str, Any]]:
    """Return the filters as Zarr v2 describes them, in the order of their application."""
    codecs = []
    for number in range(properties.get_nfilters()):
        code, _, values, name = properties.get_filter(number)
        if code not in _CODECS:
            shown = _FILTERS.get(code) or name.decode(errors="replace") or "unknown"
            raise NotReadError(
                f"the filter {shown} (number {code}) is not read: expected deflate, shuffle, fletcher32, lzf, Blosc, "
                f"or Zstandard; write the array with one of these, or read it with h5py"
            )
        codec: dict[str, Any] = {"id": _CODECS[code]}
        if codec["id"] == "shuffle":
            codec["elementsize"] = values[0] if values else element
        codecs.append(codec)
    return codecs


def _attributes(dataset: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the attributes that determine the values, and the names of those in single precision."""
    attributes: dict[str, Any] = {}
    single = []
    for name in _ATTRIBUTES:
        if name not in dataset.attrs:
            continue
        value = np.asarray(dataset.attrs[name])
        if value.dtype.kind in "SOU":
            attributes[name] = text_of(value)
        elif value.dtype.kind in "biuf" and value.size:
            if value.dtype.itemsize > 8:
                value = value.astype(np.float64)
            # As in netCDF, a list of one number is that number.
            attributes[name] = value.item() if value.size == 1 else value.tolist()
            if value.dtype == np.float32 and value.size == 1:
                single.append(name)
    return single, attributes
