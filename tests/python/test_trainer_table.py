"""The table of trainers matches the assertions in tests."""

from __future__ import annotations

import contextlib
from importlib.metadata import PackageNotFoundError, version

from checks.trainer_table import PAGE, examples, lines_to_change, with_table


def test_the_table_of_trainers_matches_the_tests() -> None:
    page = PAGE.read_text("utf-8")
    assert len({each.trainer for each in examples(page)}) >= 8
    # `PYTHONPATH=tests/python .venv/bin/python -m checks.trainer_table` writes it.
    assert page == with_table(page)


def test_lines_to_change_are_those_marked_and_the_bodies_of_marked_classes() -> None:
    code = "import a  # new\nimport b\n\n\nclass Loader:  # new\n    x = 1\n\n    y = 2\n\n\nz = 1  # was: z = 2\n"
    code += "made(\n    z,\n    w=1,  # new\n)\n"
    assert lines_to_change(code) == 6


def test_trainers_have_the_versions_of_the_table() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| [")]
    tested = [row.split("|")[-2].split() for row in rows if "a double of" not in row]
    assert len(tested) >= 8
    for package, pinned in tested:
        with contextlib.suppress(PackageNotFoundError):
            assert version(package).partition("+")[0] == pinned
