"""Explains why a worker process ended or waits, as far as the consumer can tell."""

from __future__ import annotations

import re
import signal
import sys

# The usual cause of each signal.
_CAUSES: dict[int, str] = {
    signal.SIGKILL: "usually the kernel, because the machine or its cgroup ran out of memory: use fewer workers, "
    "a smaller batch_size or prefetch_factor, and see `dmesg` or `memory.events`",
    signal.SIGBUS: "usually a shared memory file system that is full (the dataset or the collate_fn put tensors into "
    "/dev/shm: raise its size, --shm-size in containers), or a memory-mapped file that was truncated",
    signal.SIGSEGV: "usually a native extension that the dataset uses, which may not survive a fork: try "
    "multiprocessing_context='spawn', or num_workers=0 to see it in this process",
    signal.SIGABRT: "usually a native extension that aborted; its message is on stderr",
    signal.SIGTERM: "another process, such as a scheduler, asked it to end",
}

# The innermost frame of a thread that waits for another one, as `faulthandler` writes it.
_WAITS_FOR_THREAD = re.compile(r'File "[^"]*/(threading|queue)\.py", line \d+ in (wait|acquire|get|join|put|_wait\w*)$')


def killed(pid: int, code: int, doing: str) -> str:
    """Return the error message for a worker that a signal ended. It begins with torch's words.

    Args:
        pid: the worker's process id.
        code: its exit code, below 0.
        doing: what it was working on, a sentence without a period.
    """
    known = signal.strsignal(-code) or f"signal {-code}"
    cause = _CAUSES.get(-code, "sent by another process, or by the worker itself")
    return f"DataLoader worker (pid {pid}) is killed by signal: {known}. {doing}. Signal {-code}: {cause}"


def exited(pid: int, code: int | None, doing: str, has_begun: bool, method: str) -> str:
    """Return the error message for a worker that ended by itself. It begins with torch's words.

    Args:
        pid: the worker's process id.
        code: its exit code; None if other code collected it.
        doing: what it was working on, a sentence without a period.
        has_begun: True if it ran our code.
        method: the start method.
    """
    text = f"DataLoader worker (pid(s) {pid}) exited unexpectedly"
    if code is None:
        return (
            f"{text}. {doing}. Its exit code is unknown, because other code in this process collected it: a handler of "
            "SIGCHLD that waits for all children (wait only for processes that you started), or SIGCHLD is ignored"
        )
    text += f" with exit code {code}. "
    if has_begun or method == "fork":
        return (
            f"{text}{doing}. Something in it called os._exit or sys.exit, or it could not start: see its output on "
            "stderr"
        )
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    where = "the main module" if main is None else f"the main module, {main},"
    return (
        f"{text}It exited before it started: with multiprocessing_context={method!r} each worker first imports "
        f"{where} and that failed; its traceback is on stderr. Usually the loader is used outside of "
        '`if __name__ == "__main__":`, so that the import starts workers again: put what the script does (not its '
        "classes and functions) under that line, or use multiprocessing_context='fork'"
    )


def advice(stack: str, method: str) -> str:
    """Return the remedy for a worker stuck with this Python stack, most recent call first; empty if unknown."""
    calls = [line.strip() for line in stack.splitlines() if line.strip().startswith('File "')]
    if method != "fork" or not calls or _WAITS_FOR_THREAD.match(calls[0]) is None:
        return ""
    return (
        "It waits for another thread. Threads that were started before the workers were forked don't exist in them: "
        "create the pool or executor in the worker (at its first use, or in worker_init_fn), or use "
        "multiprocessing_context='forkserver'"
    )
