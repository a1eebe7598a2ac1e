"""`write_tar`: the samples of a dataset, as tar archives of bounded size."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from . import _core
from .named_error import named_error
from .paths import Path
from .sharded_output import ShardFormat, write_shards

_Members = list[tuple[bytes, bytes]]


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

    An archive appears under its name when it is whole and on the disk; until then it is called `*.unfinished`, and on
    an error it is removed. One is filled while threads write what was filled before. The bytes depend on the samples
    alone: times and owners are zero.

    What was killed goes on where it was when it is called again with the same arguments: archives that are whole are
    kept, the rest is made. That is told by a small JSON file beside the archives, which stays there; with it, and the
    archives as they were written, nothing is done a second time. The same samples must then come in the same order: the
    first one, and the last one that is kept, are compared.

    Args:
        dataset: map-style or iterable.
        pattern: the path of the archives, with a place for their number as of `str.format`: `"out-{:05d}.tar"`.
        shard_bytes: an archive has at most so many bytes, or one sample.
        num_workers: worker processes that read and encode the samples, as of `DataLoader`; of an iterable dataset none.
        threads: the number of threads that write.
        resume: True (default) to keep the archives that an earlier call with the same arguments finished. With False
            they are removed, and all archives are written again. Of a stream without `len` whose archives are all
            finished, the first sample alone is compared; give False if the stream has changed.

    Returns:
        The paths of the archives.

    Raises:
        ValueError: the pattern has no place for a number; two samples one after the other, or of one archive, have one
            key; a key or an extension that readers would take for something else; or what was begun there was begun
            with other arguments, or of other samples.
        TypeError: a sample is no dict, or a value is not one of those above.
        OSError: what could not be written, or the folder, which is not there.
        FileExistsError: a file is named like an archive, and this function has not written it.
        RuntimeError: another process or thread writes these archives at the moment.

    Examples:
        >>> import tempfile
        >>> from sluicegate import TarDataset
        >>> samples = [{"__key__": f"cat{i}", "txt": "purr" * i, "cls": i} for i in range(5)]
        >>> paths = write_tar(samples, f"{tempfile.mkdtemp()}/cats-{{:03d}}.tar", shard_bytes=8192)
        >>> [os.path.basename(path) for path in paths]
        ['cats-000.tar', 'cats-001.tar']
        >>> TarDataset(paths, {"txt": "str", "cls": int})[3]["txt"]
        'purrpurrpurr'
    """
    return write_shards(
        dataset,
        pattern,
        _TarFormat(),
        shard_bytes=shard_bytes,
        num_workers=num_workers,
        threads=threads,
        resume=resume,
    )


class _TarFormat(ShardFormat):
    """A block is a list of keys, and one of the names and contents of their members."""

    example = "out-{:05d}.tar"

    def __init__(self) -> None:
        self.last_key: str | None = None
        # Of the archive that is being filled.
        self.keys: set[str] = set()

    def arguments(self) -> dict[str, Any]:
        return {"format": "tar"}

    def encode(self, samples: list[Any], first: int) -> tuple[list[str], list[_Members]]:
        keys, members = zip(*(_members(sample, index) for index, sample in enumerate(samples, first)), strict=True)
        return list(keys), list(members)

    def digested(self, block: tuple[list[str], list[_Members]], place: int) -> Iterable[bytes]:
        for name, contents in block[1][place]:
            yield name
            yield contents

    def open(self, shard_bytes: int, threads: int) -> _core.Shards:
        return _core.Shards.tar(shard_bytes, threads)

    def append(self, shards: _core.Shards, block: tuple[list[str], list[_Members]], start: int, first: int) -> int:
        keys, members = block
        count = shards.append_members(members, start)
        for index, key in enumerate(keys[start : start + count], first):
            if key == self.last_key:
                raise ValueError(f"sample {index}: its key {key!r} is that of the sample before it: they would be one")
            if key in self.keys:
                raise ValueError(f"sample {index}: its key {key!r} is that of another sample in the same archive")
            self.last_key = key
            self.keys.add(key)
        if start + count < len(keys):
            self.keys.clear()  # The rest goes to another archive.
        return count

    def follow(self, block: tuple[list[str], list[_Members]]) -> None:
        self.last_key = block[0][-1]


def _members(sample: Any, index: int) -> tuple[str, _Members]:
    """Key, and names and contents, of sample `index`."""
    if not isinstance(sample, Mapping):
        raise TypeError(f"sample {index}: expected a dict of its parts by extension, but got {type(sample).__name__}")
    key = sample.get("__key__", f"{index:09d}")
    if not isinstance(key, str) or not key or "." in key.rsplit("/", 1)[-1] or key.endswith("/") or "\0" in key:
        raise ValueError(f"sample {index}: a key is a text without dots in its last part, but got {key!r}")
    members: _Members = []
    seen: set[str] = set()
    for extension, value in sample.items():
        if not isinstance(extension, str) or "/" in extension or "\0" in extension:
            raise ValueError(f"sample {index}: an extension is a text without slashes, but got {extension!r}")
        if extension.startswith("__") or value is None:
            continue
        if extension.lower() in seen:
            raise ValueError(f"sample {index}: it has {extension!r} twice: readers know no upper case")
        seen.add(extension.lower())
        name = f"{key}.{extension}"
        first = name.split("/", 1)[0]
        if len(first) > 4 and first.startswith("__") and first.endswith("__"):
            raise ValueError(f"sample {index}: readers pass over {name!r}: give it another key")
        try:
            members.append((os.fsencode(name), _contents(extension, value)))
        except (TypeError, ValueError) as error:
            raise named_error(f"sample {index}, {extension!r}", error) from error
    if not members:
        raise ValueError(f"sample {index}: it has no part that could be written")
    return key, members


def _contents(extension: str, value: Any) -> bytes:
    kind = extension.rsplit(".", 1)[-1].lower()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if kind == "json":
        # JSON has no NaN and no infinity; readers of other languages would refuse what Python writes for them.
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
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
