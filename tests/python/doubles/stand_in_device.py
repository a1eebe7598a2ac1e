"""A simulated device and its pinned memory, for machines without either: copies finish late and out of order.

It reads by address, as a device does, long after the program that requested the copy has dropped the tensor. Its
allocator reuses memory as soon as no tensor refers to it and no copy of it is in progress, as torch's does; if set
not to wait for copies, it shows what goes wrong then.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import sluicegate.device.destination
from sluicegate.device.pinned import PinnedBlocks

_ALIGNMENT = 64


class _Tracked(np.ndarray[Any, Any]):
    """An array that takes weak references; torch keeps it alive while a tensor uses it."""


class StandInMemory:
    """Allocates blocks, and reuses those that are no longer in use."""

    device = torch.device("cpu")

    def __init__(self, waits_for_copies: bool = True) -> None:
        self.waits_for_copies = waits_for_copies
        self._lock = threading.RLock()
        self.free: list[np.ndarray[Any, Any]] = []
        # By the address of a block: its memory, which is never freed, and the number of copies in progress.
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.copies: dict[int, int] = {}
        self.given = 0

    def __call__(self, sizes: Sequence[int]) -> PinnedBlocks:
        return PinnedBlocks([self.empty(size) for size in sizes])

    def empty(self, size: int) -> torch.Tensor:
        with self._lock:
            self.given += 1
            for place, block in enumerate(self.free):
                is_over = not self.waits_for_copies or self.copies[_address(block)] == 0
                if is_over and size <= len(block) <= 4 * size + 4096:
                    return self._lend(self.free.pop(place), size)
            raw = np.zeros(2 * max(size, 1) + _ALIGNMENT, np.uint8)
            block = raw[-_address(raw) % _ALIGNMENT :]
            self.blocks[_address(block)] = block
            self.copies[_address(block)] = 0
            return self._lend(block, size)

    def _lend(self, block: np.ndarray[Any, Any], size: int) -> torch.Tensor:
        block[:] = 0xAA
        lent = block[: max(size, 1)].view(_Tracked)
        weakref.finalize(lent, self.free.append, block)
        return torch.from_numpy(lent)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.block_of(tensor) is not None:
            return tensor
        here = self.empty(tensor.numel() * tensor.element_size())
        strides = tensor.stride() if tensor.is_contiguous(memory_format=torch.channels_last) else None
        flat = here[: tensor.numel() * tensor.element_size()].view(tensor.dtype)
        like = flat.view(tensor.shape) if strides is None else flat.as_strided(tensor.shape, strides)
        return like.copy_(tensor)

    def block_of(self, tensor: torch.Tensor) -> int | None:
        """Return the address of the block that contains `tensor`."""
        start = tensor.data_ptr()
        return next((at for at, block in self.blocks.items() if at <= start < at + len(block)), None)


class StandInDevice:
    """A device whose memory is the host's, and whose copies run later, in a thread."""

    device = torch.device("cpu")

    def __init__(self, memory: StandInMemory, seconds: float = 0.002) -> None:
        self.memory = memory
        self.seconds = seconds
        self.is_capturing_now = False
        self.hides_tensors = False
        self.waits_for_consumer = 0
        self._random = random.Random(7)
        self._come = threading.Condition()
        self._waiting: list[tuple[int, float, Any]] = []
        self._asked = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def side_stream(self) -> Iterator[None]:
        yield

    def wait_for_consumer(self) -> None:
        self.waits_for_consumer += 1

    def empty(self, size: int) -> torch.Tensor:
        return torch.full((size,), 0x55, dtype=torch.uint8)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.numel():
            return tensor.clone()
        there = torch.full_like(tensor, 1)
        self._copy_later(there, tensor)
        return there

    def copy_into(self, there: torch.Tensor, here: torch.Tensor) -> None:
        self._copy_later(there, here)

    def _copy_later(self, there: torch.Tensor, here: torch.Tensor) -> None:
        block = self.memory.block_of(here)
        assert block is not None, "a device reads pinned memory alone"
        start = here.data_ptr() - block
        # Not the tensor: a device only has its address.
        source = self.memory.blocks[block][start : start + here.numel() * here.element_size()]
        self.memory.copies[block] += 1

        def copy() -> None:
            flat = torch.from_numpy(source).view(here_dtype)
            there.copy_(flat.as_strided(shape, strides))
            with self._come:
                self.memory.copies[block] -= 1

        here_dtype, shape, strides = here.dtype, here.shape, here.stride()
        del here
        with self._come:
            self._asked += 1
            late = time.monotonic() + self.seconds * self._random.random()
            self._waiting.append((self._asked, late, copy))
            self._come.notify_all()

    def _run(self) -> None:
        while True:
            with self._come:
                self._come.wait_for(lambda: self._waiting)
                chosen = min(self._waiting, key=lambda copy: copy[1])
            time.sleep(max(chosen[1] - time.monotonic(), 0.0))
            chosen[2]()
            with self._come:
                self._waiting.remove(chosen)
                self._come.notify_all()

    def copied(self) -> int:
        return self._asked

    def hand_over(self, event: int, tensors: list[torch.Tensor]) -> None:
        # The consumer is the host here, so it has to wait itself.
        with self._come:
            assert self._come.wait_for(lambda: all(number > event for number, _, _ in self._waiting), 30)

    def is_capturing(self) -> bool:
        return self.is_capturing_now


def _address(block: np.ndarray[Any, Any]) -> int:
    return int(block.ctypes.data)


def use_device(monkeypatch: pytest.MonkeyPatch, device: StandInDevice) -> None:
    """Let loaders with `device="cuda"` copy to the simulated device."""
    given = torch.device("cuda")
    monkeypatch.setattr(sluicegate.device.destination, "device_now", lambda name: None if name is None else given)
    monkeypatch.setattr(sluicegate.device.destination, "accelerator_of", lambda _: device)


def use_pinned_memory(monkeypatch: pytest.MonkeyPatch, memory: StandInMemory) -> None:
    """Let loaders with `pin_memory=True` find an accelerator with this memory."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_: torch.device("cuda"))
    monkeypatch.setattr(sluicegate.device.destination, "PinnedMemory", lambda _: memory)
    monkeypatch.setattr(sluicegate.device.destination, "current_device", torch.device)
