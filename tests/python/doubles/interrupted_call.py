"""An exception raised as a signal handler would, after the n-th call that the package makes."""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

# The package, and the modules that it waits with.
_FILES = ("sluicegate/", "/threading.py", "/queue.py")


class Interrupt(Exception):
    """The exception that the handler raises."""


class InterruptedCall:
    """Raises `Interrupt` once, on this thread, where Python would run a signal handler after the n-th call.

    Real signals hit such a point too rarely. Handlers run between a call and the code after it, not between any two
    lines: none runs, for example, between taking a lock in a `with` statement and its body.

    Args:
        number: the number of the call; if it is never reached, calls are only counted.

    Attributes:
        calls: the number of calls.
        place: where it was raised; None before.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0
        self.place: tuple[str, int] | None = None

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """Counts calls within the context."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in _FILES):
            return None
        frame.f_trace_opcodes = True
        return self._look

    def _look(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode" and frame.f_lasti in _after_calls(frame.f_code):
            self.calls += 1
            if self.calls == self.number:
                sys.settrace(None)
                self.place = (frame.f_code.co_filename, frame.f_lineno)
                raise Interrupt
        return self._look


@functools.cache
def _after_calls(code: CodeType) -> frozenset[int]:
    instructions = list(dis.get_instructions(code))
    return frozenset(
        following.offset
        for each, following in itertools.pairwise(instructions)
        if each.opname.startswith("CALL") or each.opname == "RESUME"
    )
