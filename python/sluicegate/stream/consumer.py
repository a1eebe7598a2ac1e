"""`Consumer`: one of the processes and workers that read a stream together."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from sluicegate import _torch

from .whole import is_reading_whole, nothing_hidden


@dataclass(frozen=True)
class Consumer:
    """One of `world_size * num_workers` readers of the same stream; a process without workers is its own only worker.

    Args:
        rank: the training process, from 0.
        world_size: the number of training processes.
        worker: the worker within its rank, from 0.
        num_workers: the number of workers of each rank, at least 1.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1

    @classmethod
    def here(cls, shard: tuple[int, int] | None, inherited: tuple[int, int] | None = None) -> Consumer:
        """Return the consumer that calls this; within `reading_whole`, the only consumer.

        Args:
            shard: (rank, world_size), if the user gave it; otherwise `torch.distributed` is asked, if initialized.
            inherited: (rank, world_size) of the process that sent the dataset to this worker, because a spawned worker
                does not have its parent's `torch.distributed`.
        """
        return cls() if is_reading_whole() else cls.actual(shard, inherited)

    @classmethod
    def actual(cls, shard: tuple[int, int] | None, inherited: tuple[int, int] | None) -> Consumer:
        """Return the consumer that calls this, even within `reading_whole`; arguments as for `here`."""
        info = _torch.worker_info()
        rank, world_size = shard or rank_and_world_size()
        if shard is None and world_size == 1 and inherited is not None and info is not None:
            rank, world_size = inherited
        return cls(rank, world_size) if info is None else cls(rank, world_size, info.id, info.num_workers)

    @property
    def number(self) -> int:
        """Its index among all. Ranks vary fastest, so that their shares differ by at most one sample."""
        return self.worker * self.world_size + self.rank

    @property
    def total(self) -> int:
        """The number of consumers."""
        return self.world_size * self.num_workers

    def __str__(self) -> str:
        """Describe the consumer for a message."""
        return f"rank {self.rank} of {self.world_size}, worker {self.worker} of {self.num_workers}"


def rank_and_world_size() -> tuple[int, int]:
    """Return the rank and world size of `torch.distributed`; (0, 1) if it is not initialized."""
    with nothing_hidden():
        world_size, rank = _torch.get_distributed_settings()
    return rank, world_size


def worker_number() -> int | None:
    """Return the number of the calling worker; None outside of workers."""
    info = _torch.worker_info()
    return None if info is None else int(info.id)


def checked_shard(shard: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return `shard` if it is valid.

    Raises:
        ValueError: `shard` is not (rank, world_size), two integers, or the rank does not exist.
    """
    if shard is None:
        return None
    try:
        rank, world_size = (operator.index(number) for number in shard)
    except (TypeError, ValueError):
        raise ValueError(f"shard should be (rank, world_size), but got {shard!r}") from None
    if not 0 <= rank < world_size:
        raise ValueError(f"shard should be (rank, world_size) with 0 <= rank < world_size, but got {shard!r}")
    return rank, world_size
