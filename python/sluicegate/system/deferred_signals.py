"""`DeferredSignals`: keeps exceptions of signal handlers from being lost in a finalizer."""

from __future__ import annotations

import _thread
import contextlib
import functools
import operator
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

# Signals that cut a wait short.
_HURRIES = frozenset({signal.SIGINT, signal.SIGTERM})


class DeferredSignals:
    """Defers signal handlers until the function that holds this object has returned.

    Python drops exceptions raised in `__del__`: a `KeyboardInterrupt` that arrives while a finalizer waits would be
    lost, and so would the `SystemExit` of a SIGTERM handler. While this object is active, its own handlers record which
    signals arrive. After `restore`, the signals arrive again as soon as the last reference to this object is gone. If
    it is kept in a local variable of `__del__`, that is after `__del__`.

    Does nothing outside the main thread, where no handler ever runs.

    Examples:
        >>> before = signal.signal(signal.SIGUSR2, lambda number, frame: print("handled"))
        >>> def finalize():
        ...     signals = DeferredSignals()
        ...     signal.raise_signal(signal.SIGUSR2)
        ...     signals.restore()
        ...     print("finalized")
        >>> finalize(); sum([])  # Python runs handlers between calls.
        finalized
        handled
        0
        >>> _ = signal.signal(signal.SIGUSR2, before)
    """

    def __init__(self) -> None:
        self._arrived: set[int] = set()
        self._handlers: dict[int, Callable[..., Any]] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, self._note)
                    self._handlers[number] = handler

    def _note(self, number: int, frame: Any) -> None:
        self._arrived.add(number)

    @property
    def is_hurried(self) -> bool:
        """True if the process was asked to end, or interrupted."""
        return not _HURRIES.isdisjoint(self._arrived)

    def restore(self) -> None:
        """Restore the handlers. The recorded signals arrive again when this object is gone."""
        while self._handlers:
            number, handler = self._handlers.popitem()
            signal.signal(number, handler)
        if self._arrived:
            _late[:] = [late for late in _late if late() is not None]
            _late.extend(_LateSignal(self, number) for number in self._arrived)


class _LateSignal(weakref.ref["DeferredSignals"]):
    """Makes a signal arrive when an object is gone.

    It runs no Python code: otherwise the interpreter would handle the signal there, still in the finalizer.
    """

    def __new__(cls, owner: DeferredSignals, number: int) -> _LateSignal:
        return super().__new__(cls, owner, operator.methodcaller("arrive"))

    def __init__(self, owner: DeferredSignals, number: int) -> None:
        super().__init__(owner, operator.methodcaller("arrive"))  # type: ignore[call-arg]
        self.arrive = functools.partial(_thread.interrupt_main, number)  # type: ignore[arg-type]


_late: list[_LateSignal] = []
