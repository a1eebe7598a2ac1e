"""Paths, lists, and patterns: the files that they match, and their order."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate import FolderDataset, Hdf5Dataset
from sluicegate.paths import expand, matches


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b-2.bin", "a-1.bin", "b-10.bin", "c.idx"):
        (tmp_path / name).touch()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "d.bin").touch()
    return tmp_path


def names(paths: Any) -> list[str]:
    found = expand(paths)
    assert all(os.path.isabs(path) for path in found)
    return [os.path.relpath(path) for path in found]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("{8..11}", ["8", "9", "10", "11"]),
        ("{08..11}", ["08", "09", "10", "11"]),
        ("{000..2}", ["000", "001", "002"]),
        ("{2..0}", ["2", "1", "0"]),
        ("{-1..1}", ["-1", "0", "1"]),
        ("{0..10..5}", ["0", "5", "10"]),
        ("{a,b,}c", ["ac", "bc", "c"]),
        ("{a,b}{0..1}", ["a0", "a1", "b0", "b1"]),
        ("{a,x{0..1}}", ["a", "x0", "a", "x1"]),
        ("{alone}", ["{alone}"]),
        ("{}", ["{}"]),
    ],
)
def test_braces_expand_as_in_a_shell(folder: Path, pattern: str, expected: list[str]) -> None:
    assert names(f"x-{pattern}.bin") == [f"x-{each}.bin" for each in expected]


def test_patterns_are_sorted_and_lists_are_not(folder: Path) -> None:
    assert names("*.bin") == ["a-1.bin", "b-10.bin", "b-2.bin"]
    assert names(["b-2.bin", "a-1.bin", "b-2.bin"]) == ["b-2.bin", "a-1.bin", "b-2.bin"]
    assert names(["c.idx", "b-*.bin"]) == ["c.idx", "b-10.bin", "b-2.bin"]
    assert names("{b,a}-*.bin") == ["b-10.bin", "b-2.bin", "a-1.bin"]
    assert names("**/*.bin")[-1] == "deep/d.bin"
    assert names(name for name in ("b", "a")) == ["b", "a"]


def test_a_path_that_exists_is_taken_as_it_is(folder: Path) -> None:
    for name in ("x[1].bin", "{1..3}", "*"):
        (folder / name).touch()
        assert names(name) == [name]
    assert names([folder / "a-1.bin", os.fsencode(folder / "c.idx")]) == ["a-1.bin", "c.idx"]


def test_names_that_are_not_utf8_are_matched(folder: Path) -> None:
    with open(os.path.join(os.fsencode(folder), b"\xff.bin"), "wb"):
        assert os.fsencode(expand(b"\xff.bi?")[0]).endswith(b"/\xff.bin")


def test_a_pattern_without_a_match_is_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file matches 'z-\*\.bin'$"):
        expand("z-*.bin")
    with pytest.raises(FileNotFoundError, match=r"no file matches 'z-\*\.bin' \(of '\{a,z\}-\*\.bin'\)"):
        expand("{a,z}-*.bin")


def test_values_that_are_not_paths_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        expand([])
    for wrong in ([1], [None], None, 5):
        with pytest.raises(TypeError, match="expected one or more paths"):
            expand(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path: expected a path, but got 5"):
        Hdf5Dataset(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at most 1,000,000 paths"):
        expand("{0..999}{0..999}{0..999999999}")


NAMES = ["a", "b", "ab", ".a", "a.b", "[a]", "A"]
PARTS = ["*", "**", "a", "a*", "?", "[ab]*", ".*", "[!a]*", "", ".", "..", "ab", "[[]a]", "*.b"]


def tree(folder: Path, draw: random.Random, depth: int) -> None:
    for name in draw.sample(NAMES, draw.randrange(2, len(NAMES))):
        kind = draw.choice(["file", "folder", "folder", "link", "dangling"])
        if kind == "folder" and depth:
            (folder / name).mkdir()
            tree(folder / name, draw, depth - 1)
        elif kind == "link":
            (folder / name).symlink_to(folder.parent.parent / draw.choice(["away", "away/a"]))
        elif kind == "dangling":
            (folder / name).symlink_to("nowhere")
        else:
            (folder / name).touch()


@pytest.mark.parametrize("seed", range(8))
def test_a_pattern_matches_the_files_that_glob_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    (tmp_path / "away" / "a" / "b").mkdir(parents=True)
    (tmp_path / "away" / "a" / "ab").touch()
    (tmp_path / "here").mkdir()
    tree(tmp_path / "here", draw, 3)
    monkeypatch.chdir(tmp_path / "here")
    total = 0
    for _ in range(300):
        pattern = "/".join(draw.choice(PARTS) for _ in range(draw.randrange(1, 5)))
        pattern = draw.choice(["", "", f"{tmp_path}/here/", f"{tmp_path}//here/"]) + pattern
        # A pattern that starts with a slash would search the root of the file system.
        if not glob.has_magic(pattern) or (pattern.startswith("/") and not pattern.startswith(str(tmp_path))):
            continue
        found = glob.glob(pattern, recursive=True)
        # Before Python 3.13, glob matches a file with `/**` after it as a folder.
        expected = {os.path.normpath(path) for path in found if not path.endswith("/") or os.path.isdir(path)}
        assert set(map(os.path.normpath, matches(pattern))) == expected, pattern
        total += len(expected)
    assert total > 30


def test_a_link_to_a_folder_above_ends_a_search_at_any_depth(folder: Path) -> None:
    (folder / "deep" / "up").symlink_to(folder)
    assert names("**/d.bin") == ["deep/d.bin"]


def without_handles(call: Any) -> Any:
    held = [os.open(os.devnull, os.O_RDONLY)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, held[0] + 64), hard))
    try:
        while True:
            try:
                held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        return call()
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("pattern", ["*.bin", "deep/*.bin", "**/*.bin", "{d,e}eep/*.bin"])
def test_running_out_of_file_handles_is_an_error_and_not_fewer_matches(folder: Path, pattern: str) -> None:
    with pytest.raises(OSError) as caught:
        without_handles(lambda: expand(pattern))
    assert caught.value.errno == errno.EMFILE
    with pytest.raises(OSError) as caught:
        without_handles(lambda: FolderDataset(folder / pattern))
    assert caught.value.errno == errno.EMFILE


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """Run as a user who is subject to permissions."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_folder_that_must_not_be_read_is_skipped(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    (closed / "e.bin").touch()
    folder.chmod(0o755)
    closed.chmod(0)
    try:
        with without_privileges():
            assert names("*/*.bin") == ["deep/d.bin"]
            assert names("**/d.bin") == ["deep/d.bin"]
    finally:
        closed.chmod(0o700)
    assert names("*/*.bin") == ["closed/e.bin", "deep/d.bin"]


def test_a_link_to_itself_is_skipped(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    assert names("*/*.bin") == ["deep/d.bin"]
    assert names("*") == sorted(os.listdir())


@pytest.mark.parametrize("pattern", ["a\udcff*", "[\udcf0-\udcff]*", "a?"])
def test_bytes_that_are_not_utf_8_are_letters(folder: Path, pattern: str) -> None:
    for name in (b"a\xff", b"a\xfe", b"\xff"):
        (folder / os.fsdecode(name)).touch()
    assert matches(pattern) == sorted(glob.glob(pattern))
    assert matches(pattern)


def test_files_and_folders_that_match_are_the_files_of_the_folder_above(folder: Path) -> None:
    (folder / "b-3.bin").mkdir()
    assert [each["path"] for each in FolderDataset(folder / "b-*.bin")] == ["b-10.bin", "b-2.bin"]
