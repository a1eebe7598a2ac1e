"""Batches of native streams that the core makes, where nobody can tell."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .native_dataset import has_own_batches
from .native_stream import NativeIterator, NativeStream
from .placing import stacks_as_torch
from .shuffle_buffer import ShuffledIterator
from .stream_images import DecodesImages, StreamImages


def native_batches(
    iterator: Any, collate_fn: Callable[[Any], Any]
) -> tuple[Callable[[int], tuple[Any, int] | None] | None, Callable[[Any], Any]]:
    """What makes batches of `iterator` without Python, where nobody can tell; and what to collate by.

    Args:
        iterator: of a stream.
        collate_fn: the loader's.
    """
    is_default = stacks_as_torch(collate_fn)
    if isinstance(iterator, DecodesImages) and iterator.images is not None and is_default:
        images = iterator.images
        collate_fn = functools.partial(_collate, images.stream, collate_fn)
        return _ImageBatches(iterator, images).next if images.makes_batches else None, collate_fn
    read = iterator.native if type(iterator) is ShuffledIterator else iterator
    if type(read) is not NativeIterator or not is_default:
        return None, collate_fn
    return iterator.next_batch, functools.partial(_collate, read._stream, collate_fn)


class _ImageBatches:
    """Batches of samples with images, all of which are decoded in one go."""

    def __init__(self, iterator: DecodesImages[Any], images: StreamImages) -> None:
        self._iterator = iterator
        self._images = images

    def next(self, samples: int) -> tuple[Any, int] | None:
        """The batch of the next `samples` samples, or of fewer at the end, and how many it has; None at the end."""
        self._iterator.take_images()  # Now, when it is known that nobody asks for single samples.
        return self._images.next_batch(self._iterator, samples)


def _collate(stream: NativeStream, collate_fn: Callable[[Any], Any], samples: Any) -> Any:
    """As the core makes it: torch's default can't stack tensors of any length."""
    kinds = () if stream._shape is None else stream._shape[1]
    return stream.collate(samples) if has_own_batches(kinds) else collate_fn(samples)
