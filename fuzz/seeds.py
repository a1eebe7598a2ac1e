"""Writes the inputs that the fuzzer starts with: small files of every format, as other programs write them.

    python fuzz/seeds.py

`tests/native/fuzz` describes how each target divides its input. Inputs that the fuzzer has found (`found-*`) are not
changed. Needs PyArrow, Pillow, and `zstd` on the path. The test `seeds_of_indices` writes the indices
(see README.md).
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import json
import pathlib
import struct
import subprocess
import tarfile
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from PIL import Image

CORPUS = pathlib.Path(__file__).parent / "corpus"


def put(target: str, name: str, *parts: bytes) -> None:
    """Write an input."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"".join(parts))


def part(data: bytes) -> bytes:
    """Return a part of an input, with its length in front."""
    return struct.pack("<H", len(data)) + data


def zstd(data: bytes, *options: str) -> bytes:
    """Return `data` compressed with the program `zstd`."""
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, stdout=subprocess.PIPE, check=True).stdout


def npy(array: object, version: tuple[int, int] | None = None) -> bytes:
    """Return a `.npy` file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), version=version)
    return file.getvalue()


def images() -> None:
    """Write images of each format, with Pillow."""
    y, x = np.mgrid[:13, :21]
    rgb = np.stack([x * 12, y * 19, (x + y) * 7], axis=-1).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    forms: dict[str, tuple[Image.Image, str, dict[str, object]]] = {
        "jpeg": (Image.fromarray(rgb), "jpeg", {"quality": 60, "exif": exif}),
        "jpeg-progressive": (Image.fromarray(rgb), "jpeg", {"progressive": True, "quality": 40}),
        "jpeg-cmyk": (Image.fromarray(rgb).convert("CMYK"), "jpeg", {"quality": 40}),
        "png": (Image.fromarray(rgb), "png", {}),
        "png-palette": (Image.fromarray(rgb).quantize(9), "png", {}),
        "png-sixteen": (Image.fromarray((x * 3000).astype(np.uint16)), "png", {}),
        "webp": (Image.fromarray(rgb), "webp", {"quality": 50}),
        "webp-lossless": (Image.fromarray(rgb), "webp", {"lossless": True}),
        "bmp": (Image.fromarray(rgb), "bmp", {}),
        "bmp-palette": (Image.fromarray(rgb).quantize(9), "bmp", {}),
        "gif": (Image.fromarray(rgb).quantize(9), "gif", {}),
        "tiff": (Image.fromarray(rgb), "tiff", {"compression": "tiff_lzw"}),
        "pnm": (Image.fromarray(rgb), "ppm", {}),
    }
    for number, (name, (image, form, options)) in enumerate(forms.items()):
        file = io.BytesIO()
        image.save(file, form, **options)
        put("image", name, bytes([number % 4, number % 2, number % 2]), file.getvalue())


def rows() -> None:
    """Write formats whose rows have one size."""
    put("npy", "c", npy(np.arange(6, dtype="<f4").reshape(3, 2)))
    put("npy", "fortran", npy(np.asfortranarray(np.arange(12).reshape(3, 4)), (2, 0)))
    put("npy", "empty", npy(np.zeros((0, 3), "u1"), (3, 0)))
    put("npy", "scalar", npy(np.float16(1)))
    put("npy", "structured", npy(np.zeros(2, [("a", "<i4")])))
    for name, save in (("mapped", np.savez), ("packed", np.savez_compressed)):
        file = io.BytesIO()
        save(file, x=np.arange(6, dtype="<f4").reshape(3, 2), y=np.arange(3, dtype="u1"))
        put("npz", name, file.getvalue())
    put("raw", "two", struct.pack("<HBB", 4, 6, 2), bytes([0, 0, 0, 0, 2, 2, 4, 1]), bytes(range(22)))
    put("raw", "none", struct.pack("<HBB", 0, 1, 0), b"abc")
    put("raw", "huge", struct.pack("<HBB", 0, 8, 1), bytes([3, 0, 255, 0]), bytes(16))
    tensors = {"a": {"dtype": "BF16", "shape": [3, 2], "data_offsets": [0, 12]}}
    tensors["b"] = {"dtype": "I64", "shape": [3], "data_offsets": [12, 36]}
    header = json.dumps({"__metadata__": {"x": "y"}, **tensors}).encode()
    put("safetensors", "whole", b"\0", struct.pack("<Q", len(header)), header, bytes(36))
    put("safetensors", "framed", b"\1", part(header), bytes(36))
    put("safetensors", "scalar", b"\1", part(b'{"a":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]}}'), b"\0")
    put("safetensors", "small", b"\1", part(b'{"b":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]}}'), b"\0\0")
    windows = bytes([3, 2, 1, 0])
    put("tokens", "flat", windows, bytes([2]), struct.pack("<H", 2), np.arange(20, dtype="<u2").tobytes())
    put("tokens", "vocabulary", bytes([2, 1, 0, 9, 0, 0, 0]), bytes(range(12)))
    for name, lengths, pointers, borders in (
        ("in-order", [3, 0, 5], [0, 6, 6], [0, 1, 3]),
        ("apart", [3, 5, 2], [10, 0, 0], [0, 0, 2, 3]),
        ("empty", [], [], [0]),
    ):
        index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(borders))
        index += b"".join(np.array(each, kind).tobytes() for each, kind in ((lengths, "<i4"), (pointers, "<i8")))
        put("megatron", name, windows, part(index + np.array(borders, "<i8").tobytes()), bytes(range(16)))


def texts() -> None:
    """Write texts, file name patterns, and states of loaders."""
    table = b'a,b,c\r\n1,2.5,"x ""y"", z"\n-3,,"two\nlines"\n\n4,1e9,\xc3\xa9'
    for name, head in (("inferred", [0, 0, 1, 0]), ("some", [0, 0, 0, 1]), ("numbers", [1, 0, 0, 1])):
        put("csv", name, bytes(head), part(b""), table)
    put("csv", "two-files", bytes([0, 3, 0, 2]), part(b"a|b|c\ntrue|1|2"), b"\xef\xbb\xbfa|b|c\n0|1|2\n1|0|\n")
    lines = b'{"a": 1, "b": [[1, 2], [3.5, -4e2]], "c": "x\\u00e9\\n"}\n\n{"c": "", "b": [], "a": null}\r\n'
    for kind in range(3):
        put("json_lines", f"fields-{kind}", bytes([kind]), lines)
    put("json_lines", "arrays", b"\2", b'{"a": [[true], [false]], "c": [1, 255], "b": {"d": [{}]}}\n{"a": [[0], [1]]}')
    put("json_lines", "nested", b"\0", b"[" * 126 + b"]" * 126 + b"\n" + b'{"":' * 200)
    put("json_lines", "utf16", b"\0", "[1]".encode("utf-16"))
    for number, pattern in enumerate(
        ["*.jpg", "**/*.PNG", "b/**", "?[!a-c]*", "[[]x]", "a*a*a*a*b", ".*/[", "**/**/**"]
    ):
        put("name_pattern", str(number), pattern.encode())
    state = {"version": 1, "epoch": 3, "batches_received": 1, "received_ahead": [], "position": 3, "dataset_len": 10}
    state |= {"sampler": "SequentialSampler(len=10)", "batch_size": 3, "rank": 0, "world_size": 1}
    put("state", "in-order", json.dumps(state).encode())
    put("state", "ahead", json.dumps(state | {"received_ahead": [2, 3]}).encode())
    shuffled = {"sampler": "RandomSampler(seed=7, replacement=false, len=10)", "batch_size": None}
    put("state", "shuffled", json.dumps(state | shuffled).encode())
    position = {"ordinal": 16, "source": 0, "first_of_source": 0, "offset": 38}
    whole = {"split": {"rank": 0, "world_size": 1, "num_workers": 1, "run": 1}, "worker": 0, "consumed": []}
    in_order = {"version": 1, "part": whole, "position": position, "shuffled": None}
    put("stream_state", "in-order", json.dumps(in_order).encode())
    for name, bound, read, held in (
        ("samples", {"samples": 10, "bytes": 2**64 - 1}, 25, [0, 18, 23, 3, 20, 11, 22, 24, 8]),
        ("bytes", {"samples": 50, "bytes": 20}, 34, [0, 15, 28, 24, 27, 33, 23, 32, 25, 30]),
        ("ended", {"samples": 50, "bytes": 20}, 40, []),
    ):
        place = {"bound": bound, "seed": 7, "epoch": 0, "since": 0, "read": read, "held": held}
        shuffled = place | {"has_ended": read == 40}
        begin = in_order | {"position": dict.fromkeys(position, 0), "shuffled": shuffled}
        put("stream_state", name, json.dumps(begin).encode())


def feature(values: object) -> bytes:
    """Return a `Feature` of protocol buffers; all lengths are below 128."""
    if isinstance(values, bytes):
        values = [values]
    if values and isinstance(values[0], bytes):
        kind, body = 1, b"".join(b"\x0a" + bytes([len(value)]) + value for value in values)
    elif not values:
        kind, body = 1, b""
    elif isinstance(values[0], float):
        packed = struct.pack(f"<{len(values)}f", *values)
        kind, body = 2, b"\x0a" + bytes([len(packed)]) + packed
    else:
        kind, body = 3, b"".join(b"\x08" + bytes([value]) for value in values)
    return bytes([kind << 3 | 2, len(body)]) + body


def example(**features: object) -> bytes:
    """Return a `tf.train.Example`."""
    entries = b""
    for name, values in features.items():
        value = feature(values)
        entry = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12" + bytes([len(value)]) + value
        entries += b"\x0a" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(entries)]) + entries


def mds_shard(bodies: list[bytes]) -> bytes:
    """Return an MDS shard of these samples."""
    start = 8 + 4 * len(bodies)
    places = [start, *(start := start + len(body) for body in bodies)]
    return struct.pack(f"<{len(places) + 1}I", len(bodies), *places) + b"".join(bodies)


def records() -> None:
    """Write TFRecord and MDS files."""
    one, two = example(a=[1], b=[0.5, 2.0], c=b"text"), example(c=b"", a=[5], b=[1.0])
    for kind in range(4):
        put("tfrecord", f"framed-{kind}", bytes([kind, 1]), part(one), part(two))
    lists = example(a=[2, 3], b=[1.5], c=[b"one", b"", b"three"]), example(a=[4], b=[0.5], c=[])
    for kind in (1, 4, 5):
        put("tfrecord", f"lists-{kind}", bytes([kind, 1]), *map(part, lists))
    put("tfrecord", "booleans", b"\3\1", part(example(a=[0, 1], b=b"\1\0" * 3)))
    group = b"\x13\x18\x05\x14"
    put("tfrecord", "group", b"\1\1", part(group + one))
    # The checksums of a length of 0, and of no data.
    empty = struct.pack("<Q", 0) + bytes.fromhex("29039807") + bytes.fromhex("d8ea82a2")
    put("tfrecord", "bare", b"\0\0", empty * 2)
    # Encodings by number, as in `records.rs`.
    columns = bytes([4, 0, 1, 2, 3])
    body = struct.pack("<3I", 3, 4, 10) + struct.pack("<q", 5) + b"str" + b"[{}]" + bytes([8, 2 << 2, 3, 2]) + bytes(6)
    shard = mds_shard([body, body])
    put("mds", "made", b"\1", part(columns), shard)
    scalars = struct.pack("<2I", 2, 3) + b"-7" + b"1.5" + bytes(4) + bytes(2) + b"\7"
    put("mds", "scalars", b"\1", part(bytes([5, 6, 7, 5, 9, 12])), mds_shard([scalars]))
    entry = {
        "column_names": ["a"],
        "column_encodings": ["bytes"],
        "column_sizes": [None],
        "format": "mds",
        "version": 2,
    }
    entry |= {"samples": 1, "compression": None, "zip_data": None}
    raw = mds_shard([struct.pack("<I", 2) + b"ab"])
    index = {"version": 2, "shards": [entry | {"raw_data": {"basename": "x.mds", "bytes": len(raw)}}]}
    put("mds", "index", b"\0", part(json.dumps(index).encode()), raw)
    long = mds_shard([struct.pack("<I", 3000) + bytes(range(100)) * 30])
    for name, encodings, data, samples, options in (
        ("whole", columns, shard, 2, ()),
        ("long", bytes([1, 10]), long, 1, ("-19",)),
        ("no-checksum", bytes([1, 10]), long, 1, ("--no-check",)),
    ):
        head = struct.pack("<I", len(data))[:3] + bytes([samples])
        put("mds_zstd", name, part(encodings), head, zstd(data, *options))
    window = struct.pack("<IBB", 0xFD2FB528, 0, 0x88) + b"\1\0\0"
    put("mds_zstd", "window", part(bytes([1, 10])), struct.pack("<I", 64)[:3] + b"\1", window)


def archive(form: int, arrays: Sequence[object] = (np.array([1, 2], "u1"),) * 2) -> bytes:
    """Return an archive of two samples, with these arrays, and a link."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form, errors="surrogateescape", encoding="utf-8") as shard:
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        shard.addfile(link)
        for key, array in zip(("a", "../d/\udcff" + "x" * 101), arrays, strict=True):
            for extension, contents in (("txt", b"text"), ("npy", npy(array)), ("cls", b"7"), ("score", b"1e-3")):
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size = len(contents)
                shard.addfile(member, io.BytesIO(contents))
    # Removes tarfile's padding to a multiple of 10 KiB.
    return file.getvalue().rstrip(b"\0") + bytes(600)


