"""`SharedDict`: a dict-like mapping in memory that processes share."""

from __future__ import annotations

import hashlib
import numbers
import pickle
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from .pieces import SharedPieces, pickled

_K = TypeVar("_K")
_V_co = TypeVar("_V_co", covariant=True)

# A word of the table has the number of an entry plus 1 in its lower bits, and bits of the key's hash above them.
_NUMBER_BITS = 40
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1

_LENGTH_BYTES = 8


class SharedDict(Mapping[_K, _V_co]):
    """A read-only mapping to picklable objects, kept once in shared memory.

    The counterpart of `SharedList` for dicts: a dict of millions of entries is duplicated in workers, because reading
    an object changes its reference count. Wrap the dict, and there is only one copy:

        self.labels = SharedDict(labels)

    Keys are strings, integers, bytes, and tuples of these. A key is found through a hash table in the shared memory: no
    worker builds a dict, and a lookup takes a few microseconds for any number of entries. The result is a new object;
    changing it does not affect the mapping. The order is that of the original dict.

    The memory has no name and belongs to no file system: the kernel frees it when the last process that uses it ends,
    however it ends. It can be inherited by a fork, and pickled to a process that multiprocessing starts, or that runs
    on the same machine as the same user while this one lives. Any number of threads and processes may read.

    Args:
        items: the mapping, read once. Each entry takes about 30 bytes in addition to its key and the pickle of its
            value.

    Raises:
        KeyError: a key is missing.
        TypeError: `items` is not a mapping, a key has another type, or a value cannot be pickled (or the error that
            pickle raises), with a note of its key.

    Examples:
        >>> labels = SharedDict({"a.jpg": 0, "b.jpg": 1, ("c.jpg", 2): [3, 4]})
        >>> labels["b.jpg"], labels[("c.jpg", 2)], len(labels)
        (1, [3, 4], 3)
        >>> "d.jpg" in labels, labels.get("d.jpg"), list(labels)[0]
        (False, None, 'a.jpg')
    """

    def __init__(self, items: Mapping[_K, _V_co]) -> None:
        if not isinstance(items, Mapping):
            raise TypeError(f"items: expected a mapping, got a {type(items).__name__}; for a sequence use SharedList")
        # At most two thirds of the slots are used, so that the search for a key is short.
        slots = 1 << (len(items) * 3 // 2).bit_length()
        table = array("Q", bytes(array("Q").itemsize)) * slots
        self._memory = SharedPieces.of(_pieces(items, table), "SharedDict", table)

    @classmethod
    def _over(cls, memory: SharedPieces) -> SharedDict[_K, _V_co]:
        shared: SharedDict[_K, _V_co] = cls.__new__(cls)
        shared._memory = memory
        return shared

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._memory.stored // 2

    def __iter__(self) -> Iterator[_K]:
        """Yield the keys, in the order of the dict."""
        return (_decoded(self._memory[place]) for place in range(0, self._memory.stored, 2))

    def __getitem__(self, key: _K) -> _V_co:
        """Return the value of `key`, as a new object."""
        number = self._number(key)
        if number is None:
            raise KeyError(key)
        value: _V_co = pickle.loads(self._memory[2 * number + 1])
        return value

    def __contains__(self, key: object) -> bool:
        """Return True if `key` is one of the keys; no value is unpickled."""
        return self._number(key) is not None

    def _number(self, key: Any) -> int | None:
        hash(key)  # A key that cannot be hashed is an error, as in a dict.
        encoded = _encoded(key)
        if encoded is None:
            return None
        memory = self._memory
        table, mask = memory.table, memory.words - 1
        slot, above = _hashed(encoded, mask)
        while word := table[slot]:
            number = (word & _NUMBER_MASK) - 1
            if word >> _NUMBER_BITS == above and memory[2 * number] == encoded:
                return number
            slot = (slot + 1) & mask
        return None

    def __repr__(self) -> str:
        """Show the number of entries and their size; there may be millions of entries."""
        return f"<SharedDict of {len(self)} entries, {len(self._memory.bytes):,} bytes shared>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a reference to the memory, which is shared and not copied."""
        return self._over, (self._memory,)


def _pieces(items: Mapping[Any, Any], table: array[int]) -> Iterator[bytes]:
    """Yield the keys and the pickles of the values in turn, and fill `table` along the way."""
    mask = len(table) - 1
    for number, (key, value) in enumerate(items.items()):
        encoded = _encoded(key)
        if encoded is None:
            raise TypeError(
                f"items: keys should be strings, integers, bytes, or tuples of these, got the key {key!r} "
                f"({type(key).__name__})"
            )
        slot, above = _hashed(encoded, mask)
        while table[slot]:
            slot = (slot + 1) & mask
        table[slot] = above << _NUMBER_BITS | (number + 1)
        yield encoded
        yield pickled(value, f"the value of the key {key!r} of a SharedDict")


def _hashed(encoded: bytes, mask: int) -> tuple[int, int]:
    """Return the first slot and the hash bits to keep. Python's own hash differs between processes."""
    number = int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little")
    return number & mask, number >> _NUMBER_BITS


def _encoded(key: Any) -> bytes | None:
    """Return the key as bytes that are equal for equal keys; None for a key of another type."""
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, numbers.Integral) or (isinstance(key, float) and key.is_integer()):
        return b"i%d" % int(key)  # A dict also finds 1 by True and by 1.0.
    if isinstance(key, tuple):
        parts = [_encoded(part) for part in key]
        if None in parts:
            return None
        return b"t" + b"".join(len(part).to_bytes(_LENGTH_BYTES, "little") + part for part in parts if part is not None)
    return None


def _decoded(encoded: memoryview) -> Any:
    kind, rest = bytes(encoded[:1]), encoded[1:]
    if kind == b"s":
        return str(rest, "utf-8", "surrogatepass")
    if kind == b"b":
        return bytes(rest)
    if kind == b"i":
        return int(bytes(rest))
    parts = []
    while rest:
        length = int.from_bytes(rest[:_LENGTH_BYTES], "little")
        parts.append(_decoded(rest[_LENGTH_BYTES : _LENGTH_BYTES + length]))
        rest = rest[_LENGTH_BYTES + length :]
    return tuple(parts)
