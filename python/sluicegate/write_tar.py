"""`write_tar`: the samples of a dataset, as tar archives of bounded size."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from . import _core
from .dataloader import DataLoader
from .paths import Path
from .progress_line import ProgressLine

# Samples that are asked for at once: a worker's errand must be worth its way.
_ERRAND = 64

# Seconds between two looks at what the threads have written.
_INTERVAL = 0.2

_VERSION = 1


def write_tar(
    dataset: Any,
    pattern: Path,
    *,
    shard_bytes: int = 1 << 30,
    num_workers: int = 0,
    threads: int = 2,
    resume: bool = True,
) -> list[str]:
    """Writes the samples of `dataset`, in its order, as the tar archives that `TarDataset` and WebDataset read.

    A sample is a dict: `__key__` is its key (its index with nine digits, where it has none), every other name that does
    not begin with `__` an extension. `bytes` are written as they are, `str` as UTF-8; of an extension `json`, or one
    that ends in `.json`, whatever `json.dumps` takes; of `npy` what `numpy.save` takes without pickling, tensors too;
    `int`, `float` and `bool` (as 0 or 1), NumPy's scalars and tensors of one element as decimal text. None is left out.

    An archive appears under its name when it is whole and on the disk; until then it is called `*.unfinished`. One is
    filled while threads write what was filled before. The bytes depend on the samples alone: times and owners are zero.

    What was killed goes on where it was when it is called again with the same arguments: archives that are whole are
    kept, the rest is made. That is told by a small JSON file beside the archives, which stays there; with it, and the
    archives as they were written, nothing is done a second time. The same samples must then come in the same order.

    Args:
        dataset: map-style or iterable.
        pattern: the path of the archives, with a place for their number as of `str.format`: `"out-{:05d}.tar"`.
        shard_bytes: an archive has at most so many bytes, or one sample.
        num_workers: worker processes that read the samples, as of `DataLoader`; of an iterable dataset none.
        threads: the number of threads that write.
        resume: whether to go on with what is there. With False all archives are written anew.

    Returns:
        The paths of the archives.

    Raises:
        ValueError: the pattern has no place for a number; two samples one after the other have one key; or what was
            begun there was begun with other arguments.
        TypeError: a sample is no dict, or a value is not one of those above.
        FileExistsError: the first archive is there, and nothing says that this function has made it.

    Example:
        >>> import tempfile
        >>> from sluicegate import TarDataset
        >>> samples = [{"__key__": f"cat{i}", "txt": "purr" * i, "cls": i} for i in range(5)]
        >>> paths = write_tar(samples, f"{tempfile.mkdtemp()}/cats-{{:03d}}.tar", shard_bytes=8192)
        >>> [os.path.basename(path) for path in paths]
        ['cats-000.tar', 'cats-001.tar']
        >>> TarDataset(paths, {"txt": "str", "cls": int})[3]["txt"]
        'purrpurrpurr'
    """
    pattern = os.path.abspath(os.fsdecode(pattern))
    if pattern.format(0) == pattern.format(1):
        raise ValueError(f"pattern: expected a place for the number, such as 'out-{{:05d}}.tar', but got {pattern!r}")
    length = None if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__") else len(dataset)
    manifest = _Manifest(pattern, {"version": _VERSION, "shard_bytes": int(shard_bytes), "length": length})
    manifest.load(resume)
    start = sum(shard["samples"] for shard in manifest.shards)
    if manifest.is_whole:
        return manifest.paths()
    shards = _core.TarShards(shard_bytes, threads)
    begun = first = len(manifest.shards)
    last_key, looked = None, time.monotonic()
    with ProgressLine(f"writing {os.path.basename(pattern)}", length or 0) as line:
        line.advance(start)
        for index, sample in enumerate(_samples(dataset, start, num_workers), start):
            key, members = _members(sample, index)
            if key == last_key:
                raise ValueError(f"sample {index}: its key {key!r} is that of the sample before it: they would be one")
            last_key = key
            if not shards.append(members):
                shards.begin(pattern.format(begun))
                begun += 1
                shards.append(members)
            line.advance(1)
            if time.monotonic() - looked > _INTERVAL:
                looked = time.monotonic()
                manifest.add(shards.written(False), first)
        shards.end()
        manifest.add(shards.written(True), first)
    manifest.finish()
    return manifest.paths()


class _Manifest:
    """Which archives are whole, in a file that is replaced as a whole."""

    def __init__(self, pattern: str, arguments: dict[str, Any]) -> None:
        self.pattern = pattern
        self.arguments = arguments
        folder, name = os.path.split(pattern)
        self.path = os.path.join(folder, re.sub(r"\{[^{}]*\}", "", name) + ".shards.json")
        self.shards: list[dict[str, Any]] = []
        self.is_whole = False
        self._waiting: dict[int, dict[str, Any]] = {}

    def load(self, resume: bool) -> None:
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            found = None
        if found is None or not resume:
            first = self.pattern.format(0)
            if resume and os.path.lexists(first):
                raise FileExistsError(f"{first!r} is there, but not {self.path!r}: remove it, or give resume=False")
            self.save()
            return
        if found.get("arguments") != self.arguments:
            raise ValueError(
                f"{self.path!r} says that these archives were begun with {found.get('arguments')}, not "
                f"{self.arguments}: give the same arguments, or resume=False"
            )
        for number, shard in enumerate(found["shards"]):
            path = self.pattern.format(number)
            if not os.path.isfile(path) or os.path.getsize(path) != shard["bytes"]:
                break
            self.shards.append(shard)
        self.is_whole = bool(found["whole"]) and len(self.shards) == len(found["shards"])

    def add(self, written: list[tuple[int, int, int]], first: int) -> None:
        """Notes what is whole; numbers count from archive `first`."""
        for number, samples, size in written:
            self._waiting[first + number] = {"samples": samples, "bytes": size}
        before = len(self.shards)
        # Without gaps: from the number of samples follows where to go on.
        while len(self.shards) in self._waiting:
            self.shards.append(self._waiting.pop(len(self.shards)))
        if len(self.shards) > before:
            self.save()

    def finish(self) -> None:
        self.is_whole = True
        self.save()

    def save(self) -> None:
        unfinished = f"{self.path}.unfinished"
        with open(unfinished, "w", encoding="utf-8") as file:
            json.dump({"arguments": self.arguments, "shards": self.shards, "whole": self.is_whole}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self.path)

    def paths(self) -> list[str]:
        return [self.pattern.format(number) for number in range(len(self.shards))]


def _samples(dataset: Any, start: int, num_workers: int) -> Iterator[Any]:
    """The samples from `start` on."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        return itertools.islice(iter(dataset), start, None)
    loader = DataLoader(
        dataset,
        batch_size=_ERRAND,
        sampler=range(start, len(dataset)),
        num_workers=num_workers,
        collate_fn=_as_they_are,
    )
    return itertools.chain.from_iterable(loader)


