"""What a worker says beside a batch: which samples of its stream are in it, and where it is in its dataset."""

from __future__ import annotations

import copy
import pickle
import struct
from typing import Any, TypeAlias

from . import _core
from .global_generators import global_generators
from .map_fetcher import MapFetcher
from .stateful import Untold, pickled
from .stream_fetcher import StreamFetcher

_SIZE = struct.Struct("=I")

# Of a stream: the ordinal of the first sample of the batch, how many it has, and what tells them. Then the state of the
# dataset, pickled; the global generators; and what they were when the epoch began. Last, a warning for the user.
Report: TypeAlias = tuple[tuple[int, int, "list[Any] | Untold | None"] | None, bytes | None, Any, Any, "str | None"]


class Reporter:
    """Makes the reports of one worker, each of what has changed since the one before.

    Args:
        every: after how many batches the dataset is asked for its state: torchdata's `snapshot_every_n_steps`.
        watches_generators: whether to report the global generators, where somebody draws from them.
    """

    def __init__(self, every: int, watches_generators: bool) -> None:
        self._every = every
        self._generators: _core.GlobalGenerators | None = global_generators() if watches_generators else None
        self._before: Any = None
        self._batches = 0
        # What the dataset said last, and after how many samples of the stream.
        self._told: dict[str, Any] | None = None
        self._start: Any = None
        # For the next report.
        self.warning: str | None = None

    def generators(self) -> Any:
        """The global generators as they are; None where they are not watched."""
        return None if self._generators is None else self._generators.take()

    def begin(self, fetcher: MapFetcher | StreamFetcher | None, start: Any = None, before: Any = None) -> None:
        """Takes note of where an epoch begins.

        Args:
            fetcher: of the epoch.
            start: what `generators` returned before it was made, unless the consumer knows that: a stream without a
                state is read again from there.
            before: what `generators` returned before it was made, of a stream.
        """
        is_told = isinstance(fetcher, StreamFetcher) and not fetcher.place.is_stateful
        self._start = start if is_told else None
        self._batches = 0
        self._told = None
        # A lazy stream says nothing yet of the epoch that begins.
        if isinstance(fetcher, StreamFetcher) and self._every != 1 and not fetcher.place.is_lazy:
            # It is kept over batches in which a dataset may go on changing the very objects that it returned.
            self._told = copy.deepcopy(fetcher.place.state())
        if self._generators is not None:
            # What the stream drew in `iter` is news too.
            self._before = self._generators.take() if before is None else before

    def report(self, fetcher: MapFetcher | StreamFetcher | None) -> Report | None:
        """What there is to say after a batch, an error or the end of the stream; None when there is nothing."""
        self._batches += 1
        generators = None
        # Before the first epoch has begun there is nothing to compare with.
        if self._generators is not None and self._before is not None and any(self._generators.moved(self._before)):
            generators = self._before = self._generators.take()
        last = None if fetcher is None else fetcher.last
        state = None
        if isinstance(fetcher, StreamFetcher) or (fetcher is not None and fetcher.place.tell is not None):
            state = pickled(lambda: self._state(fetcher))
        start, self._start = self._start, None
        warning, self.warning = self.warning, None
        if state is None and generators is None and last is None and start is None and warning is None:
            return None
        return last, state, generators, start, warning

    def _state(self, fetcher: MapFetcher | StreamFetcher) -> dict[str, Any] | None:
        if isinstance(fetcher, MapFetcher):
            return fetcher.place.state()
        place = fetcher.place
        # Only of what is exact can the rest be split among another number of workers.
        is_due = self._every == 1 or fetcher.is_native or (self._every > 0 and self._batches % self._every == 0)
        if place.is_lazy:
            return place.state() if is_due else place.marked()
        if is_due or not place.is_stateful:
            # As above; where it is asked again after every batch, nothing is kept.
            self._told = place.state() if self._every == 1 else copy.deepcopy(place.state())
            return self._told
        assert self._told is not None
        return self._told | {"samples": place.samples, "ended": place.ended}


def attached(content: bytes, report: Report | None) -> bytes:
    """`content` with a report behind it; whoever unpickles `content` does not see it."""
    text = b"" if report is None else _pickled(report)
    return b"".join((content, text, _SIZE.pack(len(text))))


def attachment(content: bytes) -> Report | None:
    """The report behind `content`."""
    end = len(content) - _SIZE.size
    (size,) = _SIZE.unpack_from(content, end)
    report: Report | None = pickle.loads(content[end - size : end]) if size else None
    return report


def _pickled(report: Report) -> bytes:
    try:
        return pickle.dumps(report)
    except Exception as error:
        last, *rest = report
        if last is None or last[2] is None:
            raise
        # The rest has no objects of the user's. Whoever receives the batch hears why nobody knows its samples.
        return pickle.dumps(((*last[:2], Untold(f"{type(error).__name__}: {error}")), *rest))
