"""Plain memory in place of pinned memory: measures the CPU time of a hand-over on a machine without a GPU."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import sluicegate.device.destination
from sluicegate import _torch
from sluicegate.device.pinned import PinnedBlocks


class _Tracked(np.ndarray[Any, Any]):
    """An array that takes weak references; torch keeps it alive while a tensor uses it."""


class HostBlocks:
    """Reuses blocks once no tensor refers to them, as torch's allocator of pinned memory does."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._free: dict[int, list[Any]] = {}
        self._lent: set[int] = set()

    def __call__(self, sizes: Sequence[int]) -> PinnedBlocks:
        return PinnedBlocks([self.empty(size) for size in sizes])

    def empty(self, size: int) -> torch.Tensor:
        """Return at least `size` bytes."""
        rounded = 1 << max(size - 1, 63).bit_length()
        with self._lock:
            free = self._free.setdefault(rounded, [])
            raw = free.pop() if free else np.zeros(rounded + 64, np.uint8)
        lent = raw[-raw.ctypes.data % 64 :][:rounded].view(_Tracked)
        self._lent.add(lent.ctypes.data)
        weakref.finalize(lent, free.append, raw)
        return torch.from_numpy(lent)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """Do what `Tensor.pin_memory` does: return a tensor in a block as it is, and others copied to one."""
        if tensor.untyped_storage().data_ptr() in self._lent:
            return tensor
        size = tensor.numel() * tensor.element_size()
        return self.empty(size)[:size].view(tensor.dtype).view(tensor.shape).copy_(tensor)


def stand_for_pinned_memory() -> None:
    """Make both loaders find an accelerator and pinned memory of this kind."""
    blocks = HostBlocks()
    accelerator: Any = torch.accelerator
    accelerator.is_available = lambda: True
    accelerator.current_accelerator = lambda *_: torch.device("cuda")
    accelerator.current_device_index = lambda: 0
    accelerator.set_device_index = lambda _: None
    tensor: Any = torch.Tensor
    tensor.pin_memory = lambda self, device=None: blocks.pinned(self)
    destination: Any = sluicegate.device.destination
    destination.PinnedMemory = lambda _: blocks
    destination.current_device = torch.device
    assert _torch.pin_memory is torch.utils.data._utils.pin_memory.pin_memory
