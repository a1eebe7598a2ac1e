"""`hdf5_arrays`: describes the arrays of an HDF5 file and where their chunks are, for Rust to read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

# The names of the filters of HDF5, by number, and those that Zarr has for the same codec.
_CODECS = {
    1: "zlib",
    2: "shuffle",
    3: "fletcher32",
    32000: "lzf",
    32001: "blosc",
    32015: "zstd",
}
_NAMES = {4: "szip", 5: "n-bit", 6: "scale-offset", 307: "bzip2", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp"}

# Attributes that determine the values.
_ATTRIBUTES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "dtype")

# How netCDF-4 begins the name of a variable that has the name of a dimension and is not its coordinate.
_NOT_COORDINATE = "_nc4_non_coord_"

# The last axis of records, which are read as bytes.
_RECORD = "(bytes of a record)"


class _NotReadError(ValueError):
    """The array can't be read by its chunks; the message says why."""


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
            return _named(path, found, fields) if fields is not None else _all(path, found, are_rows)
    except _NamedError as error:
        raise ValueError(_printable(str(error))) from None
    except OSError as error:
        if error.errno:
            raise OSError(error.errno, _printable(str(error)), path) from error
        raise _not_read(path, error) from error
    # What the library raises for structures that are damaged.
    except (RuntimeError, ValueError, KeyError, TypeError, IndexError, MemoryError, UnicodeError) as error:
        raise _not_read(path, error) from error


class _NamedError(Exception):
    """An error whose message names the argument or the file."""


def _not_read(path: str, error: Exception) -> ValueError:
    text = f"{path}: expected a file of HDF5 or netCDF that is whole: {error}; write or copy it again"
    return ValueError(_printable(text))


def _printable(text: str) -> str:
    # Names that are not UTF-8 contain surrogates, which cannot be printed.
    return os.fsencode(text).decode(errors="replace")


def _named(path: str, group: Any, fields: Sequence[str]) -> list[dict[str, Any]]:
    arrays: list[dict[str, Any]] = []
    for field in fields:
        dataset, member = _find(group, field), None
        if dataset is None and "/" in field:
            table, member = field.rsplit("/", 1)
            dataset = _find(group, table)
        if dataset is None or (member is not None and member not in (dataset.dtype.names or ())):
            names = [name for name in group if _find(group, name) is not None]
            raise _NamedError(f"fields: expected names of arrays in {path!r}, which has {names}, but got {field!r}")
        try:
            array = _described(path, field, dataset, member)
        except _NotReadError as error:
            raise _NamedError(f"{path}: array {field!r}: {error}") from None
        arrays.append(array)
    return arrays


def _find(group: Any, name: str) -> Any:
    import h5py

    for each in (name, _NOT_COORDINATE + name):
        found = group.get(each) if each else None
        if isinstance(found, h5py.Dataset):
            return found
    return None


def _all(path: str, group: Any, are_rows: bool) -> list[dict[str, Any]]:
    coordinates = set(_text(group.attrs.get("coordinates", "")).split())
    arrays: dict[str, dict[str, Any]] = {}
    unread: dict[str, _NotReadError] = {}
    for name in group:
        dataset = _find(group, name)
        if dataset is None or _text(dataset.attrs.get("CLASS", "")) == "DIMENSION_SCALE":
            continue
        coordinates.update(_text(dataset.attrs.get("coordinates", "")).split())
        shown = name.removeprefix(_NOT_COORDINATE)
        try:
            arrays[shown] = _described(path, shown, dataset, None, with_text=are_rows and dataset.ndim == 1)
        except _NotReadError as error:
            unread[shown] = error
    kept = [array for name, array in arrays.items() if name not in coordinates]
    # Text next to the arrays is left out; an array of numbers that can't be read is not.
    for name, reason in unread.items():
        if name not in coordinates and not isinstance(reason, _NoNumbersError):
            raise _NamedError(
                f"{path}: array {name!r}: {reason}; pass fields= with the arrays to read, if this is none of them"
            )
    if not kept:
        reasons = "".join(f"; {name!r}: {reason}" for name, reason in unread.items())
        raise _NamedError(f"path: expected a file with numbers in group {group.name!r}, but got {path!r}{reasons}")
    return kept


class _NoNumbersError(_NotReadError):
    """The array has text, references, or other values without a size."""


