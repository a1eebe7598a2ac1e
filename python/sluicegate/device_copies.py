"""`DeviceCopies`: batches on their way to a device, on a stream of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _torch
from .accelerator import Accelerator
from .moved_batch import hides_tensors, move_object, moved, tensors_of
from .pin_memory import tensor_within

# Tensors of up to so many bytes are copied together: each copy costs as much as some 64 KiB of one.
_SMALL = 16 << 10
# And so many bytes of them at a time. Whoever keeps one of them keeps the others' memory too.
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
        self._tensors = [
            each for each in tensors_of(batch) if each.device.type == kind and each.layout is torch.strided
        ]

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
        # Whether the stream of ours has to wait for the consumer's before a batch: what a transform reads was perhaps
        # made there just now, and of tensors inside of objects nobody knows when the consumer is done with them.
        self._waits = True

    def begin(self, batch: Any) -> Copying:
        """Begins to copy `batch`. What goes wrong is kept for its turn."""
        accelerator = self.accelerator
        try:
            if self._waits or any(each.device.type != "cpu" for each in tensors_of(batch)):
                accelerator.wait_for_consumer()
            with accelerator.side_stream():
                together = _Together(accelerator)
                there = moved(
                    batch,
                    lambda tensor: self._move(tensor, together),
                    lambda each: move_object(each, accelerator.device),
                )
                together.send()
                if self._transform is not None:
                    there = self._transform(there)
                self._waits = hides_tensors(there)
                return Copying(accelerator, there, accelerator.copied(), None)
        except Exception as error:
            return Copying(accelerator, None, None, error)

    def _move(self, tensor: torch.Tensor, together: _Together) -> torch.Tensor:
        if not _torch.tensor_is_dense(tensor):
            return self.accelerator.copy(tensor)
        size = tensor.numel() * tensor.element_size()
        if 0 < size <= _SMALL and _torch.tensor_is_plain(tensor) and tensor.is_contiguous():
            return together.add(tensor, size)
        return self.accelerator.copy(self.accelerator.memory.pinned(tensor))


class _Together:
    """Small tensors of one batch, which are copied together."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._used = 0
        self._here: torch.Tensor | None = None
        self._there: torch.Tensor | None = None

    def add(self, tensor: torch.Tensor, size: int) -> torch.Tensor:
        """`tensor` on the device, where it is after `send`."""
        if self._used + size > _TOGETHER:
            self.send()
        if self._here is None or self._there is None:
            self._here = self._accelerator.memory.empty(_TOGETHER)
            self._there = self._accelerator.empty(_TOGETHER)
        start = self._used
        self._here[start : start + size].copy_(tensor.view(-1).view(torch.uint8))
        self._used += -(-size // _ALIGNMENT) * _ALIGNMENT
        return tensor_within(self._there, tensor.dtype, start, tensor.shape)

    def send(self) -> None:
        """Begins to copy what was added."""
        if self._here is not None and self._there is not None:
            self._accelerator.copy_into(self._there[: self._used], self._here[: self._used])
        self._used, self._here, self._there = 0, None, None
