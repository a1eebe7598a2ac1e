"""Collation of samples that Python makes: torch's default, with the stacking done by the core."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate

from . import _core, _torch
from .dataset import SCALAR_DTYPES

ARRAYS: list[Any] = [np.ndarray, np.memmap]
SCALARS: dict[Any, str] = {np.dtype(name).type: name for name in sorted(SCALAR_DTYPES)}

# What the core can stack as torch does.
KINDS = _core.Kinds(
    torch.Tensor,
    _torch.TENSOR_FLAGS,
    list(_torch.DTYPE_NAMES.items()),
    ARRAYS,
    list(SCALARS.items()),
    _torch.from_dlpack,
)


# Torch looks for the exact class first, and then asks `isinstance` of one kind after the other, which takes longer than
# stacking: these classes go where that would lead them.
_BASES: dict[Any, Any] = {
    kind: next(base for base in _torch.COLLATE_MAP if issubclass(kind, base))
    for kind in (bool, *ARRAYS, *SCALARS)
    if kind not in _torch.COLLATE_MAP
}
# Each batch in shared memory would take a descriptor.
_FUNCTIONS = {kind: _torch.of_no_worker_thread(function) for kind, function in _torch.COLLATE_MAP.items()}


class StackingCollate:
    """What torch's `default_collate` does, as long as that is what torch's files say.

    Containers are taken apart and put together by torch, and whatever the core does not stack (unequal shapes or types,
    subclasses, tensors that require a gradient) is collated by torch's own functions, which raise their own errors.

    Args:
        stack: makes one tensor of a list or tuple of tensors, arrays or numbers, or returns None when torch must.
    """

    def __init__(self, stack: Callable[[Any], torch.Tensor | None]) -> None:
        self._map: dict[Any, Callable[..., Any]] = dict(_torch.COLLATE_MAP)
        for kind, function in _FUNCTIONS.items():
            if kind not in (str, bytes):
                self._map[kind] = _leaf(stack, function)
        for kind, base in _BASES.items():
            self._map[kind] = self._map[base]

    def __call__(self, samples: Any) -> Any:
        """The batch of these samples."""
        if not (_torch.collate_is_default(default_collate) and _torch.operations_are_plain()):
            return default_collate(samples)
        return _torch.collate(samples, collate_fn_map=self._map)


def _leaf(stack: Callable[[Any], torch.Tensor | None], function: Callable[..., Any]) -> Callable[..., Any]:
    def collate(samples: Any, *, collate_fn_map: Any = None) -> Any:
        stacked = stack(samples)
        return function(samples, collate_fn_map=collate_fn_map) if stacked is None else stacked

    return collate


def stacking(collate_fn: Callable[[Any], Any], stack: Callable[[_core.Kinds, Any], Any]) -> Callable[[Any], Any]:
    """`collate_fn`, with the stacking done by `stack` where it is torch's default."""
    if _torch.collate_is_default(collate_fn):
        return StackingCollate(functools.partial(stack, KINDS))
    return collate_fn
