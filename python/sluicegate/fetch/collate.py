"""Collation of samples that Python makes: torch's default, with the stacking done by the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from sluicegate import _core, _torch
from sluicegate.recognition.native_source import SCALAR_DTYPES

from .early_rows import EarlyRows, Room
from .lazy_arrays import lazy_kinds

ARRAYS: list[Any] = [np.ndarray, np.memmap]
SCALARS: dict[Any, str] = {np.dtype(name).type: name for name in sorted(SCALAR_DTYPES)}

# The types that the core can stack as torch does.
KINDS = _core.Kinds(
    torch.Tensor,
    _torch.TENSOR_FLAGS,
    list(_torch.DTYPE_NAMES.items()),
    ARRAYS,
    list(SCALARS.items()),
    _torch.from_dlpack,
)


# Torch looks up the exact class first, and then tries `isinstance` with one type after another, which takes longer than
# stacking. These classes are mapped directly to the result of that search.
_BASES: dict[Any, Any] = {
    kind: next(base for base in _torch.COLLATE_MAP if issubclass(kind, base))
    for kind in (bool, *ARRAYS, *SCALARS)
    if kind not in _torch.COLLATE_MAP
}
# Torch's functions for what the core may stack, with the classes that each collates. Not into shared memory, where each
# batch would take a descriptor.
_STACKED = [
    (_torch.of_no_worker_thread(function), [kind, *(each for each, base in _BASES.items() if base == kind)])
    for kind, function in _torch.COLLATE_MAP.items()
    if kind not in (str, bytes)
]


class StackingCollate:
    """Does what torch's `default_collate` does; if that has been replaced or patched, calls it instead.

    Containers are taken apart and put together by torch, and what the core does not stack (unequal shapes or types,
    subclasses, tensors that require a gradient) is collated by torch's own functions, which raise their own errors.

    Args:
        stack: stacks a list or tuple of tensors, arrays or numbers, or returns None if torch must.
        make_room: as in `EarlyRows`.
    """

    def __init__(
        self,
        stack: Callable[[Any], torch.Tensor | None],
        make_room: Callable[[str, tuple[int, ...]], Room | None],
    ) -> None:
        self._make_room = make_room
        self._map: dict[Any, Callable[..., Any]] = dict(_torch.COLLATE_MAP)
        for function, kinds in _STACKED:
            self._map.update(dict.fromkeys(kinds, _leaf(stack, function)))

    def begin(self, count: int, suits: Callable[[Any], bool] | None = None) -> EarlyRows | None:
        """Return an object that takes the samples of a batch as they arrive, or None if all are kept.

        Args:
            count: the number of samples.
            suits: as in `EarlyRows`.
        """
        if not _torch.collate_is_default(default_collate):
            return None
        return EarlyRows(count, self._make_room, suits)

    def __call__(self, samples: Any, rows: EarlyRows | None = None) -> Any:
        """Return the batch of these samples, some of which `rows` may have taken as they arrived."""
        if not (_torch.collate_is_default(default_collate) and _torch.operations_are_plain()):
            return default_collate(samples)
        functions = self._map
        for kind, read in lazy_kinds().items():
            if kind not in functions:
                functions[kind] = _read_first(read, functions[np.ndarray])
        if rows is not None and rows.has_any:
            early = {kind: _leaf(rows.batch_of, functions[kind]) for kind in (torch.Tensor, np.ndarray)}
            functions = {**functions, **early}
        return _torch.collate(samples, collate_fn_map=functions)


class _Slot:
    """Room for a tensor in a slot of an engine."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.batch = tensor
        # `data` has its own version counter, so that the batch counts as a tensor that was never modified.
        self._rows = tensor.data.unbind(0)

    def row(self, number: int) -> torch.Tensor:
        return self._rows[number]


def _leaf(stack: Callable[[Any], torch.Tensor | None], function: Callable[..., Any]) -> Callable[..., Any]:
    def collate(samples: Any, *, collate_fn_map: Any = None) -> Any:
        stacked = stack(samples)
        return function(samples, collate_fn_map=collate_fn_map) if stacked is None else stacked

    return collate


def _read_first(read: Callable[[Any], list[Any]], function: Callable[..., Any]) -> Callable[..., Any]:
    def collate(samples: Any, *, collate_fn_map: Any = None) -> Any:
        return function(read(samples), collate_fn_map=collate_fn_map)

    return collate


def stacks_in_c_order(samples: Any) -> bool:
    """Return True for tensors that torch's worker stacks in C order whatever their layout, unlike the main process."""
    first = samples[0]
    return (
        all(isinstance(sample, torch.Tensor) for sample in samples)
        and type(first) is torch.Tensor
        and not first.requires_grad
        and _torch.tensor_is_dense(first)
    )


def stacking(
    collate_fn: Callable[[Any], Any], engine: _core.Engine, allocate: Any = None, *, in_worker: bool = False
) -> Callable[[Any], Any]:
    """Return `collate_fn` or, if it is torch's default, an equivalent in which the core stacks.

    Args:
        collate_fn: the collate function of a loader.
        engine: provides slots for the batches.
        allocate: provides pinned blocks, if batches are to be in pinned memory.
        in_worker: True if torch would collate in worker processes.
    """
    if not _torch.collate_is_default(collate_fn):
        return collate_fn

    def make_room(dtype: str, shape: tuple[int, ...]) -> Room | None:
        tensor = engine.room(KINDS, dtype, shape, allocate)
        return None if tensor is None else _Slot(tensor)

    largest = 0

    def stack(samples: Any) -> torch.Tensor | None:
        nonlocal largest
        tensor = engine.stack(KINDS, samples, allocate=allocate)
        if tensor is None and in_worker and stacks_in_c_order(samples):
            first = samples[0]
            shape = (len(samples), *first.shape)
            return torch.stack(samples, 0, out=torch.empty(shape, dtype=first.dtype, device="cpu"))
        if tensor is not None and tensor.nbytes > largest:
            largest = tensor.nbytes
            # glibc keeps as much freed memory as the largest block freed so far, which with torch is a batch. Slots are
            # not allocated by glibc: without this call, the memory of each sample would go back to the kernel, and the
            # next sample would fault it in page by page.
            np.empty(largest, np.uint8)
        return tensor

    return StackingCollate(stack, make_room)
