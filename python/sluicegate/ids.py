"""`BatchIds`: which samples are in a batch."""

from __future__ import annotations

import hashlib
import itertools
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .requests import Remaining, Slice, is_part_of_epoch, own_array_of, size_of


class BatchIds:
    """What a batch is made of, for whoever wants to know which samples it holds.

    Nothing is computed until it is asked for; it may be kept, and asked by any thread.

    Attributes:
        batch_index: which batch of the epoch it is, counted from 0.
        epoch: the epoch, counted from 0.
        position: how many samples of the epoch's global order come before its first one. With a batch sampler in seed
            mode, how many batches; for a stream, how many samples of the same worker.
        worker: which worker fetched it; 0 without workers, and where threads of the core read.
        sample_ids: what `sample_id` made of each sample; None where it was not given.

    Examples:
        >>> from sluicegate import DataLoader
        >>> loader = DataLoader([0, 10, 20], batch_size=2, sampler=[2, 0, 1])
        >>> for batch, ids in loader.with_ids():
        ...     print(batch.tolist(), ids.sample_indices.tolist(), ids.position, ids.valid.tolist())
        [20, 0] [2, 0] 0 [True, True]
        [10] [1] 2 [True]
        >>> loader.last_ids.batch_id
        '0-1-dfdf296fd6d4'
    """

    __slots__ = (
        "_indices",
        "batch_index",
        "end",
        "epoch",
        "is_of_stream",
        "position",
        "request",
        "sample_ids",
        "sampler_state",
        "worker",
    )

    def __init__(self, batch_index: int, epoch: int, position: int, request: Any, end: int = 0) -> None:
        self.batch_index = batch_index
        self.epoch = epoch
        self.position = position
        # The position after it, where samplers are asked one batch after the other.
        self.end = end
        self.request = request
        self.worker = 0
        self.is_of_stream = False
        self.sample_ids: list[Any] | None = None
        # What a stateful sampler said when it had yielded this batch, pickled.
        self.sampler_state: bytes | None = None
        self._indices: npt.NDArray[Any] | None = None

    @property
    def sample_indices(self) -> npt.NDArray[Any]:
        """The index of each sample, int64, in batch order; of a stream, which sample of its worker's stream each is.

        Indices that are no integers (a sampler may yield anything) come as an array of objects.
        """
        if self._indices is None:
            self._indices = own_array_of(self.request)
            if type(self.request) is Slice:
                # These ids, when they are kept, must not keep the order of the whole epoch.
                self.request = Remaining(self._indices.copy(), np.ones(len(self._indices), np.bool_))
        return self._indices

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """False for samples that only pad the batch (`remainder="exact"`): each sample is True once in an epoch."""
        if self.is_of_stream:
            return np.ones(len(self.sample_indices), np.bool_)
        return is_part_of_epoch(self.request)

    @property
    def batch_id(self) -> str | None:
        """A name for this batch, the same in every run of the same order: epoch, batch, and a digest of its samples.

        The digest is of the indices; for a stream, of the `sample_ids`, and None without those: ordinals do not say
        what is in the batch of another stream, or with another number of workers.
        """
        if self.is_of_stream:
            if self.sample_ids is None:
                return None
            content = repr([_plain(each) for each in self.sample_ids]).encode()
        else:
            indices = self.sample_indices
            content = indices.tobytes() if indices.dtype == np.int64 else repr(indices.tolist()).encode()
        digest = hashlib.blake2b(content, digest_size=6).hexdigest()
        return f"{self.epoch}-{self.batch_index}-{digest}"

    def set_stream(self, first: int, count: int, sample_ids: list[Any] | None) -> None:
        """Takes note of `count` samples of its worker's stream, from ordinal `first` on, told by `sample_ids`."""
        self.is_of_stream = True
        self.position = first
        self.end = first + count
        self._indices = np.arange(first, first + count, dtype=np.int64)
        self.sample_ids = sample_ids

    def __len__(self) -> int:
        return len(self._indices) if self._indices is not None else size_of(self.request)

    def __repr__(self) -> str:
        return (
            f"BatchIds(batch_index={self.batch_index}, epoch={self.epoch}, position={self.position}, "
            f"worker={self.worker}, sample_indices={self.sample_indices!r}, valid={self.valid!r}, "
            f"sample_ids={self.sample_ids!r}, batch_id={self.batch_id!r})"
        )


def _plain(sample_id: Any) -> Any:
    """`sample_id` in types whose `repr` has all of it: that of an array leaves out the middle of many numbers."""
    if isinstance(sample_id, (np.ndarray, np.generic, torch.Tensor)):
        return sample_id.tolist()
    return [_plain(each) for each in sample_id] if isinstance(sample_id, (list, tuple)) else sample_id


def with_ids_of(iterator: Iterator[Any], place: Any) -> Iterator[tuple[Any, BatchIds]]:
    """Pairs of a batch and its ids. No generator: an exception in one batch would end it. Nothing of it is Python's.

    Args:
        iterator: of batches.
        place: what knows the ids of the last one, as `last_ids`.
    """
    return zip(iterator, map(operator.attrgetter("last_ids"), itertools.repeat(place)), strict=False)
