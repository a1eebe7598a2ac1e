"""`JsonLinesDataset`: files with one JSON value per line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import Kind, NativeDataset, leaves_out, native_format
from sluicegate.paths import Paths, expand, listed, local

from .field_types import typed_fields, types_by_name


@native_format
class JsonLinesDataset(NativeDataset):
    r"""The lines of one or more JSON Lines files: sample i is the object on line i, or its named fields.

    Without `fields`, a sample is the result of `json.loads` for the line, and a batch is torch's default collate of
    those, except that lists of strings, objects or lists (`messages`) stay one list per sample, as in `ParquetDataset`.
    With `fields`, a sample is a dict of these fields in their types, parsed in Rust without the GIL. In a batch,
    numbers and booleans become tensors, strings a list of `str`, and lists of numbers `{"values", "offsets"}`.

    Lists of objects that hold only numbers stay lists of objects; Parquet gives lists of numbers by key instead.
    Objects in such lists have the keys of their line, as in `datasets.load_dataset("json")` of version 5; in Parquet
    all rows have the same keys, and `nulls="mask"` makes the missing ones None.

    Without `fields`, a top-level key that is missing in some samples of a batch is a KeyError, and None is an error
    where others have a number, a list or an object: name the `fields`, with `defaults`. Strings may be None. Numbers
    have the type that torch infers for each batch: int64 in a batch of integers, and float32, with a warning, if an
    integer comes before a float. `fields={"score": float}` makes them float64 in all batches, as in Parquet.

    Blank lines are skipped. Lines end in LF or CRLF; the last one need not. A byte order mark is skipped. Each line is
    checked when it is read: an error names the file, the byte, and the line. Brackets may be nested 127 deep. `NaN` and
    `Infinity` are not valid JSON.

    Opening scans the files for line ends, on all cores. For 4 MiB of text or more the result is saved in a file next to
    the first one (in the user's cache folder if that is not writable), and reused while the files are unchanged.

    A map-style dataset that also works under torch's own loader (`collate_fn=dataset.collate` for lists). It can be
    pickled: only the arguments are. It is thread-safe. Sources: jsonlines.org, RFC 8259.

    Args:
        paths: a file, several files, or a pattern (`data/*.jsonl`, `part-{00..15}.jsonl`); files are concatenated.
        fields: types by name: `int`, `float`, `bool`, `str`, `"json"`; a torch data type, or `(dtype, shape)`, for a
            tensor of that shape; `[int]`, `[torch.float32]`, `[str]` for variable-length lists.
        defaults: by name, the value of a field that is missing or null. Without one, that is an error.
        on_error: "raise", or "skip": lines that are not UTF-8 or not JSON, or do not match `fields`, are excluded when
            the dataset is opened, from `len`, indices, ids and batches. So is a file in UTF-16. This needs one pass
            over all lines; the result is saved with the line offsets.
        index_folder: where the line offsets are saved.

    Attributes:
        damages: what `on_error="skip"` left out, one line per place; the first 1,000.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: while reading: a line is not UTF-8 or not JSON, or a field is missing or has a different type.
        KeyError, TypeError, RuntimeError: while batching without `fields`: samples have different keys, None where
            others have a value that is not a string, or lists of numbers of unequal lengths.
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
            raise ValueError("defaults: expected fields= too, but got fields=None; pass the types of fields")
        self._open()

    def _open(self) -> None:
        structure: Any = 0
        typed, kinds = None, list[Kind](["json"])
        if self.fields is not None:
            typed, kinds = typed_fields(self.fields, self.defaults)
            structure = {name: number for number, name in enumerate(self.fields)}
        core, self.damages = _core.json_lines_dataset(self.paths, typed, self.index_folder, leaves_out(self.on_error))
        self._set_core(core, structure, kinds)

    def _shown(self) -> str:
        more = f", defaults={self.defaults!r}" if self.defaults else ""
        return f"{listed(self.paths)}, fields={self.fields!r}{more}"
