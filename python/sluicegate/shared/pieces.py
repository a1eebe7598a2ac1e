"""`SharedPieces`: byte strings, stored once for several processes."""

from __future__ import annotations

import mmap
import multiprocessing.context
import os
import pickle
from array import array
from collections.abc import Iterable
from multiprocessing import reduction
from typing import Any

# Offsets and the words of a table are "Q", 64-bit numbers.
_WORD_BYTES = array("Q").itemsize


class SharedPieces:
    """Byte strings stored one after the other, with the end of each, in memory reachable only through its descriptor.

    Threads may share it.

    Args:
        descriptor: a file descriptor, which this object owns from now on.
        stored: the number of byte strings.
        words: the number of words in the table after them.
        owner: the name of the class that uses it, for messages.

    Attributes:
        bytes: all of the memory.
        table: the words.
    """

    def __init__(self, descriptor: int, stored: int, words: int, owner: str) -> None:
        self.stored, self.words, self.owner = stored, words, owner
        try:
            size = os.fstat(descriptor).st_size
            # An empty mapping is not allowed, and there would be nothing to read from it.
            self.bytes = memoryview(mmap.mmap(descriptor, size, prot=mmap.PROT_READ)) if size else memoryview(b"")
            table = size - words * _WORD_BYTES
            self.table = self.bytes[table:].cast("Q")
            self._ends = self.bytes[table - stored * _WORD_BYTES : table].cast("Q")
        except BaseException:
            os.close(descriptor)
            raise
        self.descriptor = descriptor  # Last, so that it is closed only once.

    @classmethod
    def of(cls, pieces: Iterable[bytes], owner: str, table: array[int] | None = None) -> SharedPieces:
        """Write `pieces`, one at a time, and then `table`, which may change until the last piece is taken."""
        ends = array("Q")
        table = array("Q") if table is None else table
        descriptor = os.memfd_create("sluicegate-shared-list", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                size = 0
                for piece in pieces:
                    size += file.write(piece)
                    ends.append(size)
                # Aligned to the word size, so that the offsets and the table can be read in place.
                file.write(bytes(-size % _WORD_BYTES))
                ends.tofile(file)
                table.tofile(file)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, len(ends), len(table), owner)

    def __getitem__(self, number: int) -> memoryview:
        """Return piece number `number`, counted from 0."""
        return self.bytes[self._ends[number - 1] if number else 0 : self._ends[number]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the descriptor if multiprocessing can carry it; otherwise its path through this process."""
        rest = (self.stored, self.words, self.owner)
        if multiprocessing.context.get_spawning_popen() is not None:
            return _carried, (reduction.DupFd(self.descriptor), *rest)
        return _opened, (f"/proc/{os.getpid()}/fd/{self.descriptor}", *rest)

    def __del__(self) -> None:
        """Close the descriptor; the mapping is freed with its last view."""
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


def pickled(item: Any, what: str) -> bytes:
    """Return the pickle of `item`.

    Raises:
        Exception: whatever pickle raises, with a note that it was `what`.
    """
    try:
        return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        message = f"{what} can't be pickled: {type(item).__name__}"
        if hasattr(error, "add_note"):  # Python 3.11 and newer
            error.add_note(message)
            raise
        raise TypeError(f"{message}: {error}") from error


def _carried(carrier: Any, stored: int, words: int, owner: str) -> SharedPieces:
    return SharedPieces(carrier.detach(), stored, words, owner)


def _opened(path: str, stored: int, words: int, owner: str) -> SharedPieces:
    try:
        return SharedPieces(os.open(path, os.O_RDONLY | os.O_CLOEXEC), stored, words, owner)
    except OSError as error:
        raise RuntimeError(
            f"the memory of this {owner} cannot be opened ({error}), which needs the same user and machine, and the "
            "process that pickled it to be running; make it again from its items"
        ) from error
