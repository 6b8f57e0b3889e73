"""The line of the exam in the signed report."""

from __future__ import annotations

import re

from tests.reader.conftest import Reader


def test_the_report_draws_confirmed_findings_between_the_landmarks(reader: Reader) -> None:
    me = reader.browser()
    exam = me.exam()
    address = f"/api/exams/{exam}/report.html"
    assert "<svg" not in me.get(address).text, "nothing to show yet"
    for version, action in enumerate(
        (
            {"kind": "confirm", "finding": "1.1"},
            {"kind": "confirm", "finding": "1.2"},
            {"kind": "reject", "finding": "2.1"},
            {"kind": "add", "frame": 21, "label": "polyp"},
            {"kind": "landmark", "name": "first_duodenal", "frame": 0},
            {"kind": "landmark", "name": "ileocaecal", "frame": 99},
        )
    ):
        assert me.act(exam, version, **action).status_code == 200
    text = me.get(address).text
    marks = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)
    assert [float(x) for x, _ in marks] == [202.0, 212.1, 404.0]
    assert marks[0][1] != marks[1][1], "near ones stand above each other"
    assert marks[0][1] == marks[2][1]
    assert re.findall(r">(\d)</text>", text) == ["1", "2", "3"]
    assert "duodenum 00:00:00" in text
    assert "caecum 00:01:39" in text
