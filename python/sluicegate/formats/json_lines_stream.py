"""`JsonLinesStream`: JSON lines read sequentially, including from pipes and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import Kind
from sluicegate.stream.native import NativeStream
from sluicegate.stream.native_iterator import Fields
from sluicegate.stream.sources import Sources

from .field_types import typed_fields, types_by_name


class JsonLinesStream(NativeStream):
    r"""The lines of JSON Lines read sequentially from files, pipes and commands; samples as in `JsonLinesDataset`.

    It is read up to 16 MiB ahead on a thread, in Rust. Every rank and worker reads the whole stream and owns every n-th
    sample; it skips the others without decoding them. Epochs, state and shuffling work as described in `TarStream`.

    Args:
        urls: a path, a list, or a pattern (`x-{000..146}.jsonl`); a shell command after `pipe:` (number ranges such as
            `{000..146}` expand to one command each; all other braces are left to the shell); `"-"` for standard input;
            a file descriptor number; a file object. Several sources are read one after the other.
        fields: types by name, as in `JsonLinesDataset`; without them a sample is the parsed line.
        defaults: by name, the value of a field that is missing or null.
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
        ValueError: while reading: the data is damaged or not JSON (the message names source, byte and sample); several
            readers of a source that can be read only once.
        OSError: while reading: a source cannot be read, or a command failed.

    Examples:
        >>> list(JsonLinesStream("pipe:seq 3"))
        [1, 2, 3]
        >>> list(JsonLinesStream("pipe:echo '{\"a\": 1}'; echo '{\"a\": 2}'", {"a": int}, shard=(1, 2)))
        [{'a': 2}]
    """

    def __init__(
        self,
        urls: Sources,
        fields: Mapping[str, Any] | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        unpack: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        max_sample_bytes: int = 2**30,
        allow_pipe: bool = True,
        continues: bool = False,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self.fields = None if fields is None else types_by_name(fields)
        self.defaults = dict(defaults or {})
        if fields is None and defaults:
            raise ValueError("defaults: expected fields= too, but got fields=None; pass the types of fields")
        super().__init__(
            urls,
            unpack=unpack,
            on_error=on_error,
            max_sample_bytes=max_sample_bytes,
            allow_pipe=allow_pipe,
            continues=continues,
            shard=shard,
        )
        # Set the shape now, because `collate` may be called before reading starts, or in another process. Other formats
        # learn it only from the data.
        structure, kinds = self._shape_of([])
        self._shape = structure, tuple(kinds)

    def _make(self, sources: list[tuple[str, str, int | None]], options: tuple[bool, bool, int, bool]) -> _core.Stream:
        typed = None if self.fields is None else typed_fields(self.fields, self.defaults)[0]
        return _core.json_lines_stream(sources, options, typed)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        if self.fields is None:
            return 0, ["json"]
        kinds = typed_fields(self.fields, self.defaults)[1]
        return {name: number for number, name in enumerate(self.fields)}, kinds
