"""`record_members`, `check_numbers`: which data types of HDF5 are read as they are stored."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

# A part of each record: name, data type ("S": text), first byte, and shape (of text: the number of bytes).
Member: TypeAlias = "tuple[str, str, int, tuple[int, ...]]"

_FLOATS = {2: (15, 10, 5, 0, 10), 4: (31, 23, 8, 0, 23), 8: (63, 52, 11, 0, 52)}


class NotReadError(Exception):
    """The array can't be read by its chunks; the message says why."""


class LibraryOnlyError(NotReadError):
    """Only the HDF5 library can read the array; the message says why."""


class NoNumbersError(NotReadError):
    """The array has text, references, or other values without a size."""


def record_members(
    name: str, dataset: Any, member: str | None, with_text: bool, *, by_library: bool = False
) -> list[Member]:
    """Return the parts of records that are read; none if the elements are not records.

    Text of a fixed length is the only part of a record of bytes. If the library reads them (`by_library`), the parts
    follow each other without gaps.

    Raises:
        LibraryOnlyError: one of them has to be read by the library, and `by_library` is False.
        NotReadError: `member`, or all of them if it is None, cannot be read.
    """
    if dataset.dtype.kind == "S" and with_text:
        if not by_library:
            _check_text(dataset.id.get_type())
        return [(name, "S", 0, (dataset.dtype.itemsize,))]
    if dataset.dtype.names is None:
        return []
    kind = dataset.id.get_type()
    if _has_variable_text(kind) and not by_library:
        # The library gives the places that members have in memory, where such text has another size than in the file.
        raise LibraryOnlyError("its records have variable-length text")
    end = 0
    members: list[Member] = []
    for own in dataset.dtype.names:
        dtype, offset = dataset.dtype.fields[own][:2]
        if member not in (None, own):
            continue
        shown = name if member is not None else f"{name}/{own}"
        is_text = dtype.kind == "S" and with_text
        try:
            stored = kind.get_member_type(kind.get_member_index(own.encode()))
            if is_text:
                _check_text(stored)
            else:
                check_numbers(dtype, stored)
        except NotReadError as error:
            is_library_only = isinstance(error, LibraryOnlyError)
            if member is None and not is_library_only:
                continue
            if not (is_library_only and by_library):
                raise type(error)(f"member {own!r}: {error}") from None
        if by_library:
            offset, end = end, end + dtype.itemsize
        if is_text:
            members.append((shown, "S", offset, (dtype.itemsize,)))
            continue
        base, shape = dtype.subdtype if dtype.subdtype else (dtype, ())
        members.append((shown, base.str, offset, shape))
    if not members:
        raise NoNumbersError("its records have no members that are numbers or fixed-length text")
    return members


def check_fill(dataset: Any, members: list[Member]) -> None:
    """Refuse records that were never written and are not zero."""
    fill = np.asarray(fill_value(dataset), dataset.dtype).tobytes()
    for _, dtype, offset, shape in members:
        size = 1 if dtype == "S" else np.dtype(dtype).itemsize
        if any(fill[offset : offset + size * math.prod(shape)]):
            raise LibraryOnlyError("its records have a fill value that is not zero")


def fill_value(dataset: Any) -> Any:
    """Return the element that was never written."""
    try:
        return dataset.fillvalue
    except (RuntimeError, TypeError, ValueError) as error:
        raise NotReadError(f"its fill value can't be read ({error}); read it with h5py") from error


def check_numbers(dtype: np.dtype[Any], kind: Any) -> None:
    """Refuse types that are not numbers, and numbers with bytes other than those of `dtype`, which h5py converts.

    Args:
        dtype: the data type of h5py.
        kind: that of the file, as h5py's low-level interface gives it.
    """
    import h5py

    base = dtype.subdtype[0] if dtype.subdtype else dtype
    if base.kind not in "biufc":
        is_text = h5py.check_string_dtype(base) is not None
        what = "text" if is_text else "variable-length data" if base.kind == "O" else f"data type {base}"
        raise NoNumbersError(f"{what} is not supported, only numbers, bools, and fixed-length text; read it with h5py")
    if base.itemsize > 16 or (base.kind == "f" and base.itemsize > 8):
        raise NotReadError(f"data type {base} is not supported: torch has no type of that size")
    if not _is_plain(base, kind):
        raise LibraryOnlyError("its numbers have an unusual bit layout, which only HDF5 converts")


def _check_text(kind: Any) -> None:
    """Refuse text of a fixed length whose bytes are not those that h5py gives."""
    import h5py

    if kind.get_strpad() == h5py.h5t.STR_SPACEPAD:
        raise LibraryOnlyError("its text is padded with spaces, which HDF5 removes")


def _is_plain(base: np.dtype[Any], kind: Any) -> bool:
    """Return True if the bytes of numbers of `kind` are those of NumPy's `base`."""
    import h5py

    while isinstance(kind, h5py.h5t.TypeArrayID | h5py.h5t.TypeEnumID):
        if isinstance(kind, h5py.h5t.TypeEnumID) and kind.get_size() != base.itemsize:
            # A bool of more than one byte.
            return False
        kind = kind.get_super()
    if isinstance(kind, h5py.h5t.TypeCompoundID):
        # A complex number.
        part, numbers = np.dtype(f"f{base.itemsize // 2}"), range(kind.get_nmembers())
        names = [kind.get_member_name(number).decode() for number in numbers]
        places = [kind.get_member_offset(number) for number in numbers]
        return (
            names == list(h5py.get_config().complex_names)
            and places == [0, part.itemsize]
            and kind.get_size() == base.itemsize
            and all(_is_plain(part, kind.get_member_type(number)) for number in numbers)
        )
    if kind.get_size() != base.itemsize:
        return False
    if isinstance(kind, h5py.h5t.TypeIntegerID | h5py.h5t.TypeFloatID):
        if kind.get_precision() != 8 * kind.get_size() or kind.get_offset() != 0:
            return False
        if kind.get_order() not in (h5py.h5t.ORDER_LE, h5py.h5t.ORDER_BE):
            return False
    return not isinstance(kind, h5py.h5t.TypeFloatID) or kind.get_fields() == _FLOATS.get(kind.get_size())


def _has_variable_text(kind: Any) -> bool:
    import h5py

    if isinstance(kind, h5py.h5t.TypeCompoundID):
        return any(_has_variable_text(kind.get_member_type(number)) for number in range(kind.get_nmembers()))
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return _has_variable_text(kind.get_super())
    return isinstance(kind, h5py.h5t.TypeStringID) and bool(kind.is_variable_str())
