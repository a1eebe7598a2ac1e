"""`SharedList`: one copy of many small Python objects for all worker processes."""

from __future__ import annotations

import mmap
import multiprocessing.context
import os
import pickle
from array import array
from collections.abc import Iterable, Sequence
from multiprocessing import reduction
from typing import Any, TypeVar, overload

_T_co = TypeVar("_T_co", covariant=True)

# Offsets are "Q", 64-bit numbers.
_OFFSET_BYTES = array("Q").itemsize


class SharedList(Sequence[_T_co]):
    """A read-only sequence of picklable objects, kept once in shared memory.

    A dataset that holds a list of millions of small objects multiplies in forked workers although nobody writes to it:
    reading an object changes its reference count, that writes to the page which the object lies on, and the process
    gets its own copy of that page. Under spawn every worker gets a copy to begin with. Wrap the list, and there is one:

        self.samples = SharedList(samples)

    Each object is pickled by itself into memory that has no name and belongs to no file system: the kernel frees it
    when the last process that uses it ends, however it ends. Reading one unpickles it, about a microsecond for a small
    dict; what comes back is a fresh object that may be changed without effect on the sequence. Slices share the memory.

    Can be inherited by a fork, and pickled to a process that multiprocessing starts or that runs on the same machine as
    the same user while this one lives. Any number of threads and processes may read.

    Args:
        items: the objects, read once. 8 bytes are kept for each beside its pickle.

    Raises:
        IndexError: an index out of range.
        TypeError: an index that is neither an integer nor a slice; an object that can't be pickled (or what pickle
            raises), with a note of its place.

    Example:
        >>> samples = SharedList([{"path": "a.jpg", "label": 0}, {"path": "b.jpg", "label": 1}])
        >>> samples[-1]["label"], len(samples)
        (1, 2)
        >>> [sample["path"] for sample in samples[:1]]
        ['a.jpg']
    """

    def __init__(self, items: Iterable[_T_co]) -> None:
        self._memory = _Memory.of(items)
        self._places = range(self._memory.stored)

    @classmethod
    def _over(cls, memory: _Memory, places: range) -> SharedList[_T_co]:
        part: SharedList[_T_co] = cls.__new__(cls)
        part._memory, part._places = memory, places
        return part

    def __len__(self) -> int:
        """The number of objects."""
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> _T_co: ...

    @overload
    def __getitem__(self, index: slice) -> SharedList[_T_co]: ...

    def __getitem__(self, index: int | slice) -> _T_co | SharedList[_T_co]:
        """The object at `index`, made anew; for a slice, a sequence over the same memory."""
        if isinstance(index, slice):
            return self._over(self._memory, self._places[index])
        try:
            place = self._places[index]
        except IndexError:
            raise IndexError(f"index {index} is out of range for a SharedList of {len(self)} objects") from None
        item: _T_co = pickle.loads(self._memory.pickle_at(place))
        return item

    def __repr__(self) -> str:
        """The number of objects and their size: the objects themselves may be millions."""
        return f"<SharedList of {len(self)} objects, {len(self._memory.bytes):,} bytes shared>"

    def __reduce__(self) -> tuple[Any, ...]:
        """The memory, which is shared and not copied, and the part of it."""
        return self._over, (self._memory, self._places)


class _Memory:
    """Pickles one after the other, and where each of them ends, in memory that only its descriptor leads to.

    Args:
        descriptor: a file descriptor, which is this object's own from now on.
        stored: the number of pickles.
    """

    def __init__(self, descriptor: int, stored: int) -> None:
        self.stored = stored
        try:
            size = os.fstat(descriptor).st_size
            # An empty mapping is not allowed; there is nothing to read from it either.
            self.bytes = memoryview(mmap.mmap(descriptor, size, prot=mmap.PROT_READ)) if size else memoryview(b"")
            self.ends = self.bytes[size - stored * _OFFSET_BYTES :].cast("Q")
        except BaseException:
            os.close(descriptor)
            raise
        self.descriptor = descriptor  # Last: it is closed once.

    @classmethod
    def of(cls, items: Iterable[Any]) -> _Memory:
        """Write the pickles of `items`, one at a time."""
        ends = array("Q")
        descriptor = os.memfd_create("sluicegate-shared-list", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                size = 0
                for place, item in enumerate(items):
                    size += file.write(_pickled(item, place))
                    ends.append(size)
                # At a multiple of their size, so that they can be read in place.
                file.write(bytes(-size % _OFFSET_BYTES))
                ends.tofile(file)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, len(ends))

    def pickle_at(self, place: int) -> memoryview:
        return self.bytes[self.ends[place - 1] if place else 0 : self.ends[place]]

    def __reduce__(self) -> tuple[Any, ...]:
        """The descriptor, where multiprocessing carries one, else the way to it through this process."""
        if multiprocessing.context.get_spawning_popen() is not None:
            return _carried, (reduction.DupFd(self.descriptor), self.stored)
        return _opened, (f"/proc/{os.getpid()}/fd/{self.descriptor}", self.stored)

    def __del__(self) -> None:
        """Close the descriptor; the mapping goes with the last view of it."""
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


def _carried(carrier: Any, stored: int) -> _Memory:
    return _Memory(carrier.detach(), stored)


def _opened(path: str, stored: int) -> _Memory:
    try:
        return _Memory(os.open(path, os.O_RDONLY | os.O_CLOEXEC), stored)
    except OSError as error:
        raise RuntimeError(
            f"the memory of this SharedList is out of reach ({error}): it lives as long as the process that pickled "
            "it, and can be opened by the same user on the same machine. Make it anew from its items"
        ) from error


def _pickled(item: Any, place: int) -> bytes:
    try:
        return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        message = f"the object at index {place} of a SharedList can't be pickled: {type(item).__name__}"
        if hasattr(error, "add_note"):  # Python 3.11 and newer
            error.add_note(message)
            raise
        raise TypeError(f"{message}: {error}") from error
