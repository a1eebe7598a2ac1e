"""Properties of all written formats: whole files or none, the same ones after a kill, one job per pattern."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from checks.programs import exit_code
from doubles.system_calls import full_disk
from doubles.terminals import Terminal
from sluicegate import IterableDataset, write_parquet, write_tar, write_tokens
from sluicegate.writers.manifest import ShardManifest

LENGTH = 200


def tar_sample(index: int) -> dict[str, Any]:
    return {"bin": bytes([index % 256]) * (index * 7 % 3000), "cls": index}


def tokens_sample(index: int) -> Any:
    return np.arange(index, index + index * 11 % 700)


def parquet_sample(index: int) -> dict[str, Any]:
    rng = np.random.default_rng(index)
    return {
        "image": torch.from_numpy(rng.integers(0, 255, (2, 8, 8), np.uint8)),
        "text": f"text {index} ü" * (index % 7),
        "ids": list(range(index % 5)),
        "score": None if index % 9 == 3 else index / 3,
    }


Write = Callable[..., list[str]]
FORMATS: dict[str, tuple[Write, Callable[[int], Any], str, dict[str, Any]]] = {
    "tar": (write_tar, tar_sample, "a-{:03d}.tar", {"shard_bytes": 40_000}),
    "tokens": (write_tokens, tokens_sample, "a-{:03d}.bin", {"shard_bytes": 8_000, "end_of_document": 7}),
    "megatron": (write_tokens, tokens_sample, "a-{:03d}.bin", {"shard_bytes": 8_000, "layout": "megatron"}),
    "parquet": (write_parquet, parquet_sample, "a-{:03d}.parquet", {"shard_bytes": 3_000, "row_group_rows": 8}),
}

every_format = pytest.mark.parametrize("name", FORMATS)


class Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, name: str, length: int = LENGTH) -> None:
        self.name = name
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return FORMATS[self.name][1](index)


class Stream(IterableDataset[Any]):
    def __init__(self, name: str, length: int = LENGTH) -> None:
        self.name = name
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        return map(FORMATS[self.name][1], range(self.length))


def write(name: str, folder: pathlib.Path, dataset: Any = None, **more: Any) -> list[str]:
    function, _, pattern, arguments = FORMATS[name]
    folder.mkdir(exist_ok=True)
    return function(Samples(name) if dataset is None else dataset, folder / pattern, **{**arguments, **more})


def contents(folder: pathlib.Path) -> dict[str, str]:
    """Return digests of all files except the manifest; nothing else may be there."""
    found = {}
    for path in folder.iterdir():
        assert path.suffix not in (".unfinished", ".lock"), path
        if not path.name.endswith(".shards.json"):
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@every_format
def test_bytes_depend_on_the_samples_alone(tmp_path: pathlib.Path, name: str) -> None:
    paths = write(name, tmp_path / "a")
    assert len(paths) > 5
    expected = contents(tmp_path / "a")
    assert sorted(map(os.path.basename, paths)) == sorted(path for path in expected if not path.endswith(".idx"))
    for number, more in enumerate(({"threads": 1}, {"threads": 5}, {"num_workers": 2}, {"dataset": Stream(name)})):
        write(name, tmp_path / str(number), **more)
        assert contents(tmp_path / str(number)) == expected, more
    few = [FORMATS[name][1](index) for index in range(10)]
    assert len(write(name, tmp_path / "few", few, shard_bytes=1)) == 10
    assert write(name, tmp_path / "none", []) == [] == write(name, tmp_path / "none", [])


@every_format
def test_existing_shards_are_kept_and_missing_ones_written_again(tmp_path: pathlib.Path, name: str) -> None:
    paths = write(name, tmp_path)
    before, times = contents(tmp_path), [os.stat(path).st_mtime_ns for path in paths]
    for dataset in (Samples(name), None):
        assert write(name, tmp_path, dataset) == paths
        assert [os.stat(path).st_mtime_ns for path in paths] == times
    os.remove(paths[2])
    assert write(name, tmp_path) == paths
    assert contents(tmp_path) == before
    assert [os.stat(path).st_mtime_ns for path in paths[:2]] == times[:2]
    with open(paths[1], "ab") as file:
        file.write(b"x")
    # A truncated file, left by a killed job.
    pathlib.Path(f"{paths[4]}.unfinished").write_bytes(b"x")
    assert write(name, tmp_path) == paths
    assert contents(tmp_path) == before


@every_format
def test_two_jobs_are_not_mixed(tmp_path: pathlib.Path, name: str) -> None:
    paths = write(name, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"started with, .*resume=False"):
        write(name, tmp_path, shard_bytes=77_777)
    with pytest.raises(ValueError, match=r"started with, .*resume=False"):
        write(name, tmp_path, Samples(name, 150))
    others = [FORMATS[name][1](index + (index == LENGTH - 1)) for index in range(LENGTH)]
    with pytest.raises(ValueError, match=f"sample {LENGTH - 1} differs from the one written"):
        write(name, tmp_path, others)
    others = [FORMATS[name][1](index + 1) for index in range(LENGTH)]
    with pytest.raises(ValueError, match="sample 0 differs from the one written"):
        write(name, tmp_path, others)
    assert contents(tmp_path) == before
    # None of the old files are left, although there are fewer files now.
    fewer = write(name, tmp_path, Samples(name, 40), resume=False)
    assert 0 < len(fewer) < len(paths)
    write(name, tmp_path / "b", Samples(name, 40))
    assert contents(tmp_path / "b") == {
        name: digest for name, digest in _files(tmp_path).items() if not name.endswith(".json")
    }
    foreign = tmp_path / "c"
    foreign.mkdir()
    (foreign / FORMATS[name][2].format(0)).write_text("foreign")
    for resume in (True, False):
        with pytest.raises(FileExistsError, match="does not exist; remove the file"):
            write(name, foreign, resume=resume)
    assert (foreign / FORMATS[name][2].format(0)).read_text() == "foreign"
    with pytest.raises(ValueError, match="a placeholder for the shard number"):
        FORMATS[name][0]([], tmp_path / "no-number.bin")


def _files(folder: pathlib.Path) -> dict[str, str]:
    paths = [path for path in folder.iterdir() if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_a_folder_that_does_not_exist_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"pattern: the folder of '.*q-{}.tar' does not exist; create '.*no'"):
        write_tar([{"txt": "a"}], tmp_path / "no" / "q-{}.tar")


def test_two_processes_do_not_write_at_once(tmp_path: pathlib.Path) -> None:
    holder = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'w')\nfcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('ready', flush=True)\nsys.stdin.read()"
    )
    lock = tmp_path / "a-.tar.shards.json.lock"
    command = [sys.executable, "-c", holder, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(RuntimeError, match=r"another process or thread writes to .*a-\{:03d\}\.tar"):
            write("tar", tmp_path)
        process.kill()
    assert len(write("tar", tmp_path)) > 5
    assert not lock.exists()


def test_two_threads_do_not_write_at_once_and_a_fork_holds_no_lock(tmp_path: pathlib.Path) -> None:
    def manifest() -> ShardManifest:
        return ShardManifest(str(tmp_path / "a-{:03d}.tar"), {}, lambda path: [path])

    first = manifest().__enter__()
    with pytest.raises(RuntimeError, match="another process or thread writes to"):
        manifest().__enter__()
    ready, into = os.pipe()
    child = os.fork()
    if child == 0:
        first.__exit__()  # leaves the file to its owner, the parent
        os.write(into, b"x")
        time.sleep(100)
        os._exit(0)
    assert os.read(ready, 1) == b"x"
    assert first._lock.descriptor is not None
    # As if the parent died.
    os.close(first._lock.descriptor)
    first._lock.descriptor = None
    with manifest():
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(into)


class Deadly(Samples):
    """Kills its process at a sample in the middle, when some shards are complete."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        super().__init__(name)
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        if index == 150:
            while sum(name[-4:] in (".tar", ".bin", "quet") for name in os.listdir(self.folder)) < 3:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


