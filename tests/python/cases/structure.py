"""Offsets of the structure in small files: every length, count, position, checksum, and name that a parser uses."""

from __future__ import annotations

import itertools
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet

# In files of at most this many bytes, every offset counts as structure.
SMALL = 700
# In files of more bytes (Parquet, Arrow, and tar with long names), each offset is changed in one way: every second byte
# in one bit, and the others to the largest value.
LARGE = 2000

# The offsets of the fields of a tar header; each is tried with the byte before it.
_TAR_FIELDS = (0, 100, 108, 116, 124, 136, 148, 156, 157, 257, 263, 265, 297, 329, 337, 345, 500)


def offsets(path: Path) -> list[int]:
    """Return the offsets of the structure in the file at `path`, in order."""
    whole = path.read_bytes()
    if len(whole) <= SMALL or path.suffix == ".json":
        return [*range(len(whole))]
    suffix = next(suffix for suffix in _OF if path.name.endswith(suffix))
    return sorted({place for place in _OF[suffix](path, whole) if 0 <= place < len(whole)})


def _tar(path: Path, whole: bytes) -> Iterator[int]:
    at = 0
    while at < len(whole):
        header = whole[at : at + 512]
        yield from (at + place + step for place in _TAR_FIELDS for step in (-1, 0))
        size = int(header[124:135].rstrip(b"\0 ") or b"0", 8) if any(header) else 0
        if header[156:157] in (b"x", b"g", b"L", b"K"):
            yield from range(at + 512, at + 512 + size)
        at += 512 + -(-size // 512) * 512


def _packed(path: Path, whole: bytes) -> Iterator[int]:
    yield from range(30)
    yield from range(len(whole) - 12, len(whole))


def _zstd(path: Path, whole: bytes) -> Iterator[int]:
    """Yield the frame header (nine bytes) and block headers (three bytes) as `mds_files.zstd` writes them."""
    yield from range(9)
    at = 9
    while at < len(whole):
        yield from range(at, at + 3)
        head = int.from_bytes(whole[at : at + 3], "little")
        at += 3 + (1 if head & 2 else head >> 3)


def _records(path: Path, whole: bytes) -> Iterator[int]:
    at = 0
    while at < len(whole):
        size = int.from_bytes(whole[at : at + 8], "little")
        yield from range(at, at + 16)
        yield from range(at + 8 + size, at + 16 + size)
        at += 16 + size


def _mds(path: Path, whole: bytes) -> Iterator[int]:
    samples = int.from_bytes(whole[:4], "little")
    starts = [int.from_bytes(whole[at : at + 4], "little") for at in range(4, 8 + 4 * samples, 4)]
    yield from range(8 + 4 * samples)
    # The sizes of the fields of variable size.
    yield from itertools.chain.from_iterable(range(start, start + 60) for start in starts)


def _header(path: Path, whole: bytes) -> Iterable[int]:
    return range(400)


def _zip(path: Path, whole: bytes) -> Iterator[int]:
    """Yield the local headers of the members, the first bytes of these, and the central directory at the end."""
    for member in zipfile.ZipFile(path).infolist():
        yield from range(member.header_offset, min(member.header_offset + 100, len(whole)))
    yield from range(whole.rindex(b"PK\x01\x02") - 60, len(whole))


def _parquet(path: Path, whole: bytes) -> Iterator[int]:
    metadata = pyarrow.parquet.ParquetFile(path).metadata
    footer = int.from_bytes(whole[-8:-4], "little")
    yield from range(len(whole) - 8 - footer, len(whole))
    for group, column in itertools.product(range(metadata.num_row_groups), range(metadata.num_columns)):
        chunk = metadata.row_group(group).column(column)
        # The headers of the first page and of the first data page, and its first levels.
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        yield from range(start, start + 30)
        yield from range(chunk.data_page_offset, chunk.data_page_offset + 30)


def _arrow(path: Path, whole: bytes) -> Iterator[int]:
    yield from range(8)
    yield from range(len(whole) - 10, len(whole))
    for message in re.finditer(rb"\xff\xff\xff\xff", whole):
        size = int.from_bytes(whole[message.end() : message.end() + 4], "little")
        yield from range(message.start(), message.end() + 4 + min(size, 1000))


_OF = {
    ".tar": _tar,
    ".tar.gz": _packed,
    ".tar.zst": _zstd,
    ".zstd": _zstd,
    ".mds": _mds,
    ".tfrecord": _records,
    ".safetensors": _header,
    ".npy": _header,
    ".npz": _zip,
    ".idx": _header,
    ".bin": _header,
    ".parquet": _parquet,
    ".arrow": _arrow,
}


def damages(whole: bytes, place: int) -> Iterator[bytes]:
    """Yield the file cut at `place`, and with the byte at `place` changed in several ways; if it is large, in one."""
    is_large = len(whole) > LARGE
    if not is_large or place % 8 == 0:
        yield whole[:place]
    others = (whole[place] ^ 1 << place % 8, 0xFF)
    for other in dict.fromkeys(others[place % 2 :: 2] if is_large else others):
        if other != whole[place]:
            yield whole[:place] + bytes([other]) + whole[place + 1 :]
