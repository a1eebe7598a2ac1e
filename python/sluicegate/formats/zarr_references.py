"""`parquet_references`: the references of a store to its chunks, as kerchunk and fsspec write them in Parquet."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .parquet import ParquetDataset

# An array: its name, the paths of files, chunks that are in the tables themselves, and its chunks, each as four uint64:
# its number, its source (a path, or after these an inline chunk), its first byte, and the number of its bytes.
Table: TypeAlias = "tuple[str, list[str], list[bytes], bytes]"

_METADATA = ".zmetadata"
_TABLE = re.compile(r"refs\.(0|[1-9][0-9]{0,17})\.parq")
_ABSENT = ("values of type Null", "there is no column")


def has_parquet_references(path: str) -> bool:
    """Return True if `path` is a folder of references in Parquet; that of a store of Zarr has other files, too."""
    others = (".zgroup", ".zarray", "zarr.json")
    if not os.path.isfile(os.path.join(path, _METADATA)) or any(map(os.path.exists, _in(path, others))):
        return False
    return "record_size" in _metadata(path)


def parquet_references(path: str, fields: Sequence[str] | None) -> tuple[bytes, list[Table]]:
    """Return the metadata of the store in the folder `path`, in JSON, and the references of the arrays called `fields`.

    Without `fields`, those of all arrays that are not in groups.

    Raises:
        ValueError: the metadata or a table is damaged.
        OSError: a file cannot be read.
    """
    whole = _metadata(path)
    metadata, record_size = whole.get("metadata"), whole["record_size"]
    if not isinstance(metadata, dict) or type(record_size) is not int or record_size < 1:
        raise _damaged(path, f"expected an object 'metadata' and a positive 'record_size', got {record_size!r}")
    names = [key.removesuffix("/.zarray") for key in metadata if key.endswith("/.zarray")]
    wanted = [name for name in names if (name in fields if fields is not None else "/" not in name)]
    tables = []
    for name in wanted:
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise _damaged(path, f"expected names of arrays, got {name!r}")
        tables.append(_table(path, name, _count(metadata[f"{name}/.zarray"]), record_size))
    return json.dumps({"version": 1, "refs": metadata}).encode(), tables


def _metadata(path: str) -> dict[str, Any]:
    with open(os.path.join(path, _METADATA), "rb") as file:
        try:
            found = json.load(file)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, f"invalid JSON: {error}") from error
    if not isinstance(found, dict):
        raise _damaged(path, "expected a JSON object")
    return found


def _damaged(path: str, reason: str) -> ValueError:
    return ValueError(f"{os.path.join(path, _METADATA)}: {reason}; write or copy it again")


def _in(path: str, names: Sequence[str]) -> list[str]:
    return [os.path.join(path, name) for name in names]


def _count(array: Any) -> int:
    """Return the number of chunks of an array; 0 if its metadata is damaged, which is reported when that is read."""
    try:
        axes = zip(array["shape"], array["chunks"], strict=True)
        return math.prod(math.ceil(size / chunk) for size, chunk in axes)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
        return 0


def _table(path: str, name: str, count: int, record_size: int) -> Table:
    """Return the references of the array `name`, which has `count` chunks: `record_size` of them in each file."""
    folder = os.path.join(path, name)
    numbers = []
    for entry in os.listdir(folder) if os.path.isdir(folder) else []:
        match = _TABLE.fullmatch(entry)
        if match is not None and int(match[1]) * record_size < count:
            numbers.append(int(match[1]))
    sources: dict[str, int] = {}
    inline: list[bytes] = []
    parts = [np.empty((0, 4), np.uint64)]
    for number in sorted(numbers):
        first = number * record_size
        file = os.path.join(folder, f"refs.{number}.parq")
        parts.append(_rows(file, min(record_size, count - first), first, sources, inline))
    chunks = np.concatenate(parts)
    # Until now inline chunks had negative numbers, because the number of paths was not known.
    own = chunks[:, 1].view(np.int64)
    own[own < 0] = len(sources) - 1 - own[own < 0]
    return name, list(sources), inline, chunks.tobytes()


def _rows(file: str, count: int, first: int, sources: dict[str, int], inline: list[bytes]) -> npt.NDArray[np.uint64]:
    """Return the chunks whose places the first `count` rows of a table give; add to the sources."""
    columns = _columns(file)
    rows = len(columns["offset"])
    if rows < count:
        raise ValueError(f"{file}: expected {count} references, got {rows}; write or copy it again")
    places = np.zeros((count, 4), np.uint64)
    places[:, 0] = np.arange(first, first + count)
    places[:, 2], places[:, 3] = columns["offset"][:count], columns["size"][:count]
    own = places[:, 1].view(np.int64)
    is_stored = np.ones(count, bool)
    for row, (path, raw) in enumerate(zip(columns["path"][:count], columns["raw"][:count], strict=True)):
        if raw is not None:
            own[row] = -1 - len(inline)
            inline.append(raw if isinstance(raw, bytes) else raw.encode())
            places[row, 2:] = 0
        elif path is not None:
            own[row] = sources.setdefault(path, len(sources))
        else:
            is_stored[row] = False
    return places[is_stored]


def _columns(file: str) -> dict[str, Any]:
    """Return the columns of a table: `path` and `raw` as lists with None, `offset` and `size` as arrays of int64."""
    names = ["path", "offset", "size", "raw"]
    absent = []
    while True:
        try:
            table = ParquetDataset(file, names, nulls="mask")
            break
        except ValueError as error:
            # A column without values has no type, and may be left out.
            found = [name for name in ("path", "raw") if name in names and f"`{name}`" in str(error)]
            if not found or not any(reason in str(error) for reason in _ABSENT):
                raise
            names.remove(found[0])
            absent.append(found[0])
    columns = dict(table[0 : len(table)])
    for name in ("offset", "size"):
        column = columns[name]
        if isinstance(column, dict):
            column = column["values"] * column["valid"]
        columns[name] = np.asarray(column)
        if columns[name].dtype != np.int64:
            raise ValueError(f"{file}: expected integers in column {name!r}, got {columns[name].dtype}; write it again")
    for name in absent:
        columns[name] = [None] * len(columns["offset"])
    for name, types in (("path", str), ("raw", (bytes, str))):
        column = columns[name]
        if not isinstance(column, list) or not all(value is None or isinstance(value, types) for value in column):
            raise ValueError(f"{file}: expected text in column {name!r}, got numbers or lists; write it again")
    return columns
