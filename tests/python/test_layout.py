"""Tests are where one expects them: a folder per package, helpers in three folders, and no test imports another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sluicegate

TESTS = Path(__file__).parent
PACKAGE = Path(sluicegate.__file__).parent
HELPERS = {"doubles", "checks", "cases"}
MODULES = sorted(TESTS.rglob("*.py"))


def imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def test_each_package_has_a_folder_with_tests() -> None:
    packages = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")}
    assert packages
    assert [package for package in packages if not any((TESTS / package).glob("test_*.py"))] == []


def test_each_folder_is_for_a_package_or_for_helpers() -> None:
    folders = {module.parent.relative_to(TESTS) for module in MODULES}
    packages = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")}
    assert {folder.parts[0] for folder in folders - packages} == HELPERS


def test_helpers_are_only_in_their_folders() -> None:
    others = [module for module in MODULES if not module.name.startswith("test_") and module.name != "conftest.py"]
    assert {module.relative_to(TESTS).parts[0] for module in others} == HELPERS


def test_names_are_unique() -> None:
    names = [module.name for module in MODULES if module.name.startswith("test_")]
    assert len(names) == len(set(names))  # pytest imports test files by name only.


def test_no_module_imports_a_test() -> None:
    found = [(module.name, name.split(".")[0]) for module in MODULES for name in imported(module)]
    assert len(found) > 100
    assert [each for each in found if each[1].startswith(("test_", "conftest"))] == []
