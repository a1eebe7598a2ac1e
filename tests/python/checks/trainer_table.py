"""The table of trainers in `docs/trainers.md`, generated from the assertions of tests and examples.

A cell says yes only if an assertion has a comment with the name of its column: `# resumes` in an example of the page,
`# Lightning: resumes` in a test. Run this module to write the table into the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
DOUBLES = TESTS / "doubles" / "trainers"
PAGE = TESTS.parents[1] / "docs" / "trainers.md"
COLUMNS = ("engine kept", "sharded", "resumes")
# The packages whose versions are pinned, if their names differ from the trainers'.
_PACKAGES = {
    "Composer": "mosaicml",
    "Fabric": "lightning",
    "OpenCLIP": "open_clip_torch",
    "Ray Train": "ray",
    "torch.distributed.checkpoint": "torch",
}
_HEADING = re.compile(r"^## (?P<trainer>.+)$")
_ASSERTED = re.compile(rf"^ *assert .+  # (?:(?P<trainer>[\w. ]+): )?(?P<column>{'|'.join(COLUMNS)})$")
_CHANGED = re.compile(r"  # (?:was: .+|new)$")
_BEGIN, _END = "<!-- table: python -m checks.trainer_table -->\n", "<!-- end of table -->\n"


class Example(NamedTuple):
    trainer: str
    code: str


def examples(page: str) -> Iterator[Example]:
    """Yield the examples below the heading of each trainer."""
    for section in re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]:
        heading = _HEADING.match(section.splitlines()[0])
        assert heading is not None
        for code in re.findall(r"^```python\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE):
            yield Example(heading["trainer"], code)


def asserted(lines: list[str], trainer: str | None) -> Iterator[tuple[str, str]]:
    """Yield the cells that assertions prove: a trainer and a column."""
    for line in lines:
        found = _ASSERTED.match(line)
        if found is not None and (name := found["trainer"] or trainer) is not None:
            yield name, found["column"]


def lines_to_change(code: str) -> int:
    """Return how many lines a user changes: those marked, and whole bodies of classes and functions."""
    lines = code.splitlines()
    changed = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.stmt, ast.keyword)) and _CHANGED.search(lines[node.lineno - 1]):
            is_definition = isinstance(node, (ast.ClassDef, ast.FunctionDef))
            end = node.end_lineno if is_definition else node.lineno
            assert end is not None
            changed |= {number for number in range(node.lineno - 1, end) if lines[number].strip()}
    return len(changed)


def versions() -> dict[str, str]:
    """Return the version that tests run with, by package: the pinned version, or a double of one."""
    texts = [(TESTS / name).read_text("utf-8") for name in ("requirements.txt", "trainers.txt")]
    pinned = [found for text in texts for found in re.findall(r"^([\w-]+)==([\w.]+)", text, re.MULTILINE)]
    found = {package: f"{package} {version}" for package, version in pinned}
    for module in DOUBLES.glob("*/__init__.py"):
        version = re.search(r'^__version__ = "(.+)"$', module.read_text("utf-8"), re.MULTILINE)
        assert version is not None
        found[module.parent.name] = f"a double of {module.parent.name} {version[1]}"
    return found


def table(page: str) -> str:
    """Return the table for the examples of `page` and the tests."""
    recipes = list(examples(page))
    cells = {cell for each in recipes for cell in asserted(each.code.splitlines(), each.trainer)}
    for test in TESTS.rglob("test_*.py"):
        cells |= set(asserted(test.read_text("utf-8").splitlines(), None))
    lines = dict.fromkeys((each.trainer for each in recipes), 0)
    for each in recipes:
        lines[each.trainer] += lines_to_change(each.code)
    tested = versions()
    rows = [["trainer", *COLUMNS, "lines to change", "tested with"], ["---"] * (len(COLUMNS) + 3)]
    for trainer, count in lines.items():
        proved = ["yes" if (trainer, column) in cells else "" for column in COLUMNS]
        package = _PACKAGES.get(trainer, trainer.lower())
        anchor = re.sub(r"[^\w-]", "", trainer.lower().replace(" ", "-"))
        rows.append([f"[{trainer}](#{anchor})", *proved, str(count), tested[package]])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def with_table(page: str) -> str:
    """Return `page` with the table brought up to date."""
    before, rest = page.split(_BEGIN)
    return f"{before}{_BEGIN}\n{table(page)}\n{_END}{rest.split(_END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
