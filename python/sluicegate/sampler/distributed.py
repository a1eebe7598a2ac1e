"""`DistributedSampler`: the indices of one rank."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch.utils import data

from sluicegate import _core

from .positional import Positional

_T_co = TypeVar("_T_co", covariant=True)


class DistributedSampler(Positional, data.DistributedSampler[_T_co]):  # type: ignore[misc]
    """The indices of one rank: torch's `DistributedSampler`, with a state, and positions in seed mode.

    Iterating gives what torch's sampler gives for the same `seed`, which has torch's meaning: all ranks draw the
    permutation of `seed` + epoch. The order of seed mode takes the loader's seed instead: `order(epoch, seed)`.

    A state resumes in the epoch in which it was taken, like that of torchdata's `StatefulDistributedSampler`.

    Args:
        dataset: the dataset.
        num_replicas: the number of ranks; default: that of the process group.
        rank: the rank of this process; default: its rank in the process group.
        shuffle: True for a random order.
        seed: torch's shuffle seed, the same on every rank.
        drop_last: True to drop the samples at the end that do not fill every rank; otherwise the order wraps around.

    Raises:
        ValueError: there is no such rank, or `num_replicas` or `rank` is missing and there is no process group.

    Examples:
        >>> sampler = DistributedSampler(range(10), num_replicas=4, rank=1, shuffle=False)
        >>> list(sampler)
        [1, 5, 9]
        >>> len(sampler.order(epoch=0, seed=7))
        3
    """

    seed: int
    # The cache of `index_at`: the inputs of the order, and the order.
    _listed: tuple[tuple[Any, ...], torch.Tensor] | None = None

    def index_at(self, position: int) -> int:
        """Return the index at `position` of the current epoch, in the order that iterating gives.

        The order is torch's, in which a single position cannot be computed alone: the first call in an epoch costs as
        much as iterating, and 8 bytes per sample are kept.

        Raises:
            IndexError: there is no such position.
        """
        made_of = (*self._facts(), self.seed, self.epoch)
        if self._listed is None or self._listed[0] != made_of:
            self._listed = made_of, torch.tensor(list(self._unseeded()), dtype=torch.int64, device="cpu")
        if not 0 <= position < len(self._listed[1]):
            raise IndexError(
                f"position: expected 0 <= position < {len(self._listed[1])}, the length of the order, but got "
                f"{position}"
            )
        return int(self._listed[1][position])

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_listed": None}

    def _own_seed(self) -> int | None:
        # Torch's seed does not select seed mode: it has a default, and its order is torch's.
        return None

    def _is_random(self) -> bool:
        return self.shuffle

    def _facts(self) -> tuple[Any, ...]:
        return len(self.dataset), self.num_replicas, self.rank, self.shuffle, self.drop_last  # type: ignore[arg-type]

    def _facts_without_seed(self) -> tuple[Any, ...]:
        # Without the rank: every rank can resume from a state that one of them saved.
        return len(self.dataset), self.num_replicas, self.shuffle, self.drop_last, self.seed  # type: ignore[arg-type]

    def _make(self, seed: int) -> _core.Sampler:
        length = len(self.dataset)  # type: ignore[arg-type]
        whole = _core.random_sampler(length, seed, False, length) if self.shuffle else _core.sequential_sampler(length)
        return _core.distributed_sampler(whole, self.rank, self.num_replicas, "drop" if self.drop_last else "pad")
