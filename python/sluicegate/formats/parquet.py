"""`ParquetDataset`: the rows of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.native.blocks import DecodedDataset
from sluicegate.native.dataset import Kind, Lists, leaves_out, native_format
from sluicegate.paths import Paths, expand, listed, local

from .columnar import Columns, columnar_arguments, kinds_of, plain_value
from .columnar_images import ImageColumns, checked_image_columns, with_images

Condition: TypeAlias = tuple[str, str, Any]

_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")


@native_format
class ParquetDataset(DecodedDataset):
    """The rows of one or more Parquet files; each sample is a dict of column values.

    pyarrow is not needed. Column values are converted as follows, in a sample and in a batch:

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

    Maps and intervals are errors: leave them out by naming the other columns in `columns`.

    Opening reads only the footers, several at a time. For 64 files or more, the row counts are saved in a file next to
    the first one (in the user's cache folder if that is not writable). A row group is decoded as a whole, in Rust, only
    for the requested columns, and cached while there is room. To shuffle data larger than `cache_bytes`, use
    `BlockShuffleSampler(dataset, window=...)` with a window that fits: each row group is then decoded once per epoch,
    even if a filter keeps more rows of some than of others (`cache_info` reports the hits and what to expect). With
    `shuffle=True` consecutive samples come from anywhere. Then only the pages that contain them are decoded, if the
    file has a page index (pyarrow writes one with `write_page_index=True`). Without one, or if lists are read, whole
    row groups are decoded again and again.

    A map-style dataset that also works under torch's own loader (with `collate_fn=dataset.collate` if there are
    variable-length lists, or strings that may be missing). It can be pickled: only the arguments are. It is
    thread-safe. Source: the format specification of Apache Parquet.

    Args:
        paths: a file, several files, or a pattern (`train-{00000..00015}.parquet`, `data/*.parquet`); files are
            concatenated. All must have the columns that are read, with equal types; other columns may differ.
        columns: the names of the columns that make up a sample, in this order; `"a.b"` is field `b` of the struct `a`.
            Default: all. A single name, not in a list, makes each sample that column alone. A dict says which columns
            are images: `{"image": "image", "label": None}`, or an `ImageField`. Image columns hold bytes, or structs
            with `bytes` as in Hugging Face's datasets: an image whose `bytes` are null is read from the file at `path`,
            relative to the folder of the files (or, if it is not there, to the working directory). Images are rotated
            according to their EXIF data (see `ImageField`).
        filter: `(column, relation, value)`, or a list of conditions that must all hold: only matching rows are samples.
            Relations are `==`, `!=`, `<`, `<=`, `>`, `>=`, `in` and `not in`; a null never matches. Times are integers.
            A column may be a struct field. Row groups that cannot match, according to the statistics in the footer, are
            skipped, and so are pages, if the file has a page index; for the rest the filter columns are decoded once
            when the dataset is opened. Of the sample columns only pages with matching rows are decoded, unless lists
            are among them, because skipping rows in a damaged page of a list column might never end. For files of 4 MiB
            or more the result is saved, one bit per row, in a file next to the first one (in the user's cache folder if
            that is not writable).
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
        cache_bytes: size limit of the cache of decoded row groups, in bytes; 256 MiB by default. A single row group may
            have up to 4 GiB, or this limit if it is larger.
        on_error: "raise", or "skip": rows that cannot be samples are excluded when the dataset is opened, from `len`,
            indices, ids and batches. These are all rows of a row group that is damaged in a column that is read or
            filtered by, rows with a null where `nulls` is "error", with a string that is not UTF-8, or with an image
            that cannot be decoded. This decodes every row group once; for 4 MiB or more the result is saved in an index
            file. A damaged footer is still an error.
        index_folder: where the index file is saved.

    Attributes:
        damages: what `on_error="skip"` left out, one line per place; the first 1,000.
        row_group_sizes: the number of samples in each row group, in file order.
        block_sizes: the same as an array; used by `BlockShuffleSampler`.
        block_size: the most common block size.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file is not a Parquet file, or has different columns than the first one; a column does not exist
            or cannot be read. While reading: a null, a string that is not UTF-8, or a damaged file (the message names
            file, row or row group, and column).
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> import tempfile
        >>> import pyarrow
        >>> import pyarrow.parquet
        >>> path = f"{tempfile.mkdtemp()}/train.parquet"
        >>> table = pyarrow.table({"text": ["a dog", "a cat"], "label": [3, 5], "url": ["x", "y"]})
        >>> pyarrow.parquet.write_table(table, path)
        >>> dataset = ParquetDataset(path, columns=["text", "label"], filter=("label", ">", 3))
        >>> len(dataset), dataset[0]
        (1, {'text': 'a cat', 'label': tensor(5)})
    """

    def __init__(
        self,
        paths: Paths,
        columns: ImageColumns = None,
        *,
        filter: Condition | Sequence[Condition] | None = None,
        nulls: Any = "error",
        strings: Literal["str", "bytes"] = "str",
        lists: Lists = "ragged",
        decimals: Literal["float", "int"] = "float",
        cache_bytes: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        index_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.paths = expand(paths)
        self.columns, self.images = checked_image_columns(columns)
        self.filter = _conditions(filter)
        self.nulls = nulls
        self.strings = strings
        self.lists = lists
        self.decimals = decimals
        self.cache_bytes = None if cache_bytes is None else checked_number("cache_bytes", cache_bytes)
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self._open()

    def _open(self) -> None:
        self._set_core(
            *with_images(self.columns, self.images, self.nulls, self.paths, self._read, _core.parquet_metadata)
        )

    def _read(self, columns: Columns, nulls: Any, *, is_look: bool) -> tuple[_core.Dataset, Any, list[Kind]]:
        core, structure, kinds, sizes, cache, self.damages = _core.parquet_dataset(
            self.paths,
            {
                "columns": columnar_arguments(columns, nulls, self.strings, self.lists, self.decimals),
                "filter": self.filter,
                "cache_bytes": self.cache_bytes,
                "index_folder": self.index_folder,
            },
            leaves_out(self.on_error) and not is_look,
        )
        self.row_group_sizes = sizes
        self._set_blocks(sizes)
        self._caches = [cache]
        return core, structure, kinds_of(core, kinds, self.lists)

    def _source_paths(self) -> list[str]:
        return list(self.paths)

    def _shown(self) -> str:
        more = f", filter={self.filter!r}" if self.filter else ""
        columns = list(self.columns) if isinstance(self.columns, tuple) else self.columns
        return f"{listed(self.paths)}, columns={columns!r}{more}"


def _conditions(filter: Any) -> list[tuple[str, str, list[Any]]]:
    """Return the conditions, each with a list of values."""
    if filter is None:
        return []
    conditions = [filter] if isinstance(filter, tuple) else filter
    checked = []
    for condition in conditions:
        if not (isinstance(condition, (tuple, list)) and len(condition) == 3 and isinstance(condition[0], str)):
            raise TypeError(f"filter: expected (column, relation, value), but got {condition!r}")
        column, relation, value = condition
        if relation not in _RELATIONS:
            raise ValueError(f"filter: expected one of {', '.join(_RELATIONS)}, but got {relation!r}")
        if relation in ("in", "not in"):
            if isinstance(value, (str, bytes)):
                raise TypeError(f"filter: expected a list of values for {relation!r}, but got {value!r}")
            values = list(value)
        else:
            values = [value]
        checked.append((column, relation, [plain_value("filter", each) for each in values]))
    return checked
