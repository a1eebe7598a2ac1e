"""Tables, as aligned text or as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field


def figure(value: float | None, form: str = ".3g") -> str:
    """Return a figure as a cell; `.3g` gives three digits or all before the point, and never an exponent."""
    if value is None:
        return "-"
    return format(value, ",.0f" if form == ".3g" and abs(value) >= 1_000 else form)


@dataclass
class Table:
    """A titled table whose first column names things and whose others hold figures."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Append a row."""
        assert len(cells) == len(self.header), (cells, self.header)
        self.rows.append(list(cells))

    def add_failed(self, name: str, why: str) -> None:
        """Append a row with the reason why there are no figures."""
        self.rows.append([name, f"failed: {why}"])

    def text(self) -> str:
        """Return aligned columns."""
        whole = [row for row in [self.header, *self.rows] if len(row) == len(self.header)]
        names = max(len(row[0]) for row in [self.header, *self.rows])
        widths = [names, *(max(len(row[i]) for row in whole) for i in range(1, len(self.header)))]
        lines = [self.title]
        for row in [self.header, *self.rows]:
            if len(row) < len(self.header):
                lines.append(f"  {row[0]:<{names}}  {row[1]}")
            else:
                figures = "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
                lines.append(f"  {row[0]:<{names}}{figures}")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return a GitHub table under a bold title."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        padded = [row + [""] * (len(self.header) - len(row)) for row in self.rows]
        lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in [self.header, rule, *padded]]
        return "\n".join([f"**{self.title}**", "", *(f"| {line} |" for line in lines)])
