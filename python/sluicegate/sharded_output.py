"""`write_shards`: the samples of a dataset as files of bounded size, in parallel, whole or not at all, resumable.

What is said here once holds for every format that is written; a format is a `ShardFormat`.
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

from . import _core
from .dataloader import DataLoader
from .error_note import add_note
from .paths import Path, local
from .progress_line import ProgressLine
from .shard_manifest import ShardManifest

# Samples that are encoded at once: fewer are not worth the way to a worker.
_BATCH_SIZE = 64

# Seconds between two looks at what the threads have written.
_INTERVAL = 0.2

_T = TypeVar("_T")


class ShardFormat(ABC):
    """How samples become shards. It is pickled to worker processes, which encode.

    A block is what some samples that follow one another are encoded to, whatever that is. How a sample is encoded does
    not depend on the others of its block.
    """

    example: str
    """A name of shards, for errors."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What the bytes of shards depend on beside the samples: JSON's types."""

    def files(self, path: str) -> list[str]:
        """The files that the shard at `path` may consist of."""
        return [path]

    def learn(self, samples: list[Any]) -> Any:
        """What the first samples tell of all, of JSON's types; called before all else, but for `recall`."""
        return None

    def recall(self, form: Any) -> None:  # noqa: B027  (Most have nothing to recall.)
        """Takes over what `learn` said in another process."""

    @abstractmethod
    def encode(self, samples: list[Any], first: int) -> Any:
        """The block of `samples`, the first of which has index `first`."""

    @abstractmethod
    def digested(self, block: Any, place: int) -> Iterable[bytes]:
        """The sample at `place` of a block, as bytes that tell it from others."""

    @abstractmethod
    def open(self, shard_bytes: int, threads: int) -> _core.Shards:
        """What writes the shards."""

    @abstractmethod
    def append(self, shards: _core.Shards, block: Any, start: int, first: int) -> int:
        """Appends the samples of `block` from `start` on, whose own index is `first`; how many there was room for."""

    def follow(self, block: Any) -> None:  # noqa: B027  (Most samples do not depend on the one before.)
        """Takes note that the next sample to be appended comes after this block of one sample."""


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
    """Writes the samples of `dataset`, in its order.

    A shard appears under its name when it is finished and on the disk; until then it is called `*.unfinished`, and on
    an error no such file is left. A manifest next to the shards lists them, and every name before it is used. A job
    that was killed resumes from it: the first sample, and the last one of the listed shards, are asked for again and
    compared, listed shards are kept, and all others of the job are made again or removed. When this returns, a glob
    finds this job's shards and no others.

    Returns:
        The paths of the shards.

    Raises:
        ValueError: the pattern has no place for a number; or what was begun there was begun with other arguments or of
            other samples.
        FileExistsError: a file is named like a shard, and no manifest says that this function has written it.
        RuntimeError: another process writes there.
    """
    pattern = local("pattern", pattern)
    if pattern.format(0) == pattern.format(1):
        raise ValueError(f"pattern: expected a place for the number, such as {form.example!r}, but got {pattern!r}")
    shard_bytes = operator.index(shard_bytes)
    if not 1 <= shard_bytes < 2**63:
        raise ValueError(f"shard_bytes should be from 1 to 2**63 - 1, but got {shard_bytes}")
    is_stream = isinstance(dataset, IterableDataset) or not (
        hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    )
    length = _length(dataset)
    arguments = {"shard_bytes": shard_bytes, "length": length, **form.arguments()}
    with ShardManifest(pattern, arguments, form.files) as manifest:
        manifest.load(resume)
        if manifest.first is not None:
            form.recall(manifest.form)
        source = _Stream(dataset, form) if is_stream else _Indexed(dataset, form, num_workers)
        try:
            _Job(manifest, form, source).run(shard_bytes, threads, length)
        except BaseException:
            manifest.discard()
            raise
    return manifest.paths()


