"""`RawStream`: fixed-size samples read sequentially, including from pipes and commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import Kind
from sluicegate.stream.native import NativeStream
from sluicegate.stream.native_iterator import Fields
from sluicegate.stream.sources import Sources

from .raw import checked_layout, raw_layout


class RawStream(NativeStream):
    """Fixed-size samples read sequentially from files, pipes and commands; samples as in `RawDataset`.

    It is read up to 16 MiB ahead on a thread, in Rust. Every rank and worker reads the whole stream and owns every n-th
    sample; it skips the others without decoding them. Epochs, state and shuffling work as described in `TarStream`.

    Args:
        urls: a path, a list, or a pattern (`train-{0000..0146}.bin`); a shell command after `pipe:` (number ranges such
            as `{000..146}` expand to one command each; all other braces are left to the shell); `"-"` for standard
            input; a file descriptor number; a file object. Several sources are read one after the other.
        dtype: the NumPy data type of a sample, or its name; or a torch data type.
        shape: the shape of a sample with a plain data type.
        header_bytes: the number of bytes to skip at the start of each source.
        unpack: True to detect gzip and Zstandard by their first bytes and decompress on the fly. Default: False,
            because numbers may begin with any bytes.
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
        ValueError: while reading: the data is damaged or ends within a sample (the message names source, byte and
            sample); without `header_bytes`, a source begins like a file of a known format (`.npy`, an archive, ...);
            several readers of a source that can be read only once.
        OSError: while reading: a source cannot be read, or a command failed.

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
        return _core.raw_stream(sources, options, self.header_bytes, layout.sample_bytes, layout.fields)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        return raw_layout(self.dtype, self.shape).structure, ["tensor"] * len(fields)
