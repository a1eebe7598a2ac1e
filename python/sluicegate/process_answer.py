"""What a worker process answered for one batch."""

from __future__ import annotations

from typing import Any

import torch

from . import _core, envelope, worker_error
from .report import attachment


class ProcessAnswer:
    """What a worker process answered for one batch; counted among what is ahead as long as it lives."""

    __slots__ = ("_content", "_held", "_tensors", "ended", "epoch", "failed", "number", "worker")

    def __init__(
        self,
        worker: int,
        epoch: int,
        number: int,
        outcome: str,
        tensors: list[torch.Tensor],
        content: bytes,
        held: _core.Held | None,
    ) -> None:
        self.worker, self.epoch, self.number = worker, epoch, number
        self.ended, self.failed = outcome == "ended", outcome == "failed"
        self._tensors, self._content, self._held = tensors, content, held

    @property
    def size(self) -> int:
        """The bytes of the batch; 0 where there is none."""
        return 0 if self._held is None else self._held.bytes

    @property
    def report(self) -> bytes:
        """What the worker says beside the batch, pickled; empty when it says nothing."""
        return attachment(self._content)

    def batch(self) -> Any:
        """The batch, or the exception that the worker met."""
        if self.failed:
            raise worker_error.unpack(self._content)
        return envelope.read(self._content, self._tensors)
