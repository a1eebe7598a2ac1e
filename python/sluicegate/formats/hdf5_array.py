"""`Hdf5Array`: an array of HDF5, and where its elements are, as Rust takes it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from .hdf5_chunks import chunk_table
from .hdf5_dimensions import Dimensions, text_of
from .hdf5_library import LibraryArray, LibraryFile
from .hdf5_types import (
    LibraryOnlyError,
    Member,
    NoNumbersError,
    NotReadError,
    check_fill,
    check_numbers,
    fill_value,
    record_members,
)

# The filters that are read, by number, and the names that Zarr has for them.
_CODECS = {1: "zlib", 2: "shuffle", 3: "fletcher32", 4: "szip", 32000: "lzf", 32001: "blosc", 32015: "zstd"}
# Names of filters that Rust does not read.
_FILTERS = {5: "n-bit", 6: "scale-offset", 307: "bzip2", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp"}

# The names of the values of the filter szip.
_SZIP = ("mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline")

# Attributes that determine the values.
_ATTRIBUTES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "dtype")

# The last axis of records, which are read as bytes.
_RECORD = "(bytes of a record)"


# Arrays that are not in chunks are read by h5py in pieces of about this many bytes.
_PIECE_BYTES = 1 << 20


@dataclass
class Hdf5Array:
    """An array, described as one of Zarr v2. One of `offset`, `chunks`, `inline`, and `library` has its elements.

    Attributes:
        name: what users call it.
        path: the file that has its elements.
        metadata: what `.zarray` would have.
        attributes: what `.zattrs` would have.
        single_attributes: the attributes in single precision.
        fill: the bytes of the element that was never written, in the byte order of the machine.
        members: the parts of its records that are read; none if the elements are not records.
        offset: its first byte, if it is in one piece.
        chunks: the table of its chunks, as `chunk_table` returns it.
        inline: its elements.
        library: reads its chunks with h5py.
    """

    name: str
    path: str
    metadata: str
    attributes: str
    single_attributes: list[str]
    fill: bytes
    members: list[Member]
    offset: int | None = None
    chunks: bytes | None = None
    inline: bytes | None = None
    library: LibraryArray | None = None

    @property
    def fields(self) -> list[str]:
        """The names of the fields that it has."""
        return [name for name, *_ in self.members] or [self.name]


def described(
    name: str,
    dataset: Any,
    member: str | None,
    dimensions: Dimensions,
    library: LibraryFile | None,
    *,
    path: str,
    with_text: bool,
) -> Hdf5Array:
    """Return `dataset`, an open `h5py.Dataset`, or the `member` of its records.

    Args:
        name: what users call it.
        dataset: the array.
        member: None for all members.
        dimensions: the dimensions of its file.
        library: the file as h5py reads it, for what Rust cannot read; None if that is an error.
        path: the file that was opened.
        with_text: True if text of a fixed length is read.

    Raises:
        LibraryOnlyError: only h5py can read it, and `library` is None.
        NotReadError: it cannot be read.
    """
    if dataset.shape is None:
        raise NoNumbersError("it is empty (a null dataspace)")
    try:
        dtype = dataset.dtype
    except TypeError as error:
        raise NoNumbersError(f"{error}; read it with h5py") from error
    try:
        members = record_members(name, dataset, member, with_text)
        if members:
            check_fill(dataset, members)
        else:
            check_numbers(dtype, dataset.id.get_type())
        _check_place(dataset, path)
        shape = _shape(dataset, dtype, members)
        chunk = [max(size, 1) for size in shape]
        if dataset.chunks is not None:
            chunk[: dataset.ndim] = dataset.chunks
        array = _array(name, dataset, dtype, members, dimensions, chunk, _codecs(dataset, dtype.itemsize))
        _set_place(array, dataset)
    except LibraryOnlyError as error:
        if library is None:
            raise
        return _library_array(name, dataset, member, dimensions, library, str(error), with_text=with_text)
    return array


def _library_array(
    name: str,
    dataset: Any,
    member: str | None,
    dimensions: Dimensions,
    library: LibraryFile,
    reason: str,
    *,
    with_text: bool,
) -> Hdf5Array:
    """Return the array with chunks that h5py reads."""
    _check_filters(dataset)
    dtype, owns = dataset.dtype, None
    members = record_members(name, dataset, member, with_text, by_library=True)
    if dtype.names is not None:
        owns = tuple(member or shown.removeprefix(f"{name}/") for shown, *_ in members)
        dtype = np.dtype([(own, dtype.fields[own][0]) for own in owns])
    base = np.dtype(np.uint8) if members else dtype.base
    chunk = _pieces(_shape(dataset, dtype, members), base.itemsize)
    if dataset.chunks is not None:
        chunk = [*dataset.chunks, *_shape(dataset, dtype, members)[dataset.ndim :]]
    array = _array(name, dataset, dtype, members, dimensions, chunk, [])
    file = library if dataset.file.filename == library.path else LibraryFile(dataset.file.filename)
    array.library = LibraryArray(file, dataset.name, owns, base, reason)
    return array


def _shape(dataset: Any, dtype: np.dtype[Any], members: list[Member]) -> tuple[int, ...]:
    """Return the shape of the array with the axes of its elements, which are those of their bytes for records."""
    return (*dataset.shape, *((dtype.itemsize,) if members else dtype.shape))


def _array(
    name: str,
    dataset: Any,
    dtype: np.dtype[Any],
    members: list[Member],
    dimensions: Dimensions,
    chunk: list[int],
    codecs: list[dict[str, Any]],
) -> Hdf5Array:
    """Return the array, whose elements have the data type `dtype`, without their place."""
    shape = _shape(dataset, dtype, members)
    base, fill = np.dtype(np.uint8), b"\0"
    if not members:
        base = dtype.base
        fill = np.asarray(fill_value(dataset)).astype(base.newbyteorder("=")).tobytes()[: base.itemsize]
    names = dimensions.names(dataset)
    names += [_RECORD] if members else [f"dim_{axis}" for axis in range(dataset.ndim, len(shape))]
    single, attributes = _attributes(dataset) if not members else ([], {})
    metadata = {
        "zarr_format": 2,
        "shape": shape,
        "chunks": chunk,
        "dtype": base.str,
        "fill_value": None,
        "order": "C",
        "filters": codecs,
        "compressor": None,
    }
    return Hdf5Array(
        name,
        dataset.file.filename,
        json.dumps(metadata),
        json.dumps({**attributes, "_ARRAY_DIMENSIONS": names}),
        single,
        fill,
        members,
    )


def _pieces(shape: tuple[int, ...], element: int) -> list[int]:
    """Return the shape of pieces of an array that is not in chunks."""
    pieces = [max(size, 1) for size in shape]
    for axis, size in enumerate(pieces):
        larger = math.prod(pieces) * element / _PIECE_BYTES
        if larger > 1:
            pieces[axis] = max(1, int(size / larger))
    return pieces


def _set_place(array: Hdf5Array, dataset: Any) -> None:
    """Set where the elements of `array` are."""
    import h5py

    layout = dataset.id.get_create_plist().get_layout()
    if layout == h5py.h5d.CHUNKED:
        array.chunks = chunk_table(dataset)
    elif layout == h5py.h5d.COMPACT:
        array.inline = dataset[()].tobytes()
    elif dataset.id.get_storage_size():
        array.offset = dataset.id.get_offset()
    else:
        # Nothing was ever written; the offset alone does not say so if there is a user block.
        array.chunks = b""


def _check_place(dataset: Any, path: str) -> None:
    """Refuse an array whose elements are in another file than the one at `path`."""
    import h5py

    if not os.path.samefile(dataset.file.filename, path):
        raise LibraryOnlyError(f"a link points to another file, {dataset.file.filename!r}")
    properties = dataset.id.get_create_plist()
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        raise LibraryOnlyError("its elements are in other files (a virtual dataset)")
    if properties.get_external_count():
        raise LibraryOnlyError("its elements are in other files (external storage)")


def _codecs(dataset: Any, element: int) -> list[dict[str, Any]]:
    """Return the filters as Zarr v2 describes them, in the order of their application."""
    codecs = []
    for code, name, values in _filters(dataset):
        if code not in _CODECS:
            raise LibraryOnlyError(
                f"the filter {name} (number {code}) is not supported in Rust, only deflate, shuffle, fletcher32, "
                "szip, lzf, Blosc, and Zstandard"
            )
        codec: dict[str, Any] = {"id": _CODECS[code]}
        if codec["id"] == "shuffle":
            codec["elementsize"] = values[0] if values else element
        if codec["id"] == "szip":
            codec.update(zip(_SZIP, values, strict=False))
            if codec.get("bits_per_pixel") != 8 * element:
                raise LibraryOnlyError(f"the filter szip (number {code}) does not fit elements of {element} bytes")
        codecs.append(codec)
    return codecs


def _check_filters(dataset: Any) -> None:
    """Refuse an array with a filter that the HDF5 library does not have here."""
    import h5py

    for code, name, _ in _filters(dataset):
        if not h5py.h5z.filter_avail(code):
            raise NotReadError(
                f"the filter {name} (number {code}) is not available in this HDF5 library; first import the package "
                "that adds it, such as hdf5plugin, or write the array with a different filter"
            )


def _filters(dataset: Any) -> list[tuple[int, str, tuple[int, ...]]]:
    """Return number, name, and values of each filter, in the order of their application."""
    properties = dataset.id.get_create_plist()
    found = []
    for place in range(properties.get_nfilters()):
        code, _, values, name = properties.get_filter(place)
        found.append((code, _FILTERS.get(code) or name.decode(errors="replace") or "unknown", values))
    return found


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
