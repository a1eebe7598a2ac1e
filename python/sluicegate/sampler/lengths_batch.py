"""`LengthsBatchSampler`: the base class of batch samplers that depend on lengths."""

from __future__ import annotations

import torch

from sluicegate import _core

from .core_batch import CoreBatchSampler


class LengthsBatchSampler(CoreBatchSampler):
    """Batches as large as the lengths of their samples allow; their number may depend on the order.

    A subclass returns the number of batches if it is known without an order (`_known_len`), and gives the error text
    for when it is not (`_UNKNOWN`).
    """

    _UNKNOWN: str

    def __init__(self, seed: int | None, generator: torch.Generator | None) -> None:
        super().__init__(seed, generator)
        # The number of batches in the last epoch that was made.
        self._length: int | None = None

    def _known_len(self) -> int | None:
        raise NotImplementedError

    def batches(self, epoch: int, seed: int | None = None) -> _core.Batches:
        """Return the batches of `epoch`; without shuffling they need no seed."""
        batches = super().batches(epoch, seed) if self.shuffle else super().batches(0, 0 if seed is None else seed)
        self._length = len(batches)
        return batches

    def __len__(self) -> int:
        """Return the number of batches in the current epoch.

        Raises:
            TypeError: it depends on an order that has not been drawn yet.
        """
        known = self._known_len()
        if known is not None:
            return known
        if self.seed is not None or not self.shuffle:
            return len(self.batches(self.epoch))
        if self._length is None:
            raise TypeError(
                f"{self._UNKNOWN}, which is drawn when the sampler is iterated; pass seed= to {type(self).__name__} "
                "to know the length beforehand"
            )
        return self._length