def _described(path: str, name: str, dataset: Any, member: str | None, *, with_text: bool = True) -> dict[str, Any]:
    import h5py

    if dataset.shape is None:
        raise _NoNumbersError("it is empty (a null dataspace)")
    dtype = dataset.dtype
    members = _members(name, dataset, member, with_text)
    if not members:
        _check_numbers(dtype)
        _check_type(dataset.id.get_type())
    base, inner = dtype.subdtype if dtype.subdtype else (dtype, ())
    if members:
        _check_fill(dataset, members)
        fill = b"\0"
        base, inner = np.dtype(np.uint8), (dtype.itemsize,)
    else:
        fill = np.asarray(dataset.fillvalue).astype(base.newbyteorder("=")).tobytes()[: base.itemsize]
    shape = (*dataset.shape, *inner)
    properties = dataset.id.get_create_plist()
    layout = properties.get_layout()
    if layout == h5py.h5d.VIRTUAL or properties.get_external_count():
        kind = "a virtual dataset" if layout == h5py.h5d.VIRTUAL else "external storage"
        raise _NotReadError(
            f"its elements are in other files ({kind}); read it with h5py: DataLoader(file[{name!r}], num_workers=4)"
        )
    chunk = tuple(max(size, 1) for size in shape)
    offset: int | None = None
    chunks: bytes | None = None
    inline: bytes | None = None
    if layout == h5py.h5d.CHUNKED:
        chunk = (*dataset.chunks, *inner)
        chunks = _chunks(dataset)
    elif layout == h5py.h5d.COMPACT:
        inline = dataset[()].tobytes()
    else:
        # Nothing was ever written where there is no storage; the offset alone does not say so if there is a user block.
        offset = dataset.id.get_offset() if dataset.id.get_storage_size() else None
        if offset is None:
            chunks = b""
    single, attributes = _attributes(dataset) if not members else ([], {})
    attributes["_ARRAY_DIMENSIONS"] = [
        *_dimensions(dataset),
        *(f"dim_{dataset.ndim + axis}" for axis in range(len(inner))),
    ]
    if members:
        attributes["_ARRAY_DIMENSIONS"][-1] = _RECORD
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
        "path": path,
        "metadata": json.dumps(metadata),
        "attributes": json.dumps(attributes),
        "single_attributes": single,
        "fill": fill,
        "members": members,
        "offset": offset,
        "chunks": chunks,
        "inline": inline,
    }


def _members(
    name: str, dataset: Any, member: str | None, with_text: bool
) -> list[tuple[str, str, int, tuple[int, ...]]]:
    """Return the parts of records that are read: name, data type, first byte, and shape.

    Text of a fixed length is the only part of a record of bytes.
    """
    if dataset.dtype.kind == "S" and with_text:
        return [(name, "S", 0, (dataset.dtype.itemsize,))]
    if dataset.dtype.names is None:
        return []
    members: list[tuple[str, str, int, tuple[int, ...]]] = []
    kind = dataset.id.get_type()
    for number, own in enumerate(dataset.dtype.names):
        dtype, offset = dataset.dtype.fields[own][:2]
        if member not in (None, own):
            continue
        shown = name if member is not None else f"{name}/{own}"
        if dtype.kind == "S" and with_text:
            members.append((shown, "S", offset, (dtype.itemsize,)))
            continue
        base, shape = dtype.subdtype if dtype.subdtype else (dtype, ())
        try:
            _check_numbers(base)
            _check_type(kind.get_member_type(number))
        except _NotReadError as error:
            if member is not None:
                raise type(error)(f"member {own!r}: {error}") from None
            continue
        members.append((shown, base.str, offset, shape))
    if not members:
        raise _NoNumbersError("its records have no members that are numbers or text of a fixed length")
    return members


def _check_numbers(dtype: np.dtype[Any]) -> None:
    import h5py

    base = dtype.subdtype[0] if dtype.subdtype else dtype
    if base.kind not in "biufc":
        texts = h5py.check_string_dtype(base) is not None
        what = "text" if texts else "data of variable length" if base.kind == "O" else f"data type {base}"
        raise _NoNumbersError(
            f"{what} is not read here, only numbers, bools, and text of a fixed length are; read it with h5py"
        )
    if base.itemsize > 16 or (base.kind == "f" and base.itemsize > 8):
        raise _NotReadError(f"data type {base} is not read: torch has none of that size")


