"""`ProcessBatches`: the batches of one process, as Accelerate divides those of a sampler without a seed."""

from __future__ import annotations

from typing import Any

from accelerate.data_loader import BatchSamplerShard


class ProcessBatches(BatchSamplerShard):  # type: ignore[misc]
    """Accelerate's `BatchSamplerShard`, with its sampler and its epoch where torch's batch samplers have theirs.

    `split_batches` and `even_batches` mean what they mean there.
    """

    @property
    def total_batch_size(self) -> int | None:
        """Samples per step of all processes; None if batches differ in size."""
        size: int | None = self.batch_size
        return size if size is None or self.split_batches else size * self.num_processes

    @property
    def sampler(self) -> Any:
        """The batch sampler that is divided; states follow this name to find generators."""
        return self.batch_sampler

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the batch sampler and of the sampler that it cuts, if they have one."""
        receivers: list[Any] = [self.batch_sampler, getattr(self.batch_sampler, "sampler", None)]
        for each in receivers:
            if hasattr(each, "set_epoch"):
                each.set_epoch(epoch)
