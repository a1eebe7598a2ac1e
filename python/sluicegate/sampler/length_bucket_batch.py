"""`LengthBucketBatchSampler`: batches of samples of like length."""

from __future__ import annotations

from typing import Any

import torch

from sluicegate import _core
from sluicegate.class_index import described, integers

from .core_batch import positive
from .lengths_batch import LengthsBatchSampler

# Batches that are sorted together: enough for hardly any padding, and few enough for the order to be random.
_BATCHES_PER_WINDOW = 100


class LengthBucketBatchSampler(LengthsBatchSampler):
    """Batches of samples of like length: hardly any padding, and random all the same. Each sample comes once an epoch.

    The samples are shuffled, sorted by length inside windows, cut into batches, and the batches are shuffled. An epoch
    is prepared when it begins, in about 100 ns and 4 bytes a sample.

    With a loader's `shard`, ranks take one batch each at a step, and wait for the one with the most to do. With
    `balance=8` eight batches of like length stay side by side while they are shuffled, so 1, 2, 4 or 8 ranks have like
    batches at every step. The order does not depend on how many ranks there are: a state goes on with another number.

    Args:
        lengths: the length of each sample, such as its number of tokens: a list, array or tensor of integers.
        batch_size: samples per batch. Either this or `max_tokens`.
        max_tokens: the most that a batch may have when all its samples are padded to the longest. How many batches an
            epoch has depends on its order then, so `len` needs a seed.
        drop_last: leaves out the batch that was cut last when it is not full. Default False.
        shuffle: False for all samples sorted by length, the longest first, in every epoch. Default True.
        window: samples that are sorted together: the more, the less padding, and the less random. Default: 100 batches,
            or 100 times `balance`.
        balance: shuffles so many batches of like length at a time: a multiple of the number of ranks. Those that are
            left over come last. Default 1.
        seed: an integer from 0 to 2**64 - 1, for batches that are a function of it and the epoch (`set_epoch`). Default
            None: drawn at the first `next` of each iteration.
        generator: where it is drawn from instead of torch's global generator.

    Raises:
        ValueError: both limits or none, a number that is not positive, a negative length, a sample longer than
            `max_tokens` (the text names it), or a seed out of range.
        TypeError: lengths that are no integers; while asked for its length: `max_tokens` without a seed.

    Examples:
        >>> lengths = [3, 90, 4, 91, 2, 88]
        >>> for batch in LengthBucketBatchSampler(lengths, max_tokens=182, shuffle=False):
        ...     print([lengths[index] for index in batch])
        [91, 90]
        [88, 4]
        [3, 2]
    """

    def __init__(
        self,
        lengths: Any,
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        drop_last: bool = False,
        shuffle: bool = True,
        window: int | None = None,
        balance: int = 1,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(seed, generator)
        if (batch_size is None) == (max_tokens is None):
            raise ValueError(
                f"LengthBucketBatchSampler takes batch_size or max_tokens, but got batch_size={batch_size} and "
                f"max_tokens={max_tokens}"
            )
        self.lengths = integers("lengths", lengths)
        self.batch_size = None if batch_size is None else positive("batch_size", batch_size)
        self.max_tokens = None if max_tokens is None else positive("max_tokens", max_tokens)
        self.drop_last = bool(drop_last)
        self.shuffle = bool(shuffle)
        self.balance = positive("balance", balance)
        self.window = self._default_window() if window is None else positive("window", window)
        self._make(0)  # What the core refuses, it refuses now.

    def _default_window(self) -> int:
        batches = _BATCHES_PER_WINDOW * self.balance
        if self.batch_size is not None:
            return batches * self.batch_size
        mean = float(self.lengths.mean()) if len(self.lengths) else 1.0
        return max(int(batches * (self.max_tokens or 1) / max(mean, 1.0)), 1)

    def _make(self, seed: int) -> _core.BatchingSampler:
        return _core.length_bucket_batch_sampler(
            described(self.lengths),
            self.batch_size,
            self.max_tokens,
            self.window,
            self.drop_last,
            seed if self.shuffle else None,
            self.balance,
        )

    _UNKNOWN = "how many batches of max_tokens an epoch has depends on its order"

    def _known_len(self) -> int | None:
        if self.batch_size is None:
            return None
        full, rest = divmod(len(self.lengths), self.batch_size)
        return full + (rest > 0 and not self.drop_last)
