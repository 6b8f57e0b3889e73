"""Tables: the same cells as text, Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dice_ce.csvfile import table_text


@dataclass(frozen=True)
class Cell:
    """One value as it is shown, and how it ranks in its column."""

    text: str
    rank: int = 0
    """1 for the best, 2 for the second best."""


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first cells name the row."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""

    @classmethod
    def of(cls, header: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
        """Make a table of values; what is not a cell yet is shown as it prints."""
        cells = (tuple(cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row) for row in rows)
        return cls(tuple(header), tuple(cells), title)

    def text(self) -> str:
        """Write it for a terminal."""
        return aligned([self.header, *([cell.text for cell in row] for row in self.rows)])

    def markdown(self) -> str:
        """Write it for a page: best in bold, second best underlined."""
        lines = [f"| {' | '.join(self.header)} |", "|---" * len(self.header) + "|"]
        lines += [f"| {' | '.join(_markdown(cell) for cell in row)} |" for row in self.rows]
        return "\n".join(lines)

    def csv(self) -> str:
        """Write it for a spreadsheet."""
        return table_text(self.header, [[cell.text for cell in row] for row in self.rows])

    def latex(self) -> str:
        """Write it for a paper, with booktabs."""
        lines = [
            rf"\begin{{tabular}}{{l{'c' * (len(self.header) - 1)}}}",
            r"\toprule",
            " & ".join(_escaped(name) for name in self.header) + r" \\",
            r"\midrule",
            *(" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def aligned(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """Write rows of text with their columns below each other; with numbers, all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numbers and k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def bars(counts: Mapping[str, int]) -> str:
    """Write counts below each other, drawn as bars."""
    most = max((1, *counts.values()))
    return "\n".join(
        f"  {name:<33}{count:>8,}  {'█' * round(30 * count / most)}".rstrip() for name, count in counts.items()
    )


def _markdown(cell: Cell) -> str:
    return {1: f"**{cell.text}**", 2: f"<u>{cell.text}</u>"}.get(cell.rank, cell.text)


def _latex(cell: Cell) -> str:
    text = _escaped(cell.text)
    return {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(cell.rank, text)


def _escaped(text: str) -> str:
    return text.replace("%", r"\%").replace("_", r"\_").replace("–", "--").replace("±", r"$\pm$")
