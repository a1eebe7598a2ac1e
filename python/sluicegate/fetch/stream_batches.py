"""Batches of native streams that the core makes, if the result is the same as in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sluicegate.stream.images import DecodesImages, StreamImages, collated
from sluicegate.stream.native_iterator import NativeStreamIterator
from sluicegate.stream.resumable import ResumableIterator
from sluicegate.stream.shuffle_buffer import ShuffledIterator

from .collate_in_place import stacks_as_torch


def native_batches(
    iterator: Any, collate_fn: Callable[[Any], Any]
) -> tuple[Callable[[int], tuple[Any, int] | None] | None, Callable[[Any], Any]]:
    """Return what makes batches of `iterator` without Python, and what to collate by.

    The former is None unless the result is the same as in Python.

    Args:
        iterator: of a stream.
        collate_fn: the loader's.
    """
    is_default = stacks_as_torch(collate_fn)
    if isinstance(iterator, DecodesImages) and iterator.images is not None and is_default:
        images = iterator.images
        collate_fn = functools.partial(collated, images.stream, collate_fn)
        return _ImageBatches(iterator, images).next if images.makes_batches else None, collate_fn
    inner = _innermost(iterator)
    if type(inner) is not NativeStreamIterator or not is_default:
        return None, collate_fn
    makes_batches = read_by_core(iterator) is not None
    return iterator.next_batch if makes_batches else None, functools.partial(collated, inner.stream, collate_fn)


def read_by_core(iterator: Any) -> NativeStreamIterator | None:
    """Return the iterator of the core that reads the samples of `iterator`, shuffled or not; None for images."""
    read = iterator.native if type(iterator) is ShuffledIterator else iterator
    return read if type(read) is NativeStreamIterator else None


def _innermost(iterator: Any) -> Any:
    """Return the iterator whose samples `iterator` yields unchanged, so it decides how to collate them."""
    while isinstance(iterator, ResumableIterator):
        iterator = iterator.reader.iterator
    return iterator


class _ImageBatches:
    """Batches of samples with images, which are all decoded together."""

    def __init__(self, iterator: DecodesImages[Any], images: StreamImages) -> None:
        self._iterator = iterator
        self._images = images

    def next(self, samples: int) -> tuple[Any, int] | None:
        """Return the batch of the next `samples` samples and how many it has: fewer at the end, then None."""
        self._iterator.take_images()  # Only now is it known that single samples are not requested.
        return self._images.next_batch(self._iterator, samples)
