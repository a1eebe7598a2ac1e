"""The examples of the README and the documentation run as they are.

Examples in docstrings run as doctests, and those in Rust under cargo.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
EXAMPLES = [
    pytest.param(
        page, block[1], id=f"{page.relative_to(ROOT)}:{page.read_text('utf-8')[: block.start()].count(chr(10)) + 1}"
    )
    for page in PAGES
    for block in _BLOCK.finditer(page.read_text("utf-8"))
]


def test_the_readme_and_the_pages_have_examples() -> None:
    pages = {example.values[0] for example in EXAMPLES}
    assert ROOT / "README.md" in pages
    assert len(pages) >= 10


def test_the_readme_fits_on_a_page() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 250


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_an_example_runs(page: Path, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(page), "exec"), {})
