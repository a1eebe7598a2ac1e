"""Jobs that share a cache folder that is too small for both."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from doubles import tar_files
from doubles.system_calls import fail, needs_filters
from sluicegate import DataLoader, TarDataset


def _job(line: Connection, cache: Path, limit: int, workers: int, paths: list[str], has_locks: bool) -> None:
    """Open archives, send the warnings, and read all samples for each message received."""
    if not has_locks:
        fail(errno.ENOSYS, "flock")  # As on Lustre without `-o flock`.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dataset = TarDataset(paths, {"txt": "str"}, cache_folder=cache, cache_bytes=limit)
    line.send([str(each.message) for each in said])
    context = "fork" if workers else None
    while line.recv():
        loader = DataLoader(dataset, 10, num_workers=workers, multiprocessing_context=context)
        line.send(sum(len(text) for batch in loader for text in batch["txt"]))


# The archives of one job fit into the cache.
_SAMPLES = 100
_TEXT = "t" * 3000


def _archives(folder: Path, name: str) -> list[str]:
    paths = []
    for number in range(3):
        path = folder / f"{name}-{number}.tar"
        tar_files.put(path, [(f"{each}.txt", _TEXT.encode()) for each in range(_SAMPLES)])
        subprocess.run(["gzip", "-f", str(path)], check=True)
        paths.append(f"{path}.gz")
    return paths


class Job:
    """Another process, which inherits nothing from this one, in particular no file locks."""

    def __init__(self, cache: Path, limit: int, paths: list[str], workers: int = 0, has_locks: bool = True) -> None:
        context = multiprocessing.get_context("forkserver")
        self.line, theirs = context.Pipe()
        arguments = (theirs, cache, limit, workers, paths, has_locks)
        self.process = context.Process(target=_job, args=arguments)
        self.process.start()
        theirs.close()
        self.said: list[str] = self.line.recv()

    def read(self) -> int:
        """Return the number of letters in all samples."""
        self.line.send("read")
        letters: int = self.line.recv()
        return letters

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.line.close()


def _size(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.glob("*.unpacked"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("workers", [0, 2])
def test_files_that_a_job_reads_are_not_removed_for_another_job(tmp_path: Path, workers: int) -> None:
    first, second, third = (_archives(tmp_path, name) for name in "abc")
    cache = tmp_path / "cache"
    limit = 4 * _SAMPLES * 4096
    expected = 3 * _SAMPLES * len(_TEXT)
    one = Job(cache, limit, first, workers)
    # Up to 64 archives stay open, so a file that is removed here only loses its name.
    alone = _size(cache)
    assert 0 < alone <= limit
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        two = TarDataset(second, {"txt": "str"}, cache_folder=cache, cache_bytes=limit)
    assert any("cache_bytes" in str(each.message) and str(cache) in str(each.message) for each in said)
    assert one.read() == expected
    assert sum(len(text) for batch in DataLoader(two, 10) for text in batch["txt"]) == expected
    assert one.read() == expected
    assert _size(cache) == 2 * alone
    # The kernel releases the lease of a killed process.
    one.end()
    TarDataset(third, {"txt": "str"}, cache_folder=cache, cache_bytes=2 * limit - alone // 3)
    assert len(list(cache.glob("a-*.unpacked"))) < 3
    assert sum(len(text) for batch in DataLoader(two, 10) for text in batch["txt"]) == expected
    del two
    assert not list(cache.glob("*.lease"))
    again = Job(cache, limit, first, workers)
    assert _size(cache) <= limit
    assert again.read() == expected
    again.end()


@pytest.mark.timeout(120)
def test_a_copy_that_a_killed_process_was_making_is_removed(tmp_path: Path) -> None:
    (path, *_) = _archives(tmp_path, "a")
    cache = tmp_path / "cache"
    TarDataset(path, {"txt": "str"}, cache_folder=cache)
    (copy,) = cache.glob("*.unpacked")
    left = copy.with_name(f"{copy.name}.0123abcd.unfinished")
    left.write_bytes(bytes(1000))
    copy.unlink()
    dataset = TarDataset(path, {"txt": "str"}, cache_folder=cache)
    assert not left.exists()
    assert len(dataset) == _SAMPLES


@pytest.mark.timeout(120)
def test_a_damaged_lease_keeps_all_files(tmp_path: Path) -> None:
    first, second = (_archives(tmp_path, name) for name in "ab")
    cache, limit = tmp_path / "cache", 4 * _SAMPLES * 4096
    one = Job(cache, limit, first)
    (lease,) = cache.glob("*.lease")
    lease.write_bytes(lease.read_bytes()[:-20])
    with pytest.warns(UserWarning, match="cache_bytes"):
        TarDataset(second, {"txt": "str"}, cache_folder=cache, cache_bytes=limit)
    assert one.read() == 3 * _SAMPLES * len(_TEXT)
    one.end()


def test_many_jobs_at_once_all_read_their_files(tmp_path: Path) -> None:
    lists = [_archives(tmp_path, name) for name in "abc"]
    cache, limit = tmp_path / "cache", 4 * _SAMPLES * 4096
    jobs = [Job(cache, limit, lists[number % 3]) for number in range(6)]
    assert [job.read() for job in jobs] == [3 * _SAMPLES * len(_TEXT)] * 6
    for job in jobs:
        job.end()
    assert os.path.isdir(cache)


@pytest.mark.timeout(120)
def test_a_dataset_larger_than_the_cache_is_read_with_a_warning(tmp_path: Path) -> None:
    other, paths = (_archives(tmp_path, name) for name in "ab")
    cache = tmp_path / "cache"
    TarDataset(other, {"txt": "str"}, cache_folder=cache)
    alone = _size(cache)
    for _ in range(2):
        with pytest.warns(
            UserWarning, match=rf"cache_bytes: .*decompress to {alone} bytes, more than the {alone // 2} allowed"
        ):
            dataset = TarDataset(paths, {"txt": "str"}, cache_folder=cache, cache_bytes=alone // 2)
        assert sum(len(text) for batch in DataLoader(dataset, 10) for text in batch["txt"]) == 3 * _SAMPLES * len(_TEXT)
        # Files that it does not need are removed.
        assert _size(cache) == alone
    # Its files stay only while a dataset uses them.
    del dataset
    limit = alone // 3 + 1
    TarDataset(other[0], {"txt": "str"}, cache_folder=cache, cache_bytes=limit)
    assert _size(cache) <= limit
    # A single archive has to fit: it may be small, but decompress to more than the free space on the disk.
    text = r"a-0\.tar\.gz.* decompresses to more than the 1000 bytes .*raise cache_bytes"
    with pytest.raises(ValueError, match=text):
        TarDataset(other[0], {"txt": "str"}, cache_folder=tmp_path / "small", cache_bytes=1000)


@needs_filters
@pytest.mark.timeout(120)
def test_without_file_locks_no_cached_file_is_removed(tmp_path: Path) -> None:
    first, second = (_archives(tmp_path, name) for name in "ab")
    cache, limit = tmp_path / "cache", 4 * _SAMPLES * 4096
    one = Job(cache, limit, first, has_locks=False)
    alone = _size(cache)
    assert not list(cache.glob("*.lease"))
    two = Job(cache, limit, second, has_locks=False)
    assert any("can't be locked there" in said for said in two.said)
    assert _size(cache) == 2 * alone
    assert [one.read(), two.read()] == [3 * _SAMPLES * len(_TEXT)] * 2
    for each in (one, two):
        each.end()
