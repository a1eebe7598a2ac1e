"""`JsonLinesStream`: lines of JSON that are read from front to back, out of pipes and programs too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _core
from .field_types import typed_fields, types_by_name
from .native_dataset import Kind
from .native_stream import Fields, NativeStream
from .stream_sources import Sources


class JsonLinesStream(NativeStream):
    r"""The lines of JSON Lines, one after the other, from files, pipes and programs; samples as in `JsonLinesDataset`.

    It is read ahead on a thread in Rust, by 16 MiB. Every rank and worker reads it all and owns every n-th sample;
    others are passed over without being decoded. It counts epochs, has a state, and can be shuffled, as `TarStream`
    says.

    Args:
        urls: a path, a list, or a pattern (`x-{000..146}.jsonl`); a shell command behind `pipe:` (where ranges such
            as `{000..146}` stand for a command each, and all other braces are the shell's); `"-"` for standard input;
            a descriptor's number; a file object. Several are read one after the other.
        fields: types by name, as in `JsonLinesDataset`; without them a sample is what the line stands for.
        defaults: by name, what stands for a field that a line does not have, or has as null.
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
        ValueError: while reading: what is damaged, or no JSON (the text has source, byte and sample); several
            readers of what can be read once only.
        OSError: while reading: a source can't be read, or a program failed.

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
            raise ValueError("defaults: they are for fields, but no fields are given")
        super().__init__(
            urls,
            unpack=unpack,
            on_error=on_error,
            max_sample_bytes=max_sample_bytes,
            allow_pipe=allow_pipe,
            continues=continues,
            shard=shard,
        )
        # In other formats only what is read tells it. `collate` may be called before, or in another process.
        structure, kinds = self._shape_of([])
        self._shape = structure, tuple(kinds)

    def _make(self, sources: list[tuple[str, str, int | None]], options: tuple[bool, bool, int, bool]) -> _core.Stream:
        typed = None if self.fields is None else typed_fields(self.fields, self.defaults)[0]
        return _core.Stream.json_lines(sources, options, typed)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        if self.fields is None:
            return 0, ["json"]
        kinds = typed_fields(self.fields, self.defaults)[1]
        return {name: number for number, name in enumerate(self.fields)}, kinds
