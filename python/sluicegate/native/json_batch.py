"""`json_batch`: batches of parsed JSON values."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from sluicegate import _torch

_NUMBERS = frozenset((bool, int, float))
# Torch's data types for Python's numbers; for lists of them, `torch.tensor` takes three times as long as NumPy.
_DTYPES: dict[type, Any] = {int: np.int64, float: np.float64}
_REMEDY = (
    "write a value there, name the fields to read by `fields=` with `defaults=` (JSON lines), or give a collate_fn"
)


def json_batch(values: Sequence[Any], name: str = "", default: Callable[[Any], Any] = default_collate) -> Any:
    """Return the batch of parsed JSON values: that of `default`, except for lists that no tensor can hold.

    Lists of strings, objects or lists (`messages`), and empty lists, stay one list per sample, like a column of
    Parquet: torch's collate would transpose them, or fail if lengths differ. Objects in such lists keep the keys of
    their JSON text; none are added. Strings may be None, in any sample. Numbers and lists of numbers are left to
    `default`.

    Args:
        values: one per sample; numbers of one type may be a memoryview.
        name: the key that they belong to, for messages.
        default: torch's default collate, or a function that stacks like it.

    Warns:
        UserWarning: the first number is an integer and another is a float, which torch makes float32.

    Raises:
        KeyError: an object lacks a key that another one has. torch's collate drops keys that the first one lacks.
        RuntimeError: lists of numbers have unequal lengths, or a number is None.
        TypeError: a value is None where others are numbers, lists or objects.

    Examples:
        >>> json_batch([{"n": 1, "tags": ["a"]}, {"n": 2, "tags": []}])
        {'n': tensor([1, 2]), 'tags': [['a'], []]}
    """
    if isinstance(values, memoryview):
        # Numbers of one type, as the core returns them.
        if _torch.collate_is_default(default) and _torch.operations_are_plain():
            return torch.from_numpy(np.array(values)).clone()
        return json_batch(values.tolist(), name, default)
    kinds = set(map(type, values))
    has_none = type(None) in kinds
    known = [value for value in values if value is not None] if has_none else list(values)
    kinds.discard(type(None))
    if kinds == {dict} and not has_none:
        _check_keys(known, name)
        inner = f"{name}." if name else ""
        return {key: json_batch([value[key] for value in known], inner + key, default) for key in known[0]}
    if kinds == {str}:
        return list(values)
    parts = set(map(type, chain.from_iterable(known))) if kinds == {list} else set()
    if kinds == {list} and not (parts & _NUMBERS and parts <= {*_NUMBERS, type(None)}):
        if has_none:
            index = _first_none(values)
            raise TypeError(
                f"{_of(name)}: expected a list as in other samples, got None in sample {index} of the batch; {_REMEDY}"
            )
        return known
    if float in kinds | parts:
        _warn_of_rounding(known, name)
    dtype = _DTYPES.get(*parts) if len(parts) == 1 and not has_none else None
    if dtype is not None and _torch.collate_is_default(default):
        with contextlib.suppress(OverflowError, ValueError):  # Torch's errors, and ours, name the problem.
            # Copied: torch would take over the stride of a single number.
            return [torch.tensor(numbers.copy()) for numbers in np.array(values, dtype).T]
    try:
        return default(values)
    except (TypeError, RuntimeError) as error:
        problem = None
        if has_none:
            problem = f"expected a value, got None in sample {_first_none(values)} of the batch; {_REMEDY}"
        elif parts and len({len(value) for value in known}) > 1:
            problem = (
                "expected lists of numbers of equal length, got unequal ones; name the field by `fields=` as [int] or "
                "[float], whose batch is values and offsets, or give a collate_fn"
            )
        if problem is None:
            raise
        raise type(error)(f"{_of(name)}: {problem} ({error})") from None


def _of(name: str) -> str:
    return f"JSON, `{name}`" if name else "JSON"


def _first_none(values: Sequence[Any]) -> int:
    return next(index for index, value in enumerate(values) if value is None)


def _check_keys(objects: Sequence[dict[str, Any]], name: str) -> None:
    """Raise a KeyError if not all objects have the keys of the first one."""
    keys = objects[0].keys()
    for index, each in enumerate(objects):
        if each.keys() != keys:
            key = min(each.keys() ^ keys)
            lacking, having = (0, index) if key in each else (index, 0)
            raise KeyError(
                f"{_of(name)}: expected the same keys in all samples of a batch, got {key!r} in sample {having} of the "
                f"batch but not in sample {lacking}; {_REMEDY}"
            )


def _warn_of_rounding(values: Sequence[Any], name: str) -> None:
    """Warn if torch's default collate makes float32, as it does if the first of the numbers is an integer."""
    columns = zip(*values, strict=False) if isinstance(values[0], list) else (values,)
    if any(isinstance(column[0], int) and any(type(value) is float for value in column) for column in columns):
        warnings.warn(
            f"{_of(name)}: torch's default collate converts integers and floats to float32 if an integer is first, and "
            "rounds them; pass the type float in `fields=` for float64",
            stacklevel=3,
        )
