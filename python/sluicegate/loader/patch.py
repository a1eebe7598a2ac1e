"""`patch`: code that creates torch's loader by name gets ours."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Mapping
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

    It is thread-safe.

    Args:
        arguments: those given to `patch`.

    Attributes:
        arguments: those of `sluicegate.DataLoader` that all loaders get in addition to torch's.

    Examples:
        >>> import sluicegate, torch
        >>> replacement = sluicegate.patch()
        >>> loader = torch.utils.data.DataLoader(torch.arange(4))
        >>> replacement.undo()
        >>> isinstance(loader, sluicegate.DataLoader), replacement.replaced[0].loaders
        (True, 1)
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments
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
            # If other code has replaced it since, that stays: it calls ours, which has no effect any more.
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
    # A subclass has its own methods, which may rely on torch's.
    if not _active or type(self) is not _TORCHS:
        _torchs_init(self, *args, **kwargs)
        return
    caller = sys._getframe(1)
    for each in list(_active):
        each.count(caller.f_code.co_filename, caller.f_lineno)
        kwargs |= each.arguments
    if kwargs.get("seed") is not None:
        # The order comes from the seed alone, which the code that passes a generator does not know.
        kwargs.pop("generator", None)
        args = args[:_GENERATOR]
    # The class of the object is changed, not the name: modules that imported torch's class earlier get ours too, and
    # `isinstance` of torch's loader still holds.
    ours: Any = self
    ours.__class__ = DataLoader
    DataLoader.__init__(ours, *args, **kwargs)


_TORCHS_ARGUMENTS = list(inspect.signature(_torchs_init).parameters)
_OUR_ARGUMENTS = inspect.signature(DataLoader.__init__).parameters.keys() - set(_TORCHS_ARGUMENTS)
# The place of `generator`, the last positional argument, without `self`.
_GENERATOR = _TORCHS_ARGUMENTS.index("generator") - 1


def patch(**arguments: Any) -> Patch:
    """Make code that creates `torch.utils.data.DataLoader` by name create `sluicegate.DataLoader` instead.

    For libraries that create the loader internally, with torch's arguments. It applies to the whole process until
    `undo`, including modules that imported torch's class before. Existing loaders and subclasses of torch's loader stay
    as they are. Worker processes that are not forked are not patched.

    Args:
        **arguments: arguments of `sluicegate.DataLoader` that torch's loader does not have, for all loaders created:
            `seed`, `shard`, `device`, and others. With a `seed`, a `generator` that the code passes is not used. If
            calls are nested, the inner one applies. Default: none.

    Returns:
        The replacement: call its `undo`, or use it in a `with` statement. `replaced` lists the lines of code whose
        loaders are ours.

    Raises:
        TypeError: an argument that torch's loader has, or that does not exist.

    Examples:
        >>> import sluicegate, torch
        >>> from torch.utils.data import DataLoader
        >>> with sluicegate.patch() as patch:
        ...     loader = DataLoader(torch.arange(4), batch_size=2)
        >>> type(loader) is sluicegate.DataLoader, [each.loaders for each in patch.replaced]
        (True, [1])
        >>> with sluicegate.patch(seed=7):
        ...     loader = DataLoader(torch.arange(4), batch_size=2, shuffle=True)
        >>> loader.seed
        7
        >>> type(DataLoader(torch.arange(4))) is sluicegate.DataLoader
        False
    """
    for name in sorted(arguments.keys() - _OUR_ARGUMENTS):
        raise TypeError(
            f"patch: takes {', '.join(sorted(_OUR_ARGUMENTS))}, got {name!r}; the code that creates a loader passes "
            "the arguments that torch's loader has"
        )
    replacement = Patch(arguments)
    with _lock:
        if not _active:
            _TORCHS.__init__ = _created  # type: ignore[method-assign]
        _active.append(replacement)
    return replacement
