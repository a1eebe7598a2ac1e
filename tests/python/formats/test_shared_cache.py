"""Jobs that share a cache folder which is too small for both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from doubles import tar_files
from doubles.system_calls import needs_filters
from sluicegate import DataLoader, TarDataset

# Opens archives, says so, and reads all samples for each line that it gets.
_JOB = """
import sys, warnings
from sluicegate import DataLoader, TarDataset
warnings.simplefilter("ignore")
cache, limit, workers, *paths = sys.argv[1:]
dataset = TarDataset(paths, {"txt": "str"}, cache_folder=cache, cache_bytes=int(limit))
print("open", flush=True)
for line in sys.stdin:
    context = "fork" if workers != "0" else None
    loader = DataLoader(dataset, 10, num_workers=int(workers), multiprocessing_context=context)
    print(sum(len(text) for batch in loader for text in batch["txt"]), flush=True)
"""

# Fits into the cache alone.
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
    """Another process."""

    def __init__(
        self, cache: Path, limit: int, paths: list[str], workers: int = 0, job: str = _JOB, says: str = ""
    ) -> None:
        command = [sys.executable, "-c", job, str(cache), str(limit), str(workers), *paths]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if says:
            assert says in self.line()
        assert self.line() == "open"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def read(self) -> int:
        """How many letters the samples have."""
        assert self.process.stdin is not None
        self.process.stdin.write("read\n")
        self.process.stdin.flush()
        return int(self.line())

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.communicate()


def _size(cache: Path) -> int:
    return sum(path.stat().st_size for path in cache.glob("*.unpacked"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_job_does_not_lose_what_it_reads_to_another_one(tmp_path: Path, workers: int) -> None:
    first, second, third = (_archives(tmp_path, name) for name in "abc")
    cache = tmp_path / "cache"
    limit = 4 * _SAMPLES * 4096
    expected = 3 * _SAMPLES * len(_TEXT)
    one = Job(cache, limit, first, workers)
    # More than 64 archives would be closed and opened again; here the names are gone if they are removed.
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
    # The kernel takes the lease from a process that is killed.
    one.end(signal.SIGKILL)
    TarDataset(third, {"txt": "str"}, cache_folder=cache, cache_bytes=2 * limit - alone // 3)
    assert len(list(cache.glob("a-*.unpacked"))) < 3
    assert sum(len(text) for batch in DataLoader(two, 10) for text in batch["txt"]) == expected
    del two
    assert not list(cache.glob("*.lease"))
    again = Job(cache, limit, first, workers)
    assert _size(cache) <= limit
    assert again.read() == expected
    again.end(signal.SIGKILL)


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
    one.end(signal.SIGKILL)


def test_many_jobs_at_once_all_read_what_they_need(tmp_path: Path) -> None:
    lists = [_archives(tmp_path, name) for name in "abc"]
    cache, limit = tmp_path / "cache", 4 * _SAMPLES * 4096
    jobs = [Job(cache, limit, lists[number % 3]) for number in range(6)]
    assert [job.read() for job in jobs] == [3 * _SAMPLES * len(_TEXT)] * 6
    for job in jobs:
        job.end(signal.SIGKILL)
    assert os.path.isdir(cache)


@pytest.mark.timeout(120)
def test_a_dataset_larger_than_the_cache_is_read_with_a_warning(tmp_path: Path) -> None:
    other, paths = (_archives(tmp_path, name) for name in "ab")
    cache = tmp_path / "cache"
    TarDataset(other, {"txt": "str"}, cache_folder=cache)
    alone = _size(cache)
    for _ in range(2):
        with pytest.warns(
            UserWarning, match=rf"cache_bytes: .*unpack to {alone} bytes, more than the {alone // 2} allowed"
        ):
            dataset = TarDataset(paths, {"txt": "str"}, cache_folder=cache, cache_bytes=alone // 2)
        assert sum(len(text) for batch in DataLoader(dataset, 10) for text in batch["txt"]) == 3 * _SAMPLES * len(_TEXT)
        # What it does not need is gone.
        assert _size(cache) == alone
    # Its files stay only as long as a dataset uses them.
    del dataset
    limit = alone // 3 + 1
    TarDataset(other[0], {"txt": "str"}, cache_folder=cache, cache_bytes=limit)
    assert _size(cache) <= limit
    # One archive must fit: it may be small, and unpack to more than there is room for on the disk.
    with pytest.raises(ValueError, match=r"a-0\.tar\.gz.* unpacks to more than the 1000 bytes .*raise cache_bytes"):
        TarDataset(other[0], {"txt": "str"}, cache_folder=tmp_path / "small", cache_bytes=1000)


@needs_filters
@pytest.mark.timeout(120)
def test_where_files_cannot_be_locked_nothing_is_removed(tmp_path: Path) -> None:
    first, second = (_archives(tmp_path, name) for name in "ab")
    cache, limit = tmp_path / "cache", 4 * _SAMPLES * 4096
    # As on Lustre without `-o flock`.
    job = f"import errno, sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    job += f"from doubles.system_calls import fail; fail(errno.ENOSYS, 'flock')\n{_JOB}"
    one = Job(cache, limit, first, job=job)
    alone = _size(cache)
    assert not list(cache.glob("*.lease"))
    said = job.replace('warnings.simplefilter("ignore")', "warnings.showwarning = lambda text, *_: print(text)")
    two = Job(cache, limit, second, job=said, says="cannot be locked there")
    assert _size(cache) == 2 * alone
    assert [one.read(), two.read()] == [3 * _SAMPLES * len(_TEXT)] * 2
    for each in (one, two):
        each.end(signal.SIGKILL)
