"""Seeds for the samples of a stream, which have no index: computed from seed, epoch, worker and ordinal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sluicegate import _core

from .global_generators import as_text, global_generators, keeping_generators, set_global_state
from .sample import SampleSeeding, reading_ahead

# The "sample" whose key seeds the workers of a seeded loader: no dataset has a sample with this number.
_WORKERS = 2**64 - 1
# "Samples" beyond every index of a dataset: one for each worker.
_STREAMS = 2**64 - 2
# "Samples" of a stream's key: one for each of the readers inside the stream.
_READERS = 2**64 - 3
# A "sample" of the loader's seed beyond every index: for streams with images, which are the same for all workers.
_IMAGES = 2**63
# Stands in for a worker's number: for the draws of a user-defined sampler.
_SAMPLER = 2**32


class ImageSeeding(NamedTuple):
    """The randomness of the images of a native stream.

    Attributes:
        number: the number of the stream among those with images inside a loader's stream.
        samples: sets the generators of each sample; None without a seed.
    """

    number: int
    samples: SampleSeeding | None


class _Current(threading.local):
    """The seeding of the stream that this thread is reading."""

    seeding: StreamSeeding | None = None


_current = _Current()


class StreamSeeding:
    """The generators of one worker's stream: seeded once an epoch, for everything that the stream draws.

    Args:
        seed: the loader's seed.
        seed_globals: True to set the global generators, too.
        worker: the worker whose stream it is.
        epoch: the epoch.
        state: an earlier result of `state`, to resume from.
    """

    def __init__(
        self, seed: int, seed_globals: bool, worker: int, epoch: int, state: Mapping[str, str] | None = None
    ) -> None:
        self._seed, self._worker = seed, worker
        self._key = _core.sample_key(seed, 0, _STREAMS - worker)
        self._samples = SampleSeeding(self._key, False)
        self._samples.begin(epoch)
        self._seed_globals = seed_globals
        self._epoch = epoch
        self._resumed = state
        # The state in which the stream left the generators.
        self._left: Any = None
        self._readers = 0
        self._with_images = 0

    @property
    def worker_seed(self) -> int:
        """The seed in the worker's `get_worker_info()`, which is the same in every epoch; also without workers."""
        return base_seed_of_workers(self._seed) + self._worker

    def begin(self, epoch: int) -> None:
        """Do nothing: torch calls `iter` of a stream before another epoch can be set, so it has begun already."""

    def sample(self, ordinal: int) -> None:
        """Set the generators for sample `ordinal` of the stream, which this thread reads next."""
        self._samples.sample(ordinal)

    def make_current(self) -> None:
        """Make this the stream of this thread, from its start, until another one takes over. For a worker process."""
        _current.seeding = self
        self._set_globals()

    def _set_globals(self) -> None:
        if self._seed_globals:
            global_generators().seed(_core.sample_key(self._key, self._epoch, _STREAMS))

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Surround code that reads the stream: the global generators are the stream's within, and restored after."""
        with self._samples.batch(), _reading(self):
            if not self._seed_globals:
                yield
                return
            with keeping_generators():
                if self._left is None:
                    self._set_globals()
                else:
                    global_generators().put(self._left)
                try:
                    yield
                finally:
                    self._left = global_generators().take()

    def resume(self) -> None:
        """Resume from the given state, now that everything before the next sample is done."""
        if self._resumed is not None:
            with keeping_generators():
                set_global_state(self._resumed)
                self._left = global_generators().take()

    def state(self) -> dict[str, str] | None:
        """Return the state in which the stream left the global generators, as text."""
        return None if self._left is None else as_text(self._left)

    def reader(self, number: int | None = None) -> tuple[int, SampleSeeding]:
        """Return the number of a reader inside the stream and its generators, which are set for each of its samples.

        A reader reads ahead, and after a resume it reads some samples again and others not. What they draw must not
        depend on what was read before them.

        Args:
            number: that of a reader that is resumed. Default: the next one; numbers begin with 0 in every epoch.
        """
        number = self._readers if number is None else number
        self._readers = max(self._readers, number + 1)
        seeding = SampleSeeding(_core.sample_key(self._key, 0, _READERS - number), self._seed_globals)
        seeding.begin(self._epoch)
        return number, seeding

    def images(self, sets_globals: bool, number: int | None) -> ImageSeeding:
        """Do as `reader` for the images of a native stream: the same for every worker, like its samples' ordinals."""
        number = self._with_images if number is None else number
        self._with_images = max(self._with_images, number + 1)
        key = _core.sample_key(_core.sample_key(self._seed, 0, _IMAGES), 0, number)
        seeding = SampleSeeding(key, sets_globals and self._seed_globals)
        seeding.begin(self._epoch)
        return ImageSeeding(number, seeding)

    def ahead(self) -> contextlib.AbstractContextManager[None]:
        """Surround code that only reads the samples of one batch from a reader: the generators are restored once."""
        return reading_ahead() if self._seed_globals else contextlib.nullcontext()

    def before(self) -> StreamSeeding:
        """Return the seeding of the previous epoch, if epochs were counted."""
        return StreamSeeding(self._seed, self._seed_globals, self._worker, max(self._epoch - 1, 0))


@contextlib.contextmanager
def _reading(seeding: StreamSeeding | None) -> Iterator[None]:
    outer, _current.seeding = _current.seeding, seeding
    try:
        yield
    finally:
        _current.seeding = outer


def base_seed_of_workers(seed: int) -> int:
    """Return the base seed of the workers of a loader with this seed.

    Independent of the epoch: it is not known when they start, and persistent workers see many epochs.
    """
    return _core.sample_key(seed, 0, _WORKERS) >> 1


def sampler_seeding(seed: int, epoch: int) -> StreamSeeding:
    """Return the generators from which a user-defined sampler draws in `epoch` of a loader with this seed."""
    return StreamSeeding(seed, True, _SAMPLER, epoch)


def current_stream() -> StreamSeeding | None:
    """Return the stream that this thread is reading for a loader with a seed; None if it reads none."""
    return _current.seeding


def image_seeding(sets_globals: bool, number: int | None) -> ImageSeeding:
    """Return the randomness of the images of a native stream that this thread begins.

    Args:
        sets_globals: True if the global generators are set, too, if the loader does that.
        number: that of a stream that is resumed. Default: the next one; numbers begin with 0 in every epoch.
    """
    seeding = _current.seeding
    return ImageSeeding(number or 0, None) if seeding is None else seeding.images(sets_globals, number)


def reading_epoch_before() -> contextlib.AbstractContextManager[None]:
    """Surround code that rereads the epoch before the current one."""
    seeding = _current.seeding
    return _reading(None if seeding is None else seeding.before())


Seeding = SampleSeeding | StreamSeeding
