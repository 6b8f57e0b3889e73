"""When the frames of a DICOM exam were taken, as far as the objects say.

By the standard, Frame Time is the nominal time between two frames. In a video object it has to agree with the stream,
and so is the speed of the player: there it is exam time only if it differs from the stream, or if the user says so
(`--container-clock`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from dice_ce.exam.clock import Recorded
from dice_ce.exam.dicom.objects import DicomObject

DAY = 24 * 3600
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
"""Begin of the SOP classes whose Content Time is when somebody exported the image."""
SAME_RATE = Fraction(1, 100)
"""Relative difference up to which Frame Time and stream agree."""


def times_of_frames(one: DicomObject, count: int, playback: Fraction | None = None) -> Recorded:
    """Find the times of a multi-frame object; `playback` is the time between frames in the stream of a video."""
    for read in (_frame_datetimes, _frame_time_vector, _frame_durations):
        recorded = read(one, count)
        if recorded is not None and (recorded.times is not None or recorded.warnings):
            return recorded
    step, attribute = _nominal_step(one)
    if step is None:
        return Recorded()
    if playback is not None and abs(step - playback) <= SAME_RATE * playback:
        return Recorded()
    return Recorded(tuple(i * step for i in range(count)), f"{attribute}, {float(step * 1000):g} ms per frame")


def times_of_series(objects: Sequence[DicomObject]) -> Recorded:
    """Find the times of a series of single images."""
    readers: tuple[tuple[str, Callable[[DicomObject], Fraction | None]], ...] = (
        ("Acquisition DateTime", lambda one: _moment(one.header.get("AcquisitionDateTime"))),
        ("Acquisition Time", lambda one: _day_and_time(one, "Acquisition")),
        ("Content Time", _content_time),
    )
    for attribute, read in readers:
        moments = [read(one) for one in objects]
        if len(objects) > 1 and None not in moments and len(set(moments)) > 1:
            return _since_first([moment for moment in moments if moment is not None], f"{attribute} of each image")
    return Recorded()


def _content_time(one: DicomObject) -> Fraction | None:
    if str(one.header.get("SOPClassUID", "")).startswith(SECONDARY_CAPTURE):
        return None
    return _day_and_time(one, "Content")


def _frame_datetimes(one: DicomObject, count: int) -> Recorded | None:
    groups = one.header.get("PerFrameFunctionalGroupsSequence") or ()
    if len(groups) != count or count < 2:
        return None
    for name, title in (
        ("FrameAcquisitionDateTime", "Frame Acquisition DateTime"),
        ("FrameReferenceDateTime", "Frame Reference DateTime"),
    ):
        moments = [_moment(_first(group.get("FrameContentSequence")).get(name)) for group in groups]
        known = [moment for moment in moments if moment is not None]
        if len(known) == count and len(set(known)) > 1:
            return _since_first(known, f"{title} of each frame")
    return None


def _first(sequence: Any) -> Any:
    return sequence[0] if sequence else {}


def _frame_time_vector(one: DicomObject, count: int) -> Recorded | None:
    steps = one.header.get("FrameTimeVector")
    if steps is None:
        return None
    values = [Fraction(str(step)) / 1000 for step in (steps if hasattr(steps, "__iter__") else [steps])]
    if len(values) != count or any(step < 0 for step in values):
        return Recorded(warnings=(f"Frame Time Vector has {len(values)} values for {count} frames: not used",))
    return Recorded(tuple(itertools.accumulate([Fraction(0), *values[1:]])), "Frame Time Vector")


def _frame_durations(one: DicomObject, count: int) -> Recorded | None:
    """Take how long data was really taken, which no player's speed can be mistaken for."""
    total, each = _positive(one, "EffectiveDuration"), _positive(one, "ActualFrameDuration")
    if total is not None:
        return Recorded(tuple(i * total / count for i in range(count)), f"Effective Duration, {float(total):g} s")
    if each is not None:
        return Recorded(tuple(i * each / 1000 for i in range(count)), f"Actual Frame Duration, {float(each):g} ms")
    return None


def _nominal_step(one: DicomObject) -> tuple[Fraction | None, str]:
    milliseconds, rate = _positive(one, "FrameTime"), _positive(one, "CineRate")
    if milliseconds is not None:
        return milliseconds / 1000, "Frame Time"
    return (None if rate is None else 1 / rate), "Cine Rate"


def _positive(one: DicomObject, name: str) -> Fraction | None:
    try:
        value = Fraction(str(one.header.get(name)))
    except (ValueError, ZeroDivisionError):
        return None
    return value if value > 0 else None


def _day_and_time(one: DicomObject, kind: str) -> Fraction | None:
    day, time = one.header.get(f"{kind}Date"), one.header.get(f"{kind}Time")
    return _moment(f"{day or '19000101'}{time}") if time else None


def _moment(text: object) -> Fraction | None:
    """Read a DICOM date and time exactly, as seconds since some day; its offset from UTC is left out."""
    digits, _, rest = str(text or "").strip().partition(".")
    digits = digits.split("+")[0].split("-")[0]
    fraction = rest.split("+")[0].split("-")[0].strip()
    if len(digits) != 14 or not digits.isdecimal() or not (fraction or "0").isdecimal():
        return None
    try:
        moment = datetime.strptime(digits, "%Y%m%d%H%M%S")
    except ValueError:
        return None
    return Fraction((moment - datetime(1900, 1, 1)) // timedelta(seconds=1)) + Fraction(f"0.{fraction or 0}")


def _since_first(moments: list[Fraction], detail: str) -> Recorded:
    """Count from the first frame; a time that jumps back by most of a day has passed midnight."""
    times, days = [moments[0]], 0
    for i, (before, now) in enumerate(itertools.pairwise(moments), start=1):
        days += before - now > DAY // 2 and now < DAY
        time = now + days * DAY
        if time < times[-1]:
            return Recorded(warnings=(f"{detail} runs backwards at frame {i}: not used; give --exam-fps or --clock",))
        times.append(time)
    return Recorded(tuple(time - times[0] for time in times), detail)
