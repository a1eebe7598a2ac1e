"""`NativeStream`: the base of iterable datasets that the core reads sequentially."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from sluicegate import _core, _torch
from sluicegate.image.damaged import DamagedImageError
from sluicegate.image.engine import engine_in_words
from sluicegate.image.field import ImageField
from sluicegate.image.samples import ImageSamples
from sluicegate.native.dataset import VIEWED, Kind, collate
from sluicegate.native.json_batch import json_batch
from sluicegate.rng.stream_seeding import ImageSeeding, image_seeding

from .consumer import Consumer
from .images import DecodesImages, EncodedSample, StreamImages
from .reader import StreamReader
from .resumable import ResumableIterator, ResumableStream
from .sources import Pump, Source, Sources, opened, sources_of
from .split import START, Consumed, Reached, current_pass, current_run, in_full, split_again, still_ahead

# (name, dtype, content) of each field, once a stream has begun.
Fields = list[tuple[str, str, str]]

# Read-ahead in bytes.
_AHEAD = 16 << 20

# Samples that are copies are delivered in groups of this size. Tensors are not, because each would keep alive the
# memory of its whole group.
_TOGETHER = 64
_COPIES = frozenset(("bytes", "str", "path", "json", "number"))

# The maximum number of lines in `damages`.
_MOST_DAMAGES = 1000


class NativeStream(ResumableStream[Any]):
    """An iterable dataset that the core reads: the base class of all format streams.

    Args:
        urls: the sources of the bytes.
        unpack: True to detect gzip and Zstandard by their first bytes and decompress.
        on_error: "raise" or "skip".
        max_sample_bytes: the maximum size of a sample in bytes.
        allow_pipe: True if commands may be run.
        continues: True if sources that can be read only once continue where they were.
        shard: (rank, world_size), or None to ask `torch.distributed`.

    Attributes:
        sources: the names of the sources.
        damages: what `on_error="skip"` left out, one line per place; the first 1,000 in this process.
    """

    def __init__(
        self,
        urls: Sources,
        *,
        unpack: bool,
        on_error: str,
        max_sample_bytes: int,
        allow_pipe: bool,
        continues: bool,
        shard: tuple[int, int] | None,
    ) -> None:
        # There is no other iterable to read.
        super().__init__((), shard)
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error: expected 'raise' or 'skip', but got {on_error!r}")
        if not 0 < max_sample_bytes < 2**63:
            raise ValueError(f"max_sample_bytes: expected a positive number of bytes, but got {max_sample_bytes}")
        self.allow_pipe = bool(allow_pipe)
        self._sources = sources_of(urls, allow_pipe=self.allow_pipe)
        self.sources = [f"pipe:{each.name}" if each.kind == "command" else each.name for each in self._sources]
        self.unpack = bool(unpack)
        self.on_error = on_error
        self.max_sample_bytes = max_sample_bytes
        self.continues = bool(continues)
        self.damages: list[str] = []
        # Image fields, by name. Samples that have any are flat.
        self._images: Mapping[str, ImageField] = {}
        self._was_read = False
        self._shape: tuple[Any, tuple[Kind, ...]] | None = None
        # Report invalid arguments here, where they were given, not in a worker.
        self._stream([Source("path", "")])

    @abstractmethod
    def _make(self, sources: list[tuple[str, str, int | None]], options: tuple[bool, bool, int, bool]) -> _core.Stream:
        """Return the core's stream."""

    @abstractmethod
    def _shape_of(self, fields: Fields) -> tuple[Any, Sequence[Kind]]:
        """Return how these fields are nested in a sample, and the kind of each, as in `NativeDataset`."""

    def _stream(self, sources: list[Source]) -> _core.Stream:
        options = (self.unpack, self.on_error == "skip", self.max_sample_bytes, self.allow_pipe)
        return self._make([source.core() for source in sources], options)

    def _arguments(self) -> dict[str, Any]:
        return {"sources": len(self._sources)}

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the next epoch, or over the rest of the one whose state was loaded."""
        cursor = super().__iter__()
        assert isinstance(cursor, Cursor)
        return ImageIterator(self, cursor) if self._images else NativeIterator(self, cursor)

    def _begin(
        self,
        place: Any,
        consumer: Consumer,
        epoch: int,
        loaded: dict[str, Any] | None,
        previous: StreamReader | None,
    ) -> ResumableIterator[Any]:
        state = self._start(epoch, None, consumer)
        loaded = None if loaded is None else in_full(loaded)
        if loaded is not None and (loaded["ended"] or loaded["consumed"] or any(loaded["inner"] or ())):
            # Some consumer has read samples, though it may not have been this one.
            self._refuse_other_consumer(loaded, consumer)
            state = loaded
        pumps = []
        sources = list(self._sources)
        for number, source in enumerate(sources):
            if source.kind == "open" and source.descriptor is None:
                self._refuse_second_reading(consumer, state)
                pumps.append(pump := Pump(source.file))
                sources[number] = opened(pump.descriptor, source.name)
        try:
            core = self._stream(sources)
        finally:
            for pump in pumps:
                pump.close()
        if not core.is_repeatable:
            self._refuse_second_reading(consumer, state)
        self._was_read |= any(source.kind == "open" for source in sources)
        seeding = None
        if self._images:
            sets_globals = any(image.is_called for image in self._images.values())
            seeding = image_seeding(sets_globals, self._reader_of(loaded))
        return Cursor(state, consumer, core, pumps, seeding)

    def _start(self, epoch: int, seed: int | None, consumer: Consumer) -> dict[str, Any]:
        return {**super()._start(epoch, seed, consumer), "run": current_run(), "consumed": []}

    @property
    def splits_again(self) -> bool:
        """True unless a subclass overrides `__iter__`, whose behavior is unknown."""
        return type(self).__iter__ is NativeStream.__iter__

    def split_again(self, states: Sequence[dict[str, Any] | None], num_workers: int, run: int) -> list[dict[str, Any]]:  # noqa: D102
        known = [None if state is None else in_full(state) for state in states]
        workers = [None if state is None else Reached(state, (state["inner"] or START)[0], []) for state in known]
        return split_again(workers, num_workers, run)

    def _refuse_second_reading(self, consumer: Consumer, state: Mapping[str, Any]) -> None:
        """Raise an error if a source that can be read only once would be read by several readers, or a second time."""
        what = f"urls: {type(self).__name__} of {self.sources[0]!r}" + (" and others" if len(self.sources) > 1 else "")
        total = Consumer.in_fact(self.shard, self._inherited).total
        if max(consumer.total, total) > 1:
            raise ValueError(
                f"{what} can be read only once, but got {max(consumer.total, total)} ranks and workers; read it with "
                "one (num_workers=0 or 1), or pass what each can open itself: a file, or 'pipe:' and a command"
            )
        if self._was_read:
            raise ValueError(
                f"{what} can be read only once, but got a second iteration; make a new stream, or pass what can be "
                "opened again: a file, or 'pipe:' and a command"
            )
        if state["read"] and not state["ended"] and not self.continues:
            raise ValueError(
                f"{what} can be read only once, but got a state saved after {state['read']} samples; if the data "
                "now begins with the next sample, pass continues=True"
            )

    def collate(self, samples: Sequence[Any]) -> Any:
        """Return the batch of `samples` that `sluicegate.DataLoader` makes; a `collate_fn` for torch's own loader."""
        if self._shape is None:
            return json_batch(list(samples))
        return collate(list(samples), *self._shape)

    @property
    def may_lack_fields(self) -> bool:
        """True if a field of a sample may be None."""
        return False

    def origin(self, encoded: EncodedSample, name: str) -> str:
        """Return a description of where the field `name` of a sample comes from."""
        return f"sample {encoded.ordinal}: `{name}`"

    def refuse_or_leave_out(self, reason: str) -> None:
        """Record a sample that is left out.

        Raises:
            DamagedImageError: `on_error` is "raise".
        """
        if self.on_error == "raise":
            raise DamagedImageError(reason)
        self._note_damages([reason])

    @property
    def is_of_package(self) -> bool:
        """True unless its class is user-defined, and may behave differently."""
        return type(self).__module__.partition(".")[0] == __name__.partition(".")[0]

    @property
    def is_repeatable(self) -> bool:
        """True if several readers can each read all sources from the start."""
        if any(source.kind == "open" for source in self._sources):
            return False
        return self._stream(list(self._sources)).is_repeatable

    @property
    def random_transform(self) -> str | None:
        """A description of the first random transform of an image; None if there is none."""
        return next((f"the transform of `{name}`" for name, image in self._images.items() if image.is_random), None)

    @property
    def python_reason(self) -> str | None:
        """Why samples need Python, so that the core cannot make batches alone; None if it can.

        Example: "transform 3, `Lambda`: not recognized".
        """
        if type(self).__iter__ is not NativeStream.__iter__:
            return f"class {type(self).__name__} has an `__iter__` of its own, which Python calls"
        return self.images_reason

    @property
    def has_images(self) -> bool:
        """True if there are image fields to decode."""
        return bool(self._images)

    @property
    def images_reason(self) -> str | None:
        """Why the core does not make the images of a whole batch at once; None if it does, or there are none."""
        images = self._images
        called = (image.python_reason for image in images.values() if image.is_called)
        if (reason := next(called, None)) is not None:
            return reason
        if any(image.moves_fields for image in images.values()):
            return "boxes or masks move with an image of a stream, so samples are made one by one"
        if images and self.may_lack_fields:
            return "a field may be missing, so samples are made one by one"
        of_any_size = (image.python_reason for image in images.values())
        if (reason := next((each for each in of_any_size if each is not None), None)) is not None:
            return reason
        random = [name for name, image in images.items() if image.is_random]
        if len(random) > 1:
            return f"`{random[0]}` and `{random[1]}` are drawn in turn, so samples are made one by one"
        return None

    def _hand_over(self, fields: Fields) -> tuple[_core.HandOver, int]:
        structure, kinds = self._shape_of(fields)
        images = {structure[name]: image for name, image in self._images.items()}
        self._shape = structure, ImageSamples(structure, kinds, images).kinds
        together = _TOGETHER if all(_is_copied(kind) for kind in kinds) else 1
        views = [VIEWED.get(dtype) for _, dtype, _ in fields]
        return _core.HandOver(structure, list(kinds), views, _torch.from_dlpack, json_batch), together

    def _note_damages(self, damages: list[str]) -> None:
        self.damages += damages[: _MOST_DAMAGES - len(self.damages)]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state as all streams do.

        Raises:
            TypeError: a source is open, so it cannot be pickled or copied.
        """
        if here := [source.name for source in self._sources if source.kind == "open"]:
            raise TypeError(
                f"{type(self).__name__}: {here[0]!r} is open in this process, so the stream can't be pickled or "
                "copied; read it with num_workers=0"
            )
        return super().__getstate__()

    def __repr__(self) -> str:
        """Return the class, the sources, and what runs in Rust and in Python."""
        more = f", ... {len(self.sources)} in all" if len(self.sources) > 1 else ""
        engine = engine_in_words(self._images, self.python_reason)
        return f"{type(self).__name__}({self.sources[0]!r}{more}{engine})"


def _is_copied(kind: Kind) -> bool:
    if isinstance(kind, tuple):
        return kind[0] == "nested" or (kind[0] == "optional" and kind[1] in _COPIES)
    return kind in _COPIES


class Cursor(ResumableIterator[Any]):
    """The position of an iterator, which its stream keeps. The iterator itself stops reading when it is dropped."""

    reader: Any

    def __init__(
        self,
        state: dict[str, Any],
        consumer: Consumer,
        core: _core.Stream,
        pumps: list[Pump],
        seeding: ImageSeeding | None,
    ) -> None:
        # There is no stream reader here, but the image seeding also has a number that is part of the state.
        self.reader = seeding
        self._fixed = {name: state[name] for name in ("epoch", "consumer", "run")}
        # Samples that were read under another split among workers.
        self._consumed: list[Consumed] = state["consumed"]
        self.read: int = state["read"]
        self.ended: bool = state["ended"]
        self.place: tuple[int, int, int, int] = START if state["inner"] is None else tuple(state["inner"])
        part, consumed = (*astuple(consumer), state["run"]), [tuple(each) for each in self._consumed]
        # Nothing is left to read after the end, and others must not wait for it.
        shared = None if self.ended else current_pass()
        reader = _core.StreamReader(core, part, consumed, self.place, _AHEAD, shared)
        self._opened: tuple[_core.StreamReader, list[Pump]] | None = (reader, pumps)

    def opened(self) -> tuple[_core.StreamReader, list[Pump]]:
        """Hand over what is being read; the iterator owns it from now on."""
        assert self._opened is not None
        opened, self._opened = self._opened, None
        return opened

    def __next__(self) -> Any:
        """Not supported; the iterator yields the samples."""
        raise NotImplementedError

    def leave(self) -> None:
        """Do nothing: the iterator may continue alongside the next one."""

    def position(self) -> dict[str, Any]:
        """Return the position as JSON."""
        return self.frozen()()

    def frozen(self) -> Callable[[], dict[str, Any]]:
        """Return what makes the position of this moment."""
        fixed, consumed, place = self._fixed, self._consumed, self.place
        moved = {"read": self.read, "ended": self.ended, "inner": list(place)}
        return lambda: {**fixed, **moved, "consumed": still_ahead(consumed, place[0])}


class NativeIterator(Iterator[Any]):
    """One consumer's part of one epoch, starting at `cursor`, which it advances."""

    def __init__(self, stream: NativeStream, cursor: Cursor) -> None:
        self.stream = stream
        self._cursor = cursor
        self._core, self._pumps = cursor.opened()
        self._how: tuple[_core.HandOver, int] | None = None
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
            samples, positions = self._asked(self._core.samples, hand_over, together)
            self._samples, self._positions = iter(samples), iter(positions)
            if not samples:
                self._end()

    def next_batch(self, samples: int) -> tuple[Any, int] | None:
        """Return the core's batch of the next `samples` samples, and its size; None at the end.

        Do not mix with reading single samples.
        """
        try:
            hand_over, _ = self._begun()
            taken = self._asked(self._core.batch, hand_over, samples)
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
        return bool(self._asked(self._core.read_again, read, held, has_ended))

    def next_shuffled(self, order: _core.ShuffleBuffer, samples: int) -> tuple[Any, int] | None:
        """Return the batch of the next `samples` samples that `order` draws, and its size; None at the end."""
        if self._how is None:
            fields = self._asked(self._core.begin)
            if not fields:
                return None
            self._how = self.stream._hand_over(fields)
        taken: tuple[Any, int] | None = self._asked(self._core.shuffled_batch, self._how[0], order, samples)
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

    def _begun(self) -> tuple[_core.HandOver, int]:
        if self._cursor.ended:
            raise StopIteration
        if self._how is None:
            fields = self._asked(self._core.begin)
            if not fields:
                self._end()
            self._how = self.stream._hand_over(fields)
        return self._how

    def _asked(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except Exception as error:
            # A read error of a file object looks like truncated data.
            for pump in self._pumps:
                if pump.error is not None:
                    raise pump.error from error
            raise
        finally:
            self.stream._note_damages(self._core.left_out())

    def _end(self) -> None:
        self._raise_of_pumps()
        self._cursor.ended = True
        raise StopIteration


class ImageIterator(NativeIterator, DecodesImages[Any]):
    """A `NativeIterator` for samples with images, which are decoded as the samples are requested."""

    def __init__(self, stream: NativeStream, cursor: Cursor) -> None:
        super().__init__(stream, cursor)
        self.images = StreamImages(stream, cursor.reader.samples)

    def __next__(self) -> Any:
        return self._finished(self._next_encoded)

    def _next_encoded(self) -> EncodedSample:
        sample = super().__next__()
        return EncodedSample(self._cursor.place[0] - 1, sample)
