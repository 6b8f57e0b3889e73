"""The report, as text and in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from dice_ce import DISCLAIMER
from dice_ce.exam.codec import encode_image
from dice_ce.method.converger import Verdict
from dice_ce.method.reliability import Reliability
from dice_ce.method.settings import Settings
from dice_ce.method.summary import (
    SCHEMA,
    Activity,
    ClockFacts,
    Counts,
    ExamFacts,
    Frame,
    Identity,
    Mark,
    Provenance,
    Summary,
    SummaryItem,
)
from dice_ce.outputs.report import images_needed, render_report
from dice_ce.outputs.report.contexts import most_worth_a_look, spread
from dice_ce.outputs.report.timeline import Axis, stack
from dice_ce.outputs.report.words import duration
from dice_ce.settings import values_of
from dice_ce.taxonomy import NEUTRAL, PALETTE, Taxonomy
from tests.peers import CHROMIUM, miss

HOUR = 3600.0
VOID = {"meta", "img", "br", "link", "input", "hr"}
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def frames(start: float, count: int, probability: float = 0.8) -> tuple[Frame, ...]:
    return tuple(Frame(int(start) + i, start + i, 0.9, probability) for i in range(count))


def item(start: float, label: str, verdict: Verdict = "kept", support: int = 30, dissent: int = 3) -> SummaryItem:
    taxonomy = Taxonomy()
    evidence = [0.2 / 11] * 12
    evidence[taxonomy.index(label)] = 0.8
    supporting = frames(start, support)
    return SummaryItem(
        id=f"1.{int(start)}",
        label=label,
        confidence=0.8,
        abnormality=0.9,
        verdict=verdict,
        reason=f"{label} with 80 % of the evidence",
        runner_up="polyp" if label != "polyp" else "ulcer",
        margin=0.78,
        provisional=label,
        fell_back=False,
        keyframe=supporting[support // 3],
        first_seconds=start,
        last_seconds=supporting[-1].seconds,
        support=supporting,
        dissent=frames(start + 1000, dissent, 0.1),
        evidence_before=tuple(evidence),
        evidence=tuple(evidence),
    )


def make_summary(items: tuple[SummaryItem, ...], dropped: tuple[SummaryItem, ...]) -> Summary:
    verdicts = [one.verdict for one in dropped]
    return Summary(
        schema=SCHEMA,
        disclaimer=DISCLAIMER,
        exam=ExamFacts(
            id="exam-1",
            digest="d" * 64,
            width=336,
            height=336,
            field="octagon",
            clock=ClockFacts("sidecar", "from a file", True, 0.0, 8 * HOUR),
            undecodable=(),
            doubtful=0,
            warnings=(),
        ),
        taxonomy=Taxonomy(),
        counts=Counts(
            frames=28800,
            decoded=28800,
            candidates=400,
            diagnosed=400,
            coarse_contexts=4,
            contexts=len(items) + len(dropped),
            not_looked_at=0,
            kept=len(items),
            dropped_normal=verdicts.count("normal"),
            dropped_low_confidence=verdicts.count("low_confidence"),
            dropped_beyond_limit=verdicts.count("beyond_limit"),
            dropped_beside_surer=verdicts.count("beside_surer"),
        ),
        items=items,
        dropped=dropped,
        activity=Activity(0.0, 8 * HOUR, (0.1, 0.5) * 200, (0, 2) * 200),
        provenance=Provenance(
            software="dice-ce",
            version="0",
            exam_digest="d" * 64,
            crop=(0, 0, 336, 336),
            bundle=Identity("default", "b" * 64),
            encoder=Identity("tiny", "e" * 64),
            profile="sensitive",
            settings=values_of(Settings()),
            gate=None,
            packages={"numpy": "2"},
            command="dice-ce summarize exam.mp4",
        ),
    )


@pytest.fixture
def usual() -> Summary:
    return make_summary(
        items=(item(1 * HOUR, "ulcer"), item(3 * HOUR, "polyp"), item(6 * HOUR, "erosion")),
        dropped=(
            item(2 * HOUR, "parasite", "low_confidence"),
            item(4 * HOUR, "normal", "normal"),
            item(7 * HOUR, "normal", "normal"),
        ),
    )


_DOT = encode_image(np.full((16, 16, 3), (180, 90, 60), np.uint8), ".jpg")


def dot(frame: int, size: int) -> bytes:
    return _DOT


class Reader(HTMLParser):
    """Checks that tags are balanced and notes what leaves the file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []
        self.scripts = 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has a handler {name}"
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
                (self.links if (value or "").startswith("#") else self.outside).append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_balanced_file_that_refers_to_nothing_outside(usual: Summary) -> None:
    text = render_report(usual, dot)
    page = Reader(text)
    assert page.outside
    assert all(link.startswith("data:image/jpeg;base64,") for link in page.outside)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert page.scripts == 1
    assert not re.search(r"https?:|@import|url\(", text)


