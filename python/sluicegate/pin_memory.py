"""Pinned memory, which a device reads by itself: blocks of torch's own allocator, which batches are written to.

Torch knows by the storage of a tensor which block a copy with `non_blocking=True` is still reading, and uses it again
when that copy is over: so all tensors of a block are on the storage that the allocator gave.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from . import _torch

# Where the core wants a batch to begin.
_ALIGNMENT = 64


class PinnedBlocks:
    """Some blocks of pinned memory, for one batch: of a native dataset one, of workers one for each tensor.

    Args:
        blocks: uint8 tensors of one axis, which nobody else has.
    """

    __slots__ = ("_blocks",)

    def __init__(self, blocks: list[torch.Tensor]) -> None:
        self._blocks = blocks

    @property
    def addresses(self) -> list[int]:
        """Where each of them begins."""
        return [block.data_ptr() for block in self._blocks]

    def tensor(self, block: int, dtype: str, offset: int, shape: Sequence[int]) -> torch.Tensor:
        """A tensor on a block, in C order, whose first element is at byte `offset`; it keeps the block."""
        return tensor_within(self._blocks[block], _torch.DTYPES[dtype], offset, shape)


def tensor_within(block: torch.Tensor, dtype: torch.dtype, offset: int, shape: Sequence[int]) -> torch.Tensor:
    """A tensor on the storage of `block`, bytes, in C order, whose first element is at byte `offset` of it."""
    empty: Any = torch.empty(0, dtype=dtype, device=block.device)
    offset += int(block.storage_offset())
    tensor: torch.Tensor = empty.set_(block.untyped_storage(), offset // dtype.itemsize, tuple(shape))
    return tensor


class PinnedMemory:
    """Torch's allocator of memory that `device` reads, for any thread.

    Args:
        device: with its index. No other device is touched: the allocator would begin to use the first one, where the
            calling thread uses none.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._module: Any = torch.get_device_module(device)

    def __call__(self, sizes: Sequence[int]) -> PinnedBlocks:
        """Blocks of these sizes in bytes.

        Raises:
            RuntimeError: there is no such memory left, in torch's words.
        """
        with self._on_device():
            return PinnedBlocks([self.empty(size) for size in sizes])

    def empty(self, size: int) -> torch.Tensor:
        """A block of at least `size` bytes, aligned to 64, as a tensor."""
        block = self._allocated(max(size, 1))
        if block.data_ptr() % _ALIGNMENT:
            # With `pinned_use_cuda_host_register` it comes from malloc, a few bytes behind the start of a page.
            block = self._allocated(size + _ALIGNMENT)
            block = block[-block.data_ptr() % _ALIGNMENT :]
        return block

    def _allocated(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor`, if it is pinned, else a copy that is."""
        with self._on_device():
            return tensor.pin_memory()

    def _on_device(self) -> contextlib.AbstractContextManager[Any]:
        if self._module.current_device() == self.device.index:
            return contextlib.nullcontext()
        return self._module.device(self.device)  # type: ignore[no-any-return]


def current_device(kind: str) -> torch.device:
    """The device of this kind that the calling thread uses."""
    module: Any = torch.get_device_module(kind)
    return torch.device(kind, module.current_device())
