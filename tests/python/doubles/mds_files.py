"""Folders of MDS shards, as tests write them."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch

SIZES = {"int": 8, "uint8": 1, "int16": 2, "float16": 2, "float32": 4, "float64": 8, "ndarray:int32:2,3": 24}


def zstd(data: bytes, block: int = 100) -> bytes:
    """Return a frame of raw blocks, or of blocks that repeat one byte."""
    frame = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data))
    parts = [data[start : start + block] for start in range(0, len(data), block)] or [b""]
    for part in parts:
        is_last, is_same = part is parts[-1], len(set(part)) == 1
        frame += (len(part) << 3 | is_same << 1 | is_last).to_bytes(3, "little") + (part[:1] if is_same else part)
    return frame


def array(values: Any, *, dtype: bool, shape: bool) -> bytes:
    codes = {"uint8": 8, "int16": 17, "float32": 34, "int64": 65}
    out = bytes([codes[values.dtype.name]]) if dtype else b""
    if shape:
        out += bytes([values.ndim << 2 | 1]) + np.array(values.shape, "<u2").tobytes()
    return out + values.tobytes()


def shard(columns: dict[str, str], samples: list[dict[str, bytes]]) -> bytes:
    bodies = []
    for sample in samples:
        head = b"".join(struct.pack("<I", len(sample[name])) for name in columns if SIZES.get(columns[name]) is None)
        bodies.append(head + b"".join(sample[name] for name in columns))
    config = json.dumps({"columns": columns}).encode()
    start = 8 + 4 * len(bodies) + len(config)
    offsets = [start, *(start := start + len(body) for body in bodies)]
    return struct.pack(f"<I{len(offsets)}I", len(bodies), *offsets) + config + b"".join(bodies)


def written(
    folder: Path, columns: dict[str, str], shards: list[list[dict[str, bytes]]], compression: str | None = None
) -> str:
    folder.mkdir(exist_ok=True)
    entries = []
    for number, samples in enumerate(shards):
        name = f"shard.{number:05}.mds"
        raw = shard(columns, samples)
        packed = None
        if compression is None:
            (folder / name).write_bytes(raw)
        else:
            (folder / f"{name}.zstd").write_bytes(zstd(raw))
            packed = {"basename": f"{name}.zstd", "bytes": len(zstd(raw)), "hashes": {}}
        entries.append(
            {
                "column_names": [*columns],
                "column_encodings": [*columns.values()],
                "format": "mds",
                "version": 2,
                "column_sizes": [SIZES.get(encoding) for encoding in columns.values()],
                "samples": len(samples),
                "compression": compression,
                "hashes": [],
                "size_limit": 2**26,
                "zip_data": packed,
                "raw_data": {"basename": name, "bytes": len(raw), "hashes": {}},
            }
        )
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": entries}))
    return str(folder)


COLUMNS = {
    "any": "ndarray",
    "bytes": "bytes",
    "digits": "str_int",
    "f16": "float16",
    "f64": "float64",
    "fixed": "ndarray:int32:2,3",
    "image": "jpeg:90",
    "int": "int",
    "json": "json",
    "real": "str_float",
    "rows": "ndarray:float32",
    "small": "uint8",
    "text": "str",
    "typed": "ndarray:int64",
}


def sample(n: int) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the encoded values of a sample, and the expected values."""
    generator = np.random.default_rng(n)
    any_, rows = (
        generator.integers(0, 9, (n + 1, 2)).astype("int16"),
        generator.random((n % 3 + 1, 2, 2)).astype("float32"),
    )
    fixed, typed = np.arange(6).reshape(2, 3).astype("int32") * n, np.arange(n + 1)
    encoded = {
        "any": array(any_, dtype=True, shape=True),
        "bytes": bytes([n] * n),
        "digits": str(-n).encode(),
        "f16": np.float16(n / 3).tobytes(),
        "f64": np.float64(n / 3).tobytes(),
        "fixed": fixed.tobytes(),
        "image": b"\xff\xd8" * n,
        "int": struct.pack("<q", n - 3),
        "json": json.dumps({"k": [n, None]}).encode(),
        "real": str(n / 7).encode(),
        "rows": array(rows, dtype=False, shape=True),
        "small": bytes([n]),
        "text": f"ö{n}".encode(),
        "typed": array(typed, dtype=False, shape=True),
    }
    expected = {
        "any": torch.from_numpy(any_),
        "bytes": bytes([n] * n),
        "digits": -n,
        "f16": torch.tensor(n / 3, dtype=torch.float16),
        "f64": n / 3,
        "fixed": torch.from_numpy(fixed),
        "image": b"\xff\xd8" * n,
        "int": n - 3,
        "json": {"k": [n, None]},
        "real": n / 7,
        "rows": torch.from_numpy(rows),
        "small": torch.tensor(n, dtype=torch.uint8),
        "text": f"ö{n}",
        "typed": torch.from_numpy(typed),
    }
    return encoded, expected
