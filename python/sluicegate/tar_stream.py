"""`TarStream`: tar archives that are read from front to back, out of pipes and programs too."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _core
from .image_field import image_field
from .native_dataset import Kind, Lists, checked_lists
from .native_stream import Fields, NativeStream
from .stream_images import EncodedSample, moving_samples
from .stream_sources import Sources
from .tar import TarField, checked_fields, fields_of_core, kinds_of


class TarStream(NativeStream):
    """The samples in tar archives, one after the other: WebDataset's shards from wherever bytes come.

    Samples are what they are in `TarDataset`, but for one difference: the files of a sample must lie together, as
    WebDataset has it too. Whatever is packed with gzip or Zstandard is unpacked on the way; no file is written.

    **Who reads what.** Together, R ranks with W workers each read every sample once: sample k goes to rank k % R, and
    there to worker (k // R) % W; under a `sluicegate.DataLoader` with a seed, each worker in turn takes a batch of what
    the rank has, and batches are the same for any number of workers, unless samples are left out by `on_error`, or
    there is a `ShuffleBuffer`, of which each worker has its own. So none of them is idle when there are fewer archives
    than workers. The price: each of them opens all of it and passes over what is not its own, by the headers alone: in
    a plain file without reading the contents, while bytes that come out of a program, a pipe or a packed file are read
    by each. Within `shard_iterable` that takes its share, and this is read whole. What can be read once only (standard
    input, a descriptor, a file object, a FIFO) is for one reader; several are an error.

    **Reading ahead.** A thread reads and decodes, in Rust and without Python's lock, 16 MiB (or one sample) ahead.
    `sluicegate.DataLoader` with torch's default collate has batches made in Rust too. It ends, and its programs are
    killed and waited for, when the iterator is no longer referenced.

    **Images** are decoded and transformed when their sample is given: behind a `ShuffleBuffer`, which holds files, and
    only those of the share that `shard_iterable` gives. Where all get one size, those of a batch are made in one call
    without Python's lock. What is random is drawn from torch's generator, in the order in which samples come. With a
    seed of the loader each sample has generators of its own (`sample_rng`, and in processes the global ones), which
    follow from the seed, the epoch and its ordinal in the stream: it is the same for any number of ranks and workers,
    shuffled or not.

    **Resuming.** `state_dict` has the ordinal of the next sample, and where it is. A plain file is entered there; of
    anything else the archive in question is read from its beginning, and what was delivered is passed over, undecoded.
    Archives before it are not opened, but for the first one where fields have to be found out. What can be read once
    only can't be resumed, unless `continues` says that it goes on where it was. `ShuffleBuffer(stream, ...)` shuffles.
    A loader's state may be taken up with another number of workers: each sample that is left comes once. With a seed
    and without a `ShuffleBuffer` the batches are those of the run that was not interrupted; else the samples come as
    these workers would have given them, had they read from the start.

    **Programs.** What is behind `pipe:` is run by `/bin/sh -c`, in a process group of its own and without an input: it
    may do whatever you may, so don't put names together to a command that you have from strangers. No other string is
    ever run. One that fails is an error with its status and its last lines. Of a pipeline the shell tells the status
    of the last one alone; `pipe:bash -o pipefail -c '...'` tells of all.

    Args:
        urls: a path, a list, or a pattern (`train-{0000..0146}.tar`); a shell command behind `pipe:` (where ranges such
            as `{000..146}` stand for a command each, and all other braces are the shell's); `"-"` for standard input;
            a descriptor's number; a file object. Several are read one after the other.
        fields: by extension, what the file is: "bytes", "str", "json", "npy", `["npy"]`, `int`, `float`, "image" or an
            `ImageField` (without a cache); as in `TarDataset`. The default is all that the first sample has, as bytes.
            What is no UTF-8 or no JSON is an error, with `on_error="skip"` too.
        on_missing: what becomes of a sample that lacks a field: "error", "skip" (it is not counted), or "none".
        lists: what batches of `["npy"]` are: "ragged" (`{"values", "offsets"}`), or `("padded", fill)` (`{"values",
            "lengths"}`).
        concatenated: whether to go on behind the blocks of zeros that end an archive: for `cat a.tar b.tar`.
        unpack: whether gzip and Zstandard are recognised by the first bytes, and unpacked on the way.
        on_error: "raise", or "skip": a sample that is damaged, or has an image that is, is left out, and keeps its
            ordinal; where nobody can tell where the next one begins, so is the rest of its source. `damages` says what.
            A program that fails, or a file that can't be read, is an error all the same.
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
        ValueError: a field with a cache; while reading: what is damaged, or no archive (the text has source, byte and
            sample; of an image source, sample, member and what its decoder said); several readers of what can be read
            once only.
        OSError: while reading: a source can't be read, or a program failed.

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
        if on_missing not in ("error", "skip", "none"):
            raise ValueError(f"on_missing: expected 'error', 'skip' or 'none', but got {on_missing!r}")
        self.on_missing = on_missing
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
        # Boxes and masks that are no fields are told now.
        moving_samples(["__key__", "__url__", *(self.fields or {})], self._images)
        for name, image in self._images.items():
            if image.cache is not None:
                raise ValueError(
                    f"fields[{name!r}]: a stream has no numbers by which images could be kept: leave cache= out, or "
                    "take TarDataset"
                )

    def _make(self, sources: list[tuple[str, str, int | None]], options: tuple[bool, bool, int, bool]) -> _core.Stream:
        return _core.Stream.tar(sources, options, fields_of_core(self.fields), self.on_missing, self.concatenated)

    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        names = [name for name, _, _ in fields]
        # Those that were not named are bytes.
        named: dict[str, TarField] = dict.fromkeys(names[2:], "bytes") if self.fields is None else self.fields
        return {name: place for place, name in enumerate(names)}, kinds_of(
            named, self.on_missing, self.lists, [dtype for _, dtype, _ in fields]
        )

    @property
    def may_lack_fields(self) -> bool:
        """Whether a field of a sample may be None."""
        return self.on_missing == "none"

    def origin(self, encoded: EncodedSample, name: str) -> str:
        """Archive, sample and member."""
        # Names that are no UTF-8 have what no terminal prints.
        key, archive = (os.fsencode(encoded.sample[part]).decode(errors="replace") for part in ("__key__", "__url__"))
        return f"{archive}: sample {encoded.ordinal}: member `{key}.{name}`"
