"""Batches of native streams that the core makes, where nobody can tell."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import _torch
from .collate import StackingCollate
from .native_stream import NativeIterator, NativeStream
from .placing import PlacingCollate
from .shuffle_buffer import ShuffledIterator


def native_batches(
    iterator: Any, collate_fn: Callable[[Any], Any]
) -> tuple[Callable[[int], tuple[Any, int] | None] | None, Callable[[Any], Any]]:
    """What makes batches of `iterator` without Python, where nobody can tell; and what to collate by.

    Args:
        iterator: of a stream.
        collate_fn: the loader's.
    """
    is_default = isinstance(collate_fn, (StackingCollate, PlacingCollate)) or _torch.collate_is_default(collate_fn)
    read = iterator.native if type(iterator) is ShuffledIterator else iterator
    if type(read) is not NativeIterator or not is_default:
        return None, collate_fn
    return iterator.next_batch, functools.partial(_collate, read._stream, collate_fn)


def _collate(stream: NativeStream, collate_fn: Callable[[Any], Any], samples: Any) -> Any:
    """As the core makes it: torch's default can't stack tensors of any length."""
    kinds = () if stream._shape is None else stream._shape[1]
    if any(kind == "ragged" or isinstance(kind, tuple) for kind in kinds):
        return stream.collate(samples)
    return collate_fn(samples)
