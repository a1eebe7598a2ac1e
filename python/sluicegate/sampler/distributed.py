"""`DistributedSampler`: what one rank reads."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional


class DistributedSampler(Positional, data.DistributedSampler[int]):
    """What one rank of `num_replicas` reads: torch's `DistributedSampler`, with a state, and positions in seed mode.

    Iterating gives what torch's sampler gives for the same `seed`, which is torch's: all ranks draw the permutation of
    `seed` + epoch. The order of seed mode is asked for with a seed that is the loader's: `order(epoch, seed)`.

    A state goes on in the epoch where it was taken, as that of torchdata's `StatefulDistributedSampler`.

    Args:
        dataset: what has the samples.
        num_replicas: the number of ranks; by default that of the process group.
        rank: this process; by default as in the process group.
        shuffle: whether the order is random.
        seed: torch's seed of the shuffle, the same on every rank.
        drop_last: whether the end that does not fill every rank is left out; else the order wraps around.

    Raises:
        ValueError: there is no such rank.

    Examples:
        >>> sampler = DistributedSampler(range(10), num_replicas=4, rank=1, shuffle=False)
        >>> list(sampler)
        [1, 5, 9]
        >>> len(sampler.order(epoch=0, seed=7))
        3
    """

    seed: int
    # What `index_at` answers from: what the order was made of, and the order.
    _listed: tuple[tuple[Any, ...], torch.Tensor] | None = None

    def index_at(self, position: int) -> int:
        """The index at `position` of the current epoch, of those that iterating gives.

        The order is torch's, which no position can be had of alone: the first question in an epoch costs what iterating
        costs, and 8 bytes a sample are kept.

        Raises:
            IndexError: there is no such position.
        """
        made_of = (*self._facts(), self.seed, self.epoch)
        if self._listed is None or self._listed[0] != made_of:
            self._listed = made_of, torch.tensor(list(self._unseeded()), dtype=torch.int64, device="cpu")
        if not 0 <= position < len(self._listed[1]):
            raise IndexError(f"position {position} of an order of {len(self._listed[1])} indices")
        return int(self._listed[1][position])

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_listed": None}

    def _own_seed(self) -> int | None:
        # Torch's seed is none of seed mode: it has a default, and its order is torch's.
        return None

    def _is_random(self) -> bool:
        return self.shuffle

    def _facts(self) -> tuple[Any, ...]:
        return len(self.dataset), self.num_replicas, self.rank, self.shuffle, self.drop_last  # type: ignore[arg-type]

    def _facts_without_seed(self) -> tuple[Any, ...]:
        # Without the rank: all of them may go on from a state that one has saved.
        return len(self.dataset), self.num_replicas, self.shuffle, self.drop_last, self.seed  # type: ignore[arg-type]

    def _make(self, seed: int) -> _core.Sampler:
        length = len(self.dataset)  # type: ignore[arg-type]
        whole = _core.random_sampler(length, seed, False, length) if self.shuffle else _core.sequential_sampler(length)
        return _core.distributed_sampler(whole, self.rank, self.num_replicas, "drop" if self.drop_last else "pad")
