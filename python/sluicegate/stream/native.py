"""`NativeStream`: the base of iterable datasets that the core reads sequentially."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluicegate import _core, _torch
from sluicegate.image.damaged import DamagedImageError
from sluicegate.image.engine import engine_in_words
from sluicegate.image.field import ImageField
from sluicegate.image.samples import ImageSamples
from sluicegate.native.dataset import VIEWED, Kind, collate, leaves_out
from sluicegate.native.json_batch import json_batch
from sluicegate.rng.stream_seeding import image_seeding

from .consumer import Consumer
from .cursor import Cursor
from .images import EncodedSample, StreamImages
from .native_iterator import Fields, HandOver, ImageStreamIterator, NativeStreamIterator
from .reader import StreamReader
from .resumable import ResumableIterator, ResumableStream
from .sources import Pump, Source, Sources, opened, sources_of
from .split import START, Reached, current_run, split_again, with_run_keys

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
        leaves_out(on_error)
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
        options = (self.unpack, leaves_out(self.on_error), self.max_sample_bytes, self.allow_pipe)
        return self._make([source.core() for source in sources], options)

    def _arguments(self) -> dict[str, Any]:
        return {"sources": len(self._sources)}

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the next epoch, or over the rest of the one whose state was loaded."""
        cursor = super().__iter__()
        assert isinstance(cursor, Cursor)
        how = (self, cursor, self._hand_over, self._note_damages)
        if not self._images:
            return NativeStreamIterator(*how)
        iterator = ImageStreamIterator(*how)
        iterator.images = StreamImages(self, cursor.reader.samples)
        return iterator

    def _begin(
        self,
        place: Any,
        consumer: Consumer,
        epoch: int,
        loaded: dict[str, Any] | None,
        previous: StreamReader | None,
    ) -> ResumableIterator[Any]:
        state = self._start(epoch, None, consumer)
        loaded = None if loaded is None else with_run_keys(loaded)
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
        known = [None if state is None else with_run_keys(state) for state in states]
        workers = [None if state is None else Reached(state, (state["inner"] or START)[0], []) for state in known]
        return split_again(workers, num_workers, run)

    def _refuse_second_reading(self, consumer: Consumer, state: Mapping[str, Any]) -> None:
        """Raise an error if a source that can be read only once would be read by several readers, or a second time."""
        what = f"urls: {type(self).__name__} of {self.sources[0]!r}" + (" and others" if len(self.sources) > 1 else "")
        total = Consumer.actual(self.shard, self._inherited).total
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
            return f"class {type(self).__name__} overrides `__iter__`, which Python calls"
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
            return f"`{random[0]}` and `{random[1]}` draw in turn, so samples are made one by one"
        return None

    def _hand_over(self, fields: Fields) -> HandOver:
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


def refuse_continued(what: str, stream: object) -> None:
    """Refuse a stream whose samples can't be read again on resuming, which `what` must do.

    Raises:
        ValueError: a source of `stream` continues where it was.
    """
    if isinstance(stream, NativeStream) and stream.continues and not stream.is_repeatable:
        raise ValueError(
            f"iterable: {what} resumes by reading samples again, but got a {type(stream).__name__} of "
            f"{stream.sources[0]!r} with continues=True, which can be read only once; leave out continues=True, or "
            "pass what can be opened again: a file, or 'pipe:' and a command"
        )


def _is_copied(kind: Kind) -> bool:
    if isinstance(kind, tuple):
        return kind[0] == "nested" or (kind[0] == "optional" and kind[1] in _COPIES)
    return kind in _COPIES
