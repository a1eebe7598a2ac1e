"""`Reporter`: a worker's reports with its batches: which samples of its stream it has, and the dataset's position."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from sluicegate import _core
from sluicegate.fetch.map_fetcher import MapFetcher
from sluicegate.fetch.stream_fetcher import StreamFetcher
from sluicegate.rng.global_generators import global_generators
from sluicegate.state.place_state import PlaceState
from sluicegate.state.stateful import UnavailableState, pickled

_SIZE = struct.Struct("=I")

# A tuple of five parts:
# - for a stream: the ordinal of the batch's first sample, the number of its samples, and their ids;
# - the state of the dataset, pickled or as what makes it;
# - the global generators;
# - what they were when the epoch began;
# - a warning for the user.
Report: TypeAlias = tuple[
    tuple[int, int, "list[Any] | UnavailableState | None"] | None,
    "bytes | Callable[[], PlaceState] | None",
    Any,
    Any,
    "str | None",
]


class Reporter:
    """Makes the reports of one worker. Each report has what has changed since the previous one.

    Args:
        every: the number of batches between requests for the dataset's state: torchdata's `snapshot_every_n_steps`.
        watches_generators: True to report the global generators when values have been drawn from them.
        freezes: True to report states of a stream of this package in a form that costs little and cannot be pickled.
    """

    def __init__(self, every: int, watches_generators: bool, freezes: bool = False) -> None:
        self._every = every
        self._freezes = freezes
        self._generators: _core.GlobalGenerators | None = global_generators() if watches_generators else None
        self._before: Any = None
        self._batches = 0
        # The dataset's last state, and the number of samples of the stream before it.
        self._reported: PlaceState | None = None
        self._start: Any = None
        # For the next report.
        self.warning: str | None = None

    def generators(self) -> Any:
        """Return the current state of the global generators; None if they are not watched."""
        return None if self._generators is None else self._generators.take()

    def begin(self, fetcher: MapFetcher | StreamFetcher | None, start: Any = None, before: Any = None) -> None:
        """Record where an epoch begins.

        Args:
            fetcher: the epoch's fetcher.
            start: what `generators` returned before the fetcher was made, unless the consumer knows it: a stream
                without a state is read again from there.
            before: for a stream, what `generators` returned before the fetcher was made.
        """
        is_wanted = isinstance(fetcher, StreamFetcher) and not fetcher.place.is_stateful
        self._start = start if is_wanted else None
        self._batches = 0
        self._reported = None
        # A lazy stream has no state yet for the epoch that begins.
        if isinstance(fetcher, StreamFetcher) and self._every != 1 and not fetcher.place.is_lazy:
            # Copied because it is kept over several batches, in which the dataset may modify the objects that it
            # returned.
            self._reported = copy.deepcopy(fetcher.place.state())
        if self._generators is not None:
            # The stream's draws in `iter` also have to be reported.
            self._before = self._generators.take() if before is None else before

    def report(self, fetcher: MapFetcher | StreamFetcher | None) -> Report | None:
        """Return the report after a batch, an error or the end of the stream; None if there is nothing to report."""
        self._batches += 1
        if self._freezes and isinstance(fetcher, StreamFetcher) and (self._every == 1 or fetcher.is_native):
            return fetcher.last, fetcher.place.frozen(), None, None, None  # Nothing else can have changed.
        generators = None
        # Before the first epoch has begun there is nothing to compare with.
        if self._generators is not None and self._before is not None and any(self._generators.moved(self._before)):
            generators = self._before = self._generators.take()
        last = None if fetcher is None else fetcher.last
        state: bytes | None = None
        if isinstance(fetcher, StreamFetcher) or (fetcher is not None and fetcher.place.is_stateful):
            state = pickled(lambda: self._state(fetcher))
        start, self._start = self._start, None
        warning, self.warning = self.warning, None
        if state is None and generators is None and last is None and start is None and warning is None:
            return None
        return last, state, generators, start, warning

    def _state(self, fetcher: MapFetcher | StreamFetcher) -> PlaceState | None:
        if isinstance(fetcher, MapFetcher):
            return fetcher.place.state()
        place = fetcher.place
        # Only an exact position allows splitting the rest among a different number of workers.
        is_due = self._every == 1 or fetcher.is_native or (self._every > 0 and self._batches % self._every == 0)
        if is_due or not place.is_stateful or self._reported is None:
            # Copied for the same reason as above, unless the state is read after every batch and not kept.
            self._reported = place.state() if self._every == 1 else copy.deepcopy(place.state())
            return self._reported
        return dataclasses.replace(self._reported, samples=place.samples, ended=place.ended)


def attached(content: bytes, report: Report | None) -> bytes:
    """Return `content` with a report appended, which unpickling `content` ignores."""
    text = b"" if report is None else _pickled(report)
    return b"".join((content, text, _SIZE.pack(len(text))))


def attachment(content: bytes) -> Report | None:
    """Return the report appended to `content`."""
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
        # The rest contains no user objects. The consumer gets the reason why the ids of the samples are unknown.
        return pickle.dumps(((*last[:2], UnavailableState(f"{type(error).__name__}: {error}")), *rest))
