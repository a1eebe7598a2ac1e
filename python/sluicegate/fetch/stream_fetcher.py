"""`StreamFetcher`: batches of an iterable-style dataset."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from sluicegate.error_note import add_note
from sluicegate.rng.stream_seeding import Seeding, StreamSeeding
from sluicegate.state.place_state import PlaceState
from sluicegate.state.stream_place import StreamPlace
from sluicegate.stream.native import NativeStream
from sluicegate.stream.shard import ShardedIterable
from sluicegate.stream.shuffle_buffer import ShuffleBuffer
from sluicegate.stream.split import in_runs

from .fetch_settings import FetchSettings
from .stream_batches import native_batches, read_by_core


class StreamFetcher:
    """Fetches the next samples of an iterable-style dataset and collates them, on the calling thread.

    Args:
        dataset: anything with `__iter__`, which is called by the constructor.
        settings: how batches are made.
        seeding: sets the generators for each sample.
        resumed: an earlier result of `place.state()`. A stateful stream is restored; any other stream is read, and its
            samples are dropped.
        before: where the last epoch was left, if known.
    """

    def __init__(
        self,
        dataset: Any,
        settings: FetchSettings,
        seeding: Seeding | None = None,
        resumed: PlaceState | None = None,
        before: PlaceState | None = None,
    ) -> None:
        self._seeding = seeding
        self._auto_collation, self._drop_last = settings.auto_collation, settings.drop_last
        # True if it reports its position at no cost, as the core's streams do.
        self.is_native = isinstance(dataset, NativeStream) and dataset.splits_again
        # A dataset that reads a native stream itself splits it as it likes.
        with in_runs(settings.run if self.is_native else 1):
            self.place = StreamPlace(dataset, resumed, before, None if seeding is None else seeding.sample)
        self._iterator = self.place.take_iterator()
        # Makes whole batches; only if the samples themselves are not needed.
        self._native, self._collate_fn = native_batches(self._iterator, settings.collate_fn)
        # Samples that were read again came through Python, which holds what a shuffle buffer kept of them and what was
        # read with them. The core does not have those, and would continue without them.
        was_read_again = resumed is not None and resumed.at < resumed.samples
        self._identify = settings.identify
        if self._identify is not None or not self._auto_collation or was_read_again:
            self._native = None
        read = None if self._native is None else read_by_core(self._iterator)
        # Tells the bytes of the last batch, if the core knows.
        self.batch_bytes = None if read is None else read.batch_bytes
        self._has_next = None if read is None else read.has
        # The ordinal of the first sample of the last batch, the number of its samples, and their ids.
        self.last: tuple[int, int, list[Any] | None] = (0, 0, None)
        # The error that occurred after the last batch; it is the answer to the next request.
        self._failure: Exception | None = None
        # In these, only the datasets that they read draw, each sample from its own generators.
        reads_only = isinstance(seeding, StreamSeeding) and type(dataset) in (ShuffleBuffer, ShardedIterable)
        self._ahead: Callable[[], Any] = seeding.ahead if reads_only else contextlib.nullcontext  # type: ignore[union-attr]

    def fetch(self, index: Any) -> Any:
        """Return the next batch; `index` says how many samples.

        Raises:
            StopIteration: the stream has ended.
            Exception: what the dataset or `collate_fn` raises; a note gives the place in the stream.
        """
        place = self.place
        if place.ended:
            raise StopIteration
        place.begin()
        first = place.samples
        self.last = (first, 0, None)
        if self._native is not None:
            return self._native_batch(self._native, len(index))
        if not self._auto_collation:
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
            if not samples or (self._drop_last and len(samples) < len(index)):
                raise StopIteration
        ids = None
        if self._identify is not None:
            ids = [self._identify(sample) for sample in (samples if self._auto_collation else [samples])]
        self.last = (first, place.samples - first, ids)
        try:
            return self._collate_fn(samples)
        except Exception as error:
            add_note(error, f"raised while collating samples {first} to {place.samples - 1} of this stream")
            raise

    def has_next(self, size: int, seconds: float) -> bool:
        """Return True if a batch of `size` samples needs no waiting, after waiting up to `seconds`.

        Also True if the core does not make the batches, or the answer is an error.
        """
        return self._failure is not None or self._has_next is None or self._has_next(size, seconds)

    def _native_batch(self, batches: Callable[[int], tuple[Any, int] | None], size: int) -> Any:
        place = self.place
        first = place.samples
        batch, count = self._with_note(batches, size) or (None, 0)
        place.samples += count
        if 0 < count < size:
            # After it comes the end or an error, which shows only at the next request.
            try:
                if self._with_note(batches, size) is not None:
                    raise AssertionError(
                        "expected the end of the stream after a batch that was not full, but got more samples"
                    )
            except Exception as error:
                if self._drop_last:
                    raise
                self._failure = error
        place.ended = count < size and self._failure is None
        if not count or (self._drop_last and place.ended):
            raise StopIteration
        self.last = (first, count, None)
        return batch

    def _with_note(self, batches: Callable[[int], tuple[Any, int] | None], size: int) -> tuple[Any, int] | None:
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
            return batches(size)
        except Exception as error:
            add_note(error, f"raised by a batch of this stream that begins with sample {self.place.samples}")
            raise

    def _next(self) -> Any:
        if self._seeding is not None:
            self._seeding.sample(self.place.samples)
        try:
            sample = next(self._iterator)
        except StopIteration:
            self.place.ended = not self._auto_collation
            raise
        except Exception as error:
            add_note(error, f"raised by sample {self.place.samples} of this stream")
            raise
        self.place.samples += 1
        return sample
