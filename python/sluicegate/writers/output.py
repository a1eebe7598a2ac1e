"""`write_shards`: writes the samples of a dataset as files of bounded size, in parallel, atomic and resumable.

What is described here applies to every output format; a format is a `ShardFormat`.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from torch.utils.data import Dataset, IterableDataset

from sluicegate import _core
from sluicegate.error_note import add_note
from sluicegate.known_length import known_length
from sluicegate.loader.dataloader import DataLoader
from sluicegate.paths import Path, local
from sluicegate.progress_line import ProgressLine

from .manifest import ShardManifest

# Samples that are encoded at once: fewer are not worth the trip to a worker.
_BATCH_SIZE = 64

# Seconds between two checks of the threads' results.
_INTERVAL = 0.2

_T = TypeVar("_T")


class ShardFormat(ABC):
    """How samples become shards. It is pickled to worker processes, which encode.

    A block is the encoded form, of any type, of some consecutive samples. The encoding of a sample does not depend on
    the others in its block.
    """

    example: str
    """An example of a pattern, for errors."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the facts that determine the bytes of shards in addition to the samples, in JSON types."""

    def files(self, path: str) -> list[str]:
        """Return the possible files of the shard at `path`."""
        return [path]

    def infer_schema(self, samples: list[Any]) -> Any:
        """Return facts that the first samples determine for all, as JSON types; called first, or `restore_schema`."""
        return None

    def restore_schema(self, form: Any) -> None:  # noqa: B027  (Most have nothing to restore.)
        """Take over the return value of `infer_schema` from another process."""

    @abstractmethod
    def encode(self, samples: list[Any], first: int) -> Any:
        """Return the block of `samples`, the first of which has index `first`."""

    @abstractmethod
    def digested(self, block: Any, position: int) -> Iterable[bytes]:
        """Return the sample at `position` of a block as bytes that distinguish it from other samples."""

    @abstractmethod
    def open(self, shard_bytes: int, threads: int) -> _core.Shards:
        """Return the writer of the shards."""

    @abstractmethod
    def append(self, shards: _core.Shards, block: Any, start: int, first: int) -> int:
        """Append the samples of `block` from `start` on, the first with index `first`; return how many fit."""

    def follow(self, block: Any) -> None:  # noqa: B027  (Most samples do not depend on the one before.)
        """Record that the next sample to be appended comes after this block of one sample."""


def write_shards(
    dataset: Any,
    pattern: Path,
    form: ShardFormat,
    *,
    shard_bytes: int,
    num_workers: int,
    threads: int,
    resume: bool,
) -> list[str]:
    """Write the samples of `dataset`, in order.

    A shard gets its name when it is finished and on disk. Until then it is called `*.unfinished`, and after an error no
    such file is left. A manifest next to the shards lists them, and records every name before it is used.

    A job that was killed resumes from the manifest: the first sample, and the last one of the listed shards, are read
    again and compared. Listed shards are kept; all others of the job are written again or removed. When this returns, a
    glob finds this job's shards and no others.

    Returns:
        The paths of the shards.

    Raises:
        ValueError: the pattern has no placeholder for a number, or the existing output was begun with other arguments
            or other samples.
        FileExistsError: a file has the name of a shard, but no manifest shows that this function wrote it.
        RuntimeError: another process is writing there.
        FileNotFoundError: the folder of the shards does not exist.
    """
    pattern = local("pattern", pattern, is_written=True)
    if pattern.format(0) == pattern.format(1):
        raise ValueError(
            f"pattern: expected a placeholder for the shard number, as in {form.example!r}, but got {pattern!r}"
        )
    folder = os.path.dirname(pattern.format(0))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"pattern: the folder of {pattern!r} does not exist; create {folder!r} first")
    shard_bytes = operator.index(shard_bytes)
    if not 1 <= shard_bytes < 2**63:
        raise ValueError(f"shard_bytes should be from 1 to 2**63 - 1, but got {shard_bytes}")
    is_stream = isinstance(dataset, IterableDataset) or not (
        hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    )
    length = known_length(dataset)
    arguments = {"shard_bytes": shard_bytes, "length": length, **form.arguments()}
    with ShardManifest(pattern, arguments, form.files) as manifest:
        manifest.load(resume)
        if manifest.first is not None:
            form.restore_schema(manifest.form)
        source = _Stream(dataset, form) if is_stream else _Indexed(dataset, form, num_workers)
        try:
            _Job(manifest, form, source).run(shard_bytes, threads, length)
        except BaseException:
            manifest.discard()
            raise
    return manifest.paths()


