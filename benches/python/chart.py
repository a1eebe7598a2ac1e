"""Draws the chart of the README from the README's own tables: `python benches/python/chart.py` writes it.

The tables are its only source, so that both show the same figures; a test compares them.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "pictures" / "speed.svg"
# The rows of the table of other loaders in which more is better.
RATES = r"((?:tokens|tar shards|JPEG|Parquet).*), (.*/s)"

_WIDTH, _LABELS, _FIGURES, _ROW, _BAR = 760, 300, 60, 20, 13
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .figure { font-variant-numeric: tabular-nums }
  .other { fill: #8c959f }
  .ours { fill: #0a7ea4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .other { fill: #6e7681 }
    .ours { fill: #3fb6dc }
  }
"""


class Bar(NamedTuple):
    """One bar of a panel."""

    name: str
    value: float
    figure: str
    is_ours: bool


class Panel(NamedTuple):
    """Bars under a title; `is_logarithmic` for ratios, for which 1 has length 0."""

    title: str
    bars: list[Bar]
    is_logarithmic: bool


def cells(text: str) -> list[list[str]]:
    """Return the cells of all rows of Markdown tables in `text`, without emphasis."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().replace("**", "") for cell in row.strip("|").split("|")] for row in rows]


def number(text: str) -> float:
    """Return the value of `1,409`, `281 k`, or `2.64 M`."""
    digits, _, unit = text.partition(" ")
    return float(digits.replace(",", "")) * {"": 1, "k": 1e3, "M": 1e6}[unit]


def panels(readme: str) -> list[Panel]:
    """Return the panels for the README's tables."""
    scripts, rates = [], []
    for row in cells(readme):
        if len(row) == 5 and (found := re.fullmatch(r".* \((.*)x\)", row[4])):
            name = re.sub(r"; batches of \d+$", "", row[0]).replace("`", "").replace(" Dataset of lists", "")
            scripts.append(Bar(name, float(found[1]), f"{found[1]}x", True))
        elif len(row) == 3 and (unit := re.fullmatch(RATES, row[0])):
            others = re.findall(r"([A-Za-z][^,]*?) ([\d.,]*\d(?: [kM])?)(?: \(([^)]*)\))?(?:,|$)", row[2])
            bars = [Bar("Sluicegate", number(row[1]), row[1], True)]
            bars += [
                Bar(f"{name} ({note})" if note else name, number(rate), rate, False) for name, rate, note in others
            ]
            rates.append(
                Panel(f"{unit[1][0].upper()}{unit[1][1:]}: {unit[2]}", sorted(bars, key=lambda bar: -bar.value), False)
            )
    return [
        Panel("Scripts with only the import changed, 2 workers: times torch's rate (logarithmic)", scripts, True),
        *rates,
    ]


def drawn(panel: Panel, top: int) -> list[str]:
    """Return the SVG elements of a panel that begins at `top`."""
    room = _WIDTH - _LABELS - _FIGURES
    largest = max(bar.value for bar in panel.bars)
    lines = [f'<text class="title" x="0" y="{top + 14}">{escape(panel.title)}</text>']
    for number_of_row, bar in enumerate(panel.bars):
        y = top + 26 + number_of_row * _ROW
        share = math.log(max(bar.value, 1)) / math.log(largest) if panel.is_logarithmic else bar.value / largest
        name = bar.name if len(bar.name) <= 43 else f"{bar.name[:42].rstrip(' ,:')}…"
        length = max(2.0, share * room)
        lines += [
            f'<text x="{_LABELS - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{"ours" if bar.is_ours else "other"}" x="{_LABELS}" y="{y}" width="{length:.1f}" '
            f'height="{_BAR}" rx="2"/>',
            f'<text class="figure" x="{_LABELS + length + 6:.1f}" y="{y + 12}">{escape(bar.figure)}</text>',
        ]
    return lines


def picture(readme: str) -> str:
    """Return the chart as SVG."""
    top, lines = 0, []
    for panel in panels(readme):
        lines += drawn(panel, top)
        top += 26 + len(panel.bars) * _ROW + 14
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}" '
        f'role="img" aria-label="Rates of data loaders">\n<style>{_STYLE}</style>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture((ROOT / "README.md").read_text("utf-8")), "utf-8")
