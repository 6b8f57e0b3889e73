"""Times as recorders write them into the image, read back from what a text reader makes of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

DAY = 86400

_DIGIT = {"O": "0", "o": "0", "Q": "0", "D": "0", "l": "1", "I": "1", "|": "1", "i": "1", "S": "5", "B": "8"}
_LOOKALIKE = re.compile(r"(?<=[\d:.;])[OoQDlI|iSB](?=[\d:.;]|$)|(?<![A-Za-z])[OoQDlI|](?=[\d][:.;]|[:.;]\d)")
_MARKS = str.maketrans({"：": ":", "；": ":", ";": ":", "，": ".", "。": ".", ",": ".", "'": ":", "’": ":", "·": "."})
_FUSED = (
    (re.compile(r"(\d{4}[-./]\d\d[-./]\d\d)(?=\d\d[:.])"), r"\1 "),  # 2021-03-1403:12:45
    (re.compile(r"(\d\d[-./]\d\d[-./]\d{4})(?=\d\d[:.])"), r"\1 "),  # 14/03/202103:12:45
    (re.compile(r"(day\s*\d)(?=\d\d[:.]\d\d)", re.IGNORECASE), r"\1 "),  # Day103:12:45
)
_TIME = re.compile(
    r"""(?<![\d.\-/:])(?P<hours>\d{1,2})
        (?:\s?[:.]\s?(?P<minutes>[0-5]\d)\s?[:.]\s?(?P<seconds>[0-5]\d)
          |\s?h\s?(?P<minutes_h>[0-5]?\d)\s?m(?:in)?\s?(?P<seconds_h>[0-5]?\d)\s?s?
          |:(?P<minutes_f>[0-5]\d)(?P<seconds_f>[0-5]\d)
          |(?P<minutes_b>[0-5]\d):(?P<seconds_b>[0-5]\d))
        (?:\.\d{1,3})?(?![\d:/\-])\s*(?P<half>[AaPp]\.?[Mm])?""",
    re.VERBOSE,
)
_DAY = re.compile(r"\b(?:day|tag|jour|d[ií]a)\s*(?P<day>\d{1,2})\b", re.IGNORECASE)


@dataclass(frozen=True)
class ShownTime:
    """A time of day or of the exam, in whole seconds as shown."""

    seconds: int
    has_day: bool = False
    """Whether the day was shown with it, so that midnight is no step back."""


def parse_shown(text: str) -> ShownTime | None:
    """Read `03:12:45`, `3h12m45s`, `1:05:09 PM`, `2021-03-14 03:12:45`, `Day 2 00:10:00`; None if it shows no time.

    Forgives what readers get wrong about the signs between digits. Digits alone, without any sign, are no time.
    """
    tidy = _LOOKALIKE.sub(lambda found: _DIGIT[found.group()], text.translate(_MARKS))
    for pattern, replacement in _FUSED:
        tidy = pattern.sub(replacement, tidy)
    found = None
    for found in _TIME.finditer(tidy):  # noqa: B007  the last one: a date comes first
        pass
    if found is None:
        return None
    hours = int(found["hours"])
    minutes = int(next(found[name] for name in ("minutes", "minutes_h", "minutes_f", "minutes_b") if found[name]))
    seconds = int(next(found[name] for name in ("seconds", "seconds_h", "seconds_f", "seconds_b") if found[name]))
    if found["half"]:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if found["half"].lower().startswith("p") else 0)
    day = _DAY.search(tidy[: found.start()])
    days = max(0, int(day["day"]) - 1) if day else 0
    return ShownTime(days * DAY + hours * 3600 + minutes * 60 + seconds, day is not None)
