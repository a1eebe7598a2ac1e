"""Waits for the end of processes, even if other code has closed their descriptors or collected their exit codes."""

from __future__ import annotations

import multiprocessing.process
import os
import select
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# The longest sleep between two checks of a process whose end is not reported.
_LOOK_SECONDS = 0.05
# The shortest, if its descriptor is ready for another reason.
_PAUSE_SECONDS = 0.005


def has_ended(process: Any) -> bool:
    """Return True if a child process has ended.

    `Process.is_alive` stays True if other code has collected the exit code: a handler of SIGCHLD that waits for all
    children, or the kernel, if SIGCHLD is ignored. Then the process does not exist anymore.

    Args:
        process: a `multiprocessing.Process` that was started by this process.
    """
    if not process.is_alive():
        return True
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        # As `is_alive` does. Otherwise the pipe of its start stays open until this process ends.
        multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
        return True
    return False


def wait_for_end(process: Any, deadline: float, is_hurried: Callable[[], bool] | None = None) -> bool:
    """Wait until a child process has ended; return False at the deadline or if `is_hurried` returns True.

    `Process.join(timeout)` relies on the process's sentinel, and waits forever if other code has closed that descriptor
    or opened another file under its number.

    Args:
        process: a `multiprocessing.Process` that was started by this process.
        deadline: in seconds of `time.monotonic()`.
        is_hurried: called about 20 times a second.
    """
    while not has_ended(process):
        left = deadline - time.monotonic()
        if left <= 0 or (is_hurried is not None and is_hurried()):
            return False
        if _is_ready(process.sentinel, min(left, _LOOK_SECONDS)) and not has_ended(process):
            time.sleep(min(left, _PAUSE_SECONDS))
    return True


def joined(
    processes: list[Any],
    seconds: float,
    interrupts: list[BaseException],
    is_hurried: Callable[[], bool] | None = None,
) -> list[Any]:
    """Wait for the end of all `processes`, and return those that have not ended.

    Args:
        processes: as for `wait_for_end`.
        seconds: the longest wait.
        interrupts: an exception of a signal handler ends the wait, and is appended here.
        is_hurried: as for `wait_for_end`.
    """
    deadline = time.monotonic() + seconds
    try:
        for process in processes:
            wait_for_end(process, deadline, is_hurried)
    except BaseException as interrupt:
        interrupts.append(interrupt)
    return [process for process in processes if not has_ended(process)]


def events(descriptors: Sequence[int | None]) -> dict[int, int]:
    """Return, by position, the events of those pidfds that have any; `select.POLLNVAL` for one that was closed."""
    # For this call only: a poll object can't be used by two threads at once.
    poll = select.poll()
    for descriptor in descriptors:
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    try:
        found = dict(poll.poll(0))
    except OSError:
        # There are more processes than files may be open, because that limit was lowered.
        found = dict(_each(descriptors))
    if not found:
        return {}
    return {place: found[each] for place, each in enumerate(descriptors) if each is not None and each in found}


def _each(descriptors: Iterable[int | None]) -> list[tuple[int, int]]:
    found = []
    for descriptor in descriptors:
        if descriptor is not None:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            found += poll.poll(0)
    return found


def _is_ready(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
