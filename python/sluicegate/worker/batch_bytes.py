"""`bytes_of`: the size of a batch that Python made."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import numpy as np
import torch

from sluicegate import _torch

# Of a container with more parts than this, only an evenly spread sample is measured.
_MOST_PARTS = 256
# The most objects examined altogether: a batch may be nested without end.
_MOST_OBJECTS = 4096
# More than any machine has.
_MOST_BYTES = 2**62


def bytes_of(batch: Any) -> int:
    """Estimate the bytes that `batch` takes: exact for tensors, arrays and byte strings in tuples, lists and dicts.

    Of other objects, the attributes are examined. A view counts only the bytes that it shows. Never raises. Runs no
    code of `batch` except the iteration of containers derived from Python's own.

    Examples:
        >>> import torch
        >>> bytes_of(torch.zeros(4, 256)), bytes_of({"image": torch.zeros(4, 256), "name": [b"1" * 1000] * 4}) > 8000
        (4096, True)
    """
    total = looked = 0
    waiting: list[tuple[Any, int]] = [(batch, 1)]
    try:
        while waiting and looked < _MOST_OBJECTS:
            item, times = waiting.pop()
            looked += 1
            own, parts = _bytes_and_parts(item)
            total += times * own
            if parts:
                step = -(-len(parts) // _MOST_PARTS)
                waiting.extend((part, times * step) for part in itertools.islice(parts, 0, None, step))
    except Exception:  # A wrong size must not fail: a user-defined container may report anything.
        pass
    return min(total, _MOST_BYTES)


def _bytes_and_parts(item: Any) -> tuple[int, Collection[Any]]:
    """Return the bytes of `item` itself, and its parts."""
    if isinstance(item, torch.Tensor):
        return (item.numel() * item.element_size() if _torch.tensor_is_dense(item) else 0), ()
    if isinstance(item, np.ndarray):
        return item.nbytes, ()
    if isinstance(item, (str, bytes, bytearray)):
        return len(item), ()
    own = object.__sizeof__(item)
    if isinstance(item, dict):
        return own, item.values()
    if isinstance(item, (list, tuple, set, frozenset)):
        return own + 8 * len(item), item
    return own, getattr(item, "__dict__", {}).values()