def test_it_says_what_the_summary_says(usual: Summary) -> None:
    text = render_report(usual, dot)
    for words in (DISCLAIMER, "exam-1", "28,800", "01:00:10", "78\u00a0points", "8\u00a0h 00\u00a0min"):
        assert words in text
    for name, value in {**usual.provenance.settings, "profile": "sensitive"}.items():
        assert re.search(rf"{name}</th><td>{'null' if value is None else value}</td>", text), name
    assert "About 24\u00a0s to read this report" in text
    assert "About 48\u00a0min to read the whole video" in text
    assert "Limits of this exam" not in text


def test_each_finding_says_how_well_its_label_is_recognised(usual: Summary) -> None:
    known = {"ulcer": Reliability.of_counts(310, 4, 30, 3), "polyp": Reliability.of_counts(100, 5, 100, 80)}
    text = render_report(replace(usual, reliability=known), dot)
    ulcer, polyp, erosion = re.findall(r'<p class="reliability (.*?)</p>', text)
    assert ulcer == (
        'doubted"><strong>Ulcer: hardly recognised on unseen cases</strong> '
        "<span>found in 1\u00a0% of 310 frames of 4 cases; when said, right in 10\u00a0% of 30 frames</span>"
    )
    assert polyp.startswith('trusted"><strong>Polyp: well recognised on unseen cases</strong>')
    assert erosion.startswith('doubted"><strong>Erosion: not measured on unseen cases</strong>')


def test_labels_without_findings_say_it_too(usual: Summary) -> None:
    text = render_report(replace(usual, items=(), reliability={"parasite": Reliability.of_counts(9, 3, 1, 1)}), dot)
    rows = re.findall(r'<tr><th scope="row">(\w.*?)</th><td>(.*? .*?)</td><td>', text)
    assert [label.lower() for label, _ in rows] == list(usual.taxonomy.labels)
    assert dict(rows)["Parasite"] == "hardly recognised"
    assert dict(rows)["Ulcer"] == "not measured"


def test_damage_and_warnings_are_named(usual: Summary) -> None:
    exam = replace(usual.exam, undecodable=tuple(range(7, 37)), doubtful=1, warnings=("a <b> warning",))
    text = render_report(replace(usual, exam=exam), dot)
    assert "30 frames could not be decoded" in text
    assert "26 and 10 more" in text
    assert "1 frame decoded after a damaged one" in text
    assert "a &lt;b&gt; warning" in text


def test_frames_of_a_folder_are_named_by_their_files(usual: Summary) -> None:
    def filed(one: SummaryItem) -> SummaryItem:
        named = {frame: replace(frame, file=f"IMG <{frame.frame}>.jpg") for frame in one.support}
        return replace(one, support=tuple(named.values()), keyframe=named[one.keyframe])

    items, dropped = tuple(map(filed, usual.items)), tuple(map(filed, usual.dropped))
    text = render_report(replace(usual, items=items, dropped=dropped), dot)
    assert "<span>frame 3610, IMG &lt;3610&gt;.jpg</span>" in text, "a finding"
    assert "<span>frame 7210, IMG &lt;7210&gt;.jpg</span>" in text, "a dropped context"
    assert 'class="key" title="keyframe, frame 3610, IMG &lt;3610&gt;.jpg">' in text
    assert '<li title="frame 3600, IMG &lt;3600&gt;.jpg">' in text
    assert "<span>frame 3610</span>" in render_report(usual, dot), "a video has no file names"


