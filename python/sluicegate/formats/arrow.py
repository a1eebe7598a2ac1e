"""`ArrowDataset`: the rows of Arrow files and streams."""

from __future__ import annotations

import os
from typing import Any, Literal

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.native.blocks import DecodedDataset
from sluicegate.native.dataset import Kind, Lists, leaves_out, native_format
from sluicegate.paths import Paths, expand, listed, local

from .columnar import Columns, columnar_arguments, kinds_of
from .columnar_images import ImageColumns, checked_image_columns, with_images

# Default limit of the cache of decompressed and converted data.
_CACHE_BYTES = 256 << 20


@native_format
class ArrowDataset(DecodedDataset):
    """The rows of one or more Arrow files; each sample is a dict of column values.

    Reads IPC files (`.arrow`; Feather 2 is the same format) and IPC streams (including those in the cache of Hugging
    Face's datasets). They may be uncompressed or compressed with LZ4 or zstd, and may contain replacement and delta
    dictionaries. pyarrow is not needed. Column values are converted as follows, in a sample and in a batch:

    - numbers and booleans: tensors in their own data type, including float16;
    - dates, times, timestamps and durations: int64 in the unit of the column; dates count days;
    - decimals: the nearest float64, or with `decimals="int"` the unscaled int64 (an error if it does not fit);
    - fixed-size lists, nested or not: rows of a tensor;
    - variable-length lists of the above: a tensor in a sample, `{"values", "offsets"}` in a batch, or as `lists` says;
    - strings become `str`, byte strings (including fixed-size ones) `bytes`, and a batch has a list of them; with
      `strings="bytes"` they become uint8 tensors, treated like lists, without one object per value;
    - structs: dicts of their fields; lists of structs that contain only numbers: dicts of lists;
    - lists of strings, of lists, or of structs that contain these: lists and dicts as from pyarrow's `to_pylist`, with
      Python numbers (times and decimals as above), and a list of them in a batch. With `strings="bytes"` the strings in
      them are `bytes`. The rule applies to the selected columns: `"items.n"` of a list of structs is a list of numbers;
    - dictionaries: the values they encode.

    Maps, unions and intervals are errors: leave them out by naming the other columns in `columns`.

    Files are memory-mapped and may be larger than memory. Opening locates each batch: from the footer of a file, or by
    scanning a stream batch by batch. Uncompressed data is copied once, from the file into the loader's batch, for any
    row order. Compressed data, booleans, dates, decimals, and lists of strings or lists are decoded in Rust one whole
    record batch at a time, only for the requested columns, and cached while there is room. To shuffle compressed files
    larger than `cache_bytes`, use `BlockShuffleSampler(dataset, window=...)` with a window that fits: each record batch
    is then decompressed once per epoch (`cache_info` reports the hits and what to expect).

    A file that changes while it is read is an error. Metadata is validated; the format has no checksums for values. A
    record batch that decompresses to more than 4 GiB is an error, whether it is a decompression bomb or just large.

    A map-style dataset that also works under torch's own loader (with `collate_fn=dataset.collate` if there are
    variable-length lists, or strings that may be missing). It can be pickled: only the arguments are. It is
    thread-safe. Source: "Arrow Columnar Format", with its section on IPC, of Apache Arrow.

    Args:
        paths: a file, several files, or a pattern (`data-{00000..00015}-of-00016.arrow`, `data/*.arrow`); files are
            concatenated. All must have the columns that are read, with equal types; other columns may differ.
        columns: the names of the columns that make up a sample, in this order; `"a.b"` is field `b` of the struct `a`.
            Default: all. A single name, not in a list, makes each sample that column alone. A dict says which columns
            are images: `{"image": "image", "label": None}`, or an `ImageField`. Image columns hold bytes, or structs
            with `bytes` as in Hugging Face's datasets: an image whose `bytes` are null is read from the file at `path`,
            relative to the folder of the files (or, if it is not there, to the working directory). Images are rotated
            according to their EXIF data (see `ImageField`).
        nulls: "error": reading a null is an error. A value: replaces nulls in columns of its type (in lists, each null
            element; a null list becomes empty). "mask": a column that may have nulls is `{"values", "valid"}`, with
            zeros or an empty list for nulls; a null string is None, and so is any null in lists of strings, lists or
            structs. A list of numbers that contains a null is still an error, except with "mask_elements": like "mask",
            and columns of lists of numbers, variable-length or fixed-size, also have `"valid_elements"`, one bool per
            number; null elements are zero. Or a dict of these by column: `{"a": 0, "b.c": "mask"}`. To fill with the
            string "mask" itself, pass `("fill", "mask")`.
        strings: "str" for `str` and `bytes`, or "bytes" for tensors.
        lists: "ragged", or `("padded", fill)`: a batch is `{"values", "lengths"}`, padded with `fill`.
        decimals: "float" or "int".
        cache_bytes: size limit of the cache of decompressed and converted data, in bytes; 256 MiB by default.
        on_error: "raise", or "skip": rows that cannot be samples are excluded when the dataset is opened, from `len`,
            indices, ids and batches. These are all rows of a damaged record batch, rows with a null where `nulls` is
            "error", with a string that is not UTF-8, or with an image that cannot be decoded. This needs one pass over
            all batches; for 4 MiB or more the result is saved in a file and reused while the files are unchanged. A
            damaged schema or footer, or a truncated stream, is still an error.
        index_folder: where that file is saved. Default: next to the first file, or in the user's cache folder if that
            is not writable.

    Attributes:
        batch_sizes: the number of samples in each record batch, in file order.
        block_sizes: the same as an array; used by `BlockShuffleSampler`.
        block_size: the most common block size.
        damages: what `on_error="skip"` left out, one line per place; the first 1,000.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file is neither an Arrow file nor a stream (Feather 1 is neither), is damaged, or has different
            columns than the first one; a column does not exist or cannot be read. While reading: a null, a string that
            is not UTF-8, or a damaged batch (the message names file and place).
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> import tempfile
        >>> import pyarrow
        >>> import pyarrow.feather
        >>> path = f"{tempfile.mkdtemp()}/train.arrow"
        >>> table = pyarrow.table({"text": ["a dog", "a cat"], "label": [3, 5], "url": ["x", "y"]})
        >>> pyarrow.feather.write_feather(table, path)
        >>> ArrowDataset(path, columns=["text", "label"])[0]
        {'text': 'a dog', 'label': tensor(3)}
    """

    def __init__(
        self,
        paths: Paths,
        columns: ImageColumns = None,
        *,
        nulls: Any = "error",
        strings: Literal["str", "bytes"] = "str",
        lists: Lists = "ragged",
        decimals: Literal["float", "int"] = "float",
        cache_bytes: int = _CACHE_BYTES,
        on_error: Literal["raise", "skip"] = "raise",
        index_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.paths = expand(paths)
        self.columns, self.images = checked_image_columns(columns)
        self.nulls = nulls
        self.strings = strings
        self.lists = lists
        self.decimals = decimals
        self.cache_bytes = checked_number("cache_bytes", cache_bytes)
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self._open()

    def _open(self) -> None:
        self._set_core(
            *with_images(self.columns, self.images, self.nulls, self.paths, self._read, _core.arrow_metadata)
        )

    def _read(self, columns: Columns, nulls: Any, *, is_look: bool) -> tuple[_core.Dataset, Any, list[Kind]]:
        arguments = columnar_arguments(columns, nulls, self.strings, self.lists, self.decimals)
        core, structure, kinds, sizes, cache, self.damages = _core.arrow_dataset(
            self.paths,
            arguments,
            self.cache_bytes,
            self.index_folder,
            leaves_out(self.on_error) and not is_look,
        )
        self.batch_sizes = sizes
        self._set_blocks(sizes)
        self._caches = [cache]
        return core, structure, kinds_of(core, kinds, self.lists)

    def _source_paths(self) -> list[str]:
        return list(self.paths)

    def _shown(self) -> str:
        columns = list(self.columns) if isinstance(self.columns, tuple) else self.columns
        return f"{listed(self.paths)}, columns={columns!r}"
