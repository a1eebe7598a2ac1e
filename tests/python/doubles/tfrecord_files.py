"""TFRecord files, as tests write them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def message(*fields: tuple[int, Any]) -> bytes:
    """Return a message of fields: bytes, an integer as varint, a float as 32 bits."""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            out += varint(number << 3) + varint(value)
    return out


def feature(values: list[Any], *, packed: bool = True) -> bytes:
    if values and isinstance(values[0], bytes):
        return message((1, message(*((1, value) for value in values))))
    is_float = bool(values) and isinstance(values[0], float)
    field = 2 if is_float else 3
    if not packed:
        return message((field, message(*((1, value) for value in values))))
    body = struct.pack(f"<{len(values)}f", *values) if is_float else b"".join(map(varint, values))
    return message((field, message((1, body))))


def example(features: dict[str, list[Any]], *, packed: bool = True) -> bytes:
    entries = [
        (1, message((1, name.encode()), (2, feature(values, packed=packed)))) for name, values in features.items()
    ]
    return message((1, message(*entries)))


def put(path: Path, *samples: bytes) -> str:
    path.write_bytes(b"".join(map(framed, samples)))
    return str(path)


def some_features(n: int) -> dict[str, list[Any]]:
    return {
        "id": [n - 2],
        "score": [n / 4],
        "image": [bytes([n] * n)],
        "name": [f"ö{n}".encode()],
        "ids": list(range(-1, n % 3)),
        "box": [float(n), 0.5, 1.0, -2.0],
    }


def put_some(path: Path, count: int) -> str:
    """Write `count` examples with features of every type."""
    return put(path, *(example(some_features(number)) for number in range(count)))
