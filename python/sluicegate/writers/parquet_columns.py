"""`ParquetSchema`: the types of the fields of samples in Parquet, and samples as columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from sluicegate.named_error import named_error

from .parquet_nested import Encoder, MisfitError, as_text, both, form_of, from_text, is_nested, unknown_part

Array = np.ndarray[Any, np.dtype[Any]]

# NumPy's data types that Arrow has too.
_DTYPES = frozenset(
    ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")
)

_NO_SAMPLES = np.empty(0, bool)

# The prefix of `ParquetField.element` of nested fields.
_NESTED = "nested "


class ParquetField(NamedTuple):
    """The type of a field in all samples."""

    name: str
    element: str
    """A data type, "str" or "bytes"; or "nested" followed by the form as a text for the core."""
    is_list: bool
    """True if a sample has any number of elements."""
    shape: tuple[int, ...]
    """The shape of an element."""

    def __str__(self) -> str:
        """Describe the field for errors."""
        shape = f" of shape {self.shape}" if self.shape else ""
        return f"{'a list of ' if self.is_list else ''}{self.element}{shape}"


class ParquetColumn(NamedTuple):
    """A field of some samples: the arguments of the core's `append_columns`, as arrays."""

    values: bytes
    sizes: Array
    lengths: Array
    missing: Array


class ParquetSchema:
    """The fields of samples, as determined by the first ones.

    Args:
        fields: the fields, in order.
        are_tuples: True if samples are tuples, whose fields are named by position.
    """

    def __init__(self, fields: list[ParquetField], *, are_tuples: bool) -> None:
        self.fields = fields
        self.are_tuples = are_tuples

    @classmethod
    def of(cls, samples: list[Any], ragged: Collection[str]) -> ParquetSchema:
        """Return the schema of `samples`; `ragged` are fields whose arrays differ in length.

        Raises:
            TypeError, ValueError: the samples have no schema, or not the same one; the message names sample and field.
        """
        are_tuples = isinstance(samples[0], (tuple, list))
        parts = [_parts(sample, index, are_tuples=are_tuples) for index, sample in enumerate(samples)]
        names = list(parts[0])
        if not names:
            raise ValueError("sample 0: expected at least one field, but got an empty sample")
        for name in ragged:
            if name not in names:
                raise ValueError(f"ragged: expected fields among {', '.join(names)}, but got {name!r}")
        schema = cls([], are_tuples=are_tuples)
        for index, of_sample in enumerate(parts):
            _check_names(of_sample, names, index)
        for name in names:
            if any(is_nested(of_sample[name]) for of_sample in parts):
                schema.fields.append(_nested_field(name, [of_sample[name] for of_sample in parts]))
                continue
            field = None
            for index, of_sample in enumerate(parts):
                try:
                    found = _field_of(name, of_sample[name], name in ragged)
                    field = found if field is None else _both(field, found)
                except (TypeError, ValueError) as error:
                    raise named_error(f"sample {index}, field {name!r}", error) from None
            if field is None or not field.element:
                raise ValueError(
                    f"field {name!r}: its type is unknown, because it is None or empty in all of the first "
                    f"{len(parts)} samples; begin with a sample that has a value, or leave the field out"
                )
            schema.fields.append(field)
        return schema

    def as_json(self) -> dict[str, Any]:
        """Return the schema in JSON types, for `from_json`."""
        return {"fields": [[*field[:3], list(field.shape)] for field in self.fields], "tuples": self.are_tuples}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> ParquetSchema:
        """Return the schema on which `as_json` was called."""
        fields = [
            ParquetField(name, element, is_list, tuple(shape)) for name, element, is_list, shape in known["fields"]
        ]
        return cls(fields, are_tuples=known["tuples"])

    def columns(self, samples: list[Any], first: int) -> list[ParquetColumn]:
        """Return the columns of `samples`, the first of which has index `first`.

        Raises:
            TypeError, ValueError: a sample does not match the schema; the message names sample and field.
        """
        parts = [_parts(sample, index, are_tuples=self.are_tuples) for index, sample in enumerate(samples, first)]
        names = [field.name for field in self.fields]
        for index, of_sample in enumerate(parts, first):
            _check_names(of_sample, names, index)
        return [_column(field, [of_sample[field.name] for of_sample in parts], first) for field in self.fields]


def row_bytes(columns: list[ParquetColumn], fields: list[ParquetField], row: int) -> Iterator[bytes]:
    """Yield row `row` of `columns` as bytes that distinguish it from other rows."""
    for column, field in zip(columns, fields, strict=True):
        start, stop = row, row + 1
        if field.is_list:
            start, stop = (int(column.lengths[:end].sum()) for end in (row, row + 1))
        if _is_blob(field):
            yield column.sizes[start:stop].tobytes()
            start, stop = (int(column.sizes[:end].sum()) for end in (start, stop))
            width = 1
        else:
            width = np.dtype(field.element).itemsize * int(np.prod(field.shape, dtype=np.int64))
        yield column.values[start * width : stop * width]
        yield bytes([bool(column.missing[row])]) if len(column.missing) else b"\0"


