"""Seeds for the samples of a stream, which have no index: they follow from seed, epoch, worker and ordinal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from . import _core
from .global_generators import as_text, global_generators, keeping_generators, set_global_state
from .rng import SampleSeeding

# Beyond every index of a dataset: one for each worker.
_STREAMS = 2**64 - 2


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
        self._key = _core.sample_key(seed, 0, _STREAMS - worker)
        self._samples = SampleSeeding(self._key, False)
        self._samples.begin(epoch)
        self._seed_globals = seed_globals
        self._epoch = epoch
        self._resumed = state
        # Where the stream left the generators.
        self._left: Any = None

    def begin(self, epoch: int) -> None:
        """Torch calls `iter` of a stream before anybody can set another epoch: it has begun already."""

    def sample(self, ordinal: int) -> None:
        """Sample `ordinal` of the stream is read next, by this thread."""
        self._samples.sample(ordinal)

    def set_globals(self) -> None:
        """Sets the global generators to the start of the stream: for a worker process."""
        if self._seed_globals:
            global_generators().seed(_core.sample_key(self._key, self._epoch, _STREAMS))

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Around what reads the stream: the global generators are the stream's, and then as they were."""
        with self._samples.batch():
            if not self._seed_globals:
                yield
                return
            with keeping_generators():
                if self._left is None:
                    self.set_globals()
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
