"""`RawDataset`: files of fixed-size samples with nothing between them."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

import numpy as np
import torch

from sluicegate import _core
from sluicegate.checked_number import checked_number
from sluicegate.native.dataset import NativeDataset, native_format
from sluicegate.paths import Paths, expand

_Shape = int | tuple[int, ...] | list[int]

# (name, torch data type, shape, byte offset in the sample, True if the byte order is not the machine's)
_RawField = tuple[str, str, list[int], int, bool]

# NumPy's kinds and sizes that torch also has.
_KINDS = {
    **{f"{kind}{size}": f"{name}{8 * size}" for kind, name in (("i", "int"), ("u", "uint")) for size in (1, 2, 4, 8)},
    "b1": "bool",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}


@native_format
class RawDataset(NativeDataset):
    """Fixed-size samples, back to back in one or more files, as C writes an array of structs.

    With a plain `dtype` a sample is a tensor of `shape`. With a structured one it is a dict of tensors, nested like the
    data type; an array field keeps its shape. Each sample and each batch is an independent copy. The files are
    memory-mapped, never read whole, so they may be larger than memory. Values in the other byte order are swapped as
    they are read.

    A map-style dataset that also works under torch's own loader. `sluicegate.DataLoader` reads it in Rust. It can be
    pickled: only the arguments are, with absolute paths, and unpickling opens the files again. It is thread-safe. There
    may be any number of files: no descriptor stays open, 4,096 files stay mapped, and the rest are mapped on each read,
    which adds about 20 µs each.

    Args:
        paths: a file, several files, or a pattern (`data/*.bin`, `part-{00..15}.bin`); files are concatenated.
        dtype: the NumPy data type of a sample, or its name; or a torch data type, which may be `torch.bfloat16`.
        shape: the shape of a sample with a plain data type; a structured data type must contain its shapes.
        header_bytes: the number of bytes to skip at the start of each file.

    Raises:
        FileNotFoundError: a file does not exist, or nothing matches a pattern.
        ValueError: a file does not end with a whole sample, or torch lacks a data type.
        OSError: while reading: a file shrank since it was opened.

    Examples:
        >>> import numpy, tempfile
        >>> path = f"{tempfile.mkdtemp()}/points.bin"
        >>> point = numpy.dtype([("position", "<f4", 3), ("class", "u1")])
        >>> numpy.array([((1, 2, 3), 4), ((5, 6, 7), 8)], point).tofile(path)
        >>> RawDataset(path, dtype=point)[1]
        {'position': tensor([5., 6., 7.]), 'class': tensor(8, dtype=torch.uint8)}
    """

    def __init__(self, paths: Paths, *, dtype: Any, shape: _Shape = (), header_bytes: int = 0) -> None:
        self.paths = expand(paths)
        self.dtype, self.shape, self.header_bytes = checked_layout(dtype, shape, header_bytes)
        self._open()

    def _open(self) -> None:
        layout = raw_layout(self.dtype, self.shape)
        core = _core.raw_dataset(self.paths, self.header_bytes, layout.sample_bytes, layout.fields)
        self._set_core(core, layout.structure, ["tensor"] * len(layout.fields))

    def _shown(self) -> str:
        paths = repr(self.paths[0]) if len(self.paths) == 1 else f"[{self.paths[0]!r}, ... {len(self.paths)} files]"
        return f"{paths}, dtype={self.dtype!r}, shape={self.shape}, header_bytes={self.header_bytes}"


class RawLayout(NamedTuple):
    """The layout of the fields in a sample.

    Attributes:
        fields: the fields, as the core takes them.
        structure: how they are nested.
        sample_bytes: the size of a sample in bytes.
    """

    fields: list[_RawField]
    structure: Any
    sample_bytes: int


def checked_layout(dtype: Any, shape: _Shape, header_bytes: int) -> tuple[Any, tuple[int, ...], int]:
    """Validate and normalize the arguments of a raw layout.

    Raises:
        ValueError: they do not fit together.
    """
    if dtype is None:  # NumPy takes it for float64.
        raise ValueError("dtype: expected a data type of torch or NumPy, got None; name the one that the file has")
    dtype = dtype if isinstance(dtype, torch.dtype) else np.dtype(dtype)
    sizes = _sizes(shape)
    header_bytes = checked_number("header_bytes", header_bytes)
    if isinstance(dtype, np.dtype) and dtype.names is not None and sizes:
        raise ValueError(
            f"shape: expected none, because the structured {dtype} includes its shapes, but got {shape!r}; leave it out"
        )
    return dtype, sizes, header_bytes


def raw_layout(dtype: Any, shape: tuple[int, ...]) -> RawLayout:
    """Return the layout of samples of `dtype` and `shape`.

    Raises:
        ValueError: torch lacks a data type.
    """
    fields: list[_RawField] = []
    if isinstance(dtype, torch.dtype):
        name = str(dtype).removeprefix("torch.")
        fields.append(("", name, list(shape), 0, False))
        structure: Any = 0
    else:
        structure = _flatten(dtype, "", list(shape), 0, fields)
    sample_bytes = dtype.itemsize * math.prod(shape)
    if sample_bytes >= 2**63:
        raise ValueError(f"shape: expected samples below 2**63 bytes, but got {shape} of {dtype}")
    return RawLayout(fields, structure, sample_bytes)


def _sizes(shape: _Shape) -> tuple[int, ...]:
    sizes = tuple(operator.index(size) for size in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    if any(size < 0 for size in sizes):
        raise ValueError(f"shape: expected sizes of at least 0, but got {shape!r}")
    return sizes


def _flatten(dtype: np.dtype[Any], name: str, shape: list[int], offset: int, into: list[_RawField]) -> Any:
    """Append the fields of `dtype` to `into` and return how they are nested."""
    if dtype.subdtype is not None:
        inner, sizes = dtype.subdtype
        return _flatten(inner, name, [*shape, *sizes], offset, into)
    if dtype.fields is not None and dtype.names is not None:
        if shape:
            raise ValueError(
                f"dtype: the field {name!r} is an array of structures, which torch does not support; "
                "make it a structure of arrays, or make each structure a separate field"
            )
        parts = {}
        for part in dtype.names:
            inner, place = dtype.fields[part][:2]
            parts[part] = _flatten(inner, f"{name}.{part}" if name else part, [], offset + place, into)
        return parts
    torchs = _KINDS.get(f"{dtype.kind}{dtype.itemsize}")
    if torchs is None:
        of = f" of the field {name!r}" if name else ""
        raise ValueError(
            f"dtype: torch has no data type for NumPy's {dtype.str!r}{of}; read it as bytes, dtype ('u1', "
            f"({dtype.itemsize},)), or leave the field out by setting the dtype's offsets and itemsize"
        )
    into.append((name, torchs, shape, offset, not dtype.isnative))
    return len(into) - 1
