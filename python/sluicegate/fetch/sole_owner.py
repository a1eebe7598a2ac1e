"""Checks by reference counts if only the batch holds a sample, so that releasing it early has no visible effect."""

from __future__ import annotations

import sys
import sysconfig
import weakref
from typing import Any

import numpy as np
import torch

from sluicegate import _torch

# Without the GIL, another thread may take a reference after the count was read.
_COUNTS_TELL = not sysconfig.get_config_var("Py_GIL_DISABLED")


def is_held_once(holder: Any, key: Any) -> bool:
    """Return True if `holder[key]` is referenced by `holder` alone.

    Args:
        holder: a list, tuple, or dict.
        key: the position or key of the item. Not the item itself: a parameter would be one more reference.
    """
    return _count(holder, key) == _HELD_ONCE


def owns_its_memory(item: Any) -> bool:
    """Return True if no other object shows the memory of `item`, or can learn that `item` is gone.

    Args:
        item: a tensor of exactly torch's class, or an array of exactly NumPy's.
    """
    if not _COUNTS_TELL or weakref.getweakrefcount(item):
        return False
    if isinstance(item, torch.Tensor):
        # A weak reference may watch an object that is stored in an attribute.
        return not item.__dict__ and _torch.memory_has_one_owner(item)
    if item.base is None:
        return bool(item.flags.owndata)
    # An array that was reshaped: NumPy keeps the array that owns the memory, and none of those in between.
    is_only_view = type(item.base) is np.ndarray and _base_reference_count(item) == _BASE_HELD_ONCE
    return is_only_view and bool(item.base.flags.owndata) and not weakref.getweakrefcount(item.base)


def _count(holder: Any, key: Any) -> int:
    return sys.getrefcount(holder[key])


def _base_reference_count(array: Any) -> int:
    return sys.getrefcount(array.base)


# Measured with the same functions, because Python versions differ in counting the arguments of `getrefcount`.
_HELD_ONCE = _count([object()], 0)
_BASE_HELD_ONCE = _base_reference_count(np.zeros(4).reshape(2, 2))
