"""How pages write numbers, names and times for people."""

from __future__ import annotations

import math
import re

from dice_ce.method.reliability import Grade
from dice_ce.method.summary import SummaryItem


def heading(label: str) -> str:
    """Write a label as a heading."""
    return label[:1].upper() + label[1:]


def anchor(item: SummaryItem) -> str:
    """Name of the context inside the page."""
    return "context-" + re.sub(r"[^A-Za-z0-9.-]", "_", item.id)


def grade_class(grade: Grade) -> str:
    """CSS class of how well a label is recognised: what is not at least fair is set off."""
    return "trusted" if grade in ("well recognised", "fairly recognised") else "doubted"


def percent(share: float) -> str:
    """Write a share in whole percent."""
    return f"{100 * share:.0f}\u00a0%"


def number(count: int) -> str:
    """Write a count with its thousands apart."""
    return f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    """Write a count and what is counted."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """Write how long something takes in the two largest units that matter."""
    exact = math.floor(seconds + 0.5)
    whole = exact if exact < 600 else 60 * ((exact + 30) // 60)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}\u00a0h {minutes:02d}\u00a0min"
    if minutes:
        return f"{minutes}\u00a0min {rest:02d}\u00a0s" if rest else f"{minutes}\u00a0min"
    return f"{rest}\u00a0s"


def general(value: float) -> str:
    """Write a number of a drawing without needless digits."""
    return f"{value:g}"
