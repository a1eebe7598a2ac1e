"""Small files that decompress to huge ones take memory for the samples that are read, not for the whole."""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest
import torch

from sluicegate import CsvStream, JsonLinesStream, RawStream, TarDataset, TarStream, TFRecordStream, decode_image

MIB = 1 << 20

# The decompressed size of the files; set `SLUICEGATE_BOMB_MIB=8192` for a manual check.
UNPACKED = int(os.environ.get("SLUICEGATE_BOMB_MIB", "256"))


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, 1)


def zstandard(content: bytes) -> bytes:
    packed: bytes = pyarrow.Codec("zstd").compress(content, asbytes=True)
    return packed


PACKED: dict[str, Callable[[bytes], bytes]] = {"gz": gzipped, "zst": zstandard}


def bomb(path: pathlib.Path, head: bytes, piece: bytes = bytes(16 * MIB)) -> str:
    """Write `head` and then pieces of 16 MiB, compressed as the suffix of `path` says."""
    pack = PACKED[path.suffix[1:]]
    # Both formats allow concatenation.
    path.write_bytes(pack(head) + pack(piece) * (UNPACKED // 16))
    return str(path)


@contextlib.contextmanager
def at_most(mebibytes: int) -> Iterator[None]:
    """Assert that the peak of resident memory grows by at most this much within the block."""

    def peak() -> int:
        status = pathlib.Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) >> 10

    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    yield
    assert peak() - before <= mebibytes


def member(name: str, content: bytes, size: int | None = None, kind: bytes = tarfile.REGTYPE) -> bytes:
    header = tarfile.TarInfo(name)
    header.size, header.type = len(content) if size is None else size, kind
    return header.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("concatenated", [False, True])
@pytest.mark.parametrize("fields", [None, {"txt": "str"}, {"txt": "image"}])
def test_the_end_of_an_archive_is_not_kept(
    tmp_path: pathlib.Path, suffix: str, concatenated: bool, fields: Any
) -> None:
    path = bomb(tmp_path / f"a.tar.{suffix}", member("0.txt", b"hello"))
    with at_most(64):
        stream = TarStream(path, fields, concatenated=concatenated)
        if fields == {"txt": "image"}:
            with pytest.raises(ValueError, match="sample 0"):
                next(iter(stream))
        else:
            assert len(list(stream)) == 1


@pytest.mark.parametrize("suffix", PACKED)
def test_archives_that_were_concatenated_are_still_read_to_their_end(tmp_path: pathlib.Path, suffix: str) -> None:
    empty, padding = bytes(10240), bytes(3 * MIB)
    archive = member("0.txt", b"hello") + padding + member("1.txt", b"you") + empty
    path = tmp_path / f"a.tar.{suffix}"
    path.write_bytes(PACKED[suffix](empty + archive))
    assert [sample["txt"] for sample in TarStream(str(path), concatenated=True)] == [b"hello", b"you"]


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.CHRTYPE, b"Z"])
def test_entries_before_the_first_sample_are_bounded(tmp_path: pathlib.Path, suffix: str, kind: bytes) -> None:
    path = bomb(tmp_path / f"a.tar.{suffix}", member("folder", b"", size=UNPACKED * MIB, kind=kind))
    with at_most(160), contextlib.suppress(ValueError, StopIteration):
        next(iter(TarStream(path, max_sample_bytes=16 * MIB)))


STREAMS: dict[str, tuple[Callable[..., Any], bytes, bytes]] = {
    "json": (JsonLinesStream, b'{"a": 1}\n"', b"x" * (16 * MIB)),
    "csv": (CsvStream, b"a,b\n1,2\n", b"3" * (16 * MIB)),
    "quoted": (CsvStream, b'a,b\n1,2\n"', b"\n" * (16 * MIB)),
    "header": (CsvStream, b"", b"a" * (16 * MIB)),
    "tfrecord": (TFRecordStream, struct.pack("<Q", UNPACKED * MIB), bytes(16 * MIB)),
}


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("name", STREAMS)
def test_a_sample_without_end_is_bounded_by_max_sample_bytes(tmp_path: pathlib.Path, suffix: str, name: str) -> None:
    opened, head, piece = STREAMS[name]
    path = bomb(tmp_path / f"a.{suffix}", head, piece)
    with at_most(200), pytest.raises(ValueError):
        list(opened(path, max_sample_bytes=16 * MIB))


@pytest.mark.parametrize("suffix", PACKED)
def test_raw_samples_take_only_their_own_memory(tmp_path: pathlib.Path, suffix: str) -> None:
    path = bomb(tmp_path / f"a.{suffix}", b"")
    with at_most(96):
        assert sum(1 for _ in RawStream(path, shape=(MIB,), dtype=torch.uint8, unpack=True)) == UNPACKED


def test_an_archive_that_is_unpacked_is_bounded_by_cache_bytes(tmp_path: pathlib.Path) -> None:
    for suffix in PACKED:
        path = bomb(tmp_path / f"a.tar.{suffix}", member("0.txt", b"hello"))
        with at_most(64), pytest.raises(ValueError, match="decompresses to more than the 16777216 bytes"):
            TarDataset(path, cache_folder=tmp_path / "cache", cache_bytes=16 * MIB)


@pytest.mark.parametrize("exponent", [18, 20, 31])
def test_a_window_beyond_that_of_the_program_zstd_is_an_error_that_names_it(
    tmp_path: pathlib.Path, exponent: int
) -> None:
    frame = struct.pack("<IBB", 0xFD2FB528, 0, exponent << 3) + b"\x01\0\0"
    path = tmp_path / "a.tar.zst"
    path.write_bytes(frame)
    text = f"needs a window of {1 << (10 + exponent)} bytes, but at most 134217728 are allowed; decompress it with"
    with at_most(32), pytest.raises(ValueError, match=text):
        list(TarStream(str(path)))
    with at_most(32), pytest.raises(ValueError, match=text):
        TarDataset(path, cache_folder=tmp_path / "cache")


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = (struct.pack(">I", len(data)) + kind + data for kind, data in chunks)
    with_checks = (part + struct.pack(">I", zlib.crc32(part[4:])) for part in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(with_checks)


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt", b"iTXt", b"IDAT"])
@pytest.mark.parametrize("mode", ["RGB", "P"])
def test_metadata_of_an_image_takes_bounded_memory(kind: bytes, mode: Any) -> None:
    deflate = zlib.compressobj(1)
    much = b"".join(deflate.compress(bytes(16 * MIB)) for _ in range(UNPACKED // 16)) + deflate.flush()
    head = {b"iCCP": b"x\0\0", b"zTXt": b"x\0\0", b"iTXt": b"x\0\1\0\0\0", b"IDAT": b""}[kind]
    header = (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    pixels = (b"IDAT", zlib.compress(b"\0\7"))
    image = png(header, *([(kind, head + much)] if kind != b"IDAT" else []), pixels, (b"IEND", b""))
    if kind == b"IDAT":
        image = png(header, (b"IDAT", much), (b"IEND", b""))
    with at_most(160):
        decoded = decode_image(image, mode=mode)
    assert decoded.shape[1:] == (1, 1)
