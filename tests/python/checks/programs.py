"""Programs that tests run in their own process groups, and checks of how they end."""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from checks import short_deadlines
from checks.resources import NOT_PERMITTED

PRELUDE = """
import gc, os, resource, signal, sys, threading, time, warnings
import torch
from doubles import faulty
from checks.equality import assert_same
from checks.resources import Resources
torch.set_num_threads(1)  # no pool of threads that starts half-way
warnings.filterwarnings("ignore", "This DataLoader will create")
"""


@dataclass
class Ended:
    """How a program ended; `seconds` is the time from its end to the end of its last descendant."""

    code: int
    hung: bool
    left: list[str]
    seconds: float
    ran: float
    files: list[str]
    stdout: str
    stderr: str

    def check(self, code: int = 0, stderr: str | None = "", within: float = 8.0) -> None:
        """Assert that it ended with this code and stderr, and that nothing of it was left after `within` seconds."""
        assert not self.hung, f"hung:\n{self.stdout}\n{self.stderr}"
        assert self.code == code, f"exit code {self.code}, expected {code}:\n{self.stdout}\n{self.stderr}"
        if stderr is not None:
            assert self.stderr == stderr, f"stderr:\n{self.stderr}"
        assert self.left == [], f"processes were left: {self.left}"
        assert self.seconds < within, f"the last process below it ended {self.seconds:.2f} s later"
        assert self.files == [], f"files were left in /dev/shm: {self.files}"


Run = Callable[..., Ended]


class Zygote:
    """The process that forks a child for each program; it starts with the first one.

    Args:
        modules: modules that it imports once, in addition to torch and the package, because imports are slow.
    """

    def __init__(self, *modules: str) -> None:
        self.modules = modules
        self.process: subprocess.Popen[str] | None = None

    def __call__(
        self,
        source: str,
        package: str = "sluicegate",
        deadline: float = 20.0,
        is_finalized: bool = False,
        **values: object,
    ) -> Ended:
        """Run `source`, in which `data` is the module `package` names, and `values` are variables too.

        With `is_finalized`, the interpreter frees all modules at its end, as after any script. That takes ten times
        as long as the rest of most programs.
        """
        process = self.started()
        assert process.stdin is not None
        assert process.stdout is not None
        given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
        request = {
            "source": PRELUDE + given + textwrap.dedent(source),
            "package": package,
            "deadline": deadline,
            "is_finalized": is_finalized,
            # The program uses the deadlines of the test.
            "real_clock": not short_deadlines.are_short(),
        }
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        # Allows time to import torch on a busy machine, run the program, and wait for its leftovers.
        ready, _, _ = select.select([process.stdout], [], [], deadline + 60)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            pytest.fail(f"the process that runs programs {'died' if ready else 'is silent'}")
        ended = Ended(**json.loads(line))
        if ended.code == NOT_PERMITTED:
            pytest.skip(ended.stdout.strip())
        return ended

    def started(self) -> subprocess.Popen[str]:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "checks.zygote", *self.modules],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
            self.process = None


def zygote(*modules: str) -> Iterator[Run]:
    """Yield the function that the fixture `run` provides; its programs find `modules` imported."""
    started = Zygote(*modules)
    yield started
    started.stop()


def run_script(run: Run, path: Path, deadline: float = 100.0) -> Ended:
    """Run a file as the main module, which workers that are not forked import again; warnings are errors in both."""
    source = "import runpy; sys.warnoptions.append('error'); warnings.simplefilter('error')\n"
    return run(source + "runpy.run_path(path, run_name='__main__')", deadline=deadline, path=str(path))


def package_name(data: ModuleType) -> str:
    """Return the argument with which `run` gives a program this module as `data`."""
    return data.__name__.partition(".")[0]


def exit_code(job: Callable[..., Any], *arguments: Any) -> int | None:
    """Return the exit code of a process forked for `job`, or None if it had to be killed after 100 seconds."""
    process = multiprocessing.get_context("fork").Process(target=job, args=arguments)
    process.start()
    process.join(100)
    code = process.exitcode
    process.kill()
    return code
