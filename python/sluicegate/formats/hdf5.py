"""`Hdf5Dataset`: windows or rows of the arrays of an HDF5 or netCDF file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from sluicegate import _core
from sluicegate.native.dataset import native_format
from sluicegate.paths import file_version, local

from .array_windows import CACHE_BYTES, ArrayWindows
from .hdf5_array import Hdf5Array
from .hdf5_index import hdf5_arrays

_NETCDF3 = b"CDF"


@native_format
class Hdf5Dataset(ArrayWindows):
    """Windows of the arrays of an HDF5 or netCDF file, or their rows.

    Sample i is window i of each array, as in `ZarrDataset`: a dict of tensors by name, or a tensor if `fields` is
    one name. The package h5py lists the positions of all chunks once. Rust then reads the chunks from the file and
    decodes them on threads, without the lock of the HDF5 library, and without keeping the file open. Decoded chunks
    are cached while there is room. Arrays in one piece are read in pieces of about 1 MiB.

    Filters: deflate, shuffle, fletcher32, szip, lzf, and, of those in plugins, Blosc (32001) and Zstandard (32015).
    Data types are those of torch, including big-endian data, enums (their numbers), bools, and complex numbers. Each
    member of records (compound types) that is a number, an array of numbers, or text is a field. Text of a fixed length
    is `bytes`, as in h5py, if each sample has one text: in rows of arrays with one axis. Other text, types of
    variable length, and references are errors if they are asked for by name, and otherwise left out. Elements that
    were never written are fill values.

    With `decode_cf`, values and data types equal those of `xarray.open_dataset`, bit for bit: `_FillValue` and
    `missing_value` become NaN, then `scale_factor` and `add_offset` are applied, and `_Unsigned` gives integers their
    sign. Times (units with "since") are not decoded: they are an error, unless `decode_cf=False` asks for the stored
    numbers. Files of netCDF-3 are read without any other package.

    If one of the arrays has another filter, lies in another file (external links, external storage, virtual datasets),
    or has numbers that only HDF5 converts, h5py reads its chunks: in worker processes if there are any, each of which
    opens the file itself, and otherwise in the calling process. Windows, order, and values are the same. `repr`,
    `python_reason`, and `DataLoader.explain()` name the array and the filter. `fallback=False` makes it an error.

    The file must not be written to while it is read: a change is an error. A map-style dataset that also works under
    torch's own loader. It can be pickled: only the arguments are. It is thread-safe. Sources: "HDF5 File Format
    Specification", "NetCDF File Format Specifications".

    Args:
        path: the file.
        fields: the names of the arrays that make up a sample, in this order; `"a/b"` is array `b` of the group `a`, and
            a member of records is `"table/member"`. A single name, not in a list, makes each sample that array alone.
            Default: all arrays of `group` that have the dimensions of `window` and are not coordinates (dimension
            scales, or named in an attribute `coordinates`).
        group: the group whose arrays are read; names in `fields` start there. Not for netCDF-3, which has none.
        window: the number of elements of a window by dimension, such as `{"time": 24, "y": 64, "x": 64}`; see
            `ZarrDataset`. Dimensions have the names of their scales, or their labels; those without one are called
            `"dim_0"`, `"dim_1"`, and so on. Default: samples are the rows of the first axis, which all arrays must
            share.
        stride: how far windows are apart, in elements by dimension. Default: the length of the window.
        region: the only elements that windows have, by dimension, as in `ZarrDataset`.
        edges: what happens at the end of a dimension, as in `ZarrDataset`.
        order: how windows are numbered, as in `ZarrDataset`.
        decode_cf: True to decode values as xarray does; False to keep them as stored.
        cache_bytes: size limit of the cache of decoded chunks, in bytes; 256 MiB by default.
        on_error: "raise", or "skip": all chunks are decoded once when the dataset is opened, and windows with elements
            of a damaged one are excluded from `len`, indices, ids and batches. Chunks that are not stored are not
            damaged.
        fallback: False to make an array that only h5py can read an error. Default True.

    Attributes:
        damages: the chunks that `on_error="skip"` found damaged, one line each; the first 1,000.
        block_sizes: the number of windows in each block; used by `BlockShuffleSampler`.
        block_size: the most common block size.

    Raises:
        FileNotFoundError: the file does not exist.
        ImportError: h5py is not installed.
        ValueError: this is not a file of HDF5 or netCDF; an array uses a filter, a data type, or a layout that is
            not read, or only by h5py with `fallback=False`; an array or a dimension does not exist; arrays disagree
            on the size of a dimension; a window is larger than its dimension. While reading: a chunk is damaged
            (the message names array, chunk, and filters).
        OSError: the file cannot be read. While reading: it was written to or replaced.

    Examples:
        >>> import tempfile
        >>> import h5py
        >>> path = tempfile.mkdtemp() + "/fields.h5"
        >>> with h5py.File(path, "w") as file:
        ...     array = file.create_dataset("t", data=[[1, 2, 3], [4, 5, 6]], chunks=(1, 2), compression="gzip")
        >>> dataset = Hdf5Dataset(path, "t", window={"dim_1": 2})
        >>> len(dataset), dataset[0].tolist()
        (1, [[1, 2], [4, 5]])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: str | Sequence[str] | None = None,
        *,
        group: str = "/",
        window: Mapping[str, int] | None = None,
        stride: Mapping[str, int] | None = None,
        region: Mapping[str, slice] | None = None,
        edges: Literal["drop", "pad", "shift"] = "drop",
        order: Literal["rows", "chunks"] = "rows",
        decode_cf: bool = True,
        cache_bytes: int = CACHE_BYTES,
        on_error: Literal["raise", "skip"] = "raise",
        fallback: bool = True,
    ) -> None:
        self.path = local("path", path)
        self.group = group
        self.fallback = bool(fallback)
        self._set_arguments(fields, window, stride, region, edges, order, decode_cf, cache_bytes, on_error)
        self._open()

    def _open(self) -> None:
        with open(self.path, "rb") as file:
            is_netcdf3 = file.read(len(_NETCDF3)) == _NETCDF3
        if not is_netcdf3:
            before = file_version(self.path)
            arrays = hdf5_arrays(self.path, self.group, self._field_names(), self.window is None, self.fallback)
            texts = {name for array in arrays for name, dtype, *_ in array.members if dtype == "S"}
            opened = _core.hdf5_windows(arrays, self._core_arguments())
            # The chunks were found in the file that is read only if it is the same before and after.
            if file_version(self.path) != before:
                raise OSError(
                    f"{self.path} changed while it was being opened; open it again when no other program writes to it"
                )
            self._set_windows(*opened, texts)
            self._set_reason(arrays)
            return
        if self.group.strip("/"):
            raise ValueError(f"group: expected '/', because netCDF-3 has no groups, but got {self.group!r}")
        self._set_windows(*_core.zarr_windows(self.path, self._core_arguments()))

    def _set_reason(self, arrays: list[Hdf5Array]) -> None:
        """Have Python read the samples if h5py reads one of their fields."""
        names = {name for name, *_ in self.core.fields}
        for array in arrays:
            if array.library is not None and not names.isdisjoint(array.fields):
                self.is_native, self._core_reason = False, f"h5py reads array {array.name!r}: {array.library.reason}"
                return