def _check_type(kind: Any) -> None:
    """Refuse numbers whose bytes are not those of NumPy's data type: h5py would convert them."""
    import h5py

    if isinstance(kind, h5py.h5t.TypeArrayID | h5py.h5t.TypeEnumID):
        return _check_type(kind.get_super())
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        # Complex numbers; records are checked member by member.
        for number in range(kind.get_nmembers()):
            _check_type(kind.get_member_type(number))
        return None
    is_plain = True
    if isinstance(kind, h5py.h5t.TypeIntegerID | h5py.h5t.TypeFloatID):
        is_plain = kind.get_precision() == 8 * kind.get_size() and kind.get_offset() == 0
        is_plain &= kind.get_order() in (h5py.h5t.ORDER_LE, h5py.h5t.ORDER_BE)
    if is_plain and isinstance(kind, h5py.h5t.TypeFloatID):
        sizes = {2: (15, 10, 5, 0, 10), 4: (31, 23, 8, 0, 23), 8: (63, 52, 11, 0, 52)}
        is_plain = kind.get_fields() == sizes.get(kind.get_size())
    if not is_plain:
        raise _NotReadError("its numbers have an unusual layout of bits, which only HDF5 converts; read it with h5py")
    return None


def _check_fill(dataset: Any, members: list[tuple[str, str, int, tuple[int, ...]]]) -> None:
    """Refuse records that were never written and are not zero."""
    fill = np.asarray(dataset.fillvalue, dataset.dtype).tobytes()
    for _, dtype, offset, shape in members:
        size = 1 if dtype == "S" else np.dtype(dtype).itemsize
        if any(fill[offset : offset + size * math.prod(shape)]):
            raise _NotReadError("its records have a fill value that is not zero; read it with h5py")


def _codecs(properties: Any, element: int) -> list[dict[str, Any]]:
    """Return the filters as Zarr v2 describes them, in the order of their application."""
    codecs = []
    for number in range(properties.get_nfilters()):
        code, _, values, name = properties.get_filter(number)
        if code not in _CODECS:
            shown = _NAMES.get(code) or name.decode(errors="replace") or "unknown"
            raise _NotReadError(
                f"the filter {shown} (number {code}) is not read: expected deflate, shuffle, fletcher32, lzf, Blosc, "
                f"or Zstandard; write the array with one of these, or read it with h5py"
            )
        codec: dict[str, Any] = {"id": _CODECS[code]}
        if codec["id"] == "shuffle":
            codec["elementsize"] = values[0] if values else element
        codecs.append(codec)
    return codecs


def _chunks(dataset: Any) -> bytes:
    """Return the chunks that are stored: their numbers, first bytes, sizes, and filters that were not applied."""
    grid = [math.ceil(size / chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
    found: list[tuple[int, ...]] = []
    places: list[tuple[int, ...]] = []

    def add(chunk: Any) -> None:
        places.append(chunk.chunk_offset)
        found.append((chunk.byte_offset, chunk.size, chunk.filter_mask))

    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(add)
    else:
        for number in range(dataset.id.get_num_chunks()):
            add(dataset.id.get_chunk_info(number))
    if not found:
        return b""
    axes = (np.array(places, np.int64) // np.array(dataset.chunks, np.int64)).T
    table = np.empty((len(found), 4), np.uint64)
    table[:, 0] = np.ravel_multi_index(tuple(axes), grid)
    table[:, 1:] = found
    return table.tobytes()


def _attributes(dataset: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the attributes that determine the values, and the names of those in single precision."""
    attributes: dict[str, Any] = {}
    single = []
    for name in _ATTRIBUTES:
        if name not in dataset.attrs:
            continue
        value = np.asarray(dataset.attrs[name])
        if value.dtype.kind in "SOU":
            attributes[name] = _text(dataset.attrs[name])
        elif value.dtype.kind in "biuf" and value.size:
            # As in netCDF, a list of one number is that number.
            attributes[name] = value.item() if value.size == 1 else value.tolist()
            if value.dtype == np.float32 and value.size == 1:
                single.append(name)
    return single, attributes


def _text(value: Any) -> str:
    found = np.asarray(value)
    text = found.item() if found.size == 1 else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _dimensions(dataset: Any) -> list[str]:
    """Return the names of the axes: those of their scales, or their labels."""
    names = []
    is_scale = _text(dataset.attrs.get("CLASS", "")) == "DIMENSION_SCALE"
    for axis, dimension in enumerate(dataset.dims):
        scale = dimension[0] if len(dimension) else None
        if scale is None:
            own = dataset.name.rsplit("/", 1)[-1]
            names.append(own if is_scale and dataset.ndim == 1 else dimension.label or f"dim_{axis}")
            continue
        name = scale.name.rsplit("/", 1)[-1].removeprefix(_NOT_COORDINATE)
        # A file of netCDF-4 whose dimension has grown since.
        if scale.shape[0] != dataset.shape[axis]:
            raise _NotReadError(
                f"it has {dataset.shape[axis]} elements along dimension {name!r}, which has {scale.shape[0]}; read it "
                f"with xarray, through sluicegate.xarray.WindowDataset"
            )
        names.append(name)
    return names
