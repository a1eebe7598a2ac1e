"""Paths, lists, patterns: which files they stand for, in which order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluicegate.paths import expand


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
def test_braces_stand_for_what_they_do_in_a_shell(folder: Path, pattern: str, expected: list[str]) -> None:
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


def test_a_name_that_is_no_utf8_is_a_name(folder: Path) -> None:
    with open(os.path.join(os.fsencode(folder), b"\xff.bin"), "wb"):
        assert os.fsencode(expand(b"\xff.bi?")[0]).endswith(b"/\xff.bin")


def test_a_pattern_without_a_match_is_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file matches 'z-\*\.bin'$"):
        expand("z-*.bin")
    with pytest.raises(FileNotFoundError, match=r"no file matches 'z-\*\.bin' \(of '\{a,z\}-\*\.bin'\)"):
        expand("{a,z}-*.bin")


def test_what_is_no_path_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        expand([])
    for wrong in ([1], [None]):
        with pytest.raises(TypeError, match="expected a path or several"):
            expand(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="more than 1,000,000 paths"):
        expand("{0..999}{0..999}{0..999999999}")