def _as_they_are(samples: list[Any]) -> list[Any]:
    return samples


def _members(sample: Any, index: int) -> tuple[str, list[tuple[bytes, bytes]]]:
    """Key, and names and contents, of sample `index`."""
    if not isinstance(sample, Mapping):
        raise TypeError(f"sample {index}: expected a dict of its parts by extension, but got {type(sample).__name__}")
    key = sample.get("__key__", f"{index:09d}")
    if not isinstance(key, str) or not key or "." in key.rsplit("/", 1)[-1] or key.endswith("/"):
        raise ValueError(f"sample {index}: a key is a text without dots in its last part, but got {key!r}")
    members = []
    for extension, value in sample.items():
        if not isinstance(extension, str) or "/" in extension:
            raise ValueError(f"sample {index}: an extension is a text without slashes, but got {extension!r}")
        if extension.startswith("__") or value is None:
            continue
        try:
            contents = _contents(extension, value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"sample {index}, {extension!r}: {error}") from error
        members.append((os.fsencode(f"{key}.{extension}"), contents))
    if not members:
        raise ValueError(f"sample {index}: it has no part that could be written")
    return key, members


def _contents(extension: str, value: Any) -> bytes:
    kind = extension.rsplit(".", 1)[-1].lower()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if kind == "json":
        return json.dumps(value, ensure_ascii=False).encode()
    if isinstance(value, str):
        return value.encode()
    if kind == "npy":
        file = io.BytesIO()
        array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        np.save(file, array, allow_pickle=False)
        return file.getvalue()
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)) and np.prod(value.shape) == 1:
        value = value.item()
    if isinstance(value, (bool, int)):
        return str(int(value)).encode()
    if isinstance(value, float):
        return repr(value).encode()
    raise TypeError(f"a {type(value).__name__} is not written as {extension!r}: give bytes, a text or a number")
