"""Pinned memory, which a device reads by itself: blocks of torch's own allocator, which batches are written to.

Torch knows by a tensor's storage which block a copy with `non_blocking=True` is still reading, and reuses the block
when that copy is over. So all tensors of a block are on the storage that the allocator returned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from sluicegate import _torch

# The alignment that the core needs for a batch.
_ALIGNMENT = 64


class PinnedBlocks:
    """Blocks of pinned memory for one batch: one for a native dataset, one per tensor for workers.

    Args:
        blocks: uint8 tensors with one axis, which nothing else uses.
    """

    __slots__ = ("_blocks",)

    def __init__(self, blocks: list[torch.Tensor]) -> None:
        self._blocks = blocks

    @property
    def addresses(self) -> list[int]:
        """The address of each block."""
        return [block.data_ptr() for block in self._blocks]

    def tensor(self, block: int, dtype: str, offset: int, shape: Sequence[int]) -> torch.Tensor:
        """Return a tensor on a block, in C order, whose first element is at byte `offset`; it keeps the block alive."""
        return tensor_within(self._blocks[block], _torch.DTYPES[dtype], offset, shape)


def tensor_within(block: torch.Tensor, dtype: torch.dtype, offset: int, shape: Sequence[int]) -> torch.Tensor:
    """Return a tensor on the storage of `block`, in C order, whose first element is at byte `offset` of the block."""
    empty: Any = torch.empty(0, dtype=dtype, device=block.device)
    offset += int(block.storage_offset())
    tensor: torch.Tensor = empty.set_(block.untyped_storage(), offset // dtype.itemsize, tuple(shape))
    return tensor


class PinnedMemory:
    """Torch's allocator of memory that `device` reads, for any thread.

    Args:
        device: with its index. No other device is touched: if the calling thread uses none, the allocator would begin
            to use the first one.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._module: Any = torch.get_device_module(device)

    def __call__(self, sizes: Sequence[int]) -> PinnedBlocks:
        """Return blocks of these sizes in bytes.

        Raises:
            RuntimeError: there is no such memory left; the message is torch's.
        """
        with self._on_device():
            return PinnedBlocks([self.empty(size) for size in sizes])

    def empty(self, size: int) -> torch.Tensor:
        """Return a block of at least `size` bytes, aligned to 64, as a tensor."""
        block = self._allocated(max(size, 1))
        if block.data_ptr() % _ALIGNMENT:
            # With `pinned_use_cuda_host_register` it comes from malloc, a few bytes after the start of a page.
            block = self._allocated(size + _ALIGNMENT)
            block = block[-block.data_ptr() % _ALIGNMENT :]
        return block

    def _allocated(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return `tensor` if it is pinned, otherwise a pinned copy."""
        with self._on_device():
            return tensor.pin_memory()

    def _on_device(self) -> contextlib.AbstractContextManager[Any]:
        if self._module.current_device() == self.device.index:
            return contextlib.nullcontext()
        return self._module.device(self.device)  # type: ignore[no-any-return]


def current_device(kind: str) -> torch.device:
    """Return the device of this type that the calling thread uses."""
    module: Any = torch.get_device_module(kind)
    return torch.device(kind, module.current_device())
