"""Safetensors files, as tests write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F8_E8M0": torch.float8_e8m0fnu,
}


NAMES = {dtype: name for name, dtype in DTYPES.items()}


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def written(path: Path, tensors: dict[str, torch.Tensor], **more: Any) -> str:
    """Write a file by the format's description, without its library."""
    header: dict[str, Any] = dict(more)
    data = b""
    for name, tensor in tensors.items():
        part = raw(tensor)
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    return put(path, json.dumps(header).encode(), data)


def put(path: Path, header: bytes, data: bytes = b"", length: int | None = None) -> str:
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header + data)
    return str(path)
