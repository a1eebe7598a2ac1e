"""Files that were open before workers were forked: each worker has its own offset in them."""

from __future__ import annotations

import fcntl
import mmap
import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from sluicegate import DataLoader
from sluicegate.worker import inherited_files

# Passes over the dataset; each of them starts workers.
EPOCHS = int(os.environ.get("SLUICEGATE_FILE_EPOCHS", "2"))
SAMPLES = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a file whose 8-byte words count from 0."""
    path = tmp_path / "words.bin"
    np.arange(SAMPLES, dtype="<i8").tofile(path)
    return path


class Words(torch.utils.data.Dataset[int]):
    """Seeks, waits until every worker has, and reads: with a shared offset, all of them would read the same word."""

    def __init__(self, file: Any, parties: int = 2) -> None:
        self.file = file
        self.barrier = multiprocessing.get_context("fork").Barrier(parties)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        self.file.seek(index * 8)
        self.barrier.wait(30)
        return int.from_bytes(self.file.read(8), "little")


class Following(torch.utils.data.IterableDataset[int]):
    """Reads from the current offset of the file."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __iter__(self) -> Iterator[int]:
        while word := self.file.read(8):
            yield int.from_bytes(word, "little")


def values(loader: Any) -> list[int]:
    return [int(value) for batch in loader for value in batch]


def unbuffered(path: Path) -> Any:
    return open(path, "rb", buffering=0)


def buffered(path: Path) -> Any:
    file = open(path, "rb")  # noqa: SIM115
    file.read(8)
    return file


def deleted(path: Path) -> Any:
    file = unbuffered(path)
    path.unlink()
    return file


