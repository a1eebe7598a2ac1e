"""`Cursor`: the position of an iterator over a stream that the core reads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from sluicegate import _core
from sluicegate.rng.stream_seeding import ImageSeeding

from .consumer import Consumer
from .resumable import ResumableIterator
from .sources import Pump
from .split import START, Consumed, current_pass, still_ahead

# Read-ahead in bytes.
_AHEAD = 16 << 20


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
        # In place of a stream reader, the image seeding: states hold its number, too.
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
        """Return the open source; the iterator owns it from now on."""
        assert self._opened is not None
        opened, self._opened = self._opened, None
        return opened

    def __next__(self) -> Any:
        """Not supported; the iterator yields the samples."""
        raise NotImplementedError

    def leave(self) -> None:
        """Do nothing: the iterator may continue alongside the next one."""

    def frozen(self, fixed: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Return a function that makes a state of `fixed` and the current position, also later, as JSON."""
        return functools.partial(_state, fixed, self._fixed, self._consumed, self.read, self.ended, self.place)


def _state(
    fixed: dict[str, Any],
    of_epoch: dict[str, Any],
    consumed: list[Consumed],
    read: int,
    ended: bool,
    place: tuple[int, int, int, int],
) -> dict[str, Any]:
    moved = {"read": read, "ended": ended, "inner": list(place), "consumed": still_ahead(consumed, place[0])}
    return {**fixed, **of_epoch, **moved}
