"""Column selection and conversion shared by the formats with Arrow-like columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sluicegate import _core
from sluicegate.native.dataset import Kind, Lists, checked_lists, list_kind

# A value that replaces nulls, or "error", "mask", "mask_elements", ("fill", value).
Nulls: TypeAlias = Any
Columns: TypeAlias = "str | Sequence[str] | None"

# The Python kind of each of the core's kinds.
_KINDS: Mapping[str, Kind] = {
    "tensor": "tensor",
    "raw": "ragged",
    "str": "str",
    "bytes": "bytes",
    "optional str": ("optional", "str"),
    "optional bytes": ("optional", "bytes"),
}


def checked_columns(columns: Any) -> str | tuple[str, ...] | None:
    """Return a copy of the argument `columns`.

    Raises:
        TypeError: it is neither a name nor a list of names.
    """
    if columns is None or isinstance(columns, str):
        return columns
    if isinstance(columns, Sequence) and all(isinstance(column, str) for column in columns):
        return tuple(columns)
    raise TypeError(f"columns: expected names of columns, but got {columns!r}")


def columnar_arguments(columns: Columns, nulls: Nulls, strings: str, lists: Lists, decimals: str) -> dict[str, Any]:
    """Return the arguments that these formats share, as the core takes them.

    Raises:
        ValueError: an argument is not one of its choices.
    """
    for name, found, words in (("strings", strings, ("str", "bytes")), ("decimals", decimals, ("float", "int"))):
        if found not in words:
            raise ValueError(f"{name}: expected {words[0]!r} or {words[1]!r}, but got {found!r}")
    checked_lists(lists)
    of_columns = nulls if isinstance(nulls, Mapping) else {None: nulls}
    rules = [(name, *_rule(name, rule)) for name, rule in of_columns.items()]
    names = [columns] if isinstance(columns, str) else columns
    return {
        "columns": None if names is None else list(names),
        "nulls": rules,
        "strings": strings,
        "decimals": decimals,
    }


def _rule(name: Any, rule: Any) -> tuple[str, Any]:
    if isinstance(rule, str) and rule in ("error", "mask", "mask_elements"):
        return rule, None
    if isinstance(rule, tuple) and len(rule) == 2 and rule[0] == "fill":
        rule = rule[1]
    of = "" if name is None else f"[{name!r}]"
    return "fill", plain_value(f"nulls{of}", rule)


def plain_value(argument: str, value: Any) -> bool | int | float | str | bytes:
    """Return `value` as one of Python's own types.

    Raises:
        TypeError: it cannot be converted; the message names `argument`.
        ValueError: an integer does not fit in 64 bits.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int, float, str, bytes)):
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise ValueError(f"{argument}: expected an integer that fits in 64 bits, but got {value}")
        return value
    raise TypeError(f"{argument}: expected a bool, int, float, str or bytes, but got {value!r}")


def kinds_of(core: _core.Dataset, kinds: Sequence[str], lists: Lists) -> list[Kind]:
    """Return the Python kinds of the fields of `core`, given the core's `kinds`."""
    return [_kind(field, kind, lists) for field, kind in zip(core.fields, kinds, strict=True)]


def _kind(field: tuple[str, str, list[int]], kind: str, lists: Lists) -> Kind:
    name, dtype, _ = field
    if kind.startswith("nested "):
        return "nested", kind.removeprefix("nested ")
    if kind == "list mask":
        return "ragged" if isinstance(lists, str) else ("padded", b"\0")
    return list_kind(lists, dtype, f"column `{name}`") if kind == "list" else _KINDS[kind]


def structure_of(structure: Any, columns: Columns) -> Any:
    """Return how samples are nested: like `structure`, or the single column if `columns` is one name."""
    if not isinstance(columns, str):
        return structure
    while isinstance(structure, dict) and len(structure) == 1:
        (name, inner), *_ = structure.items()
        if columns == name:
            return inner
        if not columns.startswith(f"{name}."):
            break
        structure, columns = inner, columns[len(name) + 1 :]
    return structure
