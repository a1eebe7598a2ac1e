"""`chunk_table`: where the chunks of an array of HDF5 are in its file."""

from __future__ import annotations

import math
import os
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from .hdf5_types import LibraryOnlyError

# The number of chunks that are compared with those that the library finds by coordinates.
_COMPARED, _COMPARED_CLOSELY = 3, 16

_SHUFFLE = 2


def chunk_table(dataset: Any) -> bytes:
    """Return the chunks that are stored, each as four uint64: its number, first byte, size, and filters not applied.

    Raises:
        LibraryOnlyError: chunks are stored in a way that the library does not tell.
    """
    if 0 in dataset.shape:
        return b""
    chunks = _Chunks(dataset)
    if not len(chunks.starts):
        return b""
    chunks.check_places()
    chunks.check_edges()
    table = np.empty((len(chunks.starts), 4), np.uint64)
    table[:, 0] = np.ravel_multi_index(tuple((chunks.starts // dataset.chunks).T), chunks.grid)
    table[:, 1:] = chunks.places
    return table.tobytes()


class _Chunks:
    """The chunks of an array that are stored.

    Attributes:
        grid: the number of chunks along each axis, stored or not.
        starts: the first element of each, int64, of shape (chunks, axes).
        places: the first byte of each, its size, and the filters that were not applied, uint64, of shape (chunks, 3).
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.grid = tuple(math.ceil(size / chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
        # Numbers in a row: there may be millions of chunks.
        starts, places = array("q"), array("Q")

        def add(chunk: Any) -> None:
            starts.extend(chunk.chunk_offset)
            places.extend((chunk.byte_offset, chunk.size, chunk.filter_mask))

        if hasattr(dataset.id, "chunk_iter"):
            dataset.id.chunk_iter(add)
        else:
            for number in range(dataset.id.get_num_chunks()):
                add(dataset.id.get_chunk_info(number))
        self.starts: npt.NDArray[np.int64] = np.array(starts, np.int64).reshape(-1, dataset.ndim)
        self.places: npt.NDArray[np.uint64] = np.array(places, np.uint64).reshape(-1, 3)

    def check_places(self) -> None:
        """Compare some of the chunks with what is found by their coordinates.

        HDF5 2.0 lists other coordinates for the extensible arrays of `libver="v110"` whose unlimited axis is not the
        first. Only its chunks, if they differ, tell such an array from others.
        """
        dataset = self._dataset
        unlimited = [axis for axis, size in enumerate(dataset.maxshape) if size is None]
        others = [count for axis, count in enumerate(self.grid) if axis not in unlimited]
        is_doubtful = len(unlimited) == 1 and unlimited != [0] and math.prod(others) > 1
        number = min(len(self.starts), _COMPARED_CLOSELY if is_doubtful else _COMPARED)
        different = set()
        with open(dataset.file.filename, "rb") as file:
            for each in np.sort(np.random.default_rng(0).choice(len(self.starts), number, replace=False)):
                start, (place, size, _) = tuple(self.starts[each].tolist()), self.places[each].tolist()
                stored = os.pread(file.fileno(), size, place)
                is_inside = all(np.less(start, dataset.shape))
                if not is_inside or self._found(start) != stored:
                    raise LibraryOnlyError("the HDF5 library lists its chunks at wrong offsets")
                different.add(stored)
        if is_doubtful and len(different) < number:
            raise LibraryOnlyError(
                "an axis after the first is resizable, and too few of its chunks differ to infer how HDF5 orders them"
            )

    def _found(self, start: tuple[int, ...]) -> Any:
        """Return the stored bytes of the chunk at `start`; None if it is not stored."""
        try:
            return self._dataset.id.read_direct_chunk(start)[1]
        except RuntimeError:
            return None

    def check_edges(self) -> None:
        """Refuse an array whose chunks at the edges are stored without the filters: its index does not say so."""
        dataset = self._dataset
        properties = dataset.id.get_create_plist()
        filters = [properties.get_filter(number)[0] for number in range(properties.get_nfilters())]
        whole = math.prod(dataset.chunks) * dataset.dtype.itemsize
        # Those that would be whole without the filters, and of which a part is past the end.
        is_at_edge = (self.starts + dataset.chunks > dataset.shape).any(axis=1)
        candidates = np.flatnonzero(is_at_edge & (self.places[:, 1] == whole) & (self.places[:, 2] == 0))
        if not filters or dataset.dtype.hasobject or not len(candidates):
            return
        start = tuple(self.starts[candidates[0]].tolist())
        ends = np.minimum(np.add(start, dataset.chunks), dataset.shape).tolist()
        values = dataset[tuple(map(slice, start, ends))].tobytes()
        inside = tuple(slice(end - first) for first, end in zip(start, ends, strict=True))
        plain = np.frombuffer(self._found(start), np.uint8)

        def cut(stored: npt.NDArray[np.uint8]) -> bytes:
            return stored.reshape(*dataset.chunks, dataset.dtype.itemsize)[inside].tobytes()

        is_shuffled = filters == [_SHUFFLE] and cut(plain.reshape(dataset.dtype.itemsize, -1).T) == values
        if cut(plain) == values and not is_shuffled:
            raise LibraryOnlyError("its edge chunks are stored without the filters")
