"""Fetching batches in Python: torch's semantics, with errors that say which sample it was.

The same fetchers run on the calling thread, in worker processes and in worker threads.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import BatchSampler, StackDataset, Subset

from . import _torch
from .native_dataset import NativeDataset, own_collate
from .native_stream import NativeStream
from .placing import stacks_as_torch
from .rng import SampleSeeding
from .shard_iterable import ShardedIterable
from .shuffle_buffer import ShuffleBuffer
from .stateful import Place, is_stateful, restore
from .stream_batches import native_batches
from .stream_place import StreamPlace
from .stream_seeding import StreamSeeding
from .stream_split import in_runs

Seeding = SampleSeeding | StreamSeeding

# So many indices are named in a message; a batch may have thousands.
_NAMED_INDICES = 16


def sampler_name(index_sampler: Any) -> str:
    """The class that is to blame for an index: a BatchSampler only cuts what another sampler yields."""
    return type(index_sampler.sampler if isinstance(index_sampler, BatchSampler) else index_sampler).__name__


def make_fetcher(
    kind: int,
    dataset: Any,
    auto_collation: bool,
    collate_fn: Callable[[Any], Any],
    drop_last: bool,
    sampler: str,
    seeding: Seeding | None = None,
    resumed: dict[str, Any] | None = None,
    sample_id: Any = None,
    before: dict[str, Any] | None = None,
    every: int = 1,
    run: int = 1,
) -> MapFetcher | StreamFetcher:
    """What fetches from `dataset`; `iter()` of a stream is called here.

    Args:
        kind: torch's kind of dataset, map-style or iterable-style.
        dataset: the dataset.
        auto_collation: whether a request is a batch of indices, or the index of one ready-made batch.
        collate_fn: makes a batch of samples.
        drop_last: whether a stream's last batch is left out when it is smaller.
        sampler: the name of the sampler, for messages.
        seeding: sets the generators for each sample.
        resumed: what `place.state()` of such a fetcher returned once, to go on from there.
        sample_id: what tells a sample of a stream.
        before: where the last epoch of a stream was left, if that is known.
        every: after how many batches a stream may be asked for its state; 0 for once an epoch.
        run: how many samples in a row belong to one worker, of a stream that the core reads.
    """
    if kind == _torch.DatasetKind.Map:
        return MapFetcher(dataset, sampler, auto_collation, collate_fn, seeding, resumed)
    return StreamFetcher(
        dataset, auto_collation, collate_fn, drop_last, seeding, resumed, sample_id, before, every, run
    )


def indices_in_words(index: Any) -> str:
    """`index` for a message: all indices of a small batch, the first ones of a large one."""
    try:
        return _in_words(index)
    except Exception:  # What is to be told of counts, not that the index can't be shown.
        return f"<{type(index).__name__}>"


def _in_words(index: Any) -> str:
    if isinstance(index, (list, tuple)) and len(index) > _NAMED_INDICES:
        shown = ", ".join(map(repr, index[:_NAMED_INDICES]))
        return f"[{shown}, ... {len(index) - _NAMED_INDICES} more]"
    text = repr(index)
    return text if len(text) < 1000 else f"{text[:1000]}..."


def add_note(error: BaseException, note: str) -> None:
    """Add a note to `error`, where Python has notes; once, though the same error may be raised again."""
    with contextlib.suppress(Exception):  # One that takes none, as a frozen dataclass, is raised without.
        if note not in getattr(error, "__notes__", ()):
            if hasattr(error, "add_note"):
                error.add_note(note)
            else:  # Python 3.10 shows none, but whoever looks finds it.
                error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]


class StreamFetcher:
    """Fetches the next samples of an iterable-style dataset and collates them, on the calling thread.

    Args:
        dataset: anything with `__iter__`, which is called now.
        auto_collation: whether a request stands for a batch of as many samples, or for one ready-made batch.
        collate_fn: makes a batch of the samples.
        drop_last: whether the last batch is left out when it is smaller.
        seeding: sets the generators for each sample.
        resumed: what `place.state()` returned once. A stream that knows its state is put there; any other is read, and
            its samples dropped.
        sample_id: what tells a sample: a function of it, or the name or place of a field.
        before: where the last epoch was left, if that is known.
        every: after how many batches a stream may be asked for its state; 0 for once an epoch.
        run: how many samples in a row belong to one worker, of a stream that the core reads.
    """

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
        seeding: Seeding | None = None,
        resumed: dict[str, Any] | None = None,
        sample_id: Any = None,
        before: dict[str, Any] | None = None,
        every: int = 1,
        run: int = 1,
    ) -> None:
        self.seeding = seeding
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        # Whether it says where it is at no cost, as the core's streams do.
        self.is_native = isinstance(dataset, NativeStream) and dataset.splits_anew
        # One that reads a native stream itself shares it out as it likes.
        with in_runs(run if self.is_native else 1):
            self.place = StreamPlace(dataset, resumed, before, every, None if seeding is None else seeding.sample)
        self.dataset_iter = self.place.take_iterator()
        # What makes whole batches; only where nobody asks for the samples themselves.
        self._native, self.collate_fn = native_batches(self.dataset_iter, collate_fn)
        # Samples that were read again came through Python, which holds what a shuffle buffer kept of them, and what was
        # read with them: the core does not have those, and would go on without them.
        was_read_again = resumed is not None and resumed["at"] < resumed["samples"]
        if sample_id is not None or not auto_collation or was_read_again:
            self._native = None
        self._sample_id = None if sample_id is None or callable(sample_id) else operator.itemgetter(sample_id)
        if callable(sample_id):
            self._sample_id = sample_id
        # The ordinal of the first sample of the last batch, how many it has, and what tells them.
        self.last: tuple[int, int, list[Any] | None] = (0, 0, None)
        # What went wrong behind the last batch; it is the answer to the next request.
        self._failure: Exception | None = None
        # Of these all that draws is what they read, each sample from generators of its own.
        reads_only = isinstance(seeding, StreamSeeding) and type(dataset) in (ShuffleBuffer, ShardedIterable)
        self._ahead: Callable[[], Any] = seeding.ahead if reads_only else contextlib.nullcontext  # type: ignore[union-attr]

    def fetch(self, index: Any) -> Any:
        """The next batch; `index` says how many samples.

        Raises:
            StopIteration: the stream has ended.
            Exception: what the dataset or `collate_fn` raises; a note says where in the stream.
        """
        place = self.place
        if place.ended:
            raise StopIteration
        place.begin_batch()
        first = place.samples
        self.last = (first, 0, None)
        if self._native is not None:
            return self._native_batch(self._native, len(index))
        if not self.auto_collation:
            samples = self._next()
        else:
            samples = []
            with self._ahead():
                for _ in index:
                    try:
                        samples.append(self._next())
                    except StopIteration:
                        place.ended = True
                        break
            if not samples or (self.drop_last and len(samples) < len(index)):
                raise StopIteration
        told = None
        if self._sample_id is not None:
            told = [self._sample_id(sample) for sample in (samples if self.auto_collation else [samples])]
        self.last = (first, place.samples - first, told)
        try:
            return self.collate_fn(samples)
        except Exception as error:
            add_note(error, f"raised while collating samples {first} to {place.samples - 1} of this stream")
            raise

    def _native_batch(self, batches: Callable[[int], tuple[Any, int] | None], size: int) -> Any:
        place = self.place
        first = place.samples
        batch, count = self._asked(batches, size) or (None, 0)
        place.samples += count
        if 0 < count < size:
            # Behind it is the end, or an error, which is told to nobody who does not ask.
            try:
                if self._asked(batches, size) is not None:
                    raise AssertionError("there are samples behind a batch that was not full")
            except Exception as error:
                if self.drop_last:
                    raise
                self._failure = error
        place.ended = count < size and self._failure is None
        if not count or (self.drop_last and place.ended):
            raise StopIteration
        self.last = (first, count, None)
        return batch

    def _asked(self, batches: Callable[[int], tuple[Any, int] | None], size: int) -> tuple[Any, int] | None:
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
            return batches(size)
        except Exception as error:
            add_note(error, f"raised by a batch of this stream that begins with sample {self.place.samples}")
            raise

    def _next(self) -> Any:
        if self.seeding is not None:
            self.seeding.sample(self.place.samples)
        try:
            sample = next(self.dataset_iter)
        except StopIteration:
            self.place.ended = not self.auto_collation
            raise
        except Exception as error:
            add_note(error, f"raised by sample {self.place.samples} of this stream")
            raise
        self.place.samples += 1
        return sample


def _has_getitems(dataset: Any) -> bool:
    return hasattr(dataset, "__getitems__") and bool(dataset.__getitems__)


def _fetches_many(dataset: Any) -> bool:
    """Whether a batch is fetched by code of the user's own: torch's combinators only pass on what they hold."""
    if type(dataset) is Subset:
        return _fetches_many(dataset.dataset)
    if type(dataset) is StackDataset:
        parts = dataset.datasets
        return any(map(_fetches_many, parts.values() if isinstance(parts, dict) else parts))
    if isinstance(dataset, NativeDataset) and dataset.has_images:
        return False  # Each image is drawn for itself.
    return _has_getitems(dataset)


class _Failed:
    """Which index was being fetched: the whole batch, until single ones are."""

    __slots__ = ("batch", "index")

    def __init__(self, batch: Any) -> None:
        self.batch = self.index = batch

    def in_words(self) -> str:
        if self.index is self.batch and isinstance(self.batch, (list, tuple)):
            return f"the batch at {indices_in_words(self.batch)}"
        return f"the sample at index {indices_in_words(self.index)}"


class MapFetcher:
    """Fetches the samples of one batch from a map-style dataset and collates them, on the calling thread.

    Args:
        dataset: anything with `__getitem__`; `__getitems__` is used where it has one.
        sampler: the name of the sampler that the requests come from, for messages.
        auto_collation: whether a request is a batch of indices, or the index of one ready-made batch.
        collate_fn: makes a batch of the samples.
        seeding: sets the generators for each sample.
        resumed: what `place.state()` returned once: the dataset is given its state back.
    """

    # What `last` says of a stream's batches is known beforehand here.
    last = None

    def __init__(
        self,
        dataset: Any,
        sampler: str,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        seeding: Seeding | None = None,
        resumed: dict[str, Any] | None = None,
    ) -> None:
        self.dataset = dataset
        self.sampler = sampler
        self.auto_collation = auto_collation
        is_torchs = auto_collation and stacks_as_torch(collate_fn)
        self.collate_fn = own_collate(dataset, collate_fn) if is_torchs else collate_fn
        self.seeding = seeding
        if resumed and "thing" in resumed["state"]:
            restore(dataset, resumed["state"]["thing"])
        # No method of this fetcher, which the place would then keep.
        self.place = Place((lambda: {"thing": dataset.state_dict()}) if is_stateful(dataset) else None)

    def fetch(self, index: Any) -> Any:
        """The batch at `index`.

        Raises:
            IndexError: (or what the dataset raises) the dataset has no such sample; the text names index and sampler.
            RuntimeError: (or what `collate_fn` raises) the samples can't be stacked; the text names two that differ.
        """
        failed = _Failed(index)
        try:
            samples = self._samples(index, failed)
        except Exception as error:
            add_note(error, f"raised by {failed.in_words()} of the dataset")
            if not isinstance(error, (IndexError, ValueError)) or (text := self._place(error, index)) is None:
                raise
            raise type(error)(text) from error
        try:
            return self.collate_fn(samples)
        except Exception as error:
            add_note(error, f"raised while collating the batch at {indices_in_words(index)}")
            if not isinstance(error, RuntimeError) or (text := self._unequal_shapes(error, index, samples)) is None:
                raise
            raise RuntimeError(text) from error

    def _samples(self, index: Any, failed: _Failed) -> Any:
        if self.seeding is None:
            return self._unseeded_samples(index, failed)
        seed = self.seeding.sample
        if not self.auto_collation:
            seed(index)
            return self.dataset[index]
        index = list(index)
        if _fetches_many(self.dataset):
            # It fetches them all in one call: they share the generators of the first one.
            for first in index[:1]:
                seed(first)
            return self.dataset.__getitems__(index)
        samples = []
        for failed.index in index:
            seed(failed.index)
            samples.append(self.dataset[failed.index])
        return samples

    def _unseeded_samples(self, index: Any, failed: _Failed) -> Any:
        if not self.auto_collation:
            return self.dataset[index]
        if _has_getitems(self.dataset):
            return self.dataset.__getitems__(index)
        samples = []
        for failed.index in index:
            samples.append(self.dataset[failed.index])
        return samples

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
            f"{error} (index {wrong[0]} came from {self.sampler}, but the dataset, a "
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
