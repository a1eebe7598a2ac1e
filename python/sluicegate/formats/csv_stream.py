"""`CsvStream`: CSV rows read sequentially, including from pipes and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import Kind
from sluicegate.stream.native import NativeStream
from sluicegate.stream.native_iterator import Fields
from sluicegate.stream.sources import Sources

from .csv import checked_delimiter
from .field_types import KINDS, typed_fields, types_by_name


class CsvStream(NativeStream):
    """The rows of CSV read sequentially from files, pipes and commands; samples as in `CsvDataset`.

    It is read up to 16 MiB ahead on a thread, in Rust. Every rank and worker reads the whole stream and owns every n-th
    sample; it skips the others without decoding them. Epochs, state and shuffling work as described in `TarStream`.

    Column names, and types that are not given, are inferred from the first source that has rows; empty files are
    skipped, and the others must have the same header. `continues` cannot be used, because a continued source has no
    header.

    Args:
        urls: a path, a list, or a pattern (`train-{0000..0146}.csv`); a shell command after `pipe:` (number ranges such
            as `{000..146}` expand to one command each; all other braces are left to the shell); `"-"` for standard
            input; a file descriptor number; a file object. Several sources are read one after the other.
        fields: types of the columns that make up a sample, by name, as in `CsvDataset`. Default: all columns.
        header: True if the first row of each source has the column names. Otherwise columns are named "0", "1", ...
        delimiter: the cell separator, one ASCII character.
        defaults: by name, the value of an empty cell.
        unpack: True to detect gzip and Zstandard by their first bytes and decompress on the fly.
        on_error: "raise", or "skip": a damaged sample is left out, and the samples after it keep their ordinals; if the
            start of the next sample cannot be found, the rest of its source is left out too. `damages` lists what was
            left out. A command that fails, or a file that cannot be read, is still an error.
        max_sample_bytes: the maximum size of a sample in bytes, 1 GiB by default; a larger one is an error.
        allow_pipe: True if `pipe:` may run a command; use False for paths from untrusted sources. The environment
            variable `SLUICEGATE_ALLOW_PIPE=0` turns commands off everywhere.
        continues: True if a source that can be read only once, and is passed again on resuming, continues after the
            last sample that was delivered.
        shard: (rank, world_size) to use instead of those of `torch.distributed`.

    Attributes:
        sources: the names of the sources; those of commands start with `pipe:`.
        damages: what `on_error="skip"` left out, one line per place; the first 1,000 in this process.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: while reading: the data is damaged or not CSV (the message names source, byte and sample); several
            readers of a source that can be read only once.
        OSError: while reading: a source cannot be read, or a command failed.

    Examples:
        >>> list(CsvStream("pipe:echo name,size; echo a,1; echo c,2"))
        [{'name': 'a', 'size': 1}, {'name': 'c', 'size': 2}]
    """

    def __init__(
        self,
        urls: Sources,
        fields: Mapping[str, Any] | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        defaults: Mapping[str, Any] | None = None,
        unpack: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        max_sample_bytes: int = 2**30,
        allow_pipe: bool = True,
        continues: bool = False,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self.fields = None if fields is None else types_by_name(fields)
        self.header = header
        self.delimiter = checked_delimiter(delimiter)
        self.defaults = dict(defaults or {})
        super().__init__(
            urls,
            unpack=unpack,
            on_error=on_error,
            max_sample_bytes=max_sample_bytes,
            allow_pipe=allow_pipe,
            continues=continues,
            shard=shard,
        )

    def _make(self, sources: list[tuple[str, str, int | None]], options: tuple[bool, bool, int, bool]) -> _core.Stream:
        typed, texts = None, []
        if self.fields is None:
            texts = [(name, str(value)) for name, value in self.defaults.items()]
        else:
            typed = typed_fields(self.fields, self.defaults)[0]
        return _core.csv_stream(sources, options, typed, texts, self.header, ord(self.delimiter))

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        structure = {name: number for number, (name, _, _) in enumerate(fields)}
        if self.fields is not None:
            return structure, typed_fields(self.fields, self.defaults)[1]
        return structure, [KINDS.get(content, "number") for _, _, content in fields]
