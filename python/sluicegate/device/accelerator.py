"""`Accelerator`: the features used of a device that has streams."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from .pinned import PinnedMemory, current_device


class _SideStream:
    """A stream that this package created.

    Attributes:
        stream: torch's.
        hides_tensors: True if tensors inside of objects were handed over, which torch's allocator does not know of.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.hides_tensors = False


# By device. Device memory belongs to the stream that it was allocated for: with a new stream for each epoch, the memory
# of the previous one would stay unused.
_streams: dict[torch.device, _SideStream] = {}


class Accelerator:
    """A device with streams, and our own stream, on which copies to it run.

    Args:
        device: with its index.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.memory = PinnedMemory(device)
        self._module: Any = torch.get_device_module(device)
        if device not in _streams:
            with self._module.device(device):
                _streams[device] = _SideStream(self._module.Stream(device=device))
        self._side = _streams[device]
        self._stream = self._side.stream

    @contextlib.contextmanager
    def side_stream(self) -> Iterator[None]:
        """Run the device's work on our own stream within this context."""
        # Sets the device, too: the stream's context alone returns to the previous device by setting it, and so begins
        # to use a device that was never requested.
        with self._module.device(self.device), self._module.stream(self._stream):
            yield

    @property
    def hides_tensors(self) -> bool:
        """True if there may be tensors in this stream's memory that only the consumer knows of."""
        return self._side.hides_tensors

    @hides_tensors.setter
    def hides_tensors(self, hides_tensors: bool) -> None:
        self._side.hides_tensors = hides_tensors

    def wait_for_consumer(self) -> None:
        """Make our own stream wait for everything that the consumer has queued on the device so far."""
        self._stream.wait_stream(self._module.current_stream(self.device))

    def empty(self, size: int) -> torch.Tensor:
        """Return `size` bytes on the device, as a tensor."""
        return torch.empty(size, dtype=torch.uint8, device=self.device)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begin to copy `tensor` to the device; the host does not wait."""
        return tensor.to(self.device, non_blocking=True)

    def copy_into(self, there: torch.Tensor, here: torch.Tensor) -> None:
        """Begin to copy the bytes of `here`, which are pinned, to those of `there`."""
        there.copy_(here, non_blocking=True)

    def copied(self) -> Any:
        """Return an event that occurs when everything queued on our own stream so far is done."""
        event = self._module.Event()
        event.record(self._stream)
        return event

    def hand_over(self, event: Any, tensors: list[torch.Tensor]) -> None:
        """Make the consumer's stream wait for `event`, and keep the memory of `tensors` until it is done with them."""
        consumer = self._module.current_stream(self.device)
        consumer.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(consumer)

    def is_capturing(self) -> bool:
        """Return True if the consumer's stream is being captured into a graph."""
        capturing = getattr(self._module, "is_current_stream_capturing", None)
        return capturing is not None and bool(capturing())


def accelerator_of(device: torch.device) -> Accelerator | None:
    """Return the streams of `device`; None if torch has none for it."""
    module = torch.get_device_module(device)
    needs = ("Stream", "Event", "stream", "current_stream", "device", "current_device")
    if any(not hasattr(module, name) for name in needs):
        return None
    return Accelerator(device if device.index is not None else current_device(device.type))
