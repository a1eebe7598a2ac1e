"""Mutations are single changes of code that runs, and a run of tests reports how it ended."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sluicegate
import trial
from mutations import mutations

PACKAGE = Path(sluicegate.__file__).parent
SOURCE = '''
"""Add 1 to 2."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    limit = 3
__all__ = ["f", 4]
def f(x: Literal[5], é="é", y=6) -> Literal[7]:
    """Return 8 if x is 9."""
    if not x: raise ValueError(f"{x + 10}")
    é.a = "é" + x; g(x); assert y
    while h(y):
        y += 1
        break
    return x < y and y is None
'''


def changed() -> list[str]:
    return [each.describe(SOURCE) for each in mutations(SOURCE)]


@pytest.mark.parametrize(
    "change",
    [
        "6 -> 7",
        "not x -> (x)",
        'raise ValueError(f"{x + 10}") -> pass',
        'é.a = "é" + x -> pass',
        "g(x) -> pass",
        "assert y -> pass",
        "h(y) -> (not h(y))",
        "y += 1 -> pass",
        "1 -> 2",
        "break -> continue",
        "return x < y and y is None -> return None",
        "x < y and y is None -> ((x < y) or (y is None))",
        "x < y -> (x <= y)",
        "y is None -> (y is not None)",
    ],
)
def test_a_change_is_made(change: str) -> None:
    assert change in changed()


def test_what_only_describes_stays() -> None:
    assert len(changed()) == 14


def test_every_mutation_of_the_package_parses_and_changes_one_place() -> None:
    for module in sorted((PACKAGE / "loader").glob("*.py"))[:8]:
        source = module.read_text("utf-8")
        tree, found = ast.dump(ast.parse(source)), mutations(source)
        assert found == sorted(set(found)), module
        for each in found:
            assert ast.dump(ast.parse(each.apply(source))) != tree, (module, each)


def test_tests_of_the_modules_name_come_first(tmp_path: Path) -> None:
    (tmp_path / "loader").mkdir()
    for name in ("test_a.py", "test_progress.py", "test_z.py", "other.py"):
        (tmp_path / "loader" / name).touch()
    found = trial.mirrored(Path("loader/progress.py"), tmp_path)
    assert [path.name for path in found] == ["test_progress.py", "test_a.py", "test_z.py"]


@pytest.mark.parametrize(
    ("body", "limit", "code", "failed"),
    [
        ("pass", 100, 0, None),
        ("assert False", 100, 1, "test_it.py::test_it"),
        ("import time; time.sleep(60)", 1, None, None),
    ],
)
def test_a_run_passes_fails_or_takes_too_long(
    body: str, limit: int, code: int | None, failed: str | None, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    # In a separate process, as the driver runs, without the threads of these tests.
    program = f"import trial, pathlib; print(trial.run(pathlib.Path({str(tmp_path)!r}), ['test_it.py'], {limit}))"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    assert f"Outcome(code={code!r}, failed={failed!r}" in ended.stdout


def test_folders_of_users_have_tests() -> None:
    tests = Path(__file__).parents[1] / "python"
    for package in trial.USERS:
        files = trial.of_users(Path(package, "module.py"), tests)
        assert {file.parent.name for file in files} == set(trial.USERS[package])
    assert trial.of_users(Path("_torch.py"), tests) == []