def _length(dataset: Any) -> int | None:
    """Returns the number of samples; None for a stream that does not have it."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


class _Job:
    """One call."""

    def __init__(self, manifest: ShardManifest, form: ShardFormat, source: _Stream | _Indexed) -> None:
        self.manifest = manifest
        self.form = form
        self.source = source
        # By number, the digests of the last samples of shards that are not known to be whole.
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
            learnt = self.source.begin()
            if not learnt:
                manifest.finish()
                return
            manifest.form = form.learn(learnt)
            manifest.first = self._digest(form.encode(learnt[:1], 0), 0)
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
                # The reason comes first.
                add_note(error, str(left))
            # Shards that are finished by now need not be made again. Each one that failed is an error of its own.
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
        place = 0
        while place < count:
            place += self.form.append(shards, block, place, first + place)
            if place < count:
                # Full; or the very first one.
                self._end(shards, before if place == 0 else (block, place - 1))
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
        """Compares samples with what is known of them."""
        known = {}
        if self.manifest.first is not None:
            known[0] = self.manifest.first
        if start > 0:
            known[start - 1] = self.manifest.shards[-1]["last"]
        for index, block in self.source.one_by_one(sorted(known)):
            if block is None or self._digest(block, 0) != known[index]:
                raise ValueError(
                    f"sample {index} is not what it was when the shards of {self.manifest.path!r} were written: give "
                    "the same dataset, another pattern, or resume=False"
                )
            if index == start - 1:
                self.form.follow(block)
        # Only its end tells that a stream without a length has become longer.
        if self.manifest.is_whole and start > 0 and self.source.goes_on_at(start):
            raise ValueError(
                f"there are more samples than the {start:,} in the shards of {self.manifest.path!r}: give the same "
                "dataset, another pattern, or resume=False"
            )

    def _digest(self, block: Any, place: int) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for part in self.form.digested(block, place):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()


class _Stream:
    """What can only be read in its order."""

    def __init__(self, dataset: Any, form: ShardFormat) -> None:
        self.form = form
        self.iterator = iter(dataset)
        self.position = 0

    def begin(self) -> list[Any]:
        """The first samples, which come again in the first block."""
        first = list(itertools.islice(self.iterator, _BATCH_SIZE))
        self.iterator = itertools.chain(first, self.iterator)
        return first

    def one_by_one(self, indices: list[int]) -> Iterator[tuple[int, Any]]:
        """These samples, each a block; None where there are not so many."""
        for index in indices:
            sample = list(itertools.islice(self.iterator, index - self.position, index - self.position + 1))
            # It may be asked for again.
            self.iterator, self.position = itertools.chain(sample, self.iterator), index
            yield index, self.form.encode(sample, index) if sample else None

    def goes_on_at(self, index: int) -> bool:
        """Returns True if there is a sample of this index."""
        return bool(list(itertools.islice(self.iterator, index - self.position, index - self.position + 1)))

    def blocks(self, start: int) -> Iterator[tuple[int, Any]]:
        """The samples from `start` on, as blocks and the numbers of their samples."""
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
        """The first samples."""
        return self.encoding.samples(list(range(min(_BATCH_SIZE, len(self.encoding)))))

    def one_by_one(self, indices: list[int]) -> Iterator[tuple[int, Any]]:
        """These samples, each a block; None where there are not so many."""
        for index in indices:
            yield index, self.encoding.__getitems__([index])[0][1] if index < len(self.encoding) else None

    def goes_on_at(self, index: int) -> bool:
        """Returns True if there is a sample of this index."""
        return index < len(self.encoding)

    def blocks(self, start: int) -> Iterator[tuple[int, Any]]:
        """The samples from `start` on, as blocks and the numbers of their samples."""
        loader = DataLoader(
            self.encoding,
            batch_size=_BATCH_SIZE,
            sampler=range(start, len(self.encoding)),
            num_workers=self.num_workers,
            collate_fn=_only,
        )
        return iter(loader)


class _Encoding(Dataset[Any]):
    """The samples of a dataset, encoded where they are read."""

    def __init__(self, dataset: Any, form: ShardFormat) -> None:
        self.dataset = dataset
        self.form = form

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[tuple[int, Any]]:
        """One block, of indices that follow one another."""
        return [(len(indices), self.form.encode(self.samples(indices), indices[0]))]

    def samples(self, indices: list[int]) -> list[Any]:
        read_many = getattr(self.dataset, "__getitems__", None)
        if callable(read_many):
            return list(read_many(indices))
        return [self.dataset[index] for index in indices]


def _only(blocks: list[_T]) -> _T:
    return blocks[0]
