"""`TFRecordStream`: TFRecords that are read from front to back, out of pipes and programs too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _core
from .field_types import KINDS, typed_fields, types_by_name
from .native_dataset import Kind
from .native_stream import Fields, NativeStream
from .stream_sources import Sources


class TFRecordStream(NativeStream):
    """The samples of TFRecords, one after the other, from files, pipes and programs; as `TFRecordDataset` has them.

    It is read ahead on a thread in Rust, by 16 MiB. Every rank and worker reads it all and owns every n-th sample;
    others are passed over without being decoded. It counts epochs, has a state, and can be shuffled, as `TarStream`
    says.
    All checksums of lengths are checked, and those of the data of one's own samples.

    Args:
        urls: a path, a list, or a pattern (`x-{000..146}.tfrecord`); a shell command behind `pipe:` (where ranges such
            as `{000..146}` stand for a command each, and all other braces are the shell's); `"-"` for standard input;
            a descriptor's number; a file object. Several are read one after the other.
        features: types by name, or "bytes", as in `TFRecordDataset`; without them the first 100 samples say which there
            are.
        defaults: by name, what stands for a feature that a sample does not have.
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
        ValueError: while reading: what is damaged, or no TFRecord (the text has source, byte and sample); several
            readers of what can be read once only.
        OSError: while reading: a source can't be read, or a program failed.

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
        if isinstance(features, str) and features != "bytes":
            raise ValueError(f"features: types by name, or 'bytes', but got {features!r}")
        if not isinstance(features, Mapping) and defaults:
            raise ValueError("defaults: they are for features, but no features are named")
        self.features = features if features is None or isinstance(features, str) else types_by_name(features)
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
        return _core.Stream.tfrecord(sources, options, self.features == "bytes", typed)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        if self.features == "bytes":
            return 0, ["bytes"]
        structure = {name: number for number, (name, _, _) in enumerate(fields)}
        if isinstance(self.features, dict):
            return structure, typed_fields(self.features, self.defaults, numbers="tensor")[1]
        return structure, [KINDS.get(content, "tensor") for _, _, content in fields]
