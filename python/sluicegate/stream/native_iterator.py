"""`NativeStreamIterator`: reads one epoch of a stream through the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from sluicegate import _core

from .cursor import Cursor
from .images import DecodesImages, EncodedSample, ImageStream
from .reader import StreamReader

# (name, dtype, content) of each field, once a stream has begun.
Fields: TypeAlias = list[tuple[str, str, str]]
# A function that makes Python samples of the core's, and the number of samples per call.
HandOver: TypeAlias = tuple[_core.HandOver, int]


class NativeStreamIterator(Iterator[Any]):
    """One consumer's part of one epoch of a stream that the core reads.

    Args:
        stream: the stream.
        cursor: where it starts; it advances this.
        hand_over: returns how samples with these fields are handed over.
        note: records what was left out.
    """

    def __init__(
        self,
        stream: ImageStream,
        cursor: Cursor,
        hand_over: Callable[[Fields], HandOver],
        note: Callable[[list[str]], None],
    ) -> None:
        self.stream = stream
        self._hand_over, self._note = hand_over, note
        self._cursor = cursor
        self._core, self._pumps = cursor.opened()
        # Returns True if this many samples, or the end, have come; waits for them up to this many seconds.
        self.has: Callable[[int, float], bool] = self._core.has
        self._how: HandOver | None = None
        self._samples: Iterator[Any] = iter(())
        self._positions: Iterator[tuple[int, int, int, int]] = iter(())
        # The number of samples of the epoch that were read before the ones that a shuffle buffer counts.
        self._ahead_of_reader = 0

    def __next__(self) -> Any:
        while True:
            for sample in self._samples:
                self._cursor.read, self._cursor.place = self._cursor.read + 1, next(self._positions)
                return sample
            hand_over, together = self._begun()
            samples, positions = self._with_source_errors(self._core.samples, hand_over, together)
            self._samples, self._positions = iter(samples), iter(positions)
            if not samples:
                self._end()

    def next_batch(self, samples: int) -> tuple[Any, int] | None:
        """Return the core's batch of the next `samples` samples, and its size; None at the end.

        Do not mix with reading single samples.
        """
        try:
            hand_over, _ = self._begun()
            taken = self._with_source_errors(self._core.batch, hand_over, samples)
            if taken is None:
                self._end()
        except StopIteration:
            return None
        batch, count, self._cursor.place = taken
        self._cursor.read += count
        return batch, count

    def batch_bytes(self) -> int:
        """Return the bytes of the last batch that the core made."""
        return self._core.batch_bytes

    def shuffle(self, reader: StreamReader) -> None:
        """Send samples through the shuffle buffer that `reader` reads for, from now on: see `ShuffledIterator`."""
        self._ahead_of_reader = self._cursor.read - reader.read
        self._core.shuffle(reader.read, self._cursor.place, reader.every, reader.next_snapshot)

    def read_again(self, read: int, held: list[int], has_ended: bool) -> bool:
        """Hold the samples that the buffer held after `read` samples; return False if there are fewer."""
        return bool(self._with_source_errors(self._core.read_again, read, held, has_ended))

    def next_shuffled(self, order: _core.ShuffleBuffer, samples: int) -> tuple[Any, int] | None:
        """Return the batch of the next `samples` samples that `order` draws, and its size; None at the end."""
        if self._how is None:
            fields = self._with_source_errors(self._core.begin)
            if not fields:
                return None
            self._how = self._hand_over(fields)
        taken: tuple[Any, int] | None = self._with_source_errors(
            self._core.shuffled_batch, self._how[0], order, samples
        )
        return taken

    def tell(self, reader: StreamReader, needed: Callable[[], int]) -> None:
        """Update `reader` with what was read for it, including its snapshots from sample `needed()` on."""
        cursor, ahead = self._cursor, self._ahead_of_reader
        read, place, has_ended, marks = self._core.shuffled_place()
        for reader.read, cursor.place in marks:
            cursor.read = reader.read + ahead
            reader.take_snapshot(needed())
        reader.read, reader.ended = read, has_ended
        cursor.read, cursor.place, cursor.ended = read + ahead, place, has_ended
        if has_ended:
            self._raise_of_pumps()

    def _raise_of_pumps(self) -> None:
        for pump in self._pumps:
            if pump.error is not None:
                raise pump.error

    def _begun(self) -> HandOver:
        if self._cursor.ended:
            raise StopIteration
        if self._how is None:
            fields = self._with_source_errors(self._core.begin)
            if not fields:
                self._end()
            self._how = self._hand_over(fields)
        return self._how

    def _with_source_errors(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except Exception as error:
            # A read error of a file object looks like truncated data.
            for pump in self._pumps:
                if pump.error is not None:
                    raise pump.error from error
            raise
        finally:
            if damages := self._core.left_out():
                self._note(damages)

    def _end(self) -> None:
        self._raise_of_pumps()
        self._cursor.ended = True
        raise StopIteration


class ImageStreamIterator(NativeStreamIterator, DecodesImages[Any]):
    """A `NativeStreamIterator` for samples with images, which are decoded as the samples are requested."""

    def __next__(self) -> Any:
        return self._finished(self._next_encoded)

    def _next_encoded(self) -> EncodedSample:
        sample = super().__next__()
        return EncodedSample(self._cursor.place[0] - 1, sample)
