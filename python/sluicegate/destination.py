"""`Destination`: where batches go: they stay as they are, are pinned, or go to a device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import _torch
from .accelerator import accelerator_of
from .device import device_now
from .device_copies import Copying, DeviceCopies
from .moved_batch import move_object, moved
from .pin_memory import PinnedMemory, current_device

if TYPE_CHECKING:
    from .dataloader import DataLoader


class Destination:
    """Batches as they are; the last thing that is done to one before the consumer gets it.

    Args:
        transform: what is done to every batch.

    Attributes:
        ahead: how many batches are begun with before it is their turn.
        memory: what gives pinned blocks, where batches are to be made in such.
        key: iterators with equal ones may share what fetches for them.
    """

    ahead = 0

    def __init__(self, transform: Callable[[Any], Any] | None = None, memory: PinnedMemory | None = None) -> None:
        self._transform = transform
        self.memory = memory

    @property
    def key(self) -> object:
        """What iterators agree in that share workers."""
        return None if self.memory is None else self.memory.device

    def check(self) -> None:
        """Raises when no batch can be delivered now; it is asked before one is taken."""

    def begin(self, batch: Any) -> Any:
        """What `deliver` takes later; errors are kept for it."""
        return batch

    def deliver(self, batch: Any) -> Any:
        """The batch as the consumer gets it, of a batch as it was made, or of what `begin` made of it."""
        return batch if self._transform is None else self._transform(batch)


class PinnedDestination(Destination):
    """Batches in pinned memory, as `pin_memory=True` asks for."""

    def __init__(self, kind: str) -> None:
        super().__init__(memory=PinnedMemory(current_device(kind)))
        self._kind = kind

    def deliver(self, batch: Any) -> Any:
        """The batch, of which torch pins what is not pinned yet."""
        return _torch.pin_memory(batch, self._kind)


class PlainDeviceDestination(Destination):
    """Batches on a device without streams: a copy begins when it is its turn, and torch orders what follows."""

    def __init__(self, device: torch.device, transform: Callable[[Any], Any] | None) -> None:
        super().__init__(transform)
        self._device = device

    def deliver(self, batch: Any) -> Any:
        """The batch on the device."""
        return super().deliver(moved(batch, self._move, lambda each: move_object(each, self._device)))

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._device.type != "mps":  # Torch's loader does not pin there either.
            with contextlib.suppress(RuntimeError, NotImplementedError):
                return tensor.pin_memory().to(self._device, non_blocking=True)
        # What is not pinned may be ours, and used again while it is read: the host waits.
        return tensor.to(self._device)


class DeviceDestination(Destination):
    """Batches on a device with streams, copied ahead of their turn.

    Args:
        copies: copies them.
        ahead: how many batches ahead.
    """

    def __init__(self, copies: DeviceCopies, ahead: int) -> None:
        super().__init__(memory=copies.accelerator.memory)
        self._copies = copies
        self.ahead = ahead

    def check(self) -> None:
        """Refuses to deliver while a graph is captured: copies would become part of it, or end the capture."""
        if self._copies.accelerator.is_capturing():
            raise RuntimeError(
                "a batch was asked for while a graph is captured on this stream: copies of a DataLoader with device= "
                "can't be part of a graph. Take the batch before the capture, and copy it into the graph's own input"
            )

    def begin(self, batch: Any) -> Copying:
        """The copy of the batch, begun."""
        return self._copies.begin(batch)

    def deliver(self, batch: Any) -> Any:
        """The batch on the device, which the consumer's stream waits for."""
        return (batch if isinstance(batch, Copying) else self._copies.begin(batch)).finish()


def _pinned_for(kind: str | None) -> str:
    """The type of the accelerator, where the installed torch does not say it, or says a device."""
    if kind is None:
        accelerator = torch.accelerator.current_accelerator()
        return "cuda" if accelerator is None else accelerator.type
    return torch.device(kind).type


def destination_of(loader: DataLoader[Any], pins: bool, kind: str | None) -> Destination:
    """Where the batches of `loader` go now.

    Args:
        loader: where `device` and what belongs to it are read.
        pins: whether batches are to be pinned, and there is an accelerator.
        kind: the type of the accelerator that they are pinned for.

    Raises:
        RuntimeError: there is no such device here.
    """
    transform = loader.device_transform
    device = device_now(loader.device)
    if device is None:
        return PinnedDestination(_pinned_for(kind)) if pins else Destination(transform)
    accelerator = None if device.type == "meta" else accelerator_of(device)
    if accelerator is None:
        return PlainDeviceDestination(device, transform)
    return DeviceDestination(DeviceCopies(accelerator, transform), loader.device_prefetch)
