"""`LibraryArray`: an array of HDF5 that h5py reads, chunk by chunk, because Rust cannot."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np


class LibraryFile:
    """A file that h5py reads, opened by each process that reads it, and not before.

    Thread-safe.

    Attributes:
        path: the file, as it was given.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._absolute = os.path.abspath(path)
        self._opened: tuple[int, Any] | None = None

    def array(self, name: str) -> Any:
        """Return the array called `name`."""
        import h5py

        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            if opened is not None:
                # It came through a fork; while it is open, the library would take it for the file that is opened now.
                opened[1].close()
            opened = self._opened = os.getpid(), h5py.File(self._absolute, "r")
        return opened[1][name]


@dataclass(frozen=True)
class LibraryArray:
    """An array, or some members of its records, read by the HDF5 library. Thread-safe.

    Attributes:
        file: the file that it is in.
        name: its path there.
        members: the members of records that are read; None if the elements are not records.
        base: the data type of the elements that are handed over: bytes, for records and text.
        reason: why Rust does not read it.
    """

    file: LibraryFile
    name: str
    members: tuple[str, ...] | None
    base: np.dtype[Any]
    reason: str

    def __call__(self, start: list[int], shape: list[int]) -> bytes:
        """Return the elements of the chunk of `shape` that begins at `start`; those past the end of the array are zero.

        Raises:
            ValueError: the chunk is damaged.
        """
        array = self.file.array(self.name)
        parts = [slice(first, first + size) for first, size in zip(start, shape, strict=True)]
        source = array if self.members is None else array.fields(list(self.members))
        try:
            values = np.asarray(source[tuple(parts[: array.ndim])])
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise ValueError(str(error)) from error
        if values.dtype.kind in "SV":
            values = np.frombuffer(values.tobytes(), np.uint8).reshape(*values.shape, values.dtype.itemsize)
        within: Any = (Ellipsis, *parts[array.ndim :])
        values = values[within]
        chunk = np.zeros(shape, self.base)
        chunk[tuple(map(slice, values.shape))] = values
        return chunk.tobytes()
