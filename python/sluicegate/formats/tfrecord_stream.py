"""`TFRecordStream`: TFRecords read sequentially, including from pipes and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sluicegate import _core
from sluicegate.native.dataset import Kind
from sluicegate.stream.native import NativeStream
from sluicegate.stream.native_iterator import Fields
from sluicegate.stream.sources import Sources

from .field_types import KINDS, typed_fields
from .tfrecord import checked_features


class TFRecordStream(NativeStream):
    """The samples of TFRecords read sequentially from files, pipes and commands; samples as in `TFRecordDataset`.

    It is read up to 16 MiB ahead on a thread, in Rust. Every rank and worker reads the whole stream and owns every n-th
    sample; it skips the others without decoding them. Epochs, state and shuffling work as described in `TarStream`.

    All length checksums are checked, and the data checksums of the samples that this reader owns.

    Args:
        urls: a path, a list, or a pattern (`x-{000..146}.tfrecord`); a shell command after `pipe:` (number ranges such
            as `{000..146}` expand to one command each; all other braces are left to the shell); `"-"` for standard
            input; a file descriptor number; a file object. Several sources are read one after the other.
        features: types by name, or "bytes", as in `TFRecordDataset`; without them they are inferred from the first 100
            samples.
        defaults: by name, the value of a feature that a sample lacks.
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
        ValueError: while reading: the data is damaged or not TFRecord (the message names source, byte and sample);
            several readers of a source that can be read only once.
        OSError: while reading: a source cannot be read, or a command failed.

    Examples:
        >>> import tempfile
        >>> path = f"{tempfile.mkdtemp()}/x.tfrecord"
        >>> with open(path, "wb") as file:
        ...     _ = file.write(bytes.fromhex("0300000000000000b099490e6f6e6501405508"))
        >>> list(TFRecordStream(f"pipe:gzip -c {path}", "bytes"))
        [b'one']
    """

    def __init__(
        self,
        urls: Sources,
        features: Mapping[str, Any] | str | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        unpack: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        max_sample_bytes: int = 2**30,
        allow_pipe: bool = True,
        continues: bool = False,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self.features = checked_features(features, defaults)
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
        typed = None
        if isinstance(self.features, dict):
            typed = typed_fields(self.features, self.defaults, numbers="tensor")[0]
        return _core.tfrecord_stream(sources, options, self.features == "bytes", typed)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        if self.features == "bytes":
            return 0, ["bytes"]
        structure = {name: number for number, (name, _, _) in enumerate(fields)}
        if isinstance(self.features, dict):
            return structure, typed_fields(self.features, self.defaults, numbers="tensor")[1]
        return structure, [KINDS.get(content, "tensor") for _, _, content in fields]
