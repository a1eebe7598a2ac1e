"""`DeviceCopies`: batches on their way to a device, on a stream of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _torch
from .accelerator import Accelerator
from .moved_batch import hides_tensors, is_one_block, move_object, moved, tensors_of
from .pin_memory import tensor_within

# Tensors of up to so many bytes are copied together: each copy costs as much as some 64 KiB of one.
_SMALL = 16 << 10
# And so many bytes of them at a time.
_TOGETHER = 128 << 10
# Where tensors begin that are copied together: the alignment of torch's own allocator.
_ALIGNMENT = 64


class Copying:
    """A batch that is being copied, or what went wrong with it."""

    __slots__ = ("_accelerator", "_batch", "_error", "_event", "_tensors")

    def __init__(self, accelerator: Accelerator, batch: Any, event: Any, error: Exception | None) -> None:
        self._accelerator, self._event, self._error = accelerator, event, error
        self._batch = batch
        kind = accelerator.device.type
        self._tensors = [each for each in tensors_of(batch) if each.device.type == kind and is_one_block(each)]

    def finish(self) -> Any:
        """The batch, for the stream that is current now: that one waits for it, and the host does not.

        Raises:
            Exception: what went wrong when it was begun.
        """
        if self._error is not None:
            raise self._error
        self._accelerator.hand_over(self._event, self._tensors)
        return self._batch


class DeviceCopies:
    """Copies batches to a device, from pinned memory and ahead of the consumer. One thread at a time.

    What copies are made from may be let go at once: torch's allocator waits for them. What is on the device is kept by
    its allocator until the stream that got it is done.

    Args:
        accelerator: the device.
        transform: what is done to every batch there.
    """

    def __init__(self, accelerator: Accelerator, transform: Callable[[Any], Any] | None) -> None:
        self.accelerator = accelerator
        self._transform = transform
        # What a transform reads was perhaps made just now, on the consumer's stream.
        self._is_first = True

    def begin(self, batch: Any) -> Copying:
        """Begins to copy `batch`. What goes wrong is kept for its turn."""
        accelerator = self.accelerator
        try:
            tensors = list(tensors_of(batch))
            # Of tensors inside of objects nobody knows when the consumer is done with their memory: when this stream is
            # behind it, in any case.
            if self._is_first or accelerator.hides_tensors or any(each.device.type != "cpu" for each in tensors):
                accelerator.wait_for_consumer()
            self._is_first = False
            with accelerator.side_stream():
                together = _Together(accelerator, sum(map(_small_size, tensors)))
                there = moved(
                    batch,
                    lambda tensor: self._move(tensor, together),
                    lambda each: move_object(each, accelerator.device),
                )
                together.send()
                if self._transform is not None:
                    there = self._transform(there)
                if hides_tensors(there):
                    accelerator.hides_tensors = True
                return Copying(accelerator, there, accelerator.copied(), None)
        except Exception as error:
            return Copying(accelerator, None, None, error)

    def _move(self, tensor: torch.Tensor, together: _Together) -> torch.Tensor:
        if not _torch.tensor_is_dense(tensor):
            return self.accelerator.copy(tensor)
        if _small_size(tensor):
            return together.add(tensor)
        return self.accelerator.copy(self.accelerator.memory.pinned(tensor))


def _small_size(tensor: torch.Tensor) -> int:
    """The bytes of a tensor that is copied together with others, up to where the next one begins; 0 for one alone."""
    if not _torch.tensor_is_plain(tensor) or not tensor.is_contiguous() or tensor.nbytes > _SMALL:
        return 0
    return -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT


class _Together:
    """Small tensors of one batch, which are copied together.

    Args:
        accelerator: where to.
        size: the bytes that they have altogether; who keeps one of them keeps no more than that.
    """

    def __init__(self, accelerator: Accelerator, size: int) -> None:
        self._accelerator = accelerator
        self._left = size
        self._used = 0
        self._here: torch.Tensor | None = None
        self._there: torch.Tensor | None = None

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` on the device, where it is after `send`."""
        size = _small_size(tensor)
        if self._there is not None and self._used + size > self._there.numel():
            self.send()
        if self._here is None or self._there is None:
            room = max(min(self._left, _TOGETHER), size)
            self._here, self._there = self._accelerator.memory.empty(room), self._accelerator.empty(room)
        start = self._used
        self._here[start : start + tensor.nbytes].copy_(tensor.view(-1).view(torch.uint8))
        self._used += size
        self._left -= size
        return tensor_within(self._there, tensor.dtype, start, tensor.shape)

    def send(self) -> None:
        """Begins to copy what was added."""
        if self._here is not None and self._there is not None:
            self._accelerator.copy_into(self._there[: self._used], self._here[: self._used])
        self._used, self._here, self._there = 0, None, None
