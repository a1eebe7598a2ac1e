"""Seeds for the samples of a stream, which have no index: they follow from seed, epoch, worker and ordinal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _core
from .global_generators import as_text, global_generators, keeping_generators, set_global_state
from .rng import SampleSeeding, reading_ahead

# Beyond every index of a dataset: one for each worker.
_STREAMS = 2**64 - 2
# And of a stream's key: one for each of the readers inside of the stream.
_READERS = 2**64 - 3
# Of the loader's seed, behind every index: the streams with images, which are the same for all workers.
_IMAGES = 2**63
# In the place of a worker's number: what a sampler of the user's draws.
_SAMPLER = 2**32


class ImageSeeding(NamedTuple):
    """What is random about the images of a native stream.

    Attributes:
        number: which stream it is, of those with images inside of a loader's.
        samples: sets the generators of each sample; None without a seed.
    """

    number: int
    samples: SampleSeeding | None


class _Current(threading.local):
    """Whose stream this thread is reading."""

    seeding: StreamSeeding | None = None


_current = _Current()


class StreamSeeding:
    """The generators of one worker's stream: seeded once an epoch, for whatever the stream draws as it goes along.

    Args:
        seed: the loader's seed.
        seed_globals: whether to set the global generators too.
        worker: whose stream it is.
        epoch: the epoch.
        state: what `state` returned once, to go on from there.
    """

    def __init__(
        self, seed: int, seed_globals: bool, worker: int, epoch: int, state: dict[str, str] | None = None
    ) -> None:
        self._seed, self._worker = seed, worker
        self._key = _core.sample_key(seed, 0, _STREAMS - worker)
        self._samples = SampleSeeding(self._key, False)
        self._samples.begin(epoch)
        self._seed_globals = seed_globals
        self._epoch = epoch
        self._resumed = state
        # Where the stream left the generators.
        self._left: Any = None
        self._readers = 0
        self._with_images = 0

    def begin(self, epoch: int) -> None:
        """Torch calls `iter` of a stream before anybody can set another epoch: it has begun already."""

    def sample(self, ordinal: int) -> None:
        """Sample `ordinal` of the stream is read next, by this thread."""
        self._samples.sample(ordinal)

    def take_over(self) -> None:
        """Makes this the stream of this thread, from its start, until there is another: for a worker process."""
        _current.seeding = self
        self._set_globals()

    def _set_globals(self) -> None:
        if self._seed_globals:
            global_generators().seed(_core.sample_key(self._key, self._epoch, _STREAMS))

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Around what reads the stream: the global generators are the stream's, and then as they were."""
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
        """Goes on from the given state, now that all that comes before the next sample is done."""
        if self._resumed is not None:
            with keeping_generators():
                set_global_state(self._resumed)
                self._left = global_generators().take()

    def state(self) -> dict[str, str] | None:
        """Where the stream left the global generators, as text."""
        return None if self._left is None else as_text(self._left)

    def reader(self, number: int | None = None) -> tuple[int, SampleSeeding]:
        """The generators of a reader inside of the stream, for each of its own samples, and the reader's number.

        A reader reads ahead, and after a resume reads some samples again and others not: what they draw must not depend
        on what was read before them.

        Args:
            number: that of a reader that is taken up again. Default: the next one; they begin with 0 in every epoch.
        """
        number = self._readers if number is None else number
        self._readers = max(self._readers, number + 1)
        seeding = SampleSeeding(_core.sample_key(self._key, 0, _READERS - number), self._seed_globals)
        seeding.begin(self._epoch)
        return number, seeding

    def images(self, sets_globals: bool, number: int | None) -> ImageSeeding:
        """As `reader`, for the images of a native stream: the same for every worker, as its samples' ordinals are."""
        number = self._with_images if number is None else number
        self._with_images = max(self._with_images, number + 1)
        key = _core.sample_key(_core.sample_key(self._seed, 0, _IMAGES), 0, number)
        seeding = SampleSeeding(key, sets_globals and self._seed_globals)
        seeding.begin(self._epoch)
        return ImageSeeding(number, seeding)

    def ahead(self) -> contextlib.AbstractContextManager[None]:
        """Around what only asks a reader for samples, for a batch of them: the generators are put back once."""
        return reading_ahead() if self._seed_globals else contextlib.nullcontext()

    def before(self) -> StreamSeeding:
        """That of the epoch before, if epochs were counted."""
        return StreamSeeding(self._seed, self._seed_globals, self._worker, max(self._epoch - 1, 0))


@contextlib.contextmanager
def _reading(seeding: StreamSeeding | None) -> Iterator[None]:
    outer, _current.seeding = _current.seeding, seeding
    try:
        yield
    finally:
        _current.seeding = outer


def sampler_seeding(seed: int, epoch: int) -> StreamSeeding:
    """What a sampler of the user's draws from in `epoch` of a loader with this seed."""
    return StreamSeeding(seed, True, _SAMPLER, epoch)


def current_stream() -> StreamSeeding | None:
    """The stream that this thread is reading for a loader with a seed; None where there is none."""
    return _current.seeding


def image_seeding(sets_globals: bool, number: int | None) -> ImageSeeding:
    """What is random about the images of a native stream that this thread begins.

    Args:
        sets_globals: whether the global generators are set too, where the loader does that.
        number: that of a stream that is taken up again. Default: the next one; they begin with 0 in every epoch.
    """
    seeding = _current.seeding
    return ImageSeeding(number or 0, None) if seeding is None else seeding.images(sets_globals, number)


def reading_epoch_before() -> contextlib.AbstractContextManager[None]:
    """Around what is read again of the epoch before the running one."""
    seeding = _current.seeding
    return _reading(None if seeding is None else seeding.before())


Seeding = SampleSeeding | StreamSeeding
