"""`write_tar`: writes the samples of a dataset as tar archives of bounded size."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from sluicegate import _core
from sluicegate.named_error import named_error
from sluicegate.paths import Path

from .output import ShardFormat, write_shards

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
    """Write the samples of `dataset`, in order, as tar archives for `TarDataset` and WebDataset.

    A sample is a dict. `__key__` is its key (default: its index with nine digits); every other name that does not begin
    with `__` is an extension. Values are written as follows; None is omitted:

    - `bytes` unchanged, and `str` as UTF-8
    - for the extension `json`, or one that ends in `.json`: anything that `json.dumps` accepts
    - for `npy`: anything that `numpy.save` accepts without pickling, including tensors
    - `int`, `float` and `bool` (as 0 or 1), NumPy scalars and tensors with one element: as decimal text

    An archive gets its name when it is complete and on disk. Until then it is called `*.unfinished`, and on an error it
    is removed. One archive is filled while threads write the ones filled before. The bytes depend only on the samples:
    times and owners are zero.

    A job that was killed resumes when it is called again with the same arguments: complete archives are kept, and the
    rest is written. A small JSON file next to the archives records this, and stays there; with it and the unchanged
    archives, nothing is done twice. The same samples must then come in the same order: the first one, and the last one
    that is kept, are compared.

    Args:
        dataset: map-style or iterable.
        pattern: the path of the archives, with a placeholder for their number in the syntax of `str.format`:
            `"out-{:05d}.tar"`.
        shard_bytes: the maximum size of an archive in bytes; one that holds a single sample may be larger.
        num_workers: worker processes that read and encode the samples, as in `DataLoader`; not used for an iterable
            dataset.
        threads: the number of threads that write.
        resume: True (default) to keep the archives that an earlier call with the same arguments finished; False to
            remove them and write all archives again. Pass False if other samples than the first one and the last one
            that is kept have changed, since only these and their number are compared.

    Returns:
        The paths of the archives.

    Raises:
        ValueError: the pattern has no placeholder for a number; two consecutive samples, or two in one archive, have
            the same key; readers would misread a key or an extension; or the existing output was begun with other
            arguments or other samples.
        TypeError: a sample is not a dict, or a value is not one of those above.
        OSError: something could not be written, or the folder does not exist.
        FileExistsError: a file has the name of an archive but was not written by this function.
        RuntimeError: another process or thread is writing these archives.

    Examples:
        >>> import os, tempfile
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
    """A block is a list of keys, and a list of the names and contents of their members."""

    example = "out-{:05d}.tar"

    def __init__(self) -> None:
        self.last_key: str | None = None
        # The keys in the archive that is being filled.
        self.keys: set[str] = set()

    def arguments(self) -> dict[str, Any]:
        return {"format": "tar"}

    def encode(self, samples: list[Any], first: int) -> tuple[list[str], list[_Members]]:
        keys, members = zip(*(_members(sample, index) for index, sample in enumerate(samples, first)), strict=True)
        return list(keys), list(members)

    def digested(self, block: tuple[list[str], list[_Members]], position: int) -> Iterable[bytes]:
        for name, contents in block[1][position]:
            yield name
            yield contents

    def open(self, shard_bytes: int, threads: int) -> _core.Shards:
        return _core.Shards.tar(shard_bytes, threads)

    def append(self, shards: _core.Shards, block: tuple[list[str], list[_Members]], start: int, first: int) -> int:
        keys, members = block
        count = shards.append_members(members, start)
        for index, key in enumerate(keys[start : start + count], first):
            if key == self.last_key:
                raise ValueError(
                    f"sample {index}: its key {key!r} is that of the sample before it, so both would be read as one; "
                    "change it"
                )
            if key in self.keys:
                raise ValueError(
                    f"sample {index}: its key {key!r} is that of another sample in the same archive; change it"
                )
            self.last_key = key
            self.keys.add(key)
        if start + count < len(keys):
            self.keys.clear()  # the remaining samples go into another archive
        return count

    def follow(self, block: tuple[list[str], list[_Members]]) -> None:
        self.last_key = block[0][-1]


def _members(sample: Any, index: int) -> tuple[str, _Members]:
    """Return the key, and the names and contents of the members, of sample `index`."""
    if not isinstance(sample, Mapping):
        raise TypeError(f"sample {index}: expected a dict of its parts by extension, but got {type(sample).__name__}")
    key = sample.get("__key__", f"{index:09d}")
    if not isinstance(key, str) or not key or "." in key.rsplit("/", 1)[-1] or key.endswith("/") or "\0" in key:
        raise ValueError(f"sample {index}: expected a key, a string without dots in its last part, but got {key!r}")
    members: _Members = []
    seen: set[str] = set()
    for extension, value in sample.items():
        if not isinstance(extension, str) or "/" in extension or "\0" in extension:
            raise ValueError(f"sample {index}: expected an extension, a string without slashes, but got {extension!r}")
        if extension.startswith("__") or value is None:
            continue
        if extension.lower() in seen:
            raise ValueError(
                f"sample {index}: expected extensions that differ in lower case, as readers see them, but got "
                f"{extension!r} twice"
            )
        seen.add(extension.lower())
        name = f"{key}.{extension}"
        first = name.split("/", 1)[0]
        if len(first) > 4 and first.startswith("__") and first.endswith("__"):
            raise ValueError(f"sample {index}: readers skip {name!r}; change its key")
        try:
            members.append((os.fsencode(name), _contents(extension, value)))
        except (TypeError, ValueError) as error:
            raise named_error(f"sample {index}, {extension!r}", error) from error
    if not members:
        raise ValueError(f"sample {index}: expected at least one part, but got an empty sample")
    return key, members


def _contents(extension: str, value: Any) -> bytes:
    kind = extension.rsplit(".", 1)[-1].lower()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if kind == "json":
        # JSON has no NaN or infinity; readers in other languages would refuse Python's notation for them.
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
    raise TypeError(f"expected bytes, a str or a number, but got {type(value).__name__}")
