"""The examples of the README and the documentation run as they are.

Examples in docstrings run as doctests, and those in Rust under cargo.
"""

from __future__ import annotations

import re
import runpy
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Packages with the interface of those that can't be installed. Installed packages take precedence.
DOUBLES = Path(__file__).parent / "doubles" / "trainers"
# An example that needs a package which may be missing has a comment before it. `make test-trainers` installs them.
_BLOCK = re.compile(
    r"(?:^<!-- needs: (?P<needs>\w+) -->\n\n)?^```python\n(?P<code>.*?)^```", flags=re.DOTALL | re.MULTILINE
)
EXAMPLES = [
    pytest.param(
        page,
        block["code"],
        block["needs"],
        id=f"{page.relative_to(ROOT)}:{page.read_text('utf-8')[: block.start('code')].count(chr(10))}",
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


def test_the_paths_through_the_files_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawn = "".join(
        re.findall(r"```text\n(.*?)```", text.split("## Follow a batch")[1].split("## Memory")[0], re.DOTALL)
    )
    files = re.findall(r"\b[a-z_]+(?:/[a-z_]+)+(?:\.py|\.rs|/)?", drawn)
    assert len(files) > 40
    folders = (ROOT / "python" / "sluicegate", ROOT / "src", ROOT)
    assert [file for file in files if not any((folder / file).exists() for folder in folders)] == []


def test_the_picture_shows_the_figures_of_the_tables() -> None:
    # `python benches/python/chart.py` writes the chart.
    chart = runpy.run_path(str(ROOT / "benches" / "python" / "chart.py"))
    readme = (ROOT / "README.md").read_text("utf-8")
    panels = chart["panels"](readme)
    assert sum(len(panel.bars) for panel in panels) > 25
    assert {bar.name for panel in panels for bar in panel.bars} >= {
        "Sluicegate",
        "torch",
        "FFCV",
        "Lance (its own format)",
    }
    assert chart["PICTURE"].read_text("utf-8") == chart["picture"](readme)


@pytest.mark.parametrize(("page", "example", "needs"), EXAMPLES)
def test_an_example_runs(
    page: Path, example: str, needs: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(DOUBLES)])
    if needs == "verl":  # The example replaces the class, which other packages import.
        torchdata = pytest.importorskip("torchdata.stateful_dataloader")
        monkeypatch.setattr(torchdata, "StatefulDataLoader", torchdata.StatefulDataLoader)
    with warnings.catch_warnings():
        if needs is not None:
            warnings.simplefilter("ignore")  # warnings of trainers about the versions of other packages
            pytest.importorskip(needs)
        exec(compile(example, str(page), "exec"), {})
