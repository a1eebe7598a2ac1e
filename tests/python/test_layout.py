"""Tests are where one expects them: a folder per package, helpers in three folders, and no test imports another."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import sluicegate

TESTS = Path(__file__).parent
PACKAGE = Path(sluicegate.__file__).parent
HELPERS = {"doubles", "checks", "cases"}
MODULES = sorted(TESTS.rglob("*.py"))
LARGE_PACKAGES = {"datasets", "pandas", "pyarrow", "torchvision", "transformers", "xarray"}


@functools.cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def imported(module: Path, is_when_loaded: bool = False) -> Iterator[str]:
    """Yield the modules that the module imports; with `is_when_loaded`, not those that its functions import."""
    tree = parsed(module)
    for node in tree.body if is_when_loaded else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names if node.module in HELPERS)


def loaded(module: Path) -> Iterator[str]:
    """Yield the modules that are imported when the module is, by it or by helpers."""
    yield from re.findall(r'^(?:\w+ = )?pytest\.importorskip\("(\w+)', module.read_text(), re.MULTILINE)
    for name in imported(module, is_when_loaded=True):
        yield name
        helper = TESTS / f"{name.replace('.', '/')}.py"
        if name.split(".")[0] in HELPERS and helper.exists():
            yield from loaded(helper)


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
    statement = re.compile(r"^ *(?:from|import) (?:test_|conftest)", re.MULTILINE)
    suspects = [module for module in MODULES if statement.search(module.read_text())]
    assert suspects  # with such a line in a string
    found = [(module.name, name.split(".")[0]) for module in suspects for name in imported(module)]
    assert [each for each in found if each[1].startswith(("test_", "conftest"))] == []


def test_tests_that_run_first_import_no_large_packages() -> None:
    """Their processes stay small, and thus forks of them cheap."""
    folders = re.search(r"LARGE := \$\(addprefix tests/python/,(.*?)\)", (TESTS.parents[1] / "Makefile").read_text())
    assert folders is not None
    later = folders[1].split()
    assert [folder for folder in later if not (TESTS / folder).is_dir()] == []
    tests = [module for module in MODULES if module.name.startswith("test_")]
    first = [module for module in tests if module.relative_to(TESTS).parts[0] not in later]
    assert len(tests) / 3 < len(first) < len(tests)
    found = [(module.name, name) for module in first for name in loaded(module)]
    assert [each for each in found if each[1].split(".")[0] in LARGE_PACKAGES] == []