def no_links(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb", buffering=0)


OPENINGS = [unbuffered, buffered, deleted, no_links]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("opened", OPENINGS)
@pytest.mark.parametrize("num_workers", [2, 4])
def test_each_worker_reads_the_words_it_seeks(path: Path, opened: Callable[[Path], Any], num_workers: int) -> None:
    with opened(path) as file:
        loader = DataLoader(Words(file, num_workers), batch_size=2, num_workers=num_workers)
        for _ in range(EPOCHS):
            assert values(loader) == list(range(SAMPLES))


def test_torchs_loader_reads_wrong_words(path: Path) -> None:
    with unbuffered(path) as file:
        loader = torch.utils.data.DataLoader(Words(file), batch_size=2, num_workers=2)
        assert values(loader) != list(range(SAMPLES))


def test_each_worker_reads_on_from_where_the_file_was(path: Path) -> None:
    with unbuffered(path) as file:
        file.seek(24)
        assert sorted(values(DataLoader(Following(file), num_workers=2))) == sorted(2 * list(range(3, SAMPLES)))
        # The offset in the training process does not change.
        assert file.tell() == 24


class Descriptors(torch.utils.data.Dataset[Any]):
    """The flags and offsets of descriptors in the worker."""

    def __init__(self, *files: Any) -> None:
        self.files = files

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return [
            (fcntl.fcntl(file, fcntl.F_GETFD), fcntl.fcntl(file, fcntl.F_GETFL), os.lseek(file.fileno(), 0, 1))
            for file in self.files
        ] + [len(os.listdir("/proc/self/fd"))]


def test_descriptors_keep_their_flags_and_offsets(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with unbuffered(path) as file, unbuffered(path) as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        file.seek(8)
        here = Descriptors(file, inheritable)[0]
        loader = DataLoader(Descriptors(file, inheritable), batch_size=None, num_workers=1)
        (there,) = loader
        assert [tuple(each) for each in there[:2]] == here[:2]
        monkeypatch.setattr(inherited_files, "InheritedFiles", lambda: None)
        (before,) = loader
        assert there[2] == before[2], "descriptors were left open"


def test_forks_of_a_fork_server_that_has_opened_a_file(path: Path, tmp_path: Path, run: Any) -> None:
    source = """
    import multiprocessing
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *sys.path])
    multiprocessing.set_forkserver_preload(["opened_file"])
    import opened_file
    context = multiprocessing.get_context("forkserver")
    dataset = opened_file.Words(context.Barrier(2))
    loader = data.DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context=context)
    found = [int(value) for batch in loader for value in batch]
    assert found == list(range(40)), found
    """
    module = f"""
file = open({str(path)!r}, "rb", buffering=0)
class Words:
    def __init__(self, barrier):
        self.barrier = barrier
    def __len__(self):
        return 40
    def __getitem__(self, index):
        file.seek(index * 8)
        self.barrier.wait(30)
        return int.from_bytes(file.read(8), "little")
"""
    (tmp_path / "opened_file.py").write_text(module)
    run(source, folder=str(tmp_path), deadline=60).check(stderr=None)


SHARED = "share their offset with all workers and this process"


def warning_of(loader: Any) -> str:
    """Return the text of the only warning, which must point to the caller's line."""
    with pytest.warns(RuntimeWarning, match=SHARED) as warned:
        for _ in loader:
            pass
    # From 3.12 on, Python also warns of a fork next to other threads, as test runners have.
    (warning,) = [warning for warning in warned if warning.category is RuntimeWarning]
    assert warning.filename == __file__
    return str(warning.message)


def test_a_file_that_is_open_for_writing_too_is_named(path: Path) -> None:
    with open(path, "r+b", buffering=0) as file:
        text = warning_of(DataLoader(Words(file), batch_size=2, num_workers=2))
    assert f"{path} (descriptor " in text
    assert "opened for writing, too" in text
    assert "worker_init_fn" in text


def test_the_first_descriptor_after_the_standard_ones_is_a_file_like_others(path: Path, run: Any) -> None:
    source = """
    class Words:
        def __len__(self):
            return 4
        def __getitem__(self, index):
            os.lseek(3, index * 8, os.SEEK_SET)
            return int.from_bytes(os.read(3, 8), "little")
    os.dup2(os.open(path, os.O_RDWR), 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [int(value) for value in data.DataLoader(Words(), num_workers=1)] == [0, 1, 2, 3]
    texts = [str(each.message) for each in caught if shared in str(each.message)]
    assert len(texts) == 1 and "(descriptor 3: it was opened for writing, too)" in texts[0], caught
    """
    run(source, path=str(path), shared=SHARED).check()


def test_a_warning_raised_as_an_error_leaves_the_iterator_usable(path: Path) -> None:
    with open(path, "r+b", buffering=0) as file:
        iterator = iter(DataLoader(Words(file), batch_size=2, num_workers=2))
        with pytest.raises(RuntimeWarning, match=SHARED):
            next(iterator)
        assert len(list(iterator)) == SAMPLES // 2 - 1


@pytest.mark.parametrize("cause", ["no list of descriptors", "an error"])
def test_a_file_that_can_not_be_opened_again_is_named(path: Path, monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    if cause == "an error":
        monkeypatch.setattr(inherited_files, "_reopen", refuse)
    else:
        monkeypatch.setattr(inherited_files, "_DESCRIPTORS", "/proc/none")
    with unbuffered(path) as file:
        text = warning_of(DataLoader(Words(file), batch_size=2, num_workers=2))
    assert ("Permission denied" if cause == "an error" else "without /proc/none") in text


class Harmless(torch.utils.data.Dataset[int]):
    """Uses files in ways that need no offset, or that forks do not disturb."""

    def __init__(self, folder: Path, path: Path) -> None:
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.array = np.memmap(path, "<i8", "r+")
        self.log = open(folder / "appended.log", "a")  # noqa: SIM115
        self.new_log = open(folder / "written.log", "w")  # noqa: SIM115
        self.scratch = tempfile.TemporaryFile()  # noqa: SIM115
        self.memory = os.memfd_create("test")
        os.write(self.memory, bytes(100))
        self.base = sqlite3.connect(folder / "base.sqlite")
        self.base.execute("CREATE TABLE words (word)")

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        os.lseek(self.memory, index, os.SEEK_SET)
        for log in (self.log, self.new_log):
            log.write("line\n")
            log.flush()
        print(index)
        assert self.map[index * 8] == index
        return int(self.array[index])

    def close(self) -> None:
        for file in (self.map, self.log, self.new_log, self.scratch, self.base):
            file.close()
        os.close(self.memory)


def test_harmless_files_are_not_named(path: Path, tmp_path: Path) -> None:
    dataset = Harmless(tmp_path, path)
    assert values(DataLoader(dataset, batch_size=2, num_workers=2)) == list(range(SAMPLES))
    dataset.close()
