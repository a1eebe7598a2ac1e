"""`NamedBatches`: the batches of a dataset in order, with fields as arrays by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from sluicegate.fetch.lazy_arrays import with_length
from sluicegate.loader.dataloader import DataLoader

Array = torch.Tensor | np.ndarray[Any, np.dtype[Any]]
Fields = str | Sequence[str] | None

# Batches have about this many bytes, and at most this many samples.
_BATCH_BYTES = 1 << 25
_BATCH_SIZE = 256

# The samples of streams are not known before they are read.
_STREAM_BATCH_SIZE = 64


class NamedBatches:
    """The batches of a dataset in order, from any sample on; each is a dict of arrays with the samples first.

    Args:
        dataset: one of

            - a map-style dataset, or an array, whose rows are the samples
            - an `IterableDataset` of samples
            - any other iterable of batches, such as a `DataLoader`
            - a function that is called with the number of samples to leave out, and returns an iterable of batches that
              begins after them
        fields: the fields to read, by name; of tuples, the names of all elements; of tensors, a single name. As a
            string, the only one. Default: all fields; elements of tuples are called "0", "1", and so on.
        num_workers: as in `DataLoader`, for map-style datasets.

    Examples:
        >>> from sluicegate import StackDataset
        >>> batches = NamedBatches(StackDataset(x=torch.arange(3), y=torch.zeros(3)), ["x"])
        >>> [batch["x"].tolist() for batch in batches.starting_at(1)]
        [[1], [2]]
    """

    def __init__(self, dataset: Any, fields: Fields = None, num_workers: int = 0) -> None:
        if isinstance(dataset, Mapping):
            raise TypeError(
                f"dataset: expected samples or batches, but got the {type(dataset).__name__} {list(dataset)}; pass "
                "StackDataset(**arrays), or sluicegate.xarray.WindowDataset(...)"
            )
        self.dataset = with_length(dataset)
        self.fields = fields if fields is None or isinstance(fields, str) else _checked_names(fields)
        self.num_workers = num_workers
        self.length: int | None = None
        """The number of samples; None if it is not known."""
        self.is_one_array = isinstance(fields, str)
        """True if samples are single arrays; known once the first batch was read."""
        self._read: Callable[[int], Iterator[Any]]
        if isinstance(dataset, IterableDataset):
            self._read = self._stream
        elif hasattr(self.dataset, "__len__") and hasattr(self.dataset, "__getitem__"):
            self.length = len(self.dataset)
            self._read = self._rows
        elif hasattr(dataset, "__iter__"):
            self._read = self._batches
        elif callable(dataset):
            self._read = lambda start: iter(dataset(start))
        else:
            raise TypeError(
                f"dataset: expected a dataset, an iterable of batches, or a function, but got {type(dataset).__name__}"
            )

    def starting_at(self, start: int) -> Iterator[dict[str, Array]]:
        """Yield the batches after the first `start` samples.

        Raises:
            TypeError: a batch is not a tensor or an array, or a dict or tuple of these.
            ValueError: a field is missing; fields have different numbers of samples; or there are fewer samples than
                are left out.
        """
        for batch in self._read(start):
            yield self._named(batch)

    def _rows(self, start: int) -> Iterator[Any]:
        assert self.length is not None
        if start > self.length:
            raise _too_few(start, self.length)
        if start == self.length:
            return
        # The size of the first sample decides how many are read at once.
        (first,) = DataLoader(self.dataset, sampler=range(start, start + 1))
        yield first
        size = sum(int(array.nbytes) for array in self._named(first).values())
        yield from DataLoader(
            self.dataset,
            batch_size=min(max(_BATCH_BYTES // max(size, 1), 1), _BATCH_SIZE),
            sampler=range(start + 1, self.length),
            num_workers=self.num_workers,
        )

    def _stream(self, start: int) -> Iterator[Any]:
        return self._after(start, DataLoader(self.dataset, batch_size=_STREAM_BATCH_SIZE))

    def _batches(self, start: int) -> Iterator[Any]:
        return self._after(start, self.dataset)

    def _after(self, start: int, batches: Iterable[Any]) -> Iterator[Any]:
        left = start
        for batch in batches:
            count = sample_count(self._named(batch)) if left else 0
            if left == 0:
                yield batch
            elif left < count:
                yield {name: array[left:] for name, array in self._named(batch).items()}
            left = max(left - count, 0)
        if left:
            raise _too_few(start, start - left)

    def _named(self, batch: Any) -> dict[str, Array]:
        found = self._by_name(batch)
        if not found:
            raise ValueError("dataset: expected at least one field, but got an empty batch")
        arrays = {name: _array(name, value) for name, value in found.items()}
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(f"dataset: expected the same number of samples in each field of a batch, but got {counts}")
        return arrays

    def _by_name(self, batch: Any) -> dict[str, Any]:
        fields = [self.fields] if isinstance(self.fields, str) else self.fields
        if isinstance(batch, Mapping):
            if fields is None:
                return dict(batch)
            if missing := [name for name in fields if name not in batch]:
                raise ValueError(f"fields: expected names among {list(batch)}, but got {missing}")
            return {name: batch[name] for name in fields}
        if isinstance(batch, (tuple, list)):
            names = list(map(str, range(len(batch)))) if fields is None else fields
        else:
            self.is_one_array = True
            batch, names = [batch], ["data"] if fields is None else fields
        if len(names) != len(batch):
            raise ValueError(f"fields: expected {len(batch)} names, one for each element, but got {names}")
        return dict(zip(names, batch, strict=True))


def _checked_names(fields: Iterable[str]) -> list[str]:
    names = list(fields)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"fields: expected names that differ from each other, got {names}")
    return names


def sample_count(batch: Mapping[str, Array]) -> int:
    """Return the number of samples in a batch of `NamedBatches`."""
    return len(next(iter(batch.values())))


def _array(name: str, value: Any) -> Array:
    if isinstance(value, torch.Tensor):
        array: Array = value.detach().resolve_conj().resolve_neg().cpu()
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        array = np.empty((), object)
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biufc":
        found = f"an array of {array.dtype}" if hasattr(value, "__array__") else type(value).__name__
        raise TypeError(
            f"field {name!r}: expected a tensor or an array of numbers, but got {found}; name other fields in fields="
        )
    if array.ndim == 0:
        raise TypeError(f"field {name!r}: expected an array with the samples along its first axis, but got a number")
    return array


def _too_few(start: int, found: int) -> ValueError:
    return ValueError(f"dataset: expected the {start:,} samples that were read before, but got {found:,}")