def test_hostile_words_stay_words(usual: Summary) -> None:
    evil = '"><script>alert(1)</script></style>'
    labels = (evil, *usual.taxonomy.labels[1:])
    items = tuple(
        replace(
            one,
            label=evil,
            runner_up=evil,
            provisional=evil,
            reason=evil,
            id=evil,
            keyframe=replace(one.keyframe, file=evil),
        )
        for one in usual.items[:1]
    )
    clock = replace(usual.exam.clock, source=evil, detail=evil)
    exam = replace(usual.exam, id=evil, warnings=(evil,), field=evil, clock=clock)
    made = replace(
        usual.provenance,
        command=evil,
        profile=evil,
        bundle=Identity(evil, "b" * 64),
        settings={evil: evil},
        packages={evil: evil},
    )
    changed = replace(usual, exam=exam, items=items, taxonomy=Taxonomy(evil, labels), provenance=made)
    text = render_report(changed, dot)
    assert Reader(text).scripts == 1
    assert evil not in text
    assert text.count("</style>") == 1


def test_playback_times_are_marked_and_exam_times_are_not(usual: Summary) -> None:
    assert "playback" not in re.sub(r"<style>.*?</style>", "", render_report(usual, dot), flags=re.DOTALL)
    clock = replace(usual.exam.clock, source="playback", is_exam_time=False)
    text = render_report(replace(usual, exam=replace(usual.exam, clock=clock)), dot)
    assert "Times are playback times, not exam times." in text
    assert "<time>01:00:10 (playback)</time>" in text


def test_the_same_summary_gives_the_same_bytes(usual: Summary) -> None:
    assert render_report(usual, dot) == render_report(Summary.from_json(usual.to_json()), dot)


def test_a_long_report_stays_small() -> None:
    items = tuple(item(600.0 * (i + 1), Taxonomy().labels[i % 11], support=200, dissent=40) for i in range(30))
    dropped = tuple(item(60.0 * i, "normal", "normal", support=2, dissent=0) for i in range(200))
    summary = make_summary(items, dropped)
    needed = images_needed(summary)
    assert len(needed) <= 30 * (1 + 12 + 6) + 60
    assert sum(size == 160 for _, size in needed) == 60
    assert needed == sorted(needed)
    weights = {112: 5_100, 160: 7_200, 420: 30_400}  # bytes of the simulator's images, on average
    assert len(render_report(summary, lambda frame, size: bytes(weights[size]))) < 6_000_000


def test_what_cannot_be_decoded_is_a_box_that_says_so(usual: Summary) -> None:
    text = render_report(usual, lambda frame, size: None)
    Reader(text)
    assert "<img" not in text
    assert text.count('class="missing"') == 3 * (1 + 12 + 3) + 3


def test_a_key_image_shows_where_the_evidence_lies(usual: Summary) -> None:
    first, *others = usual.items
    exam = replace(usual.exam, width=400, height=200)
    marked = replace(usual, exam=exam, items=(replace(first, mark=Mark(0.25, 0.5, 0.5, 0.75)), *others))
    text, plain = (render_report(summary, dot) for summary in (marked, usual))
    Reader(text)
    assert text.count('<svg class="where" viewBox="0 0 400 200"') == 1
    assert text.count('x="100" y="100" width="100" height="50"') == 2, "a dark line below the light one"
    assert text.count("which need not be the lesion") == 1
    assert 'class="where"' not in plain
    assert "need not be the lesion" not in plain


def test_what_the_diagnoser_did_not_look_at_is_counted(usual: Summary) -> None:
    counted = replace(usual, counts=replace(usual.counts, not_looked_at=2260))
    text, usually = (render_report(summary, dot) for summary in (counted, usual))
    Reader(text)
    assert "The diagnoser did not look at 2,260 less suspicious possible findings." in text
    assert f"<b>{2260 + usual.counts.contexts:,}</b> possible findings" in text
    assert f"<b>{usual.counts.contexts}</b> looked at" in text
    assert "look at" not in usually.replace("looked at below", "")


def test_an_empty_summary_says_so_and_still_shows_what_was_dropped(usual: Summary) -> None:
    text = render_report(replace(usual, items=()), dot)
    Reader(text)
    assert "Nothing was found abnormal with enough certainty" in text
    assert 'class="plot"' in text
    assert "3 possible findings set aside" in text
    nothing = render_report(replace(usual, items=(), dropped=()), dot)
    Reader(nothing)
    assert "Nothing was set aside" in nothing


def test_whatever_was_dropped_is_shown_whatever_the_reason(usual: Summary) -> None:
    reasons = [verdict for verdict in get_args(Verdict) if verdict != "kept"]
    dropped = tuple(item((5 + i) * HOUR, "polyp", verdict) for i, verdict in enumerate(reasons))
    text = render_report(replace(usual, dropped=dropped), dot)
    Reader(text)
    for one in dropped:
        assert f'<li id="context-{one.id}"' in text, one.verdict
        assert f'<ol class="dropped" data-verdict="{one.verdict}">' in text


