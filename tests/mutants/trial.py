"""Runs tests on a copy of the tree, in a fork of this process, which has imported the slow modules once."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

# The output of the latest run, in the copy.
OUTPUT = ".output"
# Folders whose tests reach a package through others.
USERS = {
    "fetch": ("loader", "stream"),
    "formats": ("native", "recognition"),
    "image": ("transforms",),
    "loader": ("loader_state", "order", "sampler", "stream", "system", "worker"),
    "loader_state": ("loader", "state"),
    "native": ("formats", "stream"),
    "order": ("loader", "loader_state", "sampler"),
    "rng": ("stream",),
    "sampler": ("loader_state",),
    "state": ("loader_state",),
    "stream": ("formats",),
    "transforms": ("image", "recognition"),
    "worker": ("loader",),
}
BROKEN = 70  # the exit code if pytest itself fails


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended.

    Attributes:
        code: pytest's exit code; None if the run took too long.
        failed: the first test that failed, if any.
        seconds: how long the run took.
    """

    code: int | None
    failed: str | None
    seconds: float


class FirstFailure:
    """Writes the name of the first test that fails."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid)


def copy_tree(root: Path, copy: Path) -> None:
    """Copy the files that git tracks, and the extension module, which it does not track."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    names = [Path(name) for name in listed.split("\0") if name]
    for name in [*names, *(path.relative_to(root) for path in root.glob("python/sluicegate/*.so"))]:
        if (root / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)


def mirrored(module: Path, tests: Path) -> list[Path]:
    """Return the test files of a module, given its path in the package; those with the module's name come first."""
    folder = tests / module.parent
    named = f"test_{module.stem}"
    return sorted(folder.glob("test_*.py"), key=lambda path: (not path.stem.startswith(named), path.name))


def of_users(module: Path, tests: Path) -> list[Path]:
    """Return the test files of the folders that reach a module through other packages."""
    return [file for name in USERS.get(module.parts[0], ()) for file in sorted((tests / name).glob("test_*.py"))]


def run(copy: Path, tests: list[str], limit: float) -> Outcome:
    """Run tests until the first failure, for at most `limit` seconds, and kill the processes that they leave."""
    failure = copy / ".first_failure"
    failure.unlink(missing_ok=True)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            code = _run_here(copy, tests, failure)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    ended = None
    while ended is None and time.monotonic() - start < limit:
        pid, status = os.waitpid(child, os.WNOHANG)
        ended = os.waitstatus_to_exitcode(status) if pid else None
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):  # the whole process group has ended
        os.killpg(child, signal.SIGKILL)
    if ended is None:
        os.waitpid(child, 0)
    failed = failure.read_text() if failure.exists() else None
    return Outcome(ended, failed, time.monotonic() - start)


def _run_here(copy: Path, tests: list[str], failure: Path) -> int:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    said = os.open(copy / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.chdir(copy)
    package = str(copy / "python")
    sys.path.insert(0, package)
    os.environ["PYTHONPATH"] = package
    # Otherwise a spawned worker process would run this program.
    sys.modules["__main__"] = types.ModuleType("__main__")
    options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout=60", "--rootdir", str(copy)]
    return int(pytest.main([*options, *tests], plugins=[FirstFailure(failure)]))