def _parts(sample: Any, index: int, *, are_tuples: bool) -> dict[str, Any]:
    if are_tuples and isinstance(sample, (tuple, list)):
        return {str(position): part for position, part in enumerate(sample)}
    if not are_tuples and isinstance(sample, Mapping):
        for name in sample:
            if not isinstance(name, str) or not name:
                raise ValueError(f"sample {index}: expected a non-empty string as name of a field, but got {name!r}")
        return dict(sample)
    expected = "a tuple, as the first sample is" if are_tuples else "a dict or a tuple of fields"
    raise TypeError(f"sample {index}: expected {expected}, but got {type(sample).__name__}")


def _check_names(found: Mapping[str, Any], names: list[str], index: int) -> None:
    if len(found) == len(names) and all(name in found for name in names):
        return
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"sample {index}: field {missing[0]!r} is missing; pass None where there is no value")
    more = next(name for name in found if name not in names)
    raise ValueError(f"sample {index}: field {more!r} is not in the first samples, which have {', '.join(names)}")


def _field_of(name: str, value: Any, is_ragged: bool) -> ParquetField | None:
    """Return the field that a value implies; an element "" is unknown, and None implies nothing."""
    if value is None:
        return None
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return ParquetField(name, "str" if isinstance(value, str) else "bytes", False, ())
    if isinstance(value, (list, tuple)):
        elements = [_field_of(name, element, False) for element in value]
        if any(element is None or element.is_list or element.shape for element in elements):
            raise TypeError(
                "expected a list of numbers, strings or bytes, but got other elements; pass an array, or JSON"
            )
        field = ParquetField(name, "", True, ())
        for element in elements:
            assert element is not None
            field = _both(field, element._replace(is_list=True))
        return field
    if isinstance(value, bool):
        return ParquetField(name, "bool", False, ())
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return ParquetField(name, "int64" if isinstance(value, int) else "float64", False, ())
    array = _array(value)
    if is_ragged:
        if array.ndim == 0:
            raise ValueError("expected an array whose first axis differs in length, but got a number")
        return ParquetField(name, array.dtype.name, True, array.shape[1:])
    return ParquetField(name, array.dtype.name, False, array.shape)


def _nested_field(name: str, values: list[Any]) -> ParquetField:
    form = None
    for index, value in enumerate(values):
        try:
            form = both(form, form_of(value, _array))
        except MisfitError as misfit:
            raise _misfit(index, name, misfit) from None
    path = unknown_part(form)
    if path is not None:
        raise ValueError(
            f"field '{name}{path}': its type is unknown, because it is None or empty in all of the first "
            f"{len(values)} samples; begin with a sample that has a value, or leave the field out"
        )
    return ParquetField(name, f"{_NESTED}{as_text(form)}", False, ())


def _misfit(index: int, name: str, misfit: MisfitError) -> Exception:
    kind = TypeError if isinstance(misfit.error, TypeError) else ValueError
    return kind(f"sample {index}, field '{name}{misfit.path}': {misfit.error}")


def _is_blob(field: ParquetField) -> bool:
    """Return True if its elements are byte strings of any length."""
    return field.element in ("str", "bytes") or field.element.startswith(_NESTED)


def _array(value: Any) -> Array:
    if isinstance(value, torch.Tensor):
        if value.dtype in (torch.bfloat16, torch.complex32) or str(value.dtype).startswith("torch.float8"):
            raise TypeError(f"Parquet has no type {str(value.dtype).removeprefix('torch.')}; convert it")
        value = value.detach().cpu().numpy()
    elif not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(
            f"expected a tensor, an array, a number, a str, bytes or a list of these, but got {type(value).__name__}"
        )
    array = np.asarray(value)
    if array.dtype.name not in _DTYPES:
        raise TypeError(f"Parquet has no type {array.dtype.name}; convert it")
    return array


def _both(field: ParquetField, other: ParquetField | None) -> ParquetField:
    """Return the field type that covers both."""
    if other is None or field == other or (not other.element and field.is_list):
        return field
    if not field.element and other.is_list:
        return other
    # Integers among floats count as floats.
    if {field.element, other.element} == {"int64", "float64"} and field[2:] == other[2:]:
        return field._replace(element="float64")
    both_one_axis = len(field.shape) == 1 and len(other.shape) == 1 and not (field.is_list or other.is_list)
    if field.element == other.element and (both_one_axis or _is_ragged(field, other)):
        return field._replace(is_list=True, shape=())
    raise ValueError(f"it is {other}, but was {field} before")


