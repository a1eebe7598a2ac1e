"""`RawStream`: samples of one size that are read from front to back, out of pipes and programs too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from . import _core
from .native_dataset import Kind
from .native_stream import Fields, NativeStream
from .raw import checked_layout, raw_layout
from .stream_sources import Sources


class RawStream(NativeStream):
    """Samples of one size, one after the other, from files, pipes and programs; as `RawDataset` has them.

    It is read ahead on a thread in Rust, by 16 MiB. Every rank and worker reads it all and owns every n-th sample;
    others are passed over without being decoded. It counts epochs, has a state, and can be shuffled, as `TarStream`
    says.

    Args:
        urls: a path, a list, or a pattern (`train-{0000..0146}.bin`); a shell command behind `pipe:` (where ranges such
            as `{000..146}` stand for a command each, and all other braces are the shell's); `"-"` for standard input;
            a descriptor's number; a file object. Several are read one after the other.
        dtype: NumPy's data type of a sample, or its name; or torch's.
        shape: the shape of a sample of a plain data type.
        header_bytes: so many bytes at the start of each source are skipped.
        unpack: whether gzip and Zstandard are recognised by the first bytes, and unpacked on the way. Not by default:
            numbers may begin with any bytes.
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
        ValueError: while reading: what is damaged, or no whole sample (the text has source, byte and sample); several
            readers of what can be read once only.
        OSError: while reading: a source can't be read, or a program failed.

    Examples:
        >>> list(RawStream("pipe:printf abcd", dtype="u1", shape=2))
        [tensor([97, 98], dtype=torch.uint8), tensor([ 99, 100], dtype=torch.uint8)]
    """

    def __init__(
        self,
        urls: Sources,
        *,
        dtype: Any,
        shape: int | tuple[int, ...] | list[int] = (),
        header_bytes: int = 0,
        unpack: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        max_sample_bytes: int = 2**30,
        allow_pipe: bool = True,
        continues: bool = False,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self.dtype, self.shape, self.header_bytes = checked_layout(dtype, shape, header_bytes)
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
        layout = raw_layout(self.dtype, self.shape)
        return _core.Stream.raw(sources, options, self.header_bytes, layout.sample_bytes, layout.fields)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        return raw_layout(self.dtype, self.shape).structure, ["tensor"] * len(fields)