def test_what_lies_beside_a_surer_finding_is_shown_only_if_there_is_such_and_comes_first(usual: Summary) -> None:
    beside = replace(usual, dropped=(item(5 * HOUR, "polyp", "beside_surer"), *usual.dropped))
    texts = [render_report(summary, dot) for summary in (usual, beside)]
    mark = '<ol class="dropped" data-verdict="beside_surer">'
    assert [mark in text for text in texts] == [False, True]
    assert texts[1].index(mark) < texts[1].index("<h3>Too doubtful")


def test_doubtful_contexts_come_before_normal_ones(usual: Summary) -> None:
    text = render_report(usual, dot)
    assert text.index("<h3>Too doubtful") < text.index("<h3>Normal")
    doubtful, normal, other = usual.dropped[:3]
    likely, unlikely = replace(doubtful, abnormality=0.7), replace(doubtful, abnormality=0.2, confidence=0.99)
    ordered = most_worth_a_look([replace(normal, abnormality=0.3), replace(other, abnormality=0.9), unlikely, likely])
    assert [one.abnormality for one in ordered] == [0.7, 0.2, 0.9, 0.3]


@pytest.mark.parametrize("count", [1, 2, 11, 12, 13, 200])
def test_filmstrips_are_even_and_never_without_the_keyframe(count: int) -> None:
    support = frames(0.0, count)
    for key in support:
        shown = spread(support, 12, key)
        assert key in shown
        assert len(shown) == len(set(shown)) == min(count, 12)
        assert [frame.frame for frame in shown] == sorted(frame.frame for frame in shown)
    assert spread((), 6) == []


def test_marks_that_would_cover_each_other_are_stacked() -> None:
    assert stack([10, 10.5, 11, 50, 51]) == [0, 1, 2, 0, 1]
    assert len(set(stack([5.0] * 40))) > 1


def test_ticks_are_hours_for_an_exam_of_usual_length() -> None:
    assert Axis(1800.0, 8.5 * HOUR).ticks() == [3600 * hour for hour in range(1, 9)]
    for length in (1.0, 50.0, 900.0, 5 * HOUR, 14 * HOUR, 100 * HOUR):
        assert 1 <= len(Axis(0.0, length).ticks()) <= 15


def test_durations_are_written_for_people() -> None:
    assert [duration(s).replace("\u00a0", " ") for s in (0, 59.4, 60, 95, 1499, 3599, 29520)] == [
        "0 s", "59 s", "1 min", "1 min 35 s", "25 min", "1 h 00 min", "8 h 12 min",
    ]  # fmt: skip


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_label_colours_stand_out_on_paper_and_on_dark_screens() -> None:
    for light, dark in (*PALETTE, NEUTRAL):
        assert 1.05 / (luminance(light) + 0.05) >= 3.3  # WCAG AA asks 3 of graphics; the ground is not quite white
        assert (luminance(dark) + 0.05) / (luminance("#171d21") + 0.05) >= 4.5


# --- in the browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        miss("pip install playwright to test the report's page")
    if not CHROMIUM.is_file():
        miss(f"install chromium ({CHROMIUM}) to test the report's page")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, usual: Summary, tmp_path: Path) -> Iterator[Any]:
    """The usual report, opened; any complaint or request of the page fails the test."""
    path = tmp_path / "report.html"
    path.write_text(render_report(usual, dot), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    troubles: list[str] = []
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url) if not request.url.startswith("data:") else None)
    page.goto(path.as_uri())
    yield page
    page.close()
    assert troubles == [path.as_uri()]


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.id"))