def _is_ragged(field: ParquetField, other: ParquetField) -> bool:
    """Return True if one is an array with one axis, and the other is known to vary in length."""
    return field.is_list != other.is_list and len(field.shape) + len(other.shape) == 1


def _nested_column(field: ParquetField, values: list[Any], first: int) -> ParquetColumn:
    form = from_text(field.element.removeprefix(_NESTED))
    encoder = Encoder(_array, _scalar)
    blobs: list[bytes] = []
    for index, value in enumerate(values, first):
        try:
            blobs.append(encoder.encoded(form, value))
        except MisfitError as misfit:
            raise _misfit(index, field.name, misfit) from None
    sizes = np.array([len(blob) for blob in blobs], np.int64)
    return ParquetColumn(b"".join(blobs), sizes, np.empty(0, np.int64), _NO_SAMPLES)


def _scalar(dtype: str, value: Any) -> Array:
    """Return one number of `dtype`, from within a list or a dict."""
    field = ParquetField("", dtype, False, ())
    if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
        return _exact(field, value)
    return _numbers(field, value)


def _column(field: ParquetField, values: list[Any], first: int) -> ParquetColumn:
    if field.element.startswith(_NESTED):
        return _nested_column(field, values, first)
    missing = np.array([value is None for value in values], bool)
    if not missing.any():
        missing = _NO_SAMPLES
    is_blob = field.element in ("str", "bytes")
    blobs: list[bytes] = []
    arrays: list[Array] = []
    lengths: list[int] = []
    empty = None if is_blob else np.zeros(() if field.is_list else field.shape, field.element)
    for index, value in enumerate(values, first):
        try:
            if is_blob and field.is_list:
                elements = [] if value is None else [_blob(field, element) for element in _listed(value)]
                blobs.extend(elements)
                lengths.append(len(elements))
            elif is_blob:
                blobs.append(b"" if value is None else _blob(field, value))
            elif value is not None:
                array = _numbers(field, value)
                arrays.append(array)
                if field.is_list:
                    lengths.append(len(array))
            elif field.is_list:
                lengths.append(0)
            else:
                assert empty is not None
                arrays.append(empty)
        except (TypeError, ValueError, OverflowError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"sample {index}, field {field.name!r}: {error}") from None
    if is_blob:
        return ParquetColumn(
            b"".join(blobs), np.array([len(blob) for blob in blobs], np.int64), np.array(lengths, np.int64), missing
        )
    if field.is_list:
        joined = np.concatenate(arrays).tobytes() if arrays else b""
    else:
        joined = np.stack(arrays).tobytes() if field.shape else np.array(arrays, field.element).tobytes()
    return ParquetColumn(joined, np.empty(0, np.int64), np.array(lengths, np.int64), missing)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list, but got {type(value).__name__}")
    return list(value)


def _blob(field: ParquetField, value: Any) -> bytes:
    if field.element == "str":
        if isinstance(value, str):
            return value.encode()
    elif isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"expected {field.element}, but got {type(value).__name__}")


def _numbers(field: ParquetField, value: Any) -> Array:
    """Return the elements of one sample."""
    if isinstance(value, (int, float)) and not isinstance(value, np.generic) and not field.shape and not field.is_list:
        return _exact(field, value)
    if isinstance(value, (list, tuple)) and field.is_list and not field.shape:
        return np.array([_exact(field, element) for element in value], field.element)
    array = _array(value)
    expected = field.shape
    found = array.shape[1:] if field.is_list and array.ndim else array.shape
    if array.dtype.name != field.element or found != expected or (field.is_list and not array.ndim):
        hint = ""
        if array.dtype.name == field.element and array.ndim == 1 and len(expected) == 1:
            hint = f"; pass ragged=[{field.name!r}] if its length differs"
        raise ValueError(f"it is {array.dtype.name} of shape {array.shape}, but was {field} in the first samples{hint}")
    return array


def _exact(field: ParquetField, value: Any) -> Array:
    """Return a number in the field's data type."""
    kind = np.dtype(field.element).kind
    if isinstance(value, np.generic):
        if value.dtype.name != field.element:
            raise ValueError(f"it is {value.dtype.name}, but was {field} in the first samples")
    elif not (
        (kind == "b" and isinstance(value, bool))
        or (kind in "iu" and isinstance(value, int) and not isinstance(value, bool))
        or (kind == "f" and isinstance(value, (int, float)) and not isinstance(value, bool))
    ):
        raise ValueError(f"it is {type(value).__name__} {value!r}, but was {field} in the first samples")
    if kind in "iu" and not np.iinfo(field.element).min <= value <= np.iinfo(field.element).max:
        raise ValueError(f"expected a value in the range of {field.element}, but got {value}")
    return np.asarray(value, field.element)
