"""`ArrowDataset`: the rows of Arrow files and streams."""

from __future__ import annotations

import os
from typing import Any, Literal

from . import _core
from .blocks import DecodedDataset
from .checked_number import checked_number
from .columnar import Columns, columnar_arguments, kinds_of
from .columnar_images import ImageColumns, checked_image_columns, with_images
from .native_dataset import Kind, Lists, leaves_out, native_format
from .paths import Paths, expand, listed, local

# What was unpacked or converted is kept up to this size.
_CACHE_BYTES = 256 << 20


@native_format
class ArrowDataset(DecodedDataset):
    """The rows of one or more Arrow files: a dict of the columns of each.

    Read are IPC files (`.arrow`; Feather 2 is another name for them) and IPC streams (those that Hugging Face's
    datasets keep in their cache, too), not compressed or by LZ4 or zstd, with dictionaries that are replaced or added
    to on the way. pyarrow is not needed. What the values of a column become, in a sample and in a batch:

    - numbers and booleans: tensors in their own data type, float16 too;
    - dates, times, timestamps and durations: int64 in the unit of the column; dates count days;
    - decimals: the nearest float64, or with `decimals="int"` int64 without the point (an error where that does not
      fit);
    - lists of fixed size, and such lists in them: rows of a tensor;
    - lists of any length, of those: a tensor in a sample, `{"values", "offsets"}` in a batch, or as `lists` says;
    - texts `str`, byte strings (of fixed size, too) `bytes`, and a list of them in a batch; with `strings="bytes"`
      tensors of uint8 as lists are, without an object for each;
    - structs: dicts of their parts; lists of structs of numbers alone: dicts of lists;
    - lists of texts, of lists, of structs with such: lists and dicts as pyarrow's `to_pylist` makes them, with Python's
      own numbers in them (times and decimals as above), and a list of them in a batch. With `strings="bytes"` texts in
      them are `bytes`. What is chosen by `columns` counts: `"items.n"` of lists of structs is a list of numbers;
    - dictionaries: what they stand for.

    Maps, unions and intervals are errors: leave them out by naming the others in `columns`.

    Files are memory-mapped, and may be larger than memory. When they are opened, the place of each batch is looked up:
    in the footer of a file, and in a stream from one batch to the next. What is not compressed is copied once, from the
    file into a batch of the loader, in any order of the rows. What is compressed, and booleans, dates, decimals and
    lists of texts or lists, are decoded by whole batches of the file, in Rust, the columns that are asked for and no
    others, and kept in memory as long as there is room for it. To shuffle compressed files that are larger than
    `cache_bytes`, take `BlockShuffleSampler(dataset, window=...)` with a window that fits: each batch is then unpacked
    once an epoch (`cache_info` says how it went, and what to reckon with).

    A file that changes while it is read is an error. What its metadata say is checked; the values have no checksum in
    this format. A batch that unpacks to more than 4 GiB is an error, be it a bomb or just large.

    A map-style dataset as any other, under torch's own loader too (with `collate_fn=dataset.collate` where there are
    lists of any length, or texts that may be missing). It can be pickled: the arguments travel. Threads may share it.

    Args:
        paths: a file, several, or a pattern (`data-{00000..00015}-of-00016.arrow`, `data/*.arrow`); one after the
            other. All must have the columns that are read, with equal types; whatever else they have.
        columns: the names of the columns that make up a sample, in this order; `"a.b"` is part `b` of the struct `a`.
            All by default. One name that is no list makes samples of that column alone. A dict says which of them are
            images: `{"image": "image", "label": None}`, or an `ImageField`, of columns of bytes, and of structs with
            `bytes`, as Hugging Face's datasets have them: an image whose `bytes` are null is read from the file at
            `path`, which begins at the folder of the files (or, if it is not there, at the working directory), and
            images are turned as their EXIF data say (see `ImageField`).
        nulls: "error" when a null is read; a value that takes its place, where it is one of the column's type (in
            lists, that of each null; a list that is null is empty); "mask": a column that may have nulls is
            `{"values", "valid"}`, with zeros, or an empty list, where there is none, and a text that is null is None,
            as is all that is null in lists of texts, lists or structs. A list of numbers with a null in it is an error
            all the same, but with "mask_elements": as "mask", and columns of lists of numbers, of any length or a fixed
            one, have `"valid_elements"` too: bools, as many as there are numbers, which are zeros where they are null.
            Or a dict of these by column: `{"a": 0, "b.c": "mask"}`. `("fill", "mask")` is the text itself.
        strings: "str" for `str` and `bytes`, or "bytes" for tensors.
        lists: "ragged", or `("padded", fill)`: a batch is `{"values", "lengths"}`, padded with `fill`.
        decimals: "float" or "int".
        cache_bytes: how many bytes of what was unpacked or converted are kept; 256 MiB by default.
        on_error: "raise", or "skip": rows that can't be samples are left out when the dataset is opened, and count for
            nothing: `len`, indices, ids and batches are those of what is left. These are all rows of a batch that is
            damaged, those with a null where `nulls` is "error", those with a text that is no UTF-8, and those with an
            image that can't be decoded. Every batch is read once for that; for 4 MiB and more the result is kept in a
            file, and used as long as the files are the same. A file whose schema or footer is damaged, or a stream that
            is cut, is an error all the same.
        index_folder: where it is kept, instead of beside the first file (or in the user's cache folder, where that
            can't be).

    Attributes:
        batch_sizes: the number of samples in each batch of the files, one file after the other.
        block_sizes: the same as an array: what `BlockShuffleSampler` goes by.
        block_size: that of most batches.
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000.

    Raises:
        FileNotFoundError: there is no such file, or none that matches a pattern.
        ValueError: a file is neither an Arrow file nor a stream (Feather 1 is neither), is damaged, or has other
            columns than the first one; a column is not there, or can't be read; while reading: a null, a text that is
            no UTF-8, or a batch that is damaged (file and place are named).
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> from sluicegate import ArrowDataset
        >>> dataset = ArrowDataset("train-*.arrow", columns=["text", "label"])  # doctest: +SKIP
        >>> dataset[0]  # doctest: +SKIP
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
        core, structure, kinds, sizes, cache, self.damages = _core.Dataset.arrow(
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
