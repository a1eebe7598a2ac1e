"""`ClassIndex`: which samples belong to which class, for labels of any kind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from sluicegate import _core

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_Described: TypeAlias = tuple[str, str, int, tuple[int, ...], tuple[int, ...], object]

# How many classes a message lists.
_NAMED = 10


class ClassIndex:
    """The samples of every class. Immutable, so samplers and loaders share it.

    Takes 4 bytes per sample (8 from 2^32 samples on) and about 100 per class, in addition to the labels, which are
    kept. 10^8 integers are indexed in seconds.

    Args:
        labels: the class of each sample: a list, array or tensor of integers, strings or anything that can be a dict
            key.

    Attributes:
        labels: as given.
        classes: the classes, in ascending order; if they cannot be compared, in order of first appearance.
        counts: the number of samples of each class.

    Raises:
        TypeError: a label cannot be a dict key.
        ValueError: a label is more than one number, or is NaN.

    Examples:
        >>> index = ClassIndex(["dog", "cat", "dog"])
        >>> index.classes, index.counts, index.samples_of("dog").tolist()
        (['cat', 'dog'], [1, 2], [0, 2])
    """

    core: _core.ClassIndex

    def __init__(self, labels: Any) -> None:
        self.labels = labels
        codes, classes = _codes(labels)
        self.core = _core.ClassIndex(described(codes))
        self.classes: list[Any] = self.core.classes if classes is None else classes
        self.counts: list[int] = self.core.counts
        self._places = {label: number for number, label in enumerate(self.classes)}

    @classmethod
    def of(cls, labels: Any) -> ClassIndex:
        """Return `labels` if it is already an index, otherwise an index of it."""
        return labels if isinstance(labels, ClassIndex) else cls(labels)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.core)

    def __contains__(self, label: object) -> bool:
        """Return True if there is a sample of this class."""
        try:
            return plain_label(label) in self._places
        except TypeError:
            return False

    def place_of(self, label: Any) -> int:
        """Return the position of a class in `classes`.

        Raises:
            KeyError: the class has no samples; the message names some that do.
        """
        number = self._places.get(plain_label(label))
        if number is None:
            raise UnknownClassError(f"no sample has the class {label!r}; {self.known()}")
        return number

    def known(self) -> str:
        """Describe the classes for a message: a few names, and how many there are."""
        names = ", ".join(map(repr, self.classes[:_NAMED]))
        more = ", …" if len(self.classes) > _NAMED else ""
        what = "class" if len(self.classes) == 1 else "classes"
        return f"the labels have {len(self.classes)} {what}{': ' if names else ''}{names}{more}"

    def samples_of(self, label: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the indices of the samples of a class, in ascending order: int64."""
        return np.array(np.frombuffer(self.core.samples(self.place_of(label)), np.int64))

    def identity(self) -> str:
        """Return a description of the labels that is part of a sampler's `identity`, and so of states."""
        return f"{len(self)} labels, {self.core.digest():016x}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the labels; the index is rebuilt on the other side."""
        return ClassIndex, (self.labels,)

    def __copy__(self) -> ClassIndex:
        """Return the index itself, because it is immutable."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ClassIndex:
        """Return the index itself, because it is immutable."""
        return self


class UnknownClassError(KeyError):
    """A class without samples. A `KeyError` that shows its text as a message, not as the repr of a key."""

    def __str__(self) -> str:
        return str(self.args[0])


def plain_label(label: Any) -> Any:
    """Return a label as a plain Python value; for a tensor or a NumPy scalar, its number."""
    if isinstance(label, (torch.Tensor, np.generic, np.ndarray)):
        if isinstance(label, (torch.Tensor, np.ndarray)) and (label.ndim > 1 or label.shape not in ((), (1,))):
            raise ValueError(f"label: expected one value, but got an array of shape {tuple(label.shape)}")
        return label.item()
    return label


def integers(name: str, values: Any) -> _Array:
    """Return `values` as a one-dimensional array of integers that the core can read, without a copy if possible.

    Raises:
        TypeError: `values` are not integers.
        ValueError: `values` do not have exactly one axis.
    """
    array = _array(values)
    if array is None:
        array = np.array([plain_label(value) for value in values])
        array = array.astype(np.int64) if len(array) == 0 else array
    if array.ndim != 1:
        raise ValueError(f"{name} should have one axis, but got an array of shape {array.shape}")
    readable = _readable(array)
    if readable is None:
        raise TypeError(f"{name} should be integers of up to 64 bits, but got {array.dtype}")
    return readable


def described(array: _Array) -> _Described:
    """Return `array` as the core takes it: name, data type, address, shape, strides, owner."""
    return "", array.dtype.name, array.__array_interface__["data"][0], array.shape, array.strides, array


def _array(values: Any) -> _Array | None:
    """Return `values` as an array if it is one or has a conversion to one; None for lists and similar sequences."""
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    if isinstance(values, np.ndarray):
        return values
    return np.asarray(values) if hasattr(values, "__array__") or isinstance(values, range) else None


def _readable(array: _Array) -> _Array | None:
    """Return `array` in native byte order without negative strides, as the core reads it; None if not integers."""
    if array.dtype.kind not in "iub":
        return None
    if array.dtype == np.uint64:
        if len(array) and array.max() >= 2**63:
            return None
        array = array.astype(np.int64)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array if all(stride >= 0 for stride in array.strides) else np.ascontiguousarray(array)


def _codes(labels: Any) -> tuple[_Array, list[Any] | None]:
    """Return integer codes for `labels`, and the class of each code; None if the codes are the labels."""
    array = _array(labels)
    if array is None:
        values: Sequence[Any] = labels if isinstance(labels, (list, tuple)) else list(labels)
        if all(type(value) is int for value in values):
            try:
                return np.array(values, dtype=np.int64), None
            except OverflowError:
                pass
        return _coded(values)
    if array.ndim != 1:
        raise ValueError(f"labels: expected one value for each sample, but got an array of shape {array.shape}")
    if array.dtype.kind in "iu" and (readable := _readable(array)) is not None:
        return readable, None
    if array.dtype.kind == "O":
        return _coded(array.tolist())
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"labels: expected a class, but got NaN for sample {int(np.isnan(array).argmax())}")
    classes, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int64, copy=False), classes.tolist()


def _coded(values: Iterable[Any]) -> tuple[_Array, list[Any]]:
    """Return codes for labels of any kind, in ascending order if they can be compared."""
    seen: dict[Hashable, int] = {}
    codes: list[int] = []
    for sample, value in enumerate(values):
        label = plain_label(value)
        try:
            codes.append(seen.setdefault(label, len(seen)))
        except TypeError:
            raise TypeError(
                f"labels: expected a value that can be the key of a dict, but got {label!r} ({type(label).__name__}) "
                f"for sample {sample}"
            ) from None
        if label != label:
            raise ValueError(f"labels: expected a value that is equal to itself, but got {label!r} for sample {sample}")
    classes: list[Any] = list(seen)
    try:
        classes.sort()
    except TypeError:
        return np.array(codes, dtype=np.int64), classes
    renamed = np.empty(len(classes), dtype=np.int64)
    for number, label in enumerate(classes):
        renamed[seen[label]] = number
    return renamed[np.array(codes, dtype=np.int64)], classes
