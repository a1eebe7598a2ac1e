"""`SharedList`: many small Python objects, stored once for all worker processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

from .pieces import SharedPieces, pickled

_T_co = TypeVar("_T_co", covariant=True)


class SharedList(Sequence[_T_co]):
    """A read-only sequence of picklable objects, kept once in shared memory.

    A dataset that holds a list of millions of small objects is duplicated in forked workers even if nothing writes to
    it: reading an object changes its reference count, which writes to the object's memory page, so the process gets its
    own copy of that page. Under spawn every worker starts with a copy. Wrap the list, and there is only one:

        self.samples = SharedList(samples)

    Each object is pickled separately into memory that has no name and belongs to no file system: the kernel frees it
    when the last process that uses it ends, however it ends. Reading an object unpickles it, which takes about a
    microsecond for a small dict. The result is a new object; changing it does not affect the sequence. Slices share the
    memory.

    It can be inherited by a fork, and pickled to a process that multiprocessing starts, or that runs on the same
    machine as the same user while this one lives. Any number of threads and processes may read.

    Args:
        items: a sequence of the objects, or an iterator, read once. In addition to its pickle, each object takes 8
            bytes. For a mapping, use `SharedDict`.

    Raises:
        IndexError: an index is out of range.
        TypeError: `items` is neither a sequence nor an iterator (a mapping, a set), an index is neither an integer nor
            a slice, or an object cannot be pickled (or the error that pickle raises), with a note of its index.

    Examples:
        >>> samples = SharedList([{"path": "a.jpg", "label": 0}, {"path": "b.jpg", "label": 1}])
        >>> samples[-1]["label"], len(samples)
        (1, 2)
        >>> [sample["path"] for sample in samples[:1]]
        ['a.jpg']
    """

    def __init__(self, items: Sequence[_T_co] | Iterator[_T_co]) -> None:
        self._memory = SharedPieces.of(_pickles(_checked(items)), "SharedList")
        self._places = range(self._memory.stored)

    @classmethod
    def _over(cls, memory: SharedPieces, places: range) -> SharedList[_T_co]:
        part: SharedList[_T_co] = cls.__new__(cls)
        part._memory, part._places = memory, places
        return part

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> _T_co: ...

    @overload
    def __getitem__(self, index: slice) -> SharedList[_T_co]: ...

    def __getitem__(self, index: int | slice) -> _T_co | SharedList[_T_co]:
        """Return a new copy of the object at `index`; for a slice, a sequence over the same memory."""
        if isinstance(index, slice):
            return self._over(self._memory, self._places[index])
        try:
            place = self._places[index]
        except IndexError:
            raise IndexError(f"index {index} is out of range for a SharedList of {len(self)} objects") from None
        item: _T_co = pickle.loads(self._memory[place])
        return item

    def __repr__(self) -> str:
        """Show the number of objects and their size; there may be millions of objects."""
        return f"<SharedList of {len(self)} objects, {len(self._memory.bytes):,} bytes shared>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a reference to the memory, which is shared and not copied, and the range of places in it."""
        return self._over, (self._memory, self._places)


def _checked(items: Any) -> Any:
    is_mapping = isinstance(items, Mapping) or hasattr(items, "keys")
    if isinstance(items, Iterator) or (hasattr(items, "__len__") and hasattr(items, "__getitem__") and not is_mapping):
        return items
    remedy = "use SharedDict to keep its keys and values" if is_mapping else "pass a list, in the order that you need"
    raise TypeError(f"items: expected a sequence or an iterator, got a {type(items).__name__}; {remedy}")


def _pickles(items: Any) -> Iterator[bytes]:
    for place, item in enumerate(items):
        yield pickled(item, f"the object at index {place} of a SharedList")
