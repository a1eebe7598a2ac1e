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
    """Which samples a batch holds.

    Values are computed on first access. It can be kept, and read from any thread.

    Attributes:
        batch_index: the batch's number in the epoch, counted from 0.
        epoch: the epoch, counted from 0.
        position: how many samples of the epoch's global order come before the first one of this batch. With a batch
            sampler in seed mode, how many batches; for a stream, how many samples of the same worker.
        worker: the number of the worker that fetched it; 0 without workers, and if threads of the core read.
        sample_ids: the result of `sample_id` for each sample; None if it was not given.

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
        # The position after this batch, for samplers from which one batch is requested at a time.
        self.end = end
        self.request = request
        self.worker = 0
        self.is_of_stream = False
        self.sample_ids: list[Any] | None = None
        # The state that a stateful sampler reported after yielding this batch, pickled.
        self.sampler_state: bytes | None = None
        self._indices: npt.NDArray[Any] | None = None

    @property
    def sample_indices(self) -> npt.NDArray[Any]:
        """The index of each sample, int64, in batch order; for a stream, each sample's ordinal in its worker's stream.

        Indices that are not integers (a sampler may yield anything) come as an array of objects.
        """
        if self._indices is None and self.is_of_stream:
            self._indices = np.arange(self.position, self.end, dtype=np.int64)
        elif self._indices is None:
            self._indices = own_array_of(self.request)
            if type(self.request) is Slice:
                # Keeping these ids must not keep the whole epoch's order alive.
                self.request = Remaining(self._indices.copy(), np.ones(len(self._indices), np.bool_))
        return self._indices

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """A mask, False for samples that are padding (`remainder="exact"`); each sample is True once per epoch."""
        if self.is_of_stream:
            return np.ones(len(self.sample_indices), np.bool_)
        return is_part_of_epoch(self.request)

    @property
    def batch_id(self) -> str | None:
        """A name for this batch, the same in every run with the same order: epoch, batch, and a digest of its samples.

        The digest covers the indices; for a stream, the `sample_ids`. A stream without `sample_ids` has None, because
        ordinals do not identify the contents of a batch of a different stream, or with a different number of workers.
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
        """Record `count` samples of the worker's stream, starting at ordinal `first`, identified by `sample_ids`."""
        self.is_of_stream = True
        self.position = first
        self.end = first + count
        self.sample_ids = sample_ids

    def __len__(self) -> int:
        if self.is_of_stream:
            return self.end - self.position
        return len(self._indices) if self._indices is not None else size_of(self.request)

    def __repr__(self) -> str:
        return (
            f"BatchIds(batch_index={self.batch_index}, epoch={self.epoch}, position={self.position}, "
            f"worker={self.worker}, sample_indices={self.sample_indices!r}, valid={self.valid!r}, "
            f"sample_ids={self.sample_ids!r}, batch_id={self.batch_id!r})"
        )


def _plain(sample_id: Any) -> Any:
    """Return `sample_id` in types whose `repr` is complete: an array's `repr` elides the middle of long arrays."""
    if isinstance(sample_id, (np.ndarray, np.generic, torch.Tensor)):
        return sample_id.tolist()
    return [_plain(each) for each in sample_id] if isinstance(sample_id, (list, tuple)) else sample_id


def with_ids_of(iterator: Iterator[Any], holder: Any) -> Iterator[tuple[Any, BatchIds]]:
    """Return pairs of a batch and its ids.

    Not a generator: an exception in one batch would end it. No Python code runs per batch.

    Args:
        iterator: yields batches.
        holder: an object whose `last_ids` are the ids of the last batch.
    """
    return zip(iterator, map(operator.attrgetter("last_ids"), itertools.repeat(holder)), strict=False)