@every_format
def test_a_killed_writer_resumes_where_it_was(tmp_path: pathlib.Path, name: str) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    assert exit_code(write, name, folder, Deadly(name, folder)) == -signal.SIGKILL
    manifest = json.loads(next(folder.glob("*.shards.json")).read_text())
    noted = [folder / FORMATS[name][2].format(number) for number in range(len(manifest["shards"]))]
    times = [os.stat(path).st_mtime_ns for path in noted]
    write(name, folder)
    assert [os.stat(path).st_mtime_ns for path in noted] == times
    write(name, tmp_path / "b")
    assert contents(folder) == contents(tmp_path / "b")


@every_format
@pytest.mark.parametrize("stop", [0, 1, 70, 199])
def test_a_writer_interrupted_anywhere_resumes(tmp_path: pathlib.Path, name: str, stop: int) -> None:
    class Interrupted(Samples):
        def __getitem__(self, index: int) -> Any:
            # The first 64 samples are read twice.
            if index == stop and next(seen) >= (stop < 64):
                raise ZeroDivisionError(index)
            return super().__getitem__(index)

    seen = itertools.count()
    with pytest.raises(ZeroDivisionError):
        write(name, tmp_path / "a", Interrupted(name))
    begun = contents(tmp_path / "a")
    write(name, tmp_path / "a", Stream(name) if stop == 1 else None, resume=stop != 1)
    if stop != 1:
        write(name, tmp_path / "b")
        whole = contents(tmp_path / "b")
        assert contents(tmp_path / "a") == whole
        assert all(whole[path] == digest for path, digest in begun.items())


@every_format
def test_writing_a_stream_resumes(tmp_path: pathlib.Path, name: str) -> None:
    write(name, tmp_path / "a", Stream(name))
    expected = contents(tmp_path / "a")
    for path in sorted((tmp_path / "a").glob("a-00[3-9]*")):
        path.unlink()
    write(name, tmp_path / "a", Stream(name))
    assert contents(tmp_path / "a") == expected
    for path in sorted((tmp_path / "a").glob("a-0*")):
        path.unlink()
    # The first sample is compared, but is also written.
    write(name, tmp_path / "a", Stream(name))
    assert contents(tmp_path / "a") == expected
    for path in sorted((tmp_path / "a").glob("a-00[3-9]*")):
        path.unlink()
    with pytest.raises(ValueError, match=r"sample \d+ differs from the one written"):
        write(name, tmp_path / "a", Stream(name, 3))


