"""`ParquetDataset`: the rows of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from . import _core
from .blocks import DecodedDataset
from .checked_number import checked_number
from .columnar import Columns, columnar_arguments, kinds_of, plain_value
from .columnar_images import ImageColumns, checked_image_columns, with_images
from .native_dataset import Kind, Lists, leaves_out, native_format
from .paths import Paths, expand, listed, local

Condition: TypeAlias = tuple[str, str, Any]

_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")


@native_format
class ParquetDataset(DecodedDataset):
    """The rows of one or more Parquet files: a dict of the columns of each.

    pyarrow is not needed. What the values of a column become, in a sample and in a batch:

    - numbers and booleans: tensors in their own data type, float16 too;
    - dates, times, timestamps and durations: int64 in the unit of the column; dates count days;
    - decimals: the nearest float64, or with `decimals="int"` int64 without the point (an error where it does not fit);
    - lists of fixed size, and such lists in them: rows of a tensor;
    - lists of any length, of those: a tensor in a sample, `{"values", "offsets"}` in a batch, or as `lists` says;
    - texts `str`, byte strings (of fixed size, too) `bytes`, and a list of them in a batch; with `strings="bytes"`
      tensors of uint8, as lists are, without an object for each;
    - structs: dicts of their parts; lists of structs of numbers alone: dicts of lists;
    - lists of texts, of lists, of structs with such: lists and dicts as pyarrow's `to_pylist` makes them, with Python's
      own numbers in them (times and decimals as above), and a list of them in a batch. With `strings="bytes"` texts in
      them are `bytes`. What is chosen by `columns` counts: `"items.n"` of lists of structs is a list of numbers;
    - dictionaries: what they stand for.

    Maps and intervals are errors: leave them out by naming the others in `columns`.

    Only footers are read when files are opened, several at a time; of 64 files and more the number of rows in each is
    kept in a file beside the first one (in the user's cache folder where that can't be). A row group is decoded as a
    whole, in Rust, the columns that are asked for and no others, and kept in memory as long as there is room for it. To
    shuffle what is larger than `cache_bytes`, take `BlockShuffleSampler(dataset, window=...)` with a window that fits:
    each row group is then decoded once an epoch, also when a filter leaves more of one than of another (`cache_info`
    says how it went, and what to reckon with). With `shuffle=True` samples come from everywhere. Then only the pages
    are decoded that hold them, where the file has an index of pages (pyarrow writes one with `write_page_index=True`);
    where it has none, and where lists are read, whole row groups are, again and again.

    A map-style dataset as any other, under torch's own loader too (with `collate_fn=dataset.collate` where there are
    lists of any length, or texts that may be missing). It can be pickled: the arguments travel. Threads may share it.

    Args:
        paths: a file, several, or a pattern (`train-{00000..00015}.parquet`, `data/*.parquet`); one after the other.
            All must have the columns that are read, with equal types, whatever else they have.
        columns: the names of the columns that make up a sample, in this order; `"a.b"` is part `b` of the struct `a`.
            All by default. One name that is no list makes samples of that column alone. A dict says which of them are
            images: `{"image": "image", "label": None}`, or an `ImageField`, of columns of bytes, and of structs with
            `bytes`, as Hugging Face's datasets have them: an image whose `bytes` are null is read from the file at
            `path`, which begins at the folder of the files (or, if it is not there, at the working directory), and
            images are turned as their EXIF data say (see `ImageField`).
        filter: `(column, relation, value)`, or a list of them that must all hold: only such rows are samples. Relations
            are `==`, `!=`, `<`, `<=`, `>`, `>=`, `in` and `not in`; a null is in none. Times are integers. A column may
            be a part of structs. Row groups that can't have such rows, by the statistics in the footer, are passed
            over, and so are pages, where the file has an index of them; of the others these columns are decoded once
            when the dataset is opened. Of the columns of a sample only the pages are decoded that have some, unless
            lists are among them: a damaged page of those could keep whoever passes over its rows for ever. For files of
            4 MiB and more what is left is kept, a bit a row, in a file beside the first one (in the user's cache folder
            where that can't be).
        nulls: "error" when a null is read; a value that takes its place, where it is one of the column's type (in lists
            that of each null; a list that is null is empty); "mask": a column that may have nulls is `{"values",
            "valid"}`, with zeros, or an empty list, where there is none, and a text that is null is None, as is all
            that is null in lists of texts, lists or structs. A list of numbers with a null in it is an error all the
            same, but with "mask_elements": as "mask", and columns of lists of numbers, of any length or a fixed one,
            have `"valid_elements"` too: bools, as many as there are numbers, which are zeros where they are null. Or a
            dict of these by column: `{"a": 0, "b.c": "mask"}`. `("fill", "mask")` is the text itself.
        strings: "str" for `str` and `bytes`, or "bytes" for tensors.
        lists: "ragged", or `("padded", fill)`: a batch is `{"values", "lengths"}`, padded with `fill`.
        decimals: "float" or "int".
        cache_bytes: how many bytes of decoded row groups are kept; 256 MiB by default. A row group may have 4 GiB, or
            as many as this.
        on_error: "raise", or "skip": rows that can't be samples are left out when the dataset is opened, and count for
            nothing: `len`, indices, ids and batches are those of what is left. These are all rows of a row group that
            is damaged in a column that is read or filtered by, those with a null where `nulls` is "error", those with a
            text that is no UTF-8, and those with an image that can't be decoded. Every row group is decoded once for
            that; for 4 MiB and more the result is kept in an index. A file whose footer is damaged is an error all the
            same.
        index_folder: where the index is kept.

    Attributes:
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000.
        row_group_sizes: the number of samples in each row group, one file after the other.
        block_sizes: the same as an array: what `BlockShuffleSampler` goes by.
        block_size: that of most row groups.

    Raises:
        FileNotFoundError: there is no such file, or none that matches a pattern.
        ValueError: a file is no Parquet file, or has other columns than the first one; a column is not there, or can't
            be read; while reading: a null, a text that is no UTF-8, or a file that is damaged (file, row or row group,
            and column are named).
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> from sluicegate import ParquetDataset
        >>> dataset = ParquetDataset("train-*.parquet", columns=["text", "label"])  # doctest: +SKIP
        >>> dataset[0]  # doctest: +SKIP
        {'text': 'a dog', 'label': tensor(3)}
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
        core, structure, kinds, sizes, cache, self.damages = _core.Dataset.parquet(
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
    """The conditions, each with a list of values."""
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
                raise TypeError(f"filter: {relation!r} takes a list of values, but got {value!r}")
            values = list(value)
        else:
            values = [value]
        checked.append((column, relation, [plain_value("filter", each) for each in values]))
    return checked
