"""Dicts, lists of lists and lists of dicts in samples: their form in Parquet, and their bytes in columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[Any]]

# A data type, "text" or "bytes"; [form of items]; forms of parts by name; None if not yet known.
Form: TypeAlias = Any

# The nesting depth that other readers support.
_DEEPEST = 32


class MisfitError(Exception):
    """A value that cannot be written.

    Attributes:
        path: the part of the sample's field: `[2].role`.
        error: the reason, as the error that the user gets.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.path = ""
        self.error = error

    def within(self, part: int | str | None) -> MisfitError:
        """Return this error with `part` put before its path; None stands for any index in a list."""
        self.path = (f".{part}" if isinstance(part, str) else f"[{'' if part is None else part}]") + self.path
        return self


def is_nested(value: Any) -> bool:
    """Return True if neither an array nor a list of scalars can hold `value`."""
    if isinstance(value, Mapping):
        return True
    if not isinstance(value, (list, tuple)):
        return False
    return any(
        each is None or isinstance(each, (list, tuple, Mapping)) or (hasattr(each, "shape") and len(each.shape) > 0)
        for each in value
    )


def form_of(value: Any, as_array: Callable[[Any], Array], depth: int = 0) -> Form:
    """Return the form of a value, as far as the value shows it.

    Args:
        value: any value.
        as_array: makes an array from a tensor, an array or a NumPy scalar, or raises the reason why it cannot be
            written.
        depth: how many lists and dicts contain the value.

    Raises:
        MisfitError: the value cannot be written.
    """
    if depth > _DEEPEST:
        raise MisfitError(ValueError(f"expected at most {_DEEPEST} levels of nesting, but got more"))
    if value is None:
        return None
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes"
    if isinstance(value, Mapping):
        if not value:
            raise MisfitError(ValueError("expected a dict with keys, but got an empty one"))
        parts = {}
        for name, part in value.items():
            if not isinstance(name, str) or not name:
                raise MisfitError(ValueError(f"expected a string as key, but got {name!r}"))
            try:
                parts[name] = form_of(part, as_array, depth + 1)
            except MisfitError as misfit:
                raise misfit.within(name) from None
        return parts
    if isinstance(value, (list, tuple)):
        item: Form = None
        for index, each in enumerate(value):
            try:
                item = both(item, form_of(each, as_array, depth + 1))
            except MisfitError as misfit:
                raise misfit.within(index) from None
        return [item]
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
    try:
        array = as_array(value)
    except (TypeError, ValueError) as error:
        raise MisfitError(error) from None
    form: Form = array.dtype.name
    for _ in array.shape:
        form = [form]
    return form


def both(form: Form, other: Form) -> Form:
    """Return the form that covers both.

    Raises:
        MisfitError: no form covers both.
    """
    if form is None or other is None:
        return form if other is None else other
    if isinstance(form, list) and isinstance(other, list):
        try:
            return [both(form[0], other[0])]
        except MisfitError as misfit:
            raise misfit.within(None) from None
    if isinstance(form, dict) and isinstance(other, dict):
        _check_keys(other, form)
        merged = {}
        for name, part in form.items():
            try:
                merged[name] = both(part, other[name])
            except MisfitError as misfit:
                raise misfit.within(name) from None
        return merged
    if form == other:
        return form
    # Integers among floats count as floats.
    if isinstance(form, str) and isinstance(other, str) and {form, other} == {"int64", "float64"}:
        return "float64"
    raise MisfitError(ValueError(f"it is {in_words(other)}, but was {in_words(form)} before"))


def in_words(form: Form) -> str:
    """Describe a form for errors."""
    if isinstance(form, dict):
        return f"a dict of {', '.join(form)}"
    if isinstance(form, list):
        return "a list" if form[0] is None else f"a list of {in_words(form[0])}"
    return str({"text": "str", None: "None"}.get(form, form))


def unknown_part(form: Form) -> str | None:
    """Return the path of a part whose form is still unknown; None if there is none."""
    if isinstance(form, dict):
        inner = ((f".{name}", unknown_part(part)) for name, part in form.items())
        return next((name + path for name, path in inner if path is not None), None)
    if isinstance(form, list):
        path = unknown_part(form[0])
        return None if path is None else f"[]{path}"
    return "" if form is None else None


