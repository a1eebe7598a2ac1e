"""`TarStream`: tar archives read sequentially, including from pipes and commands."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sluicegate import _core
from sluicegate.image.named_fields import image_field
from sluicegate.native.dataset import Kind, Lists, checked_lists
from sluicegate.stream.images import EncodedSample, moving_samples
from sluicegate.stream.native import NativeStream
from sluicegate.stream.native_iterator import Fields
from sluicegate.stream.sources import Sources

from .tar import TarField, checked_fields, checked_on_missing, fields_of_core, kinds_of


class TarStream(NativeStream):
    """The samples in tar archives, read sequentially: WebDataset shards from any source of bytes.

    Samples are as in `TarDataset`, with one difference: the files of a sample must be adjacent, as in WebDataset. Gzip
    and Zstandard are decompressed on the fly; no file is written.

    **Who reads what.** R ranks with W workers each together read every sample once: sample k goes to rank k % R, and
    there to worker (k // R) % W. Under a `sluicegate.DataLoader` with a seed, the workers of a rank instead take turns,
    one batch of the rank's samples each. Batches are then the same for any number of workers, unless samples are left
    out by `on_error`, or there is a `ShuffleBuffer`, because each worker has its own. No worker is idle when there are
    fewer archives than workers. A `sluicegate.DataLoader` reads with threads, and everything once for all workers of a
    rank, unless `explain()` names a reason for worker processes. These, and ranks, each open everything and skip the
    samples they do not own by reading only their headers. In a plain file their contents are not read, but the output
    of a command, a pipe or a compressed file is read in full by each. Within `shard_iterable` the stream is read whole,
    and `shard_iterable` takes the share. Sources that can be read only once (standard input, a descriptor, a file
    object, a FIFO) allow one reader; several are an error.

    **Reading ahead.** A thread reads and decodes up to 16 MiB (or one sample) ahead, in Rust and without the GIL. With
    torch's default collate, `sluicegate.DataLoader` has batches made in Rust too. When the iterator is no longer
    referenced, the thread ends, and its commands are killed and waited for.

    **Images** are decoded and transformed when their sample is delivered: after a `ShuffleBuffer`, which holds encoded
    files, and only for the share that `shard_iterable` selects. If all get the same size, those of a batch are made in
    one call without the GIL. Random values are drawn from torch's generator, in the order of the samples. If the loader
    has a seed, each sample has its own generators (`sample_rng`, and in worker processes the global ones), derived from
    the seed, the epoch and its ordinal in the stream: a sample is then the same for any number of ranks and workers,
    shuffled or not.

    **Resuming.** `state_dict` has the ordinal and the position of the next sample. A plain file is entered at that
    position. For anything else the current archive is read from its start, and samples that were delivered are skipped
    without decoding. Earlier archives are not opened, except for the first one that has a sample, and those before it,
    if fields have to be inferred. Sources that can be read only once cannot be resumed, unless `continues` says that
    they continue where they were. `ShuffleBuffer(stream, ...)` shuffles. A loader's state may be loaded with a
    different number of workers: each remaining sample comes once. With a seed and without a `ShuffleBuffer` the batches
    are those of the uninterrupted run; otherwise the samples come in the order in which these workers would have
    delivered them, had they read from the start.

    **Commands.** The command after `pipe:` is run by `/bin/sh -c`, in its own process group and without input. It can
    do whatever you can, so do not build commands from untrusted names. No other string is ever executed. If a command
    fails, the error shows its exit status and last lines of stderr. The shell reports only the status of the last
    command of a pipeline; `pipe:bash -o pipefail -c '...'` covers all of them.

    Args:
        urls: a path, a list, or a pattern (`train-{0000..0146}.tar`); a shell command after `pipe:` (number ranges such
            as `{000..146}` expand to one command each; all other braces are left to the shell); `"-"` for standard
            input; a file descriptor number; a file object. Several sources are read one after the other.
        fields: the type of each field, by extension: "bytes", "str", "json", "npy", `["npy"]`, `int`, `float`, "image"
            or an `ImageField` (without a cache); as in `TarDataset`. Default: all fields of the first sample, as bytes.
            Invalid UTF-8 or JSON is an error, even with `on_error="skip"`.
        on_missing: what to do with a sample that lacks a field: "error", "skip" (it is not counted), or "none".
        lists: what batches of `["npy"]` are: "ragged" (`{"values", "offsets"}`), or `("padded", fill)` (`{"values",
            "lengths"}`).
        concatenated: True to continue after the blocks of zeros that end an archive: for `cat a.tar b.tar`.
        unpack: True to detect gzip and Zstandard by their first bytes and decompress on the fly.
        on_error: "raise", or "skip": a sample that is damaged, or has a damaged image, is left out, and the samples
            after it keep their ordinals; if the start of the next sample cannot be found, the rest of its source is
            left out too. `damages` lists what was left out. A command that fails, or a file that cannot be read, is
            still an error.
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
        ValueError: a field with a cache. While reading: the data is damaged or not a tar archive (the message names
            source, byte and sample; for an image source, sample, member and what its decoder reported); several readers
            of a source that can be read only once.
        OSError: while reading: a source cannot be read, or a command failed.

    Examples:
        >>> import io, tarfile, tempfile
        >>> path = f"{tempfile.mkdtemp()}/shard-00.tar"
        >>> with tarfile.open(path, "w") as shard:
        ...     for name, text in (("1.txt", b"a dog"), ("1.cls", b"3"), ("2.txt", b"a cat"), ("2.cls", b"5")):
        ...         member = tarfile.TarInfo(name)
        ...         member.size = len(text)
        ...         shard.addfile(member, io.BytesIO(text))
        >>> stream = TarStream(f"pipe:gzip -c {path}", fields={"txt": "str", "cls": int})
        >>> [(sample["__key__"], sample["txt"], sample["cls"]) for sample in stream]
        [('1', 'a dog', 3), ('2', 'a cat', 5)]
    """

    def __init__(
        self,
        urls: Sources,
        fields: Mapping[str, TarField] | None = None,
        *,
        on_missing: Literal["error", "skip", "none"] = "error",
        lists: Lists = "ragged",
        concatenated: bool = False,
        unpack: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        max_sample_bytes: int = 2**30,
        allow_pipe: bool = True,
        continues: bool = False,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self.fields = checked_fields(fields)
        self.on_missing = checked_on_missing(on_missing)
        self.lists = checked_lists(lists)
        self.concatenated = bool(concatenated)
        super().__init__(
            urls,
            unpack=unpack,
            on_error=on_error,
            max_sample_bytes=max_sample_bytes,
            allow_pipe=allow_pipe,
            continues=continues,
            shard=shard,
        )
        images = {name: image_field(field) for name, field in (self.fields or {}).items()}
        self._images = {name: image for name, image in images.items() if image is not None}
        # Report boxes and masks that are not fields now, not in a worker.
        moving_samples(["__key__", "__url__", *(self.fields or {})], self._images)
        for name, image in self._images.items():
            if image.cache is not None:
                raise ValueError(
                    f"fields[{name!r}]: a stream has no indices for a cache of images, but got cache={image.cache!r}; "
                    "leave cache= out, or use TarDataset"
                )

    def _make(self, sources: list[tuple[str, str, int | None]], options: tuple[bool, bool, int, bool]) -> _core.Stream:
        return _core.tar_stream(sources, options, fields_of_core(self.fields), self.on_missing, self.concatenated)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        names = [name for name, _, _ in fields]
        # Fields that were not named are bytes.
        named: dict[str, TarField] = dict.fromkeys(names[2:], "bytes") if self.fields is None else self.fields
        return {name: place for place, name in enumerate(names)}, kinds_of(
            named, self.on_missing, self.lists, [dtype for _, dtype, _ in fields]
        )

    @property
    def may_lack_fields(self) -> bool:
        """True if a field of a sample may be None."""
        return self.on_missing == "none"

    def origin(self, encoded: EncodedSample, name: str) -> str:
        """Return archive, sample and member, for error messages."""
        # Names that are not UTF-8 contain surrogates, which cannot be printed.
        key, archive = (os.fsencode(encoded.sample[part]).decode(errors="replace") for part in ("__key__", "__url__"))
        return f"{archive}: sample {encoded.ordinal}: member `{key}.{name}`"
