"""One style for all plots: colours, the small print, and files whose bytes depend on nothing but their content."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce import DISCLAIMER
from dice_ce.errors import UsageError, require
from dice_ce.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import LayoutEngine

INK, SOFT, FAINT = "#1a2228", "#52606a", "#d8dee2"
BLUE, ORANGE, TEAL = "#4c78a8", "#f58518", "#72b7b2"
RIGHT, WRONG = "#00745a", "#b3261e"
FORMATS: Mapping[str, Mapping[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What must not be written into a file, so that the same results give the same bytes."""
STYLE: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "savefig.dpi": "figure",
    "svg.hashsalt": "dice-ce",
}
DPI = 160
SMALL_PRINT = 0.2
"""Inches at the lower edge."""


def paler(colour: str, share: float = 0.55) -> str:
    """Mix a colour with white; unlike transparency, that hides what lies below."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


@contextmanager
def plot(target: Path, title: str, width: float, height: float, *, note: str = "") -> Iterator[Figure]:
    """Yield an empty figure; once it is drawn, write it with note and small print."""
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise UsageError(f"{target}: plots are written as {', '.join(FORMATS)}; give one of these endings")
    with draw(kind, title, width, height, note=note) as (figure, content):
        yield figure
    write_atomically(target, content.getvalue())


@contextmanager
def draw(kind: str, title: str, width: float, height: float, *, note: str = "") -> Iterator[tuple[Figure, io.BytesIO]]:
    """Yield an empty figure, whatever the user's own settings, and what will hold the file once it is drawn."""
    require("matplotlib", extra="plots", purpose="drawing results")
    import matplotlib.style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    content = io.BytesIO()
    with matplotlib.style.context(["default", dict(STYLE)]):
        bottom, side, base = SMALL_PRINT / height, 0.08 / width, 0.05 / height
        layout = ConstrainedLayoutEngine(rect=(0, bottom, 1, 1 - bottom - base))
        figure = Figure(figsize=(width, height), dpi=DPI, layout=layout)
        figure.suptitle(title, x=side, ha="left", fontsize=13, fontweight="bold")
        figure.text(side, base, note, va="bottom", fontsize=7, color=SOFT)
        figure.text(1 - side, base, DISCLAIMER, ha="right", va="bottom", fontsize=7, color=SOFT)
        yield figure, content
        _fix_layout(figure, layout)
        figure.savefig(content, format=kind[1:], metadata=dict(FORMATS[kind]))


def _fix_layout(figure: Figure, layout: LayoutEngine) -> None:
    """Lay the figure out and round: the solver's last digits differ from run to run, and with them an SVG's bytes."""
    layout.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(edge), 6) for edge in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))
