"""`CsvStream`: rows of cells that are read from front to back, out of pipes and programs too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _core
from .field_types import KINDS, typed_fields, types_by_name
from .native_dataset import Kind
from .native_stream import Fields, NativeStream
from .stream_sources import Sources


class CsvStream(NativeStream):
    """The rows of CSV, one after the other, from files, pipes and programs; samples as in `CsvDataset`.

    It is read ahead on a thread in Rust, by 16 MiB. Every rank and worker reads it all and owns every n-th sample;
    others are passed over without being decoded. It counts epochs, has a state, and can be shuffled, as `TarStream`
    says.
    The names of the columns, and the types that are not given, are found out from the first source; the others must
    have the same header. `continues` can't be used: a source that goes on has no header.

    Args:
        urls: a path, a list, or a pattern (`train-{0000..0146}.csv`); a shell command behind `pipe:` (where ranges such
            as `{000..146}` stand for a command each, and all other braces are the shell's); `"-"` for standard input;
            a descriptor's number; a file object. Several are read one after the other.
        fields: types of the columns that make up a sample, by name, as in `CsvDataset`; all columns by default.
        header: whether the first row of each source has the names. Otherwise columns are called "0", "1", ...
        delimiter: what separates cells, one ASCII character.
        defaults: by name, what an empty cell stands for.
        unpack: whether gzip and Zstandard are recognised by the first bytes, and unpacked on the way.
        on_error: "raise", or "skip": a sample that is damaged is left out, and keeps its ordinal; where nobody can tell
            where the next one begins, so is the rest of its source. `damages` says what. A program that fails, or a
            file that can't be read, is an error all the same.
        max_sample_bytes: the most bytes that a sample may have, 1 GiB; a larger one is an error.
        allow_pipe: whether `pipe:` may run a command; False for paths that come from others. The environment variable
            `SLUICEGATE_ALLOW_PIPE=0` turns it off everywhere.
        continues: whether a source that can be read once only, and is given anew on resuming, goes on behind the last
            sample that was delivered.
        shard: (rank, world_size) to be used instead of what `torch.distributed` says.

    Attributes:
        sources: the names of what is read; of a command with `pipe:` before it.
        damages: what was left out with `on_error="skip"`, one line for each place; the first 1,000 in this process.

    Raises:
        FileNotFoundError: there is no such file, or none that matches a pattern.
        ValueError: while reading: what is damaged, or no CSV (the text has source, byte and sample); several
            readers of what can be read once only.
        OSError: while reading: a source can't be read, or a program failed.

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
        if not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii():
            raise ValueError(f"delimiter: expected one ASCII character, but got {delimiter!r}")
        self.fields = None if fields is None else types_by_name(fields)
        self.header = header
        self.delimiter = delimiter
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
        return _core.Stream.csv(sources, options, typed, texts, self.header, ord(self.delimiter))

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        structure = {name: number for number, (name, _, _) in enumerate(fields)}
        if self.fields is not None:
            return structure, typed_fields(self.fields, self.defaults)[1]
        return structure, [KINDS.get(content, "number") for _, _, content in fields]
