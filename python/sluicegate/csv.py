"""`CsvDataset`: files of rows of cells, separated by commas."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from . import _core
from .field_types import KINDS, typed_fields, types_by_name
from .native_dataset import Kind, NativeDataset, leaves_out, native_format
from .paths import Paths, expand, listed, local


@native_format
class CsvDataset(NativeDataset):
    r"""The rows of one or more CSV files: sample i is a dict of the cells of row i by their columns.

    As RFC 4180 has it: cells may be in quotes, and then hold delimiters, line feeds and quotes, which are doubled. Rows
    end in a line feed, or that and a carriage return. Empty lines are left out; a byte order mark is skipped. All
    rows have as many cells as the header. A quote that is not at the start of a cell is a quote.

    Without `fields` the first 1,000 rows say what a column is: `int` where all cells are integers of 64 bits, `float`
    where all are numbers (`nan` and `inf` too), `str` otherwise, as soon as a cell is empty too, unless `defaults`
    has a value for it. Cells in quotes count as others.

    Opening scans the files for the ends of rows, file beside file. For 4 MiB and more the result is kept in a file
    beside the first one (in the user's cache folder where that can't be), and used as long as the files are the same.

    A map-style dataset as any other, under torch's own loader too. It can be pickled: the arguments travel. Threads may
    share it.

    Args:
        paths: a file, several, or a pattern (`data/*.csv`, `part-{00..15}.csv`); one after the other.
        fields: types of the columns that make up a sample, by name: `int`, `float`, `bool` (`true`, `false`, `1`, `0`),
            `str`, `bytes`, or a data type of torch's for a scalar tensor. All columns by default.
        header: whether the first row of each file has the names, the same in all. Otherwise columns are called "0",
            "1", ...
        delimiter: what separates cells, one ASCII character.
        defaults: by name, what an empty cell stands for. Without it an empty cell is an empty text, and no number.
        on_error: "raise", or "skip": rows with more or fewer cells, or with a cell that is not of its column's type,
            are left out when the dataset is opened, and count for nothing: `len`, indices, ids and batches are those of
            what is left. So are all that lies behind a quote that is not closed, in the same file, and a file in
            UTF-16. Every row is read once for that; which ones are left out is kept like their places.
        index_folder: where the places of the rows are kept.

    Attributes:
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000.

    Raises:
        FileNotFoundError: there is no such file, or none that matches a pattern.
        ValueError: quotes that are not closed; headers that differ; no such column; while reading: a row with more or
            fewer cells, or a cell that is not of its column's type. The text has file, line and column.
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> import tempfile
        >>> path = f"{tempfile.mkdtemp()}/x.csv"
        >>> with open(path, "w") as file:
        ...     _ = file.write('name,size\n"a, b",1\nc,2\n')
        >>> CsvDataset(path)[0]
        {'name': 'a, b', 'size': 1}
    """

    def __init__(
        self,
        paths: Paths,
        fields: Mapping[str, Any] | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        defaults: Mapping[str, Any] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        index_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
            raise ValueError(f"delimiter: expected one ASCII character, but got {delimiter!r}")
        self.paths = expand(paths)
        self.fields = None if fields is None else types_by_name(fields)
        self.header = header
        self.delimiter = delimiter
        self.defaults = dict(defaults or {})
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        self._open()

    def _open(self) -> None:
        typed, kinds, texts = None, list[Kind](), []
        if self.fields is None:
            texts = [(name, str(value)) for name, value in self.defaults.items()]
        else:
            typed, kinds = typed_fields(self.fields, self.defaults)
        core, contents, self.damages = _core.Dataset.csv(
            self.paths,
            typed,
            texts,
            self.header,
            ord(self.delimiter),
            self.index_folder,
            leaves_out(self.on_error),
        )
        structure = {name: number for number, (name, _, _) in enumerate(core.fields)}
        self._set_core(core, structure, kinds or [KINDS.get(content, "number") for content in contents])

    def _shown(self) -> str:
        return f"{listed(self.paths)}, fields={self.fields!r}, header={self.header}, delimiter={self.delimiter!r}"
