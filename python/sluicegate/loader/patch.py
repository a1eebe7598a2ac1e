"""`patch`: code that creates torch's loader by name gets ours."""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from types import TracebackType
from typing import Any, NamedTuple

import torch.utils.data

from .dataloader import DataLoader

_TORCHS = torch.utils.data.DataLoader


class Replaced(NamedTuple):
    """A line of code whose loaders are ours.

    Attributes:
        file: the path of the source file that creates them.
        line: the line in it, counted from 1.
        loaders: how many it has created so far.
    """

    file: str
    line: int
    loaders: int


class Patch:
    """An active replacement of torch's loader, returned by `patch`; also a context manager, which undoes it.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._places: list[tuple[str, int]] = []
        self._is_active = True

    @property
    def replaced(self) -> tuple[Replaced, ...]:
        """The lines of code that have created loaders since `patch`, in the order of their first one."""
        return tuple(Replaced(*place, loaders) for place, loaders in Counter(self._places).items())

    def undo(self) -> None:
        """End the replacement: what is created from now on is torch's loader again. Does nothing the second time."""
        with _lock:
            if not self._is_active:
                return
            self._is_active = False
            _active.remove(self)
            # Others who replaced it since keep what they made: it calls ours, which does nothing any more.
            if not _active and _TORCHS.__init__ is _created:
                _TORCHS.__init__ = _torchs_init  # type: ignore[method-assign]

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()

    def __repr__(self) -> str:
        lines = [f"{each.file}:{each.line} ({each.loaders})" for each in self.replaced]
        return f"Patch(active={self._is_active}, replaced=[{', '.join(lines)}])"

    def count(self, file: str, line: int) -> None:
        """Count a loader that was created there."""
        self._places.append((file, line))


_torchs_init = _TORCHS.__init__
_active: list[Patch] = []
_lock = threading.Lock()


@functools.wraps(_torchs_init)
def _created(self: Any, *args: Any, **kwargs: Any) -> None:
    # A subclass has methods of its own, which may rely on torch's.
    if not _active or type(self) is not _TORCHS:
        _torchs_init(self, *args, **kwargs)
        return
    caller = sys._getframe(1)
    for each in list(_active):
        each.count(caller.f_code.co_filename, caller.f_lineno)
    # The class of the object is changed, not the name: modules that imported torch's class earlier get ours too, and
    # `isinstance` of torch's loader still holds.
    ours: Any = self
    ours.__class__ = DataLoader
    DataLoader.__init__(ours, *args, **kwargs)


def patch() -> Patch:
    """Make code that creates `torch.utils.data.DataLoader` by name create `sluicegate.DataLoader` instead.

    For libraries that create the loader internally, with torch's arguments. It holds for the whole process, also for
    modules that imported torch's class before, until `undo`. Loaders that exist already and subclasses of torch's
    loader stay as they are. Worker processes that are not forked are not patched.

    Returns:
        The replacement: call its `undo`, or use it in a `with` statement. `replaced` says whose loaders are ours.

    Examples:
        >>> import sluicegate, torch
        >>> from torch.utils.data import DataLoader
        >>> with sluicegate.patch() as patch:
        ...     loader = DataLoader(torch.arange(4), batch_size=2)
        >>> type(loader) is sluicegate.DataLoader, [each.loaders for each in patch.replaced]
        (True, [1])
        >>> type(DataLoader(torch.arange(4))) is sluicegate.DataLoader
        False
    """
    replacement = Patch()
    with _lock:
        if not _active:
            _TORCHS.__init__ = _created  # type: ignore[method-assign]
        _active.append(replacement)
    return replacement
