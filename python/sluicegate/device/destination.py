"""`Destination`: where batches go: they stay as they are, are pinned, or go to a device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from sluicegate import _torch

from .accelerator import accelerator_of
from .arguments import device_now
from .containers import move_object, moved
from .copies import Copying, DeviceCopies
from .pinned import PinnedMemory, current_device


class Destination:
    """Leaves batches where they are. A destination is the last step before the consumer gets a batch.

    Args:
        transform: applied to every batch.
        memory: provides pinned blocks, if batches are to be made in them.

    Attributes:
        ahead: the number of batches to begin before their turn.
        memory: provides pinned blocks, if batches are to be made in them.
        key: iterators with equal keys may share what fetches for them.
    """

    ahead = 0

    def __init__(self, transform: Callable[[Any], Any] | None = None, memory: PinnedMemory | None = None) -> None:
        self._transform = transform
        self.memory = memory

    @property
    def key(self) -> object:
        """A key that is equal for iterators that can share workers."""
        return None if self.memory is None else self.memory.device

    def check(self) -> None:
        """Raise an error if no batch can be delivered now. Called before a batch is taken."""

    def begin(self, batch: Any) -> Any:
        """Return an object for `deliver`; errors are kept for it."""
        return batch

    def deliver(self, batch: Any) -> Any:
        """Return the batch for the consumer, given a batch as it was made or the result of `begin`."""
        return batch if self._transform is None else self._transform(batch)


class PinnedDestination(Destination):
    """Puts batches into pinned memory, as `pin_memory=True` requests."""

    def __init__(self, kind: str) -> None:
        super().__init__(memory=PinnedMemory(current_device(kind)))
        self._kind = kind

    def deliver(self, batch: Any) -> Any:
        """Return the batch, after torch has pinned its unpinned parts."""
        return _torch.pin_memory(batch, self._kind)


class PlainDeviceDestination(Destination):
    """Puts batches on a device without streams: a copy starts at the batch's turn, and torch orders what follows."""

    def __init__(self, device: torch.device, transform: Callable[[Any], Any] | None) -> None:
        super().__init__(transform)
        self._device = device

    def deliver(self, batch: Any) -> Any:
        """Return the batch on the device."""
        return super().deliver(moved(batch, self._move, lambda each: move_object(each, self._device)))

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._device.type != "mps":  # Torch's loader does not pin there, either.
            with contextlib.suppress(RuntimeError, NotImplementedError):
                return tensor.pin_memory().to(self._device, non_blocking=True)
        # Memory that is not pinned may be a slot that is reused during the copy, so the host waits.
        return tensor.to(self._device)


class DeviceDestination(Destination):
    """Puts batches on a device with streams, copied ahead of their turn.

    Args:
        copies: copies the batches.
        ahead: the number of batches to copy ahead.
    """

    def __init__(self, copies: DeviceCopies, ahead: int) -> None:
        super().__init__(memory=copies.accelerator.memory)
        self._copies = copies
        self.ahead = ahead

    def check(self) -> None:
        """Refuse to deliver during a graph capture: copies would become part of the graph or end the capture."""
        if self._copies.accelerator.is_capturing():
            raise RuntimeError(
                "a batch was requested while a graph is being captured on this stream: the copies that a DataLoader "
                "with device= makes can't be part of a graph. Get the batch before the capture, and copy it into the "
                "graph's own input"
            )

    def begin(self, batch: Any) -> Copying:
        """Begin the copy of the batch, and return it."""
        return self._copies.begin(batch)

    def deliver(self, batch: Any) -> Any:
        """Return the batch on the device; the consumer's stream waits for it."""
        return (batch if isinstance(batch, Copying) else self._copies.begin(batch)).finish()


def _pinned_for(kind: str | None) -> str:
    """Return the accelerator's type, if the installed torch does not say it or gives a device."""
    if kind is None:
        accelerator = torch.accelerator.current_accelerator()
        return "cuda" if accelerator is None else accelerator.type
    return torch.device(kind).type


def destination_of(
    given: torch.device | str | None,
    ahead: int,
    transform: Callable[[Any], Any] | None,
    pins: bool,
    kind: str | None,
) -> Destination:
    """Return where the batches of a loader go now.

    Args:
        given: the loader's argument `device`.
        ahead: the number of batches to copy to a device ahead of their turn.
        transform: applied to each batch on the device.
        pins: True if batches are to be pinned and there is an accelerator.
        kind: the type of the accelerator that they are pinned for.

    Raises:
        RuntimeError: there is no such device here.
    """
    device = device_now(given)
    if device is None:
        return PinnedDestination(_pinned_for(kind)) if pins else Destination(transform)
    accelerator = None if device.type == "meta" else accelerator_of(device)
    if accelerator is None:
        return PlainDeviceDestination(device, transform)
    return DeviceDestination(DeviceCopies(accelerator, transform), ahead)