def as_text(form: Form) -> str:
    """Return a form as the core takes it."""

    def spec(form: Form) -> Any:
        if isinstance(form, dict):
            return ["dict", *([name, spec(part)] for name, part in form.items())]
        return [spec(form[0])] if isinstance(form, list) else form

    return json.dumps(spec(form))


def from_text(text: str) -> Form:
    """Return the form on which `as_text` was called."""

    def form(spec: Any) -> Form:
        if isinstance(spec, str):
            return spec
        if spec[0] == "dict":
            return {name: form(part) for name, part in spec[1:]}
        return [form(spec[0])]

    return form(json.loads(text))


class Encoder:
    """Encodes values as bytes in the layout that the core's `NestedType` describes.

    Args:
        as_array: as for `form_of`.
        as_number: converts a value exactly to a number of a data type, or raises the reason why it cannot.
    """

    def __init__(self, as_array: Callable[[Any], Array], as_number: Callable[[str, Any], Array]) -> None:
        self.as_array = as_array
        self.as_number = as_number

    def encoded(self, form: Form, value: Any) -> bytes:
        """Return the bytes of `value`.

        Raises:
            MisfitError: the value does not have that form.
        """
        out = bytearray()
        self._put_one(form, value, out)
        return bytes(out)

    def _put_one(self, form: Form, value: Any, out: bytearray) -> None:
        if value is None:
            out += b"\1\0"
            return
        out += b"\0"
        self._put(form, value, out)

    def _put(self, form: Form, value: Any, out: bytearray) -> None:
        if isinstance(form, dict):
            if not isinstance(value, Mapping):
                raise _other(form, value)
            _check_keys(value, form)
            for name, part in form.items():
                try:
                    self._put_one(part, value[name], out)
                except MisfitError as misfit:
                    raise misfit.within(name) from None
        elif isinstance(form, list):
            self._put_list(form[0], value, out)
        elif form == "text":
            if not isinstance(value, str):
                raise _other(form, value)
            try:
                _put_blob(value.encode(), out)
            except ValueError as error:
                raise MisfitError(error) from None
        elif form == "bytes":
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise _other(form, value)
            _put_blob(bytes(value), out)
        else:
            try:
                out += self.as_number(form, value).tobytes()
            except (TypeError, ValueError, OverflowError) as error:
                raise MisfitError(error) from None

    def _put_list(self, item: Form, value: Any, out: bytearray) -> None:
        if isinstance(value, (torch.Tensor, np.ndarray)):
            try:
                self._put_array(item, self.as_array(value), out)
            except (TypeError, ValueError) as error:
                raise MisfitError(error) from None
            return
        if not isinstance(value, (list, tuple)):
            raise _other([item], value)
        out += len(value).to_bytes(4, _ORDER)
        missing = [each is None for each in value]
        out += b"\1" + bytes(not each for each in missing) if any(missing) else b"\0"
        for index, each in enumerate(value):
            if each is not None:
                try:
                    self._put(item, each, out)
                except MisfitError as misfit:
                    raise misfit.within(index) from None

    def _put_array(self, item: Form, array: Array, out: bytearray) -> None:
        if not array.ndim:
            raise _other([item], array)
        out += len(array).to_bytes(4, _ORDER) + b"\0"
        if isinstance(item, list):
            for row in array:
                self._put_array(item[0], np.asarray(row), out)
        elif array.dtype.name != item or array.ndim > 1:
            raise _other([item], array)
        else:
            out += array.tobytes()


# The machine's byte order, which the core uses too.
_ORDER: Any = "little" if np.little_endian else "big"


def _put_blob(blob: bytes, out: bytearray) -> None:
    out += len(blob).to_bytes(4, _ORDER)
    out += blob


def _other(form: Form, value: Any) -> MisfitError:
    found = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
    return MisfitError(TypeError(f"expected {in_words(form)}, as the first samples have, but got {found}"))


def _check_keys(found: Mapping[str, Any], form: dict[str, Form]) -> None:
    if len(found) == len(form) and all(name in found for name in form):
        return
    missing = [name for name in form if name not in found]
    if missing:
        raise MisfitError(ValueError(f"key {missing[0]!r} is missing; pass None where there is no value"))
    more = next(name for name in found if name not in form)
    raise MisfitError(ValueError(f"key {more!r} is not in those of the first samples, which have {', '.join(form)}"))
