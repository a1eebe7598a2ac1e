"""Tar archives, as tests write them."""

from __future__ import annotations

import io
import json
import pathlib
import tarfile
from collections.abc import Iterable
from typing import Any

import numpy as np

Members = Iterable[tuple[str, bytes]]


def put(path: pathlib.Path, members: Members, **options: Any) -> str:
    """Write an archive with Python's own tarfile."""
    with tarfile.open(path, "w", **options) as shard:
        for name, contents in members:
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            member.mtime = 12345
            shard.addfile(member, io.BytesIO(contents))
    return str(path)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def many(count: int = 12) -> list[tuple[str, bytes]]:
    generator = np.random.default_rng(0)
    members = []
    for number in range(count):
        key = f"train.v1/{number:04d}"
        members += [
            (f"{key}.jpg", generator.bytes(int(generator.integers(0, 3000)))),
            (f"{key}.json", json.dumps({"number": number, "name": f"n{number} é"}).encode()),
            (f"{key}.cls", str(number % 3).encode()),
            (f"{key}.seg.NPY", npy(generator.random((2, 3), np.float32))),
            (f"{key}.score", b" 1e-%d\n" % number),
            (f"{key}.txt", f"text {number} ü".encode()),
        ]
    return members


FIELDS = {"jpg": "bytes", "json": "json", "cls": int, "seg.npy": "npy", "score": float, "txt": "str"}