def test_keys_move_between_findings(page: Any, usual: Summary) -> None:
    first, second, third = (f"context-{one.id}" for one in usual.items)
    seen = []
    for key in ("j", "j", "k", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
        seen.append(focused(page))
        if len(seen) == 2:  # later on a key that leads nowhere scrolls the page
            assert page.locator(f"[id='{second}']").bounding_box()["y"] >= page.locator("#bar").bounding_box()["height"]
    assert seen == [first, second, first, second, third, third, second]


def test_enter_enlarges_and_escape_closes(page: Any, usual: Summary) -> None:
    box = page.locator("#lightbox")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert box.is_visible()
    assert "Ulcer, 01:00:10" in box.inner_text()
    page.keyboard.press("j")
    assert "Polyp" in box.inner_text()
    page.keyboard.press("Escape")
    assert not box.is_visible()
    # The browser says that a dialog was closed a moment after it was.
    page.wait_for_function("id => document.activeElement.id === id", arg=f"context-{usual.items[1].id}")
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    page.locator(".finding .keyframe").first.click()
    assert box.is_visible()
    page.locator("#lightbox [data-close]").click()
    assert not box.is_visible()


def test_a_dropped_context_can_be_restored_and_set_aside_again(page: Any, usual: Summary) -> None:
    card = page.locator(f"[id='context-{usual.dropped[0].id}']")
    page.locator("#dropped > summary").click()
    card.locator(".back").click()
    order = page.evaluate("[...document.querySelector('#findings').children].map(card => card.id)")
    expected = [usual.items[0], usual.dropped[0], *usual.items[1:]]
    assert order == [f"context-{one.id}" for one in expected]
    assert card.locator(".badge").is_visible()
    assert page.locator("#restored").inner_text() == "1"
    page.keyboard.press("j")
    assert focused(page) == f"context-{usual.items[1].id}"
    card.locator(".back").click()
    assert page.locator("#findings > li").count() == 3
    assert page.locator("#restored").inner_text() == "0"
    assert page.locator(".dropped > li").count() == 3


@pytest.mark.parametrize("width", [1440, 380])
def test_the_timeline_shows_every_context_and_all_of_its_words(
    width: int, browser: Any, usual: Summary, tmp_path: Path
) -> None:
    """Also what was seen in a single frame, and with every verdict there is."""
    brief = [
        replace(usual.dropped[0], id=f"9.{i}", verdict=verdict, last_seconds=usual.dropped[0].first_seconds)
        for i, verdict in enumerate(("beside_surer", "beyond_limit", "low_confidence", "normal"))
    ]
    late = replace(brief[0], id="9.9", first_seconds=usual.activity.last_seconds)
    late = replace(late, last_seconds=late.first_seconds)
    summary = replace(usual, dropped=(*usual.dropped, *brief, late))
    path = tmp_path / "report.html"
    path.write_text(render_report(summary, dot), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    boxes = "selector => [...document.querySelectorAll(selector)].map(one => one.getBoundingClientRect().toJSON())"
    (whole,) = page.evaluate(boxes, ".timeline")  # what sticks out of it is cut off
    bars, names = page.evaluate(boxes, ".span rect"), page.evaluate(boxes, ".names text")
    page.close()
    assert len(bars) == len(summary.items) + len(summary.dropped)
    assert all(bar["width"] > 0 and bar["right"] <= whole["right"] for bar in bars)
    assert len(names) == 7
    assert all(name["left"] >= whole["left"] for name in names)


def test_the_timeline_marks_every_finding_and_leads_to_it(page: Any, usual: Summary) -> None:
    marks = page.locator(".timeline .mark")
    assert marks.count() == len(usual.items)
    marks.nth(1).hover()
    tip = marks.nth(1).locator(".tip")
    assert tip.is_visible()
    assert not marks.nth(0).locator(".tip").is_visible()
    assert "03:00:10" in tip.text_content()
    marks.nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"document.activeElement.id === 'context-{usual.items[1].id}'")
    span = page.locator(f".span[href='#context-{usual.dropped[1].id}']")
    span.evaluate("link => link.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))")
    page.wait_for_function("document.querySelector('#dropped').open")


@pytest.mark.parametrize("width", [1440, 800, 390])
def test_nothing_sticks_out_sideways(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#dropped > summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints_findings_and_dropped_contexts(page: Any) -> None:
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.locator(".disclaimer").is_visible()
    assert page.locator(".dropped > li").first.is_visible()
    assert not page.locator("#show-keys").is_visible()


def test_without_scripts_everything_can_be_read(browser: Any, usual: Summary, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render_report(usual, dot), encoding="utf-8")
    page = browser.new_page(java_script_enabled=False)
    page.goto(path.as_uri())
    assert page.locator(".finding").count() == 3
    assert not page.locator(".back").first.is_visible()
    page.locator("#dropped > summary").click()
    assert page.locator(".dropped > li").first.is_visible()
    page.close()