@every_format
def test_folders_that_cannot_be_written_are_errors(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        FORMATS[name][0](Samples(name), tmp_path / "no folder" / FORMATS[name][2])
    # A folder has the name of a shard.
    (tmp_path / FORMATS[name][2].format(2)).mkdir()
    with pytest.raises(FileExistsError, match="a-002"):
        write(name, tmp_path)
    assert not list(tmp_path.glob("*.unfinished"))
    assert not list(tmp_path.glob("*.lock"))


def write_on_a_full_disk(name: str, folder: pathlib.Path) -> None:
    # As on a full disk: writes beyond this size fail.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    try:
        write(name, folder, shard_bytes=1 << 20)
    except OSError as error:
        os._exit(error.errno or 1)


@every_format
def test_a_full_disk_leaves_nothing(tmp_path: pathlib.Path, name: str) -> None:
    assert exit_code(write_on_a_full_disk, name, tmp_path) == errno.EFBIG
    assert contents(tmp_path) == {}
    # Once there is space, the job succeeds.
    assert write(name, tmp_path, shard_bytes=1 << 20)


def test_a_manifest_that_can_not_be_written_is_named(tmp_path: pathlib.Path) -> None:
    manifest = ShardManifest(str(tmp_path / "a-{:03d}.tar"), {}, lambda path: [path])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match=r"No space left on device: .*a-\.tar\.shards\.json\.unfinished"):
            manifest.save()
    assert not list(tmp_path.iterdir())


def test_links_and_fifos_of_others_are_not_written_to_and_not_waited_for(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    other.write_text("of others")
    pattern = str(tmp_path / "a-{:03d}.tar")
    (tmp_path / "a-.tar.shards.json.unfinished").symlink_to(other)
    (tmp_path / "a-000.tar.unfinished").symlink_to(other)
    assert write("tar", tmp_path)
    assert other.read_text() == "of others"
    lock = tmp_path / "a-.tar.shards.json.lock"
    for make in (lock.symlink_to, lock.hardlink_to):
        make(other)
        with pytest.raises(OSError, match=r"a-\.tar\.shards\.json\.lock"):
            write("tar", tmp_path)
        lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(OSError, match=r"a-\.tar\.shards\.json\.lock"):
        write("tar", tmp_path)
    lock.unlink()
    manifest = tmp_path / "a-.tar.shards.json"
    manifest.unlink()
    os.mkfifo(manifest)
    with (
        pytest.raises(OSError, match=r"a-\.tar\.shards\.json"),
        ShardManifest(pattern, {}, lambda path: [path]) as each,
    ):
        each.load(resume=True)
    assert other.read_text() == "of others"


def test_a_damaged_manifest_is_named(tmp_path: pathlib.Path) -> None:
    write("tar", tmp_path)
    (manifest,) = tmp_path.glob("*.shards.json")
    manifest.write_text("{")
    with pytest.raises(ValueError, match="is damaged; pass resume=False"):
        write("tar", tmp_path)
    # The error does not say which files may be removed.
    with pytest.raises(FileExistsError, match="is damaged; remove the file"):
        write("tar", tmp_path, resume=False)
    for path in tmp_path.glob("*.tar"):
        path.unlink()
    assert write("tar", tmp_path, resume=False)


@every_format
def test_a_manifest_with_damage_anywhere_is_resumed_or_named(tmp_path: pathlib.Path, name: str) -> None:
    paths = write(name, tmp_path)
    before = contents(tmp_path)
    (manifest,) = tmp_path.glob("*.shards.json")
    whole = manifest.read_bytes()
    for place in range(0, len(whole), 7):
        for other in (b"", bytes([whole[place] ^ 1 << place % 8]), b"\xff", b"["):
            manifest.write_bytes(whole[:place] + other + (whole[place + 1 :] if other else b""))
            try:
                assert write(name, tmp_path) == paths
            except ValueError as error:
                assert f"{manifest.name}' is damaged; pass resume=False" in str(error)  # noqa: PT017
            else:
                assert contents(tmp_path) == before
    manifest.write_bytes(whole)
    assert write(name, tmp_path) == paths


@every_format
@pytest.mark.parametrize("is_stream", [False, True])
def test_the_progress_is_shown_on_a_terminal_alone(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_stream: bool,
) -> None:
    dataset = Stream(name) if is_stream else None
    write(name, tmp_path / "silent", dataset)
    assert capsys.readouterr() == ("", "")

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    write(name, tmp_path / "shown", dataset)
    shown = terminal.getvalue()
    of_all = f"{LENGTH:,} (" if is_stream else f"{LENGTH:,} of {LENGTH:,} (100%)"
    assert f"\rwriting {FORMATS[name][2]}: {of_all}" in shown
    assert shown.endswith("\n")
    # Complete shards are not written again.
    write(name, tmp_path / "shown", dataset)
    assert terminal.getvalue() == shown
