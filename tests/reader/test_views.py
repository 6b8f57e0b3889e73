"""What the reader's pages are told of an exam."""

from __future__ import annotations

from dataclasses import replace

from dice_ce.reader.views import slider
from tests.reader.material import make_item


def test_the_slider_goes_by_how_abnormal_not_by_how_surely_named() -> None:
    named, likely, aside = (
        replace(make_item("1.1", "polyp", 20, "kept", 0.9), abnormality=0.5),
        replace(make_item("1.2", "ulcer", 40, "kept", 0.3), abnormality=0.8),
        replace(make_item("1.3", "ulcer", 60, "low_confidence", 0.3), abnormality=0.95),
    )
    rungs = slider([named, likely, aside], pace=10)
    assert [(rung.context, rung.abnormality) for rung in rungs] == [("1.2", 0.8), ("1.1", 0.5), ("1.3", 0.95)]
    assert [(rung.count, rung.seconds) for rung in rungs] == [(1, 10), (2, 20), (3, 30)]