class _Job:
    """One call of `write_shards`."""

    def __init__(self, manifest: ShardManifest, form: ShardFormat, source: _Stream | _Indexed) -> None:
        self.manifest = manifest
        self.form = form
        self.source = source
        # By number, the digest of the last sample of each shard that is not yet known to be complete.
        self.lasts: dict[int, str] = {}
        self.begun = 0

    def run(self, shard_bytes: int, threads: int, length: int | None) -> None:
        manifest, form = self.manifest, self.form
        self.begun = first_shard = len(manifest.shards)
        start = manifest.samples
        self._compare(start)
        if manifest.is_whole and manifest.first is not None:
            return
        if manifest.first is None:
            learned = self.source.begin()
            if not learned:
                manifest.finish()
                return
            manifest.form = form.infer_schema(learned)
            manifest.first = self._digest(form.encode(learned[:1], 0), 0)
            manifest.save()
        shards = form.open(shard_bytes, threads)
        try:
            with ProgressLine(f"writing {os.path.basename(manifest.pattern)}", length) as line:
                line.advance(start)
                looked, block, last = time.monotonic(), None, 0
                for count, next_block in self.source.blocks(start):
                    self._append(shards, next_block, count, start, (block, last))
                    block, last, start = next_block, count - 1, start + count
                    line.advance(count)
                    if time.monotonic() - looked > _INTERVAL:
                        looked = time.monotonic()
                        self._note(shards, first_shard, wait=False)
                if block is not None:
                    self._end(shards, (block, last))
                self._note(shards, first_shard, wait=True)
        except BaseException as error:
            try:
                shards.close()
            except OSError as left:
                # the original error takes precedence
                add_note(error, str(left))
            # Shards that are finished by now need not be written again. Each one that failed raises its own error.
            while not self._noted(shards, first_shard):
                pass
            raise
        shards.close()
        manifest.finish()

    def _noted(self, shards: _core.Shards, first_shard: int) -> bool:
        try:
            self._note(shards, first_shard, wait=False)
        except Exception:
            return False
        return True

    def _append(self, shards: _core.Shards, block: Any, count: int, first: int, before: tuple[Any, int]) -> None:
        position = 0
        while position < count:
            position += self.form.append(shards, block, position, first + position)
            if position < count:
                # The shard is full, or there is none yet.
                self._end(shards, before if position == 0 else (block, position - 1))
                self.manifest.reserve(self.begun)
                shards.begin(self.manifest.pattern.format(self.begun))
                self.begun += 1

    def _end(self, shards: _core.Shards, last: tuple[Any, int]) -> None:
        if last[0] is not None:
            self.lasts[self.begun - 1] = self._digest(*last)
        shards.end()

    def _note(self, shards: _core.Shards, first_shard: int, *, wait: bool) -> None:
        news = [
            self.manifest.add(
                first_shard + number, samples=samples, size=size, last=self.lasts.pop(first_shard + number)
            )
            for number, samples, size in shards.written(wait)
        ]
        if any(news):
            self.manifest.save()

    def _compare(self, start: int) -> None:
        """Compare samples with their digests in the manifest."""
        known = {}
        if self.manifest.first is not None:
            known[0] = self.manifest.first
        if start > 0:
            known[start - 1] = self.manifest.shards[-1]["last"]
        for index, block in self.source.one_by_one(sorted(known)):
            if block is None or self._digest(block, 0) != known[index]:
                raise ValueError(
                    f"dataset: sample {index} differs from the one written to the shards of {self.manifest.path!r}; "
                    "pass the same dataset, a different pattern, or resume=False"
                )
            if index == start - 1:
                self.form.follow(block)
        # Only reading past the end shows that a stream without a length has become longer.
        if self.manifest.is_whole and start > 0 and self.source.has_sample(start):
            raise ValueError(
                f"dataset: expected the {start:,} samples in the shards of {self.manifest.path!r}, but got more; pass "
                "the same dataset, a different pattern, or resume=False"
            )

    def _digest(self, block: Any, position: int) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for part in self.form.digested(block, position):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()


