"""`ZarrDataset`: windows or rows of the arrays of a Zarr store."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from sluicegate import _core
from sluicegate.native.dataset import native_format
from sluicegate.paths import local

from .array_windows import CACHE_BYTES, ArrayWindows
from .zarr_references import has_parquet_references, parquet_references


@native_format
class ZarrDataset(ArrayWindows):
    """Windows of the arrays of a Zarr store, or their rows: for labeled arrays that are larger than memory.

    Sample i is window i of each array: a dict of tensors by name, or a tensor if the store is one array or `fields` is
    one name. Windows are computed, never listed: 10^9 of them cost nothing. A chunk is decoded as a whole in Rust, and
    cached while there is room, so that neighboring windows find it. To shuffle stores that are larger than
    `cache_bytes`, use `BlockShuffleSampler(dataset, window=...)`: each chunk is then decoded once per epoch, unless
    windows cross from one chunk to another (`cache_info` reports the hits).

    Both versions of Zarr are read, 2 and 3, from a folder, without the package `zarr`. Codecs: `blosc` (with lz4, zstd,
    zlib and blosclz), `zstd`, `gzip`, `zlib`, `lz4`, `lzf`, `crc32c`, `fletcher32`, `transpose`, `shuffle` and
    `sharding_indexed`; in either byte order. A chunk that is not stored holds the fill value of its array. Data types
    are those of torch: strings, dates and objects are errors. References, as kerchunk and VirtualiZarr write them in
    JSON or Parquet, are read as the store that they describe, if the chunks are in local files.

    With `decode_cf`, values and data types equal those of `xarray.open_zarr`, bit for bit: `_FillValue` and
    `missing_value` become NaN, then `scale_factor` and `add_offset` are applied, and `_Unsigned` gives integers their
    sign. As in xarray, the fill value of an array of version 2 is its `_FillValue`. Times (units with "since") are not
    decoded: they are an error, unless `decode_cf=False` asks for the stored numbers.

    The store must not be written to while it is read. A map-style dataset that also works under torch's own loader. It
    can be pickled: only the arguments are. It is thread-safe. Source: the specifications of Zarr, versions 2 and 3.

    Args:
        path: the folder of a group or of an array, a `.json` file of references, or a folder of references in Parquet
            (relative paths in references start at the working directory).
        fields: the names of the arrays that make up a sample, in this order; `"a/b"` is array `b` of the group `a`. A
            single name, not in a list, makes each sample that array alone. Default: all arrays of the group that have
            the dimensions of `window` and are not coordinates (named like a dimension, or in an attribute
            `coordinates`). An array that is named is cut along those dimensions that it has: with a window of time, y
            and x, a mask of y and x is cut along these.
        window: the number of elements of a window by dimension, such as `{"time": 24, "y": 64, "x": 64}`. Windows are
            numbered like nested loops over the dimensions in this order. Other dimensions are whole in every window. An
            axis without a name is called `"dim_0"`, `"dim_1"`, and so on. Default: samples are the rows of the first
            axis, which all arrays must share.
        stride: how far windows are apart, in elements by dimension; less than a window makes them overlap. Default:
            the length of the window.
        region: the only elements that windows have, by dimension, such as `{"time": slice(0, 1000)}` for training and
            `{"time": slice(1000, None)}` for validation; both bounds count from the first element. A dimension without
            a window is one window of these. Not with `edges="pad"`. Default: whole dimensions.
        edges: what happens at the end of a dimension that is not a multiple of the stride. "drop": the rest is in no
            window. "pad": the last window is filled up with fill values, as chunks that are not stored are. "shift":
            the last window is moved back to where it fits.
        order: "rows": windows are numbered like nested loops, and the blocks of `BlockShuffleSampler` are all windows
            of a row of chunks along the first dimension. "chunks": windows are numbered chunk by chunk, and the blocks
            are chunks. That needs the least memory; the chunks are those of the first array with the dimension.
        decode_cf: True to decode values as xarray does; False to keep them as stored.
        cache_bytes: size limit of the cache of decoded chunks, in bytes; 256 MiB by default.
        on_error: "raise", or "skip": all chunks are decoded once when the dataset is opened, and windows with elements
            of a damaged one are excluded from `len`, indices, ids and batches. Chunks that are not stored are not
            damaged.

    Attributes:
        damages: the chunks that `on_error="skip"` found damaged, one line each; the first 1,000.
        block_sizes: the number of windows in each block; used by `BlockShuffleSampler`.
        block_size: the most common block size.

    Raises:
        FileNotFoundError: the folder does not exist.
        ValueError: the metadata of an array is damaged, or names a codec or a data type that is not read; an array or a
            dimension does not exist; arrays disagree on the size of a dimension; a window is larger than its dimension.
            While reading: a chunk is damaged (the message names array, chunk, file and codec).
        OSError: while reading: a file cannot be read, or the array is gone.

    Examples:
        >>> import json, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> metadata = {"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<i2", "fill_value": 7}
        >>> with open(f"{folder}/.zarray", "w") as file:
        ...     json.dump({**metadata, "order": "C", "compressor": None, "filters": None}, file)
        >>> dataset = ZarrDataset(folder, window={"dim_0": 1, "dim_1": 3}, decode_cf=False)
        >>> len(dataset), dataset[0]
        (8, tensor([[7, 7, 7]], dtype=torch.int16))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: str | Sequence[str] | None = None,
        *,
        window: Mapping[str, int] | None = None,
        stride: Mapping[str, int] | None = None,
        region: Mapping[str, slice] | None = None,
        edges: Literal["drop", "pad", "shift"] = "drop",
        order: Literal["rows", "chunks"] = "rows",
        decode_cf: bool = True,
        cache_bytes: int = CACHE_BYTES,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> None:
        self.path = local("path", path)
        self._set_arguments(fields, window, stride, region, edges, order, decode_cf, cache_bytes, on_error)
        self._open()

    def _open(self) -> None:
        if has_parquet_references(self.path):
            references = parquet_references(self.path, self._field_names())
            self._set_windows(*_core.reference_windows(self.path, *references, self._core_arguments()))
            return
        self._set_windows(*_core.zarr_windows(self.path, self._core_arguments()))
