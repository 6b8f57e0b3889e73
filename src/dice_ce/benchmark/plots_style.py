"""What all pictures of a benchmark share: colours, marks, the small print, and how they are written."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dice_ce import DISCLAIMER
from dice_ce.benchmark.run import Method, Outcome, Results
from dice_ce.errors import UsageError, require
from dice_ce.files import write_atomically
from dice_ce.report.markup import NEUTRAL, PALETTE
from dice_ce.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import LayoutEngine

INK, SOFT, FAINT = "#1a2228", "#52606a", "#d8dee2"
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


@dataclass(frozen=True)
class Look:
    """How a method or a label is drawn; colour-blind readers go by the mark."""

    colour: str
    mark: str


METHOD_LOOKS: Mapping[str, Look] = {
    "dice": Look("#d55e00", "o"),
    "uniform": Look("#7a858d", "s"),
    "random": Look("#56b4e9", "v"),
    "top-score": Look("#009e73", "D"),
    "aks": Look("#0072b2", "^"),
    "vilamp": Look("#b45a95", "P"),
}
"""After Okabe and Ito."""
OTHER_LOOKS = (Look("#8f7000", "X"), Look("#332288", "<"), Look("#7a4a1e", ">"), Look("#5f611c", "h"))
"""For methods that are not known here, in turn."""
LABEL_MARKS = ("o", "s", "D", "^")
"""The shapes of the report."""


def label_look(taxonomy: Taxonomy, label: int) -> Look:
    """Draw a label as the report does."""
    colour = NEUTRAL[0] if label == taxonomy.normal else PALETTE[label % len(PALETTE)][0]
    return Look(colour, LABEL_MARKS[label % len(LABEL_MARKS)])


def method_looks(outcomes: Sequence[Outcome]) -> list[Look]:
    """Give each method the same look in all pictures."""
    unknown = [outcome.method.key for outcome in outcomes if outcome.method.key not in METHOD_LOOKS]
    known = {**dict(zip(unknown, cycle(OTHER_LOOKS), strict=False)), **METHOD_LOOKS}
    return [known[outcome.method.key] for outcome in outcomes]


def is_ours(method: Method) -> bool:
    """Whether a method is to stand out."""
    return method.group == "ours"


def weight(outcome: Outcome) -> str:
    """Weight of the letters that a method is written in."""
    return "bold" if is_ours(outcome.method) else "normal"


def paler(colour: str, share: float = 0.55) -> str:
    """Mix a colour with white; unlike transparency, that hides what lies below."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def compared(results: Results) -> list[Outcome]:
    """Take the methods that work on the same candidates: DiCE first, then every fixed budget."""
    return [*results.of("ours"), *results.of("fixed budget")]


@contextmanager
def picture(target: Path, title: str, width: float, height: float, *, note: str = "") -> Iterator[Figure]:
    """Yield an empty figure, whatever the user's own settings; once it is drawn, write it with note and small print."""
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise UsageError(f"{target}: pictures are written as {', '.join(FORMATS)}; give one of these endings")
    require("matplotlib", extra="plots", purpose="drawing results")
    import matplotlib.style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.style.context(["default", dict(STYLE)]):
        bottom, side, base = SMALL_PRINT / height, 0.08 / width, 0.05 / height
        layout = ConstrainedLayoutEngine(rect=(0, bottom, 1, 1 - bottom - base))
        figure = Figure(figsize=(width, height), dpi=DPI, layout=layout)
        figure.suptitle(title, x=side, ha="left", fontsize=13, fontweight="bold")
        figure.text(side, base, note, va="bottom", fontsize=7, color=SOFT)
        figure.text(1 - side, base, DISCLAIMER, ha="right", va="bottom", fontsize=7, color=SOFT)
        yield figure
        _settle(figure, layout)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind[1:], metadata=dict(FORMATS[kind]))
    write_atomically(target, buffer.getvalue())


def _settle(figure: Figure, layout: LayoutEngine) -> None:
    """Lay the figure out and round: the solver's last digits differ from run to run, and with them an SVG's bytes."""
    layout.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(edge), 6) for edge in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))
