"""The PDF: one to three pages, the same every time, and whatever texts contain stays text."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dice_ce import DISCLAIMER
from dice_ce.method.reliability import NOT_MEASURED
from dice_ce.outputs.pdf import render_html, render_pdf
from dice_ce.outputs.pdf.content import MOST_LISTED, MOST_PICTURED, content_of, limits
from dice_ce.outputs.results import Results
from tests import peers
from tests.dicom_material import PATIENT
from tests.outputs.conftest import Summarised


def with_findings(results: Results, count: int) -> Results:
    """Repeat the findings until there are so many."""
    items = results.summary.items * (count // len(results.summary.items) + 1)
    keyframes = results.keyframes * (count // len(results.keyframes) + 1)
    kept = sorted(items[:count], key=lambda item: item.keyframe.seconds)
    summary = dataclasses.replace(results.summary, items=tuple(kept))
    return Results(summary, keyframes[:count], results.identity)


def pages(pdf: bytes, folder: Path) -> tuple[int, str]:
    path = folder / "report.pdf"
    path.write_bytes(pdf)
    facts = peers.run("pdfinfo", "poppler-utils", path).stdout
    count = next(int(line.split()[1]) for line in facts.splitlines() if line.startswith("Pages:"))
    return count, peers.run("pdftotext", "poppler-utils", "-layout", path, "-").stdout


@pytest.mark.parametrize("count", [0, 1, MOST_PICTURED, MOST_PICTURED + MOST_LISTED + 20])
def test_it_has_one_to_three_pages_whatever_was_found(summarised: Summarised, tmp_path: Path, count: int) -> None:
    number, text = pages(render_pdf(with_findings(summarised.results(), count)), tmp_path)
    assert 1 <= number <= 3
    assert text.count(DISCLAIMER) == number
    for needed in ("Timeline", "What was not examined", "Signature", "How this was made"):
        assert needed in text
    assert text.count("confirmed") == min(count, MOST_PICTURED)


def test_pictures_are_of_the_least_normal_however_sure_their_names_are(summarised: Summarised) -> None:
    results = with_findings(summarised.results(), MOST_PICTURED + 1)
    usual = [dataclasses.replace(item, abnormality=0.5, confidence=0.9) for item in results.summary.items]
    usual[0] = dataclasses.replace(usual[0], abnormality=0.4, confidence=0.99)
    summary = dataclasses.replace(results.summary, items=tuple(usual))
    content = content_of(Results(summary, results.keyframes, results.identity))
    assert [finding["number"] for finding in content["others"]] == [1]


def test_few_findings_fit_on_one_page(summarised: Summarised, tmp_path: Path) -> None:
    """A second page with nothing but the provenance gets lost."""
    assert pages(render_pdf(with_findings(summarised.results(), 3)), tmp_path)[0] == 1


def test_it_says_what_is_reliably_recognised_and_how_many_are_set_aside(summarised: Summarised) -> None:
    summary = summarised.results().summary
    counts = dataclasses.replace(summary.counts, contexts=summary.counts.kept + 1)
    lines = limits(dataclasses.replace(summary, counts=counts))
    assert "Reliably recognised: none of these. Anything else may be there without being listed." in lines
    assert "1 possible finding set aside by the program is not shown; see report.html." in lines


def test_it_says_of_every_finding_what_when_and_how_reliable(summarised: Summarised, tmp_path: Path) -> None:
    results = summarised.results()
    html = render_html(results)
    for item in results.summary.items[:MOST_PICTURED]:
        assert f"{100 * item.confidence:.0f}\u00a0% certain" in html
        assert item.label in html.lower()
    assert NOT_MEASURED.grade in html.lower()
    assert results.summary.exam.digest in html


def test_the_same_results_give_the_same_bytes(summarised: Summarised) -> None:
    assert render_pdf(summarised.results()) == render_pdf(summarised.read())


def test_it_is_marked_as_pdf_a(summarised: Summarised, tmp_path: Path) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(render_pdf(summarised.results()))
    marked = peers.run("pdfinfo", "poppler-utils", "-meta", path).stdout
    assert "pdfaid" in marked
    fonts = peers.run("pdffonts", "poppler-utils", path).stdout.splitlines()[2:]
    assert fonts
    assert all(line.split()[-5] == "yes" for line in fonts), "every font is embedded"


def test_patient_and_study_are_lines_to_write_on_unless_asked_for(summarised: Summarised) -> None:
    empty, filled = (render_html(summarised.results(with_identity=known)) for known in (False, True))
    assert PATIENT["PatientID"] not in empty
    assert empty.count('class="blank"') == 8
    assert PATIENT["PatientID"] in filled
    assert "Confidential, Patient" in filled
    assert "1948-02-29" in filled


def test_every_page_says_whose_it_is(summarised: Summarised, tmp_path: Path) -> None:
    pdf = render_pdf(with_findings(summarised.results(with_identity=True), MOST_PICTURED))
    count, text = pages(pdf, tmp_path)
    assert count > 1
    for page in text.split("\f")[1:count]:
        assert "Confidential, Patient · born 1948-02-29 · ID SECRET-4711" in page


def test_hostile_texts_stay_texts(summarised: Summarised) -> None:
    results = summarised.results()
    hostile = '<img src="http://192.0.2.1/x.png"><script>alert(1)</script>'
    exam = dataclasses.replace(results.summary.exam, id=hostile, warnings=(hostile,))
    html = render_html(Results(dataclasses.replace(results.summary, exam=exam), results.keyframes))
    assert hostile not in html
    assert "&lt;script&gt;" in html


def test_playback_times_are_marked(summarised: Summarised) -> None:
    results = summarised.results()
    clock = dataclasses.replace(results.summary.exam.clock, is_exam_time=False, source="playback")
    summary = dataclasses.replace(results.summary, exam=dataclasses.replace(results.summary.exam, clock=clock))
    html = render_html(Results(summary, results.keyframes))
    assert "Times are playback times, not exam times." in html
    assert "The exam clock is not known" in html
