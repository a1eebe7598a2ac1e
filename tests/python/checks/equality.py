"""Comparison without tolerance: container types, tensor layout, flags and bits."""

from __future__ import annotations

import dataclasses
import struct
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy
import torch

TENSOR_FACTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dtype": lambda t: t.dtype,
    "device": lambda t: t.device,
    "layout": lambda t: t.layout,
    "shape": lambda t: tuple(t.shape),
    "stride": lambda t: t.stride(),
    "storage_offset": lambda t: t.storage_offset(),
    "requires_grad": lambda t: t.requires_grad,
    "grad_fn": lambda t: type(t.grad_fn).__name__,
    "is_inference": lambda t: t.is_inference(),
    "is_conj": lambda t: t.is_conj(),
    "is_neg": lambda t: t.is_neg(),
    "is_pinned": lambda t: t.is_pinned(),
}


# In a worker, torch stacks into shared memory and reports samples of unequal shape this way; elsewhere it names the
# cause.
SAME_ERROR = {"Trying to resize storage that is not resizable": "stack expects each tensor to be equal size"}


def bits(tensor: torch.Tensor) -> bytes:
    """Return the elements as bytes in logical order, so that NaNs and signed zeros are compared exactly."""
    with torch.no_grad():
        plain = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
        flat = plain.clone(memory_format=torch.contiguous_format).reshape(-1)
        return flat.view(torch.uint8).numpy().tobytes()


def difference(actual: Any, expected: Any, path: str = "value") -> str | None:
    """Return a description of the first difference, or None."""
    if type(actual) is not type(expected):
        return f"{path}: type {type(actual)!r}, expected {type(expected)!r}"
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(actual, expected, path)
    if isinstance(expected, BaseException):
        # Our messages may add to torch's: the sampler, the dataset, and the remedy.
        words = message_of(expected)
        missing = words not in str(actual) and SAME_ERROR.get(words, words) not in str(actual)
        return f"{path}: {actual}, expected it to contain {message_of(expected)!r}" if missing else None
    if isinstance(expected, numpy.ndarray):
        return _array_difference(actual, expected, path)
    if isinstance(expected, numpy.generic | float | complex):
        return None if _scalar_bits(actual) == _scalar_bits(expected) else f"{path}: {actual!r}, expected {expected!r}"
    if isinstance(expected, Mapping):
        if list(actual) != list(expected):
            return f"{path}: keys {list(actual)!r}, expected {list(expected)!r}"
        return _first(difference(actual[key], expected[key], f"{path}[{key!r}]") for key in expected)
    if isinstance(expected, Sequence) and not isinstance(expected, str | bytes | range):
        if len(actual) != len(expected):
            return f"{path}: {len(actual)} elements, expected {len(expected)}"
        pairs = enumerate(zip(actual, expected, strict=True))
        return _first(difference(left, right, f"{path}[{index}]") for index, (left, right) in pairs)
    if dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        return difference(vars(actual), vars(expected), path)
    return None if actual == expected else f"{path}: {actual!r}, expected {expected!r}"


def assert_same(actual: Any, expected: Any) -> None:
    found = difference(actual, expected)
    assert found is None, found


def _first(differences: Iterable[str | None]) -> str | None:
    return next((found for found in differences if found is not None), None)


def _tensor_difference(actual: torch.Tensor, expected: torch.Tensor, path: str) -> str | None:
    if expected.is_nested or expected.layout is not torch.strided:
        raise NotImplementedError(f"{path}: only strided tensors are compared")
    for name, fact in TENSOR_FACTS.items():
        if fact(actual) != fact(expected):
            return f"{path}.{name}: {fact(actual)}, expected {fact(expected)}"
    if bits(actual) != bits(expected):
        return f"{path}: bits differ: {actual}, expected {expected}"
    return None


def _array_difference(actual: numpy.ndarray, expected: numpy.ndarray, path: str) -> str | None:
    for name in ("dtype", "shape", "strides"):
        if getattr(actual, name) != getattr(expected, name):
            return f"{path}.{name}: {getattr(actual, name)}, expected {getattr(expected, name)}"
    if expected.dtype.hasobject:
        return difference(actual.tolist(), expected.tolist(), path)
    return None if actual.tobytes() == expected.tobytes() else f"{path}: {actual}, expected {expected}"


def _scalar_bits(value: Any) -> bytes:
    if isinstance(value, numpy.generic):
        return value.tobytes()
    number = complex(value)
    return struct.pack("dd", number.real, number.imag)


# Torch's C++ core gives most of its warnings once per process, so the second run is silent.
ONCE_PER_PROCESS = "(Triggered internally at"
# Python 3.12 and newer warn of a fork in a process with threads; our loader need not fork where torch's does.
FORK_WITH_THREADS = "multi-threaded, use of fork() may lead to deadlocks"
NOT_COMPARED = (ONCE_PER_PROCESS, FORK_WITH_THREADS)


@dataclasses.dataclass
class Outcome:
    """The observable results of a run: values, the error that ended it, and warnings."""

    values: list[Any] = dataclasses.field(default_factory=list)
    error: Exception | None = None
    warnings: list[tuple[type[Warning], str]] = dataclasses.field(default_factory=list)


def outcome_of(values: Callable[[], Iterable[Any]]) -> Outcome:
    """Iterate to the end, or to the first error, and keep the values up to it."""
    outcome = Outcome()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for value in values():
                outcome.values.append(value)  # list() would lose the values before an error
        except Exception as error:  # the error is one of the compared results
            # Frames keep iterators alive, and with them worker processes.
            outcome.error = error.with_traceback(None)
            outcome.error.__context__ = None
    said = [(one.category, str(one.message)) for one in caught]
    outcome.warnings = [one for one in said if not any(part in one[1] for part in NOT_COMPARED)]
    return outcome


def error_of(call: Callable[[], Any]) -> Exception:
    """Return the error that `call` raises, without its traceback, which would keep iterators and workers alive."""
    outcome = outcome_of(lambda: [call()])
    assert outcome.error is not None, f"no error but {outcome.values}"
    return outcome.error


def message_of(error: BaseException) -> str:
    """Return the text of the error, or of the one that a worker wrapped, without its traceback of files and lines."""
    text = str(error)
    if "Original Traceback" not in text:
        return text
    lines = text.rstrip().splitlines()
    start = max(index for index, line in enumerate(lines) if line and not line.startswith((" ", "\t")))
    return "\n".join(lines[start:]).partition(": ")[2]


def outcome_difference(actual: Outcome, expected: Outcome) -> str | None:
    return _first(
        difference(getattr(actual, name), getattr(expected, name), name) for name in ("values", "error", "warnings")
    )


def assert_same_outcome(actual: Outcome, expected: Outcome) -> None:
    found = outcome_difference(actual, expected)
    assert found is None, found
