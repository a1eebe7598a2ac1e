"""`ZarrLayout`: how a field is laid out as an array of a Zarr store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

# The default size of chunks and of rows of shards, in bytes before compression.
_CHUNK_BYTES = 1 << 20
_ROW_BYTES = 1 << 26

Dims = Sequence[str] | Mapping[str, Sequence[str]] | None
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ZarrLayout:
    """How a field is laid out; the first axis is that of the samples.

    Attributes:
        name: the name of the field.
        dtype: NumPy's name of the data type.
        shape: the shape of a sample.
        dims: the names of all axes.
        chunks: the shape of a chunk.
        shards: the shape of a shard, a multiple of that of a chunk.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...]

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of shards along each axis after the first."""
        return tuple(-(-size // shard) for size, shard in zip(self.shape, self.shards[1:], strict=True))

    def as_json(self) -> dict[str, Any]:
        """Return the layout in JSON types."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> ZarrLayout:
        """Return the layout from which `as_json` made `json`."""
        tuples: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in json.items()}
        return ZarrLayout(**tuples)


def zarr_layouts(
    batch: Mapping[str, Array], dims: Dims, chunks: Mapping[str, int], shards: Mapping[str, int], length: int | None
) -> list[ZarrLayout]:
    """Return the layouts of the fields of `batch`.

    Args:
        batch: arrays by name, with samples along the first axis.
        dims: the names of the axes, for all fields, or by field.
        chunks: the sizes of chunks by dimension.
        shards: the sizes of shards by dimension.
        length: the number of samples; None if it is not known.

    Raises:
        ValueError: a name cannot be that of a field, or does not exist; a dimension has different sizes, comes twice,
            or is missing; or a shard does not consist of whole chunks.
    """
    for name in batch:
        if not isinstance(name, str) or name in ("", ".", "..", "zarr.json") or "/" in name or name.startswith("__"):
            raise ValueError(f"fields: {name!r} cannot be the name of a Zarr array; rename it")
    names = _dimensions(batch, dims)
    known = list(dict.fromkeys(dimension for each in names.values() for dimension in each))
    for argument, sizes in (("chunks", chunks), ("shards", shards)):
        if unknown := [dimension for dimension in sizes if dimension not in known]:
            raise ValueError(f"{argument}: expected dimensions among {known}, but got {unknown}; see dims=")
    for dimension in chunks.keys() & shards.keys():
        if shards[dimension] % chunks[dimension]:
            raise ValueError(
                f"shards[{dimension!r}]: expected a multiple of the {chunks[dimension]} elements of a chunk, but got "
                f"{shards[dimension]}"
            )
    first = known[0]
    row = shards.get(first) or _row(sum(array[0:1].nbytes for array in batch.values()), chunks.get(first), length)
    return [_layout(name, array, names[name], chunks, shards, row) for name, array in batch.items()]


def _dimensions(batch: Mapping[str, Array], dims: Dims) -> dict[str, tuple[str, ...]]:
    """Return the names of the axes of each field."""
    given = dict(dims) if isinstance(dims, Mapping) else {} if dims is None else dict.fromkeys(batch, dims)
    if unknown := [name for name in given if name not in batch]:
        raise ValueError(f"dims: expected fields among {list(batch)}, but got {unknown}")
    firsts = list(dict.fromkeys(each[0] for each in given.values() if each)) or ["sample"]
    if len(firsts) > 1:
        raise ValueError(f"dims: expected one name for the first axis, which all fields share, but got {firsts}")
    found = {}
    sizes: dict[str, int] = {}
    for name, array in batch.items():
        own = tuple(given.get(name, (firsts[0], *(f"{name}_dim_{axis}" for axis in range(1, array.ndim)))))
        if isinstance(given.get(name), str) or len(own) != array.ndim or len(set(own)) < array.ndim:
            raise ValueError(
                f"dims: expected {array.ndim} different names for field {name!r}, the first for the samples, but got "
                f"{given.get(name)!r}"
            )
        for dimension, size in zip(own[1:], array.shape[1:], strict=True):
            if sizes.setdefault(dimension, size) != size:
                raise ValueError(
                    f"dims: dimension {dimension!r} has {sizes[dimension]} elements in one field, and {size} in field "
                    f"{name!r}; name them differently"
                )
        if firsts[0] in own[1:]:
            raise ValueError(f"dims: expected {firsts[0]!r} for the first axis alone, but got {own} for field {name!r}")
        found[name] = own
    return found


def _row(sample_bytes: int, chunk: int | None, length: int | None) -> int:
    """Return the number of samples in a shard, by default."""
    fit = max(_ROW_BYTES // max(sample_bytes, 1), 1)
    if chunk is not None:
        count = max(fit // chunk, 1)
        return chunk * (count if length is None else max(min(count, -(-length // chunk)), 1))
    if length is not None:
        fit = min(fit, length)
    # A power of two has chunks of any smaller power.
    return 1 << (fit.bit_length() - 1) if fit != length else fit


def _layout(
    name: str, array: Array, dims: tuple[str, ...], chunks: Mapping[str, int], shards: Mapping[str, int], row: int
) -> ZarrLayout:
    sizes = dict(zip(dims[1:], array.shape[1:], strict=True))
    chunk = [chunks.get(each, shards.get(each, max(size, 1))) for each, size in sizes.items()]
    fit = max(_CHUNK_BYTES // max(math.prod(chunk) * array.itemsize, 1), 1)
    return ZarrLayout(
        name=name,
        dtype=array.dtype.name,
        shape=array.shape[1:],
        dims=dims,
        chunks=(chunks.get(dims[0]) or _divisor(row, fit), *chunk),
        shards=(
            row,
            *(
                shards.get(each, max(-(-size // part), 1) * part)
                for (each, size), part in zip(sizes.items(), chunk, strict=True)
            ),
        ),
    )


def _divisor(number: int, most: int) -> int:
    """Return the largest divisor of `number` that is at most `most`."""
    parts = -(-number // most)
    while number % parts:
        parts += 1
    return number // parts