def archives() -> None:
    """Write archives, plain and compressed."""
    # The kinds bytes, npy, int and float of the four extensions.
    kinds = bytes([0 | 1 << 2 | 2 << 4 | 3 << 6])
    ustar = archive(tarfile.GNU_FORMAT)
    put("tar", "gnu", bytes([0, 0, 0]), kinds, b"\0", ustar)
    put("tar", "pax", bytes([1, 1, 1]), kinds, b"\1", archive(tarfile.PAX_FORMAT))
    put("tar", "bytes", bytes([2, 0, 1]), b"\0\1", ustar)
    put("tar_gz", "whole", bytes([0, 0, 0]), kinds, gzip.compress(ustar, mtime=0))
    put(
        "tar_gz",
        "two-members",
        bytes([0, 0, 0]),
        kinds,
        gzip.compress(ustar[:1000], mtime=0) + gzip.compress(ustar[1000:], 0, mtime=0),
    )
    put("tar_gz", "bomb", bytes([0, 0, 0]), kinds, gzip.compress(bytes(1 << 21), mtime=0))
    put("tar_zst", "whole", bytes([0, 0, 0]), kinds, zstd(ustar))
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    put(
        "tar_zst",
        "frames",
        bytes([2, 1, 1]),
        kinds,
        zstd(ustar[:1000], "--no-check"),
        skippable,
        zstd(ustar[1000:], "-19"),
    )
    put("tar_zst", "bomb", bytes([0, 0, 0]), kinds, zstd(bytes(1 << 21)))


