"""`JsonLinesDataset`: files of one JSON value a line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from . import _core
from .field_types import typed_fields, types_by_name
from .native_dataset import Kind, NativeDataset, leaves_out, native_format
from .paths import Paths, expand, listed, local


@native_format
class JsonLinesDataset(NativeDataset):
    r"""The lines of one or more JSON Lines files: sample i is the object of line i, or the fields of it that are named.

    Without `fields` a sample is what `json.loads` makes of the line, and a batch is torch's default collate of those,
    except that lists of texts, objects or lists (`messages`) stay one list per sample, as `ParquetDataset` gives them.
    With `fields` it is a dict of these fields in their types, parsed in Rust without Python's lock: numbers and
    booleans become tensors in a batch, texts a list of `str`, lists of numbers `{"values", "offsets"}`.

    Lists of objects that hold only numbers stay lists of objects; Parquet gives lists of numbers by key there.
    Objects in such lists have the keys that the line gives them, as in `datasets.load_dataset("json")` of version 5; in
    Parquet all rows have the same keys, and `nulls="mask"` makes None of the others. A key of the sample itself that is
    missing in some samples of a batch is a KeyError, and None is an error where others have a number, a list or an
    object: name the `fields`, with `defaults`. Texts may be None. Without `fields`, numbers have the type that torch
    gives them batch by batch: int64 in a batch of integers, and float32, with a warning, where an integer comes before
    a float. `fields={"score": float}` makes them float64 in all batches, as Parquet does.

    Blank lines are left out. Lines end in a line feed, or that and a carriage return; the last need not. A byte order
    mark is skipped. Each line is checked when it is read: an error names the file, the byte, and the line. Brackets may
    be nested 127 deep. `NaN` and `Infinity` are no JSON.

    Opening scans the files for the ends of lines, with all cores. For 4 MiB of text and more the result is kept in a
    file beside the first one (in the user's cache folder where that can't be), and used as long as the files are the
    same.

    A map-style dataset as any other, under torch's own loader too (`collate_fn=dataset.collate` for lists). It
    can be pickled: the arguments travel. Threads may share it.

    Args:
        paths: a file, several, or a pattern (`data/*.jsonl`, `part-{00..15}.jsonl`); one after the other.
        fields: types by name: `int`, `float`, `bool`, `str`, `"json"`; a data type of torch's, or `(dtype, shape)`, for
            a tensor of that shape; `[int]`, `[torch.float32]`, `[str]` for lists of any length.
        defaults: by name, what stands for a field that a line does not have, or has as null. Without one it is an
            error.
        on_error: "raise", or "skip": lines that are no UTF-8 or no JSON, or have not the `fields` as told, are left out
            when the dataset is opened, and count for nothing: `len`, indices, ids and batches are those of what is
            left. So is a file in UTF-16. Every line is read once for that; which ones are left out is kept like their
            places.
        index_folder: where the places of the lines are kept.

    Attributes:
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000.

    Raises:
        FileNotFoundError: there is no such file, or none that matches a pattern.
        ValueError: while reading: a line is no UTF-8 or no JSON, or has no such field, or one of another type.
        KeyError, TypeError, RuntimeError: while batching without `fields`: samples have different keys, None where
            others have a value that is not a text, or lists of numbers of unequal lengths.
        OSError: while reading: a file changed since it was opened.

    Examples:
        >>> import tempfile
        >>> path = f"{tempfile.mkdtemp()}/x.jsonl"
        >>> with open(path, "w") as file:
        ...     _ = file.write('{"text": "one", "ids": [1]}\n{"text": "two", "ids": [2, 3], "label": 4}\n')
        >>> JsonLinesDataset(path)[0]
        {'text': 'one', 'ids': [1]}
        >>> JsonLinesDataset(path, {"ids": [int], "label": int}, defaults={"label": -1})[0]
        {'ids': tensor([1]), 'label': -1}
        >>> from sluicegate import DataLoader
        >>> with open(path, "w") as file:
        ...     _ = file.write('{"messages": [{"role": "user", "content": "Hi"}]}\n{"messages": []}\n')
        >>> next(iter(DataLoader(JsonLinesDataset(path), batch_size=2)))
        {'messages': [[{'role': 'user', 'content': 'Hi'}], []]}
    """

    def __init__(
        self,
        paths: Paths,
        fields: Mapping[str, Any] | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        index_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.paths = expand(paths)
        self.fields = None if fields is None else types_by_name(fields)
        self.defaults = dict(defaults or {})
        self.on_error = on_error
        self.index_folder = None if index_folder is None else local("index_folder", index_folder)
        if fields is None and defaults:
            raise ValueError("defaults: they are for fields, but no fields are given")
        self._open()

    def _open(self) -> None:
        structure: Any = 0
        typed, kinds = None, list[Kind](["json"])
        if self.fields is not None:
            typed, kinds = typed_fields(self.fields, self.defaults)
            structure = {name: number for number, name in enumerate(self.fields)}
        core, self.damages = _core.Dataset.json_lines(self.paths, typed, self.index_folder, leaves_out(self.on_error))
        self._set_core(core, structure, kinds)

    def _shown(self) -> str:
        more = f", defaults={self.defaults!r}" if self.defaults else ""
        return f"{listed(self.paths)}, fields={self.fields!r}{more}"
