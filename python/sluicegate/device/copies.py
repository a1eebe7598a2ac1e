"""`DeviceCopies`: copies batches to a device on a separate stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sluicegate import _torch

from .accelerator import Accelerator
from .containers import hides_tensors, is_one_block, move_object, moved, tensors_of
from .pinned import tensor_within

# Tensors of up to this many bytes are copied together: the overhead of a copy equals about 64 KiB.
_SMALL = 16 << 10
# The most bytes copied together at a time.
_TOGETHER = 128 << 10
# The alignment of tensors that are copied together: that of torch's own allocator.
_ALIGNMENT = 64


class Copying:
    """A batch that is being copied, or the error that occurred."""

    __slots__ = ("_accelerator", "_batch", "_error", "_event", "_tensors")

    def __init__(self, accelerator: Accelerator, batch: Any, event: Any, error: Exception | None) -> None:
        self._accelerator, self._event, self._error = accelerator, event, error
        self._batch = batch
        kind = accelerator.device.type
        self._tensors = [each for each in tensors_of(batch) if each.device.type == kind and is_one_block(each)]

    def finish(self) -> Any:
        """Return the batch for the current stream, which waits for the copy; the host does not.

        Raises:
            Exception: the error that occurred at the beginning of the copy.
        """
        if self._error is not None:
            raise self._error
        self._accelerator.hand_over(self._event, self._tensors)
        return self._batch


class DeviceCopies:
    """Copies batches to a device, from pinned memory and ahead of the consumer. One thread at a time.

    The source of a copy may be released at once: torch's allocator waits for the copy. Memory on the device is kept by
    its allocator until the stream that got it is done.

    Args:
        accelerator: the device.
        transform: applied to every batch on the device.
    """

    def __init__(self, accelerator: Accelerator, transform: Callable[[Any], Any] | None) -> None:
        self.accelerator = accelerator
        self._transform = transform
        # The inputs of a transform may just have been made, on the consumer's stream.
        self._is_first = True

    def begin(self, batch: Any) -> Copying:
        """Begin to copy `batch`. An error is kept for the batch's turn."""
        accelerator = self.accelerator
        try:
            tensors = list(tensors_of(batch))
            # For tensors inside of objects it is unknown when the consumer is done with their memory. It is surely done
            # when this stream has waited for the consumer's.
            if self._is_first or accelerator.hides_tensors or any(each.device.type != "cpu" for each in tensors):
                accelerator.wait_for_consumer()
            self._is_first = False
            with accelerator.side_stream():
                together = _SmallTensors(accelerator, sum(map(_small_size, tensors)))
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

    def _move(self, tensor: torch.Tensor, together: _SmallTensors) -> torch.Tensor:
        if not _torch.tensor_is_dense(tensor):
            return self.accelerator.copy(tensor)
        if _small_size(tensor):
            return together.add(tensor)
        return self.accelerator.copy(self.accelerator.memory.pinned(tensor))


def _small_size(tensor: torch.Tensor) -> int:
    """Return the padded size in bytes of a tensor that is copied together with others; 0 if it is copied alone."""
    if not _torch.tensor_is_plain(tensor) or not tensor.is_contiguous() or tensor.nbytes > _SMALL:
        return 0
    return -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT


class _SmallTensors:
    """Small tensors of one batch, which are copied together.

    Args:
        accelerator: where to copy them.
        size: their total size in bytes, which limits what keeping one of them keeps alive.
    """

    def __init__(self, accelerator: Accelerator, size: int) -> None:
        self._accelerator = accelerator
        self._left = size
        self._used = 0
        self._here: torch.Tensor | None = None
        self._there: torch.Tensor | None = None

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return `tensor` on the device; its content is there after `send`."""
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
        """Start copying the tensors that were added."""
        if self._here is not None and self._there is not None:
            self._accelerator.copy_into(self._there[: self._used], self._here[: self._used])
        self._used, self._here, self._there = 0, None, None
