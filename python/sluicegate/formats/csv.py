"""`CsvDataset`: the rows of CSV files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import Kind, NativeDataset, leaves_out, native_format
from sluicegate.paths import Paths, expand, listed, local

from .field_types import KINDS, typed_fields, types_by_name


@native_format
class CsvDataset(NativeDataset):
    r"""The rows of one or more CSV files: sample i is a dict of the cells of row i by column name.

    Follows RFC 4180: a quoted cell may contain delimiters, line feeds and doubled quotes. Rows end in LF, CRLF or CR.
    Empty lines and a byte order mark are skipped. All rows must have as many cells as the header. A quote that is not
    at the start of a cell is literal.

    Without `fields`, column types are inferred from the first 1,000 rows: `int` if all cells are 64-bit integers,
    `float` if all are numbers (including `nan` and `inf`), otherwise `str`. An empty cell also makes the column `str`,
    unless `defaults` has a value for it. Quoted cells are treated like any others.

    Opening scans the files in parallel for row ends. For 4 MiB or more the result is saved in a file next to the first
    one (in the user's cache folder if that is not writable), and reused while the files are unchanged.

    A map-style dataset that also works under torch's own loader. It can be pickled: only the arguments are. It is
    thread-safe.

    Args:
        paths: a file, several files, or a pattern (`data/*.csv`, `part-{00..15}.csv`); files are concatenated.
        fields: types of the columns that make up a sample, by name: `int`, `float`, `bool` (`true`, `false`, `1`, `0`),
            `str`, `bytes`, or a torch data type for a scalar tensor. Default: all columns.
        header: True if the first row of each file has the column names, equal in all files. Otherwise columns are named
            "0", "1", ...
        delimiter: the cell separator, one ASCII character.
        defaults: by name, the value of an empty cell. Without one, an empty cell is an empty string, and an error in a
            numeric column.
        on_error: "raise", or "skip": rows with more or fewer cells, or with a cell that is not of its column's type,
            are excluded when the dataset is opened, from `len`, indices, ids and batches. So is the rest of a file
            after an unclosed quote, and a file in UTF-16. This needs one pass over all rows; the result is saved with
            the row offsets.
        index_folder: where the row offsets are saved.

    Attributes:
        damages: what `on_error="skip"` left out, one line per place; the first 1,000.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: unclosed quotes; headers that differ; an unknown column. While reading: a row with more or fewer
            cells, or a cell that is not of its column's type. The message names file, line and column.
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
        self.paths = expand(paths)
        self.fields = None if fields is None else types_by_name(fields)
        self.header = header
        self.delimiter = checked_delimiter(delimiter)
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
        core, contents, self.damages = _core.csv_dataset(
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


def checked_delimiter(delimiter: str) -> str:
    """Return `delimiter` if the core can take it.

    Raises:
        ValueError: it is not a single ASCII character.
    """
    if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
        raise ValueError(f"delimiter: expected one ASCII character, but got {delimiter!r}")
    return delimiter
