"""Requests: the batches of an epoch, in a form that the core or a fetcher can take in one call.

A *request* is a `range`, a `Slice` of a permutation, a `Planned` batch, the `Remaining` part of one, or anything that a
user-defined sampler yields.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from sluicegate import _core

# Indices are converted for many batches at once: slicing a tensor costs more than converting it.
_WINDOW = 1024


class Permutation:
    """An int64 tensor of indices that the core reads by its address."""

    def __init__(self, indices: torch.Tensor) -> None:
        self.tensor = indices
        self._length = indices.numel()
        self.core = _core.Indices(indices.data_ptr(), self._length, indices)
        # The start of the last window, and its indices. One attribute, so that threads see both or neither.
        self._window: tuple[int, list[int]] = 0, []

    def __len__(self) -> int:
        return self._length

    def integers(self, start: int, stop: int) -> list[int]:
        """Return the indices from `start` to `stop` as Python integers; fastest for consecutive batches."""
        first, window = self._window
        if start < first or stop > first + len(window):
            first, window = start, self.tensor[start : max(stop, start + _WINDOW)].tolist()
            self._window = first, window
        return window[start - first : stop - first]


class Slice(NamedTuple):
    """Part of a permutation: `permutation[start:stop]`."""

    permutation: Permutation
    start: int
    stop: int


class Planned(NamedTuple):
    """Batch `batch` of a plan; if `is_single`, its one index instead of a list."""

    plan: _core.Plan
    batch: int
    is_single: bool = False


# Take a tuple of the fields. Every batch is requested through one of these, and the classes' own constructors take
# longer than everything the core does to accept the request.
slice_of: Callable[[tuple[Permutation, int, int]], Slice] = functools.partial(tuple.__new__, Slice)
planned_of: Callable[[tuple[_core.Plan, int, bool]], Planned] = functools.partial(tuple.__new__, Planned)


class Remaining(NamedTuple):
    """A batch without the samples that are skipped."""

    indices: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]
    # The full batch, if more of it may be skipped later.
    whole: Planned | None = None

    @property
    def is_single(self) -> bool:
        """True if its one index is requested by itself."""
        return self.whole is not None and self.whole.is_single


def indices_of(request: Any) -> Any:
    """Return the indices that torch's sampler would have yielded in place of `request`, as Python integers."""
    kind = type(request)
    if kind is Slice:
        return request.permutation.integers(request.start, request.stop)
    if kind is Planned:
        indices = array_of(request).tolist()
        return indices[0] if request.is_single else indices
    if kind is Remaining:
        remaining = request.indices.tolist()
        return remaining[0] if request.is_single else remaining
    return list(request) if kind is range else request


class Integers:
    """Indices that are pickled as one array and unpickled as the list of integers that a dataset takes."""

    def __init__(self, array: npt.NDArray[np.int64]) -> None:
        self.array = array

    def __reduce__(self) -> tuple[Any, ...]:
        return _integers, (self.array.tobytes(),)


def _integers(content: bytes) -> list[int]:
    integers: list[int] = np.frombuffer(content, np.int64).tolist()
    return integers


def portable(request: Any) -> Any:
    """Return `request` in a form to be pickled for another process."""
    kind = type(request)
    if kind is Slice or (kind in (Remaining, Planned) and not request.is_single):
        return Integers(array_of(request))
    return indices_of(request)


def array_of(request: Any) -> npt.NDArray[Any]:
    """Return the indices of `request` as int64, or as objects if they are not integers."""
    kind = type(request)
    if kind is Planned:
        return np.frombuffer(request.plan.batch(request.batch)[0], np.int64)
    if kind is Slice:
        drawn: npt.NDArray[Any] = request.permutation.tensor[request.start : request.stop].numpy().copy()
        return drawn
    if kind is Remaining:
        remaining: npt.NDArray[Any] = request.indices
        return remaining
    if kind is range:
        return np.arange(request.start, request.stop, request.step, dtype=np.int64)
    is_many = isinstance(request, (list, tuple)) or getattr(request, "ndim", 0) > 0
    items = list(request) if is_many else [request]
    try:
        array = np.array([int(item.__index__()) for item in items], dtype=np.int64)
    except (AttributeError, TypeError, OverflowError, RuntimeError):
        array = np.empty(len(items), dtype=object)
        array[:] = items
    return array


def own_array_of(request: Any) -> npt.NDArray[Any]:
    """Return `array_of(request)` as the user's own array, with which torch indexes without a warning."""
    array = array_of(request)
    return array if array.base is None and type(request) is not Remaining else array.copy()


def size_of(request: Any) -> int:
    """Return the number of samples in `request`."""
    kind = type(request)
    if kind is Slice:
        return int(request.stop - request.start)
    if kind is Planned or kind is Remaining:
        return len(array_of(request))
    try:
        return len(request)
    except TypeError:
        return 1


def is_part_of_epoch(request: Any) -> npt.NDArray[np.bool_]:
    """Return, for each sample of `request`, True if it is part of the epoch and not padding."""
    if type(request) is Remaining:
        return request.valid
    if type(request) is not Planned:
        return np.ones(size_of(request), np.bool_)
    indices, _, valid = request.plan.batch(request.batch)
    return np.arange(len(indices) // 8) < valid


def without(request: Any, left_out: frozenset[int]) -> Any:
    """Return `request` without the samples in `left_out`: itself if none are affected; None if nothing is left.

    Ranks step together: if another rank has samples left in its batch, the first of those pads this one.
    """
    if type(request) is Remaining and request.whole is not None:
        rest = without(request.whole, left_out)
        is_same = type(rest) is Remaining and np.array_equal(rest.indices, request.indices)
        return request if is_same else rest
    indices = array_of(request)
    keep = _kept(indices, left_out)
    if keep.all():
        return request
    whole = request if type(request) is Planned else None
    if keep.any():
        return Remaining(indices[keep], is_part_of_epoch(request)[keep], whole)
    return None if whole is None else _padding(whole, left_out)


def _padding(request: Planned, left_out: frozenset[int]) -> Remaining | None:
    plan = request.plan
    for step in range(1, plan.world_size):
        other = plan.of_rank((plan.rank + step) % plan.world_size)
        indices = np.frombuffer(other.batch(request.batch)[0], np.int64)
        kept = indices[_kept(indices, left_out)]
        if len(kept):
            return Remaining(kept[:1], np.zeros(1, np.bool_), request)
    return None


def _kept(indices: npt.NDArray[Any], left_out: frozenset[int]) -> npt.NDArray[np.bool_]:
    return np.array([index not in left_out for index in indices.tolist()], dtype=np.bool_)


class _RequestPickler(pickle.Pickler):
    """Pickles indices; clones tensors, because a view from iterating over one would include the whole tensor."""

    def reducer_override(self, item: Any) -> Any:
        if type(item) is torch.Tensor and item.layout is torch.strided:
            return item.clone().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def pickled_request(index: Any) -> bytes:
    """Return the result of `portable`, pickled for a worker."""
    stream = io.BytesIO()
    _RequestPickler(stream, pickle.HIGHEST_PROTOCOL).dump(index)
    return stream.getvalue()
