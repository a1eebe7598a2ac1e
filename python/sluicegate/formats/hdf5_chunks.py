"""`chunk_table`: where the chunks of an array of HDF5 are in its file."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from .hdf5_types import NotReadError

# How many chunks are compared with what the library finds by their coordinates.
_COMPARED, _COMPARED_CLOSELY = 3, 16

_SHUFFLE = 2


def chunk_table(dataset: Any) -> bytes:
    """Return the chunks that are stored, each as four uint64: its number, first byte, size, and filters not applied.

    Raises:
        NotReadError: chunks are stored in a way that the library does not tell.
    """
    if 0 in dataset.shape:
        return b""
    chunks = _listed(dataset)
    if not chunks:
        return b""
    _check_places(dataset, chunks)
    _check_partial(dataset, chunks)
    axes = (np.array([chunk.chunk_offset for chunk in chunks], np.int64) // np.array(dataset.chunks, np.int64)).T
    table = np.empty((len(chunks), 4), np.uint64)
    table[:, 0] = np.ravel_multi_index(tuple(axes), _grid(dataset))
    table[:, 1:] = [(chunk.byte_offset, chunk.size, chunk.filter_mask) for chunk in chunks]
    return table.tobytes()


def _grid(dataset: Any) -> tuple[int, ...]:
    return tuple(math.ceil(size / chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))


def _listed(dataset: Any) -> list[Any]:
    """Return all chunks, by one call of the library if it has it."""
    if not hasattr(dataset.id, "chunk_iter"):
        return [dataset.id.get_chunk_info(number) for number in range(dataset.id.get_num_chunks())]
    chunks: list[Any] = []
    # What it returns other than None would end the iteration.
    dataset.id.chunk_iter(lambda chunk: chunks.append(chunk))
    return chunks


def _check_places(dataset: Any, chunks: list[Any]) -> None:
    """Compare some of the chunks with what is found by their coordinates.

    HDF5 2.0 lists other coordinates for the extensible arrays of `libver="v110"` whose unlimited axis is not the first.
    Nothing tells such an array apart but its chunks, if they differ.
    """
    unlimited = [axis for axis, size in enumerate(dataset.maxshape) if size is None]
    others = [count for axis, count in enumerate(_grid(dataset)) if axis not in unlimited]
    is_doubtful = len(unlimited) == 1 and unlimited != [0] and math.prod(others) > 1
    number = min(len(chunks), _COMPARED_CLOSELY if is_doubtful else _COMPARED)
    sample = np.random.default_rng(0).choice(len(chunks), number, replace=False)
    different = set()
    with open(dataset.file.filename, "rb") as file:
        for chunk in (chunks[each] for each in sorted(sample)):
            are_inside = all(start < size for start, size in zip(chunk.chunk_offset, dataset.shape, strict=True))
            stored = os.pread(file.fileno(), chunk.size, chunk.byte_offset)
            if not are_inside or _found(dataset, chunk.chunk_offset) != stored:
                raise NotReadError("the HDF5 library lists its chunks at wrong places; read it with h5py")
            different.add(stored)
    if is_doubtful and len(different) < number and len(chunks) > 1:
        raise NotReadError(
            "an axis after the first may grow, and too few of its chunks differ to find out how HDF5 orders them; "
            "read it with h5py"
        )


def _found(dataset: Any, place: tuple[int, ...]) -> Any:
    """Return the stored bytes of the chunk at `place`; None if there is none."""
    try:
        return dataset.id.read_direct_chunk(place)[1]
    except RuntimeError:
        return None


def _check_partial(dataset: Any, chunks: list[Any]) -> None:
    """Refuse an array whose chunks at the edges are stored without the filters: nothing in the file's index says so."""
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]
    whole = math.prod(dataset.chunks) * dataset.dtype.itemsize
    if not filters or dataset.dtype.hasobject:
        return
    for chunk in chunks:
        sizes = zip(chunk.chunk_offset, dataset.chunks, dataset.shape, strict=True)
        part = tuple(slice(start, min(start + size, end)) for start, size, end in sizes)
        inside = tuple(slice(each.stop - each.start) for each in part)
        is_partial = any(each.stop != size for each, size in zip(inside, dataset.chunks, strict=True))
        if not is_partial or chunk.filter_mask or chunk.size != whole:
            continue
        stored = dataset.id.read_direct_chunk(chunk.chunk_offset)[1]
        values = dataset[part].tobytes()
        plain = np.frombuffer(stored, np.uint8)
        shuffled = plain.reshape(dataset.dtype.itemsize, -1).T if filters == [_SHUFFLE] else None
        if _cut(plain, dataset, inside) == values and (shuffled is None or _cut(shuffled, dataset, inside) != values):
            raise NotReadError("its chunks at the edges are stored without the filters; read it with h5py")
        return


def _cut(stored: Any, dataset: Any, inside: tuple[slice, ...]) -> bytes:
    elements = stored.reshape(*dataset.chunks, dataset.dtype.itemsize)
    return bytes(elements[inside].tobytes())