def table(rows: int, *, nulls: bool) -> pa.Table:
    """Return a table with a column of each kind."""

    def some(values: list[object]) -> list[object]:
        return [None if nulls and number % 3 == 1 else value for number, value in enumerate(values)]

    numbers = range(rows)
    days = [datetime.date(2020, 1, 1 + number) for number in numbers]
    return pa.table(
        {
            "n": pa.array(some([*numbers]), pa.int64()),
            "t": pa.array(some(["ab" * (number % 3) for number in numbers]), pa.string()),
            "f": pa.array(some([number / 2 for number in numbers]), pa.float32()),
            "l": pa.array(some([[number] * (number % 3) for number in numbers]), pa.list_(pa.int16())),
            "s": pa.array(some([{"flag": number % 2 == 1} for number in numbers]), pa.struct([("flag", pa.bool_())])),
            "d": pa.array(some(["low" if number < rows // 2 else "high" for number in numbers])).dictionary_encode(),
            "when": pa.array(some([*days]), pa.date32()),
            "price": pa.array(some([decimal.Decimal(number) / 4 for number in numbers]), pa.decimal128(9, 2)),
            "b": pa.array(some([bytes([number, 7]) for number in numbers]), pa.binary(2)),
        }
    )


def nested_table(rows: int) -> pa.Table:
    """Return a table with columns of lists of texts, lists, and dicts, with nulls at every level."""
    numbers = range(rows)
    role = pa.struct([("role", pa.string()), ("l", pa.list_(pa.list_(pa.int16())))])
    messages = [[{"role": "a" * n, "l": [[n], None, [None]][: n % 4]}, None][: n % 3] for n in numbers]
    return pa.table(
        {
            "n": pa.array([*numbers], pa.int64()),
            "w": pa.array([None if n == 1 else ["\u00e9" * n, None][: n % 3] for n in numbers], pa.list_(pa.string())),
            "m": pa.array([None if n == 2 else message for n, message in enumerate(messages)], pa.list_(role)),
        }
    )


def offsets() -> None:
    """Write changes of Megatron-Energon's index of an archive, and how much of it is cut off."""

    def patch(place: int, how: int, number: int) -> bytes:
        return struct.pack("<HBQ", place, how, number)

    put("tar_offsets", "true", b"\0")
    put("tar_offsets", "cut", bytes([8]))
    put("tar_offsets", "moved", b"\0", patch(0, 1, 512), patch(1, 2, 1))
    put("tar_offsets", "another-sample", b"\0", patch(0, 2, 2))
    put("tar_offsets", "beyond", b"\0", patch(1, 0, 2**64 - 512), patch(2100, 0, 0))


def put_columns(target: str, name: str, head: bytes, whole: bytes, magic: bytes) -> None:
    """Write two inputs: an unchanged file, and the parts from which a target assembles one."""
    put(target, name, head, b"\0", whole)
    begin, end = len(magic) + -len(magic) % 4, len(whole) - len(magic) - 4
    footer = end - int.from_bytes(whole[end : end + 4], "little")
    put(target, f"{name}-framed", head, b"\1", part(whole[footer:end]), whole[begin:footer])


def columns() -> None:
    """Write Parquet and Arrow files."""
    nulls = table(7, nulls=True)
    few, nested = nulls.select(["n", "t", "l"]), nested_table(6)
    # One row per page, with an index of the pages.
    paged = {"write_page_index": True, "data_page_size": 1, "write_batch_size": 1, "use_dictionary": False}
    # Nulls, columns, texts, decimals, and cache size; before these, the filter.
    forms = (
        ("all", nulls, [1, 0, 0, 0, 0], [0, 0, 0, 3, 5], {"row_group_size": 4, "store_schema": False}),
        ("bytes", table(5, nulls=False), [0, 0, 1, 1, 1], [0, 1, 2, 1, 1], {"compression": "zstd"}),
        ("paged", table(12, nulls=False).select(["n", "t"]), [0, 0, 1, 0, 1], [0, 0, 0, 2, 4], paged),
        ("pages-2", few, [3, 0, 0, 0, 2], [0, 4, 1, 2, 2], {"data_page_version": "2.0", "compression": "gzip"}),
        ("checked", few, [3, 2, 0, 0, 0], [1, 0, 0, 1, 6, 1, 1, 3, 7], {"write_page_checksum": True}),
        ("delta", few.select(["n"]), [2, 0, 0, 0, 0], [0, 0, 0, 1, 1], {"column_encoding": "DELTA_BINARY_PACKED"}),
        ("nested", nested, [1, 0, 0, 0, 0], [0, 0, 0, 2, 4], {"row_group_size": 4, "store_schema": False}),
        ("nested-paged", nested.select(["n", "m"]), [1, 0, 0, 0, 0], [0, 0, 0, 2, 4], paged | {"store_schema": False}),
    )
    for name, contents, head, condition, options in forms:
        file = io.BytesIO()
        options = {"use_dictionary": name in ("all", "bytes")} | options
        pyarrow.parquet.write_table(contents, file, **options)
        put_columns("parquet", name, bytes(head), file.getvalue(), b"PAR1")
        put_columns("parquet_filter", name, bytes(condition + head), file.getvalue(), b"PAR1")
    for name, contents, head, compression in (
        ("all", nulls, [1, 0, 0, 0, 0], None),
        ("bytes", table(5, nulls=False), [0, 0, 1, 1, 1], None),
        ("lz4", few, [3, 0, 0, 0, 0], "lz4"),
        ("zstd", few, [2, 2, 0, 0, 0], "zstd"),
        ("nested", nested, [1, 0, 0, 0, 0], None),
    ):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        for form, open_writer in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
            file = io.BytesIO()
            with open_writer(file, contents.schema, options=options) as writer:
                writer.write_table(contents, 4)
            if form == "file":
                put_columns("arrow", name, bytes(head), file.getvalue(), b"ARROW1")
            else:
                put("arrow", f"{name}-stream", bytes(head), b"\0", file.getvalue())


def streams() -> None:
    """Write inputs for streams: those of other targets, with several ways of reading, and compressed ones."""
    whole, unpacked, leaves_out = bytes([0, 0, 2]), bytes([0, 1, 1]), bytes([1, 0, 0])
    for format_name in ("json_lines", "csv", "tfrecord", "raw", "tar"):
        known = format_name == "tar"
        for file in sorted((CORPUS / format_name).iterdir()):
            if file.name.startswith("found"):
                continue
            contents = file.read_bytes()
            if format_name == "csv":
                # Removes the second file.
                contents = contents[:4] + contents[6 + int.from_bytes(contents[4:6], "little") :]
            if known:
                contents = contents[:4] + b"\1" + contents[4:]
            put(f"{format_name}_stream", file.name, whole, contents)
    lines = b'{"a": 1, "b": [[1, 2]], "c": "x"}\n\n{"a": 2, "c": 3}\n'
    put("json_lines_stream", "gzip", unpacked, b"\0", gzip.compress(lines, mtime=0))
    put("json_lines_stream", "zstd", unpacked, b"\1", zstd(lines))
    put("json_lines_stream", "damaged", leaves_out, b"\1", lines)
    put("csv_stream", "gzip", unpacked, bytes([0, 0, 1, 0]), gzip.compress(b"a,b\n1,2\n", mtime=0))
    put("csv_stream", "damaged", leaves_out, bytes([0, 0, 0, 1]), b"a,b,c\n1,2\n1,2,3\n4,x,\n")
    put(
        "raw_stream", "gzip", unpacked, struct.pack("<HBB", 1, 1, 1), bytes([0, 0, 0, 0]), gzip.compress(b"12", mtime=0)
    )
    put("tfrecord_stream", "damaged", leaves_out, bytes([2, 1]), part(example(a=[1])), part(b"\1"))
    archive_of_two = archive(tarfile.GNU_FORMAT)
    ragged = bytes([0, 0, 0, 0xE4, 3, 1])
    put(
        "tar_stream",
        "ragged",
        whole,
        ragged,
        archive(tarfile.GNU_FORMAT, [np.arange(6).reshape(3, 2), np.ones((1, 2))]),
    )
    put("tar_stream", "unknown", leaves_out, bytes([0, 0, 0, 0, 0, 0]), archive_of_two)
    put("tar_stream", "gzip", unpacked, bytes([1, 0, 1, 0xE4, 1, 0]), gzip.compress(archive_of_two, mtime=0))


def zarr_stores() -> None:
    """Write metadata of Zarr in both versions, and a chunk."""
    import numcodecs

    numbers = np.arange(12, dtype="<i2").reshape(3, 4)
    attributes = json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"], "scale_factor": 0.5, "_FillValue": 3}).encode()
    compressors = {
        "none": None,
        "blosc": numcodecs.Blosc("lz4", 5, 1),
        "blosclz": numcodecs.Blosc("blosclz", 5, 2),
        "gzip": numcodecs.GZip(1),
        "lz4": numcodecs.LZ4(),
        "zstd": numcodecs.Zstd(1),
    }
    v2 = {"zarr_format": 2, "shape": [5, 6], "chunks": [3, 4], "dtype": "<i2", "fill_value": 7, "filters": None}
    for number, (name, compressor) in enumerate(compressors.items()):
        chunk = numbers.tobytes() if compressor is None else bytes(compressor.encode(numbers.tobytes()))
        config = None if compressor is None else compressor.get_config()
        metadata = json.dumps({**v2, "order": "CF"[number % 2], "compressor": config}).encode()
        put("zarr", f"v2-{name}", bytes([1, number, 0, 0]), part(metadata), part(attributes), chunk)
    endian = {"name": "bytes", "configuration": {"endian": "little"}}
    v3: dict[str, object] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5, 6],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN",
        "dimension_names": ["y", "x"],
        "attributes": {"_FillValue": "AAAAAAAAHEA="},
    }
    floats = numbers.astype("<f4")
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    codecs = [transpose, endian, {"name": "zstd"}, {"name": "crc32c"}]
    packed = bytes(numcodecs.CRC32C().encode(bytes(numcodecs.Zstd(1).encode(floats.T.tobytes()))))
    put("zarr", "v3", bytes([1, 1, 0, 1]), part(json.dumps({**v3, "codecs": codecs}).encode()), part(b""), packed)
    inner = {"chunk_shape": [3, 2], "codecs": [endian], "index_codecs": [endian, {"name": "crc32c"}]}
    shards = {**v3, "codecs": [{"name": "sharding_indexed", "configuration": inner}]}
    index = bytes(numcodecs.CRC32C().encode(struct.pack("<4Q", 0, 24, 2**64 - 1, 2**64 - 1)))
    shard = floats[:, :2].tobytes() + index
    put("zarr", "v3-shards", bytes([0, 0, 1, 1]), part(json.dumps(shards).encode()), part(b""), shard)


if __name__ == "__main__":
    images()
    rows()
    zarr_stores()
    texts()
    records()
    archives()
    offsets()
    columns()
    streams()