class _Stream:
    """A dataset that can only be read in order."""

    def __init__(self, dataset: Any, form: ShardFormat) -> None:
        self.form = form
        self.iterator = iter(dataset)
        self.position = 0

    def begin(self) -> list[Any]:
        """Return the first samples, which come again in the first block."""
        first = list(itertools.islice(self.iterator, _BATCH_SIZE))
        self.iterator = itertools.chain(first, self.iterator)
        return first

    def one_by_one(self, indices: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield these samples, each as a block; None if the stream is shorter."""
        for index in indices:
            sample = list(itertools.islice(self.iterator, index - self.position, index - self.position + 1))
            # The sample may be read again.
            self.iterator, self.position = itertools.chain(sample, self.iterator), index
            yield index, self.form.encode(sample, index) if sample else None

    def has_sample(self, index: int) -> bool:
        """Return True if there is a sample with this index."""
        return bool(list(itertools.islice(self.iterator, index - self.position, index - self.position + 1)))

    def blocks(self, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the samples from `start` on, as blocks with the number of samples in each."""
        samples = list(itertools.islice(self.iterator, start - self.position, start - self.position + _BATCH_SIZE))
        while samples:
            yield len(samples), self.form.encode(samples, start)
            start += len(samples)
            samples = list(itertools.islice(self.iterator, _BATCH_SIZE))


class _Indexed:
    """A map-style dataset."""

    def __init__(self, dataset: Any, form: ShardFormat, num_workers: int) -> None:
        self.encoding = _Encoding(dataset, form)
        self.num_workers = num_workers

    def begin(self) -> list[Any]:
        """Return the first samples."""
        return self.encoding.samples(list(range(min(_BATCH_SIZE, len(self.encoding)))))

    def one_by_one(self, indices: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield these samples, each as a block; None if the dataset is shorter."""
        for index in indices:
            yield index, self.encoding.__getitems__([index])[0][1] if index < len(self.encoding) else None

    def has_sample(self, index: int) -> bool:
        """Return True if there is a sample with this index."""
        return index < len(self.encoding)

    def blocks(self, start: int) -> Iterator[tuple[int, Any]]:
        """Return an iterator over the samples from `start` on, as blocks with the number of samples in each."""
        loader = DataLoader(
            self.encoding,
            batch_size=_BATCH_SIZE,
            sampler=range(start, len(self.encoding)),
            num_workers=self.num_workers,
            collate_fn=_only,
        )
        return iter(loader)


class _Encoding(Dataset[Any]):
    """The samples of a dataset, encoded in the process that reads them."""

    def __init__(self, dataset: Any, form: ShardFormat) -> None:
        self.dataset = dataset
        self.form = form

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[tuple[int, Any]]:
        """Return one block, for consecutive indices."""
        return [(len(indices), self.form.encode(self.samples(indices), indices[0]))]

    def samples(self, indices: list[int]) -> list[Any]:
        read_many = getattr(self.dataset, "__getitems__", None)
        if callable(read_many):
            return list(read_many(indices))
        return [self.dataset[index] for index in indices]


def _only(blocks: list[_T]) -> _T:
    return blocks[0]
