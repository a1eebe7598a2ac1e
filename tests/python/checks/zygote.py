"""Runs programs for tests, each in a fork of this process, which has imported slow modules once.

Its arguments are further modules to import. A request is a line of JSON on standard input: `source`, `package`,
`deadline`, `is_finalized`, `real_clock`; a line of JSON answers it. The program runs as `__main__` in its own session
and ends as every interpreter does, with its exit handlers; modules are freed only if it asks for that (or fails).
This process adopts the processes that the program leaves behind, so that all of them are counted.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
LEFTOVERS = 10.0  # seconds for the program's leftovers to end by themselves
STACKS = signal.SIGUSR1


def serve() -> dict[str, Any] | None:
    """Answer requests until there are no more; in the child of a request, return that request."""
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        files_before = set(os.listdir("/dev/shm"))
        child = os.fork()
        if child == 0:
            os.setsid()
            answers.close()
            with open(os.devnull, "rb") as nothing:
                for file, target in ((nothing, 0), (out, 1), (err, 2)):
                    os.dup2(file.fileno(), target)
            out.close()
            err.close()
            faulthandler.register(STACKS, all_threads=True)
            return request
        answer = watch(child, request["deadline"])
        answer["files"] = sorted(set(os.listdir("/dev/shm")) - files_before)
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            answer[name] = file.read().decode(errors="replace")
            file.close()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return None


def watch(child: int, deadline: float) -> dict[str, Any]:
    """Wait for the child and then for all of its descendants; kill those that do not end."""
    start = time.monotonic()
    code = None
    while code is None and time.monotonic() - start < deadline:
        code = reap(child)
        time.sleep(0.005)
    hung = code is None
    if hung:
        for pid in (child, *descendants(child)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, STACKS if pid == child else signal.SIGCONT)
        time.sleep(0.5)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        while code is None:
            code = reap(child)
            time.sleep(0.005)
    ended = time.monotonic()
    left = descendants(os.getpid())
    while left and not hung and time.monotonic() - ended < LEFTOVERS:
        reap(None)
        left = descendants(os.getpid())
        time.sleep(0.005)
    seconds = time.monotonic() - ended
    said = [f"{pid}: {describe(pid)}" for pid in left]
    while left:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap(None)
        left = descendants(os.getpid())
    return {"code": code, "hung": hung, "left": said, "seconds": seconds, "ran": ended - start}


def reap(wanted: int | None) -> int | None:
    """Reap ended children, and return the exit code of `wanted` if it is one of them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == wanted:
                found = os.waitstatus_to_exitcode(status)
    return found


def describe(pid: int) -> str:
    said = []
    for name in ("stat", "wchan", "cmdline"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
            said.append(file.read(200).replace(b"\0", b" ").decode(errors="replace"))
    return " | ".join(said)


def end(variables: dict[str, Any]) -> None:
    """End the program in the interpreter's order, but let the kernel free everything imported before it.

    Freeing that in Python would touch all memory shared with the zygote, which is then copied page by page.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    variables.clear()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    from checks.resources import descendants, private_shm

    gc.disable()  # until everything is imported, when nothing is freed
    with contextlib.suppress(OSError):
        private_shm(8192)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    import torch.utils.data

    import sluicegate
    from checks import absent_devices, equality, gloo_ranks, huge_pages, short_deadlines  # noqa: F401
    from doubles import faulty  # noqa: F401

    absent_devices.skip()
    short_deadlines.shorten()
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.freeze()  # otherwise every collection in a program would copy all of it
    gc.enable()
    huge_pages.collapse()

    given = serve()
    if given is not None:
        if given["real_clock"]:
            short_deadlines.restore()
        packages = {"torch": torch.utils.data, "sluicegate": sluicegate}
        variables = {"__name__": "__main__", "data": packages[given["package"]]}
        exec(compile(given["source"], "<program>", "exec"), variables)
        if not given["is_finalized"]:
            end(variables)
