"""Writers on a disk that fails after everything is written, that hangs for a while, or that has no locks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from checks.programs import Run
from doubles.system_calls import needs_filters

pytestmark = [needs_filters, pytest.mark.timeout(120)]

_WRITERS = {
    "tar": 'sluicegate.write_tar([{"txt": "a text"}] * 40, pattern, shard_bytes=4000)',
    "parquet": 'sluicegate.write_parquet([{"n": n} for n in range(40)], pattern, shard_bytes=600)',
    "tokens": "sluicegate.write_tokens([[1] * 50] * 40, pattern, shard_bytes=600)",
}

_JOB = """
import errno
import sluicegate
from doubles.system_calls import fail, hang
# The manifest reaches the disk, the shards do not.
os.fsync = lambda descriptor: None
{before}
try:
    {writer}
except OSError as error:
    print(error.errno, error)
except KeyboardInterrupt:
    print("interrupted")
"""


def _said(run: Run, folder: Path, name: str, before: str) -> str:
    pattern = str(folder / f"a-{{:03d}}.{'bin' if name == 'tokens' else name}")
    ended = run(_JOB.format(before=before, writer=_WRITERS[name]), pattern=pattern, deadline=100.0)
    ended.check()
    return ended.stdout


@pytest.mark.parametrize("name", _WRITERS)
def test_a_disk_that_fails_late_is_named_and_leaves_nothing(run: Run, tmp_path: Path, name: str) -> None:
    said = _said(run, tmp_path, name, 'fail(errno.EIO, "fsync", "fdatasync")')
    assert said.startswith(f"{errno.EIO} ")
    assert str(tmp_path / "a-0") in said
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", _WRITERS)
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_disk_that_hangs_for_a_while_leaves_nothing(
    run: Run, tmp_path: Path, name: str, is_interrupted: bool
) -> None:
    before = 'listener = hang("fsync", "fdatasync")\n'
    before += "threading.Timer(1.5, os.close, [listener]).start()\n"
    if is_interrupted:
        before += "threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()"
    said = _said(run, tmp_path, name, before)
    assert said.startswith("interrupted" if is_interrupted else f"{errno.ENOSYS} ")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", _WRITERS)
def test_a_disk_without_locks_is_written_to(run: Run, tmp_path: Path, name: str) -> None:
    assert _said(run, tmp_path, name, 'fail(errno.ENOSYS, "flock")') == ""
    suffixes = {path.suffix for path in tmp_path.iterdir()}
    assert suffixes == {".json", ".bin" if name == "tokens" else f".{name}"}
