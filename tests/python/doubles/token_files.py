"""Files of tokens, as tests write them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def flat(folder: Path, tokens: Any, name: str = "train.bin", dtype: str = "uint16") -> str:
    path = folder / name
    np.asarray(tokens).astype(dtype).tofile(path)
    return str(path)


def megatron(folder: Path, documents: list[list[list[int]]], name: str = "corpus", dtype: str = "uint16") -> str:
    """Write a pair of files in Megatron's format, and return its prefix; a document is a list of sequences."""
    sequences = [sequence for document in documents for sequence in document]
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int32)
    pointers = (np.cumsum(lengths, dtype=np.int64) - lengths) * np.dtype(dtype).itemsize
    borders = np.cumsum([0, *(len(document) for document in documents)], dtype=np.int64)
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, CODES[dtype], len(lengths), len(borders))
    (folder / f"{name}.idx").write_bytes(header + lengths.tobytes() + pointers.tobytes() + borders.tobytes())
    np.array([token for sequence in sequences for token in sequence], dtype=dtype).tofile(folder / f"{name}.bin")
    return str(folder / name)
