"""User-facing types of fields, for formats whose samples are parsed."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, get_args, get_origin

import numpy as np
import torch

from sluicegate.native.dataset import Kind

# (name, dtype, shape, is variable, content, bytes of the default): a field as the core takes it.
TypedField: TypeAlias = tuple[str, str, list[int], bool, str, "bytes | None"]

# Python number types, and their data types in a batch. In a sample they are Python numbers.
PYTHON_NUMBERS: Mapping[type, str] = {bool: "bool", int: "int64", float: "float64"}

_TEXTS: Mapping[Any, tuple[str, Kind]] = {
    **dict.fromkeys((str, "str"), ("text", "str")),
    **dict.fromkeys((bytes, "bytes"), ("bytes", "bytes")),
    **dict.fromkeys((object, "json"), ("json", "json")),
}
# By item type: the core's name for a list of them, and its Python kind.
_LISTS: Mapping[str, tuple[str, Kind]] = {
    "text": ("texts", ("nested", '["text"]')),
    "bytes": ("byte strings", ("nested", '["bytes"]')),
}
# The Python kind of a field with an inferred type, by the core's name for its content.
KINDS: Mapping[str, Kind] = {
    "numbers": "ragged",
    "text": "str",
    "bytes": "bytes",
    "json": "json",
    **dict(_LISTS.values()),
}

_NAMES = {"bool": bool, "int": int, "float": float}


def typed_fields(
    fields: Mapping[str, Any], defaults: Mapping[str, Any] | None, *, numbers: str = "number"
) -> tuple[list[TypedField], list[Kind]]:
    """Return the fields in `fields` as the core takes them, and the Python kind of each.

    A type is one of:

    - `int`, `float`, `bool`: a Python number in a sample, a tensor of int64, float64 or bool in a batch;
    - `str`, `bytes`: a string or bytes; lists of them in a batch;
    - `"json"` (or `object`): the value of a JSON text;
    - a torch or NumPy data type, or its name: a scalar tensor;
    - `(data type, shape)`: a tensor of that shape;
    - `list[int]`, `[int]`, `[torch.float32]`, `[(torch.float32, (4,))]`: a variable-length tensor, whose batch is
      `{"values", "offsets"}`;
    - `[str]`, `[bytes]`: a variable-length list of them; a list of such lists in a batch.

    Args:
        fields: types by name.
        defaults: by name, the values of fields that a sample lacks.
        numbers: what `int`, `float` and `bool` are in a sample: "number", or "tensor" for scalar tensors (float32 for
            `float`).

    Raises:
        TypeError: a value is not a type.
        ValueError: a default does not match its field's type, or has no field; or there are no fields.
    """
    if not fields:
        raise ValueError("fields: expected at least one")
    defaults = defaults or {}
    if unknown := [name for name in defaults if name not in fields]:
        raise ValueError(f"defaults: expected names of fields, {list(fields)}, but got {unknown[0]!r}")
    typed, kinds = [], []
    for name, kind in fields.items():
        dtype, shape, is_variable, content, in_python = _typed(name, kind, numbers)
        default = None
        if name in defaults:
            default = _default(name, defaults[name], dtype, shape, is_variable, content)
        typed.append((name, dtype, shape, is_variable, content, default))
        kinds.append(in_python)
    return typed, kinds


def types_by_name(fields: Any) -> dict[str, Any]:
    """Return a copy of `fields`.

    Raises:
        TypeError: it is not a mapping with names as keys.
    """
    if isinstance(fields, Mapping) and all(isinstance(name, str) for name in fields):
        return dict(fields)
    raise TypeError(f"fields: expected types by name, such as {{'label': int}}, but got {fields!r}")


def _typed(name: str, kind: Any, numbers: str) -> tuple[str, list[int], bool, str, Kind]:
    if not isinstance(kind, (list, tuple)) and get_origin(kind) is None and _hashable(kind):
        kind = _NAMES.get(kind, kind)
        if kind in _TEXTS:
            content, in_python = _TEXTS[kind]
            return "uint8", [], True, content, in_python
        if kind in PYTHON_NUMBERS:
            return _number(kind, numbers), [], False, "number", numbers
    if get_origin(kind) is list:
        kind = list(get_args(kind))
    if isinstance(kind, list):
        if len(kind) != 1:
            raise TypeError(f"fields: {name!r}: expected a list of one type, such as [int], but got {kind!r}")
        if _hashable(kind[0]) and (content := _TEXTS.get(kind[0], ("",))[0]) in _LISTS:
            return "uint8", [], True, *_LISTS[content]
        dtype, shape = _tensor(name, kind[0], numbers)
        return dtype, shape, True, "number", "ragged"
    dtype, shape = _tensor(name, kind, numbers)
    return dtype, shape, False, "number", "tensor"


def _tensor(name: str, kind: Any, numbers: str) -> tuple[str, list[int]]:
    shape: list[int] = []
    if isinstance(kind, tuple) and len(kind) == 2:
        kind, sizes = kind
        shape = [int(size) for size in (sizes if isinstance(sizes, Sequence) else (sizes,))]
        if any(size < 0 for size in shape):
            raise ValueError(f"fields: {name!r}: expected sizes of at least 0, but got {sizes!r}")
    if _hashable(kind):
        kind = _NAMES.get(kind, kind)
        if kind in PYTHON_NUMBERS:
            return _number(kind, numbers), shape
        if isinstance(kind, torch.dtype):
            return str(kind).removeprefix("torch."), shape
        if isinstance(kind, str) and isinstance(getattr(torch, kind, None), torch.dtype):
            return kind, shape
        with contextlib.suppress(TypeError):
            return np.dtype(kind).name, shape
    raise TypeError(
        f"fields: {name!r}: expected int, float, bool, str, bytes, 'json', a data type, (data type, shape), or a list "
        f"of one type of numbers, of str, or of bytes, such as [int] or [(torch.float32, (4,))], but got {kind!r}"
    )


def _number(kind: type, numbers: str) -> str:
    return "float32" if kind is float and numbers == "tensor" else PYTHON_NUMBERS[kind]


def _hashable(kind: Any) -> bool:
    try:
        hash(kind)
    except TypeError:
        return False
    return True


def _default(name: str, value: Any, dtype: str, shape: list[int], is_variable: bool, content: str) -> bytes:
    if content == "text" and isinstance(value, str):
        return value.encode()
    if content == "bytes" and isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if content in ("text", "bytes"):
        raise ValueError(f"defaults: {name!r}: expected a value of the type of the field, but got {value!r}")
    if content == "json":
        return json.dumps(value, allow_nan=False).encode()
    if content in ("texts", "byte strings"):
        item = str if content == "texts" else (bytes, bytearray)
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, item) for each in value):
            raise ValueError(f"defaults: {name!r}: expected a value of the type of the field, but got {value!r}")
        items = [each.encode() if isinstance(each, str) else each for each in value]
        # The format of the core's `NestedType`: not null, the number of items, no item is null; then length and bytes
        # of each.
        return struct.pack("=xIx", len(items)) + b"".join(struct.pack("=I", len(each)) + each for each in items)
    try:
        tensor = torch.as_tensor(value, dtype=getattr(torch, dtype))
        tensor = tensor.reshape([-1, *shape]) if is_variable else tensor.expand(shape)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"defaults: {name!r}: expected a value of the type of the field, but got {value!r} ({error})"
        ) from None
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
