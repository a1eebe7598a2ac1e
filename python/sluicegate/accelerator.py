"""`Accelerator`: what is used of a device that has streams."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from .pin_memory import PinnedMemory, current_device


class _SideStream:
    """A stream of ours.

    Attributes:
        stream: torch's.
        hides_tensors: whether tensors were handed over that nobody could tell torch's allocator of: inside of objects.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.hides_tensors = False


# By device. The memory of a device belongs to the stream that it was allocated for: with one for each epoch, that of
# the epoch before would lie unused.
_streams: dict[torch.device, _SideStream] = {}


class Accelerator:
    """A device with streams, and the stream of ours on which copies to it run.

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
        """Within it, what is done on the device is done on the stream of ours."""
        # With the device around it: alone, a stream's end goes back to the device before by setting it, and begins to
        # use one that nobody has named.
        with self._module.device(self.device), self._module.stream(self._stream):
            yield

    @property
    def hides_tensors(self) -> bool:
        """Whether there may be tensors of this stream's memory that only the consumer knows of."""
        return self._side.hides_tensors

    @hides_tensors.setter
    def hides_tensors(self, hides_tensors: bool) -> None:
        self._side.hides_tensors = hides_tensors

    def wait_for_consumer(self) -> None:
        """Has the stream of ours wait for what the consumer has asked the device for so far."""
        self._stream.wait_stream(self._module.current_stream(self.device))

    def empty(self, size: int) -> torch.Tensor:
        """So many bytes on the device, as a tensor."""
        return torch.empty(size, dtype=torch.uint8, device=self.device)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begins to copy `tensor` to the device; at once for the host."""
        return tensor.to(self.device, non_blocking=True)

    def copy_into(self, there: torch.Tensor, here: torch.Tensor) -> None:
        """Begins to copy the bytes of `here`, which are pinned, to those of `there`."""
        there.copy_(here, non_blocking=True)

    def copied(self) -> Any:
        """An event: what was asked of the stream of ours so far is done."""
        event = self._module.Event()
        event.record(self._stream)
        return event

    def hand_over(self, event: Any, tensors: list[torch.Tensor]) -> None:
        """Has the consumer's stream wait for `event`, and keeps the memory of `tensors` until it is done with them."""
        consumer = self._module.current_stream(self.device)
        consumer.wait_event(event)
        for tensor in tensors:
            tensor.record_stream(consumer)

    def is_capturing(self) -> bool:
        """Whether the consumer's stream is being captured into a graph."""
        capturing = getattr(self._module, "is_current_stream_capturing", None)
        return capturing is not None and bool(capturing())


def accelerator_of(device: torch.device) -> Accelerator | None:
    """The streams of `device`; None where torch has none for it."""
    module = torch.get_device_module(device)
    needs = ("Stream", "Event", "stream", "current_stream", "device", "current_device")
    if any(not hasattr(module, name) for name in needs):
        return None
    return Accelerator(device if device.index is not None else current_device(device.type))
