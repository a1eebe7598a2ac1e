"""Fetching from map-style datasets in Python: torch's semantics, with errors that say which sample it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import BatchSampler


class MapFetcher:
    """Fetches the samples of one batch from a map-style dataset and collates them, on the calling thread.

    Args:
        dataset: anything with `__getitem__`; `__getitems__` is used where it has one.
        index_sampler: where the requests come from; it, or the sampler that it batches, is named in errors.
        auto_collation: whether a request is a batch of indices, or the index of one ready-made batch.
        collate_fn: makes a batch of the samples.
    """

    def __init__(
        self, dataset: Any, index_sampler: Any, auto_collation: bool, collate_fn: Callable[[Any], Any]
    ) -> None:
        self.dataset = dataset
        # Torch's own BatchSampler cuts what another sampler yields: that one is to blame for an index.
        self.sampler = index_sampler.sampler if type(index_sampler) is BatchSampler else index_sampler
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn

    def fetch(self, index: Any) -> Any:
        """The batch at `index`.

        Raises:
            IndexError: (or what the dataset raises) the dataset has no such sample; the text names index and sampler.
            RuntimeError: (or what `collate_fn` raises) the samples can't be stacked; the text names two that differ.
        """
        try:
            samples = self._samples(index)
        except (IndexError, ValueError) as error:
            if (text := self._place(error, index)) is None:
                raise
            raise type(error)(text) from error
        try:
            return self.collate_fn(samples)
        except RuntimeError as error:
            if (text := self._unequal_shapes(error, index, samples)) is None:
                raise
            raise RuntimeError(text) from error

    def _samples(self, index: Any) -> Any:
        if not self.auto_collation:
            return self.dataset[index]
        if hasattr(self.dataset, "__getitems__") and self.dataset.__getitems__:
            return self.dataset.__getitems__(index)
        return [self.dataset[each] for each in index]

    def _place(self, error: IndexError | ValueError, index: Any) -> str | None:
        """What to say of `error`: which index of which sampler is out of range; None when it is something else."""
        indices = index if isinstance(index, (list, tuple)) else [index]
        try:
            length = len(self.dataset)
        except Exception:  # The dataset's error is what counts, not that it has no length.
            return None
        wrong = [each for each in indices if type(each) is int and not -length <= each < length]
        if type(error) not in (IndexError, ValueError) or not wrong:
            return None
        return (
            f"{error} (index {wrong[0]} came from {type(self.sampler).__name__}, but the dataset, a "
            f"{type(self.dataset).__name__}, has {length} samples: build the sampler from this dataset, or its length)"
        )

    def _unequal_shapes(self, error: RuntimeError, index: Any, samples: Any) -> str | None:
        """What to say of `error`: which two samples have unequal shapes; None when it is about something else."""
        if type(error) is not RuntimeError or "stack expects each tensor to be equal size" not in str(error):
            return None
        indices = list(index) if isinstance(index, (list, tuple)) else None
        if indices is None or not isinstance(samples, list) or len(indices) != len(samples):
            return None
        try:
            shapes = [_shapes(sample) for sample in samples]
        except Exception:  # A user's own sample type; the error of the collate function is what counts.
            return None
        other = next((place for place, shape in enumerate(shapes) if shape != shapes[0]), None)
        if other is None:
            return None
        return (
            f"{error} (the sample at index {indices[0]} has {_as_text(shapes[0])}, the sample at index "
            f"{indices[other]} has {_as_text(shapes[other])}: bring them to one shape in the dataset, or give a "
            "collate_fn that pads)"
        )


def _shapes(sample: Any) -> Any:
    """The shapes of the tensors and arrays in a sample, nested as they are."""
    if isinstance(sample, dict):
        return {key: _shapes(value) for key, value in sample.items()}
    if isinstance(sample, Sequence) and not isinstance(sample, (str, bytes)):
        return [_shapes(value) for value in sample]
    shape = getattr(sample, "shape", None)
    return tuple(shape) if isinstance(shape, (torch.Size, tuple)) else None


def _as_text(shapes: Any) -> str:
    return f"shape {shapes}" if isinstance(shapes, tuple) else f"shapes {shapes}"
