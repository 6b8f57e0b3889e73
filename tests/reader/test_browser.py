"""The reader's pages in a real Chromium, in front of a real server: whole readings, two readers, a killed server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.material import numbered_video
from tests.reader.browsing import PATIENCE, READ_FRAME, Desk, open_chromium
from tests.reader.conftest import PASSWORD, Server
from tests.reader.material import MARK, make_summary, open_numbered, write_result

EXAMS = (
    "keyboard",
    "mouse",
    "play",
    "step",
    "reload",
    "lost",
    "words",
    "touch",
    "slider",
    "mark",
    "export",
    "organs",
)
"""One for each test, so that all can share a server."""
LONG = 30_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with open_chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with an exam for each test."""
    folder = tmp_path_factory.mktemp("library")
    for i, name in enumerate(EXAMS):
        write_result(folder, name, 100 + i)
    server = Server(folder, str(folder / "reviews.sqlite")).start()
    yield server
    server.stop()


@pytest.fixture
def desk(chromium: Any, library: Server) -> Iterator[Desk]:
    """A reader in front of the worklist."""
    desk = Desk(chromium)
    desk.page.goto(library.url)
    desk.page.wait_for_selector("tbody tr")
    yield desk
    desk.close()


def review_of(server: Server, name: str) -> Any:
    """What the server knows, asked by somebody else than the page."""
    client = server.browser()
    return client.get(f"/api/exams/{client.exam(name)}/review").json()


def finding(review: Any, name: str) -> Any:
    return next(one for one in review["findings"] if one["id"] == name)


def test_a_whole_reading_by_keyboard_only(desk: Desk, library: Server) -> None:
    desk.press("/")
    desk.page.keyboard.type("keyb")
    desk.until("() => document.querySelectorAll('tbody tr').length === 1")
    desk.press("Enter", "Enter")
    desk.until_frame(0)
    desk.press("j")
    desk.until_frame(20)
    desk.press("c")
    desk.until_text(".card.selected .state", "Confirmed")
    desk.press("ArrowRight", "m")
    desk.until_saved()
    desk.press("j", "l")
    desk.page.keyboard.type("lymphangi")
    desk.answer("Enter")
    desk.press("t")
    desk.page.keyboard.type("two of them")
    desk.answer("Control+Enter")
    desk.press("j", "x")
    desk.until_text(".card.selected .state", "Rejected")
    desk.press("d", "j", "b")  # what was set aside comes back
    desk.until_saved()
    desk.press("f", "Home", "Shift+ArrowRight", "a")
    desk.page.keyboard.type("diverticulum")
    desk.press("Enter")
    desk.until_text(".card .name", "Diverticulum")
    desk.press("z")
    desk.until(
        "() => ![...document.querySelectorAll('.card .name')].some((one) => one.textContent.includes('Diverti'))"
    )
    desk.press("y")
    desk.until_text(".card .name", "Diverticulum")
    desk.press("Home", "q", "Shift+ArrowRight", "w", "End", "ArrowLeft", "e", "ArrowRight", "r", "v")
    desk.until_text(".transit", "1\u00a0min 28\u00a0s")
    desk.until_saved()
    review = review_of(library, "keyboard")
    assert finding(review, "1.1") | {"decision": "confirmed", "keyframe": 21} == finding(review, "1.1")
    assert finding(review, "1.2") | {"label": "lymphangiectasia", "note": "two of them"} == finding(review, "1.2")
    assert finding(review, "2.1")["decision"] == "rejected"
    assert finding(review, "2.2")["set_aside"] is False
    assert {one["label"] for one in review["findings"] if one["origin"] == "reader"} == {"diverticulum"}
    assert {name: one["frame"] for name, one in review["landmarks"].items()} == {
        "first_gastric": 0, "first_duodenal": 10, "ileocaecal": 98, "last": 99,
    }  # fmt: skip

    desk.press("o")
    desk.page.wait_for_selector("textarea")
    desk.press("t")
    desk.page.keyboard.press("Control+a")
    desk.page.keyboard.type("Polyp of the small bowel.")
    desk.press("Escape")
    desk.until_saved()
    desk.press("s", "Enter")
    desk.until_text(".pill", "Signed, version 1")
    client = library.browser()
    exam = client.exam("keyboard")
    review = client.get(f"/api/exams/{exam}/review").json()
    pdf = client.get(f"/api/exams/{exam}/report.pdf", params={"version": 1}).content
    assert pdf.startswith(b"%PDF")
    assert review["signatures"][0]["digest"] == hashlib.sha256(pdf).hexdigest()
    assert "Polyp of the small bowel." in client.get(f"/api/exams/{exam}/report.html").text


def test_a_whole_reading_by_mouse(desk: Desk, library: Server) -> None:
    page = desk.page
    desk.open_exam("mouse")
    page.locator(".card[data-id='1.2'] .pick").click()
    desk.until_frame(40)
    page.locator(".card.selected [data-action=confirm]").click()
    desk.until_text(".card.selected .state", "Confirmed")
    page.locator(".card.selected .thumb[data-frame='41']").click()
    desk.until_frame(41)
    page.locator(".card.selected [data-action=split]").click()
    desk.until("() => document.querySelectorAll('#panel-findings .card').length === 4")
    page.locator(".card[data-id='1.2'] [data-action=merge]").click()
    page.locator("dialog .choices button", has_text="Ulcer").click()
    desk.until("() => document.querySelectorAll('#panel-findings .card').length === 3")
    page.locator(".card.selected [data-action=relabel]").click()
    page.locator("dialog [role=option]", has_text="Erosion").click()
    desk.until_text(".card[data-id='1.2'] .name", "Erosion")

    track = page.locator(".track-of-time")
    box = track.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.7, box["y"] + 80)
    desk.until("() => Math.abs(document.querySelector('.pane canvas').dataset.frame - 69) <= 1")
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 80, steps=4)
    page.mouse.up()
    desk.until("() => Math.abs(document.querySelector('.pane canvas').dataset.frame - 50) <= 1")
    pane = page.locator(".panes").bounding_box()
    page.mouse.move(pane["x"] + pane["width"] / 2, pane["y"] + pane["height"] / 2)
    page.mouse.wheel(0, -300)
    desk.until("() => parseInt(document.querySelector('output.zoom').textContent) > 150")
    page.get_by_role("button", name="Four frames at a time").click()
    desk.until("() => document.querySelectorAll('.pane').length === 4")
    page.locator("[data-action=add]").click()
    page.locator("dialog [role=option]", has_text="Polyp").click()
    desk.until("() => document.querySelectorAll('#panel-findings .card').length === 4")
    page.get_by_role("tab", name="Set aside").click()
    page.locator("#panel-aside .card .pick").first.click()
    page.locator("#panel-aside .card.selected [data-action=restore]").click()
    page.get_by_role("tab", name="Measures").click()
    page.locator("[data-landmark=first_duodenal] button", has_text="Set here").click()
    page.locator("details.score summary", has_text="Lewis").click()
    page.select_option("#lewis-0-ulcers-number", "few")
    page.select_option("#lewis-0-ulcers-extent", "long")
    desk.until("() => /\\d/.test(document.querySelectorAll('details.score .result')[1].textContent)")
    page.locator("details.score summary", has_text="CECDAI").click()
    page.select_option("#cecdai-proximal-inflammation", "3")
    page.select_option("#cecdai-proximal-extent", "2")
    desk.until("() => document.querySelectorAll('details.score .result')[2].textContent === '6'")
    desk.until_saved()
    review = review_of(library, "mouse")
    assert finding(review, "1.2") | {"label": "erosion", "decision": "confirmed"} == finding(review, "1.2")
    assert finding(review, "1.2")["frames"] == [38, 39, 40, 41, 42], "split and united again"
    assert review["measures"]["cecdai_score"] == 6

    page.locator(".top a", has_text="Report").click()
    page.wait_for_selector("textarea")
    page.fill("#section-indication", "Anaemia <b>")
    page.locator("#section-impression").click()
    page.locator(".choose input:not(:checked)").first.click()
    desk.until_saved()
    page.locator("[data-action=sign]").click()
    page.locator("dialog .primary").click()
    desk.until_text(".pill", "Signed, version 1")
    page.locator("[data-action=addendum]").click()
    page.locator("dialog textarea").fill("The indication was wrong.")
    page.locator("dialog .primary").click()
    desk.until_text(".pill", "Unsigned draft")
    frame = page.frame_locator("iframe.paper").last
    frame.locator("text=Anaemia <b>").wait_for()
    frame.locator("text=The indication was wrong.").wait_for()


def test_stepping_and_playing_show_every_frame_in_order(desk: Desk) -> None:
    desk.open_exam("play")
    seen = desk.page.evaluate(
        f"""() => new Promise((resolve) => {{
          const read = {READ_FRAME}, canvas = document.querySelector('.pane canvas'), seen = [];
          const key = (name) => document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: name, bubbles: true}}));
          new MutationObserver(() => {{
            if (seen.at(-1)?.[0] === canvas.dataset.frame) return;
            seen.push([canvas.dataset.frame, read()[0]]);
            if (seen.length === 30) {{ key(' '); resolve(seen); }}
          }}).observe(canvas, {{attributes: true, attributeFilter: ['data-frame']}});
          for (let i = 0; i < 5; i += 1) key(']');
          key(' ');
        }})"""
    )
    told = [int(one) for one, _ in seen]
    assert told == list(range(told[0], told[0] + 30)), "no frame is skipped"
    assert told == [shown for _, shown in seen], "the pixels are those of the frame that is told"


def test_neighbours_are_there_before_they_are_asked_for(desk: Desk) -> None:
    desk.open_exam("step")
    desk.press("j")
    desk.until_frame(20)
    desk.until(  # nobody has gone to these frames yet
        "(frames) => { const names = performance.getEntriesByType('resource').map((one) => one.name);"
        " return frames.every((frame) => names.some((name) => name.includes(`/frames/${frame}?`))); }",
        [19, 21, 22],
    )
    desk.until(  # drawn in the same moment as the key is pressed; the walk comes back to where it began
        f"""() => JSON.stringify([['ArrowRight', 21], ['ArrowRight', 22], ['ArrowLeft', 21], ['ArrowLeft', 20],
          ['ArrowLeft', 19], ['ArrowRight', 20]].map(([key, frame]) => {{
            document.body.dispatchEvent(new KeyboardEvent('keydown', {{key, bubbles: true}}));
            return ({READ_FRAME})()[0] === frame;
          }})) === '[true,true,true,true,true,true]'"""
    )


def test_a_killed_server_loses_nothing_and_the_page_says_what_is_not_saved(chromium: Any, server: Server) -> None:
    desk = Desk(chromium)
    desk.page.goto(server.url)
    desk.open_exam("exam")
    desk.press("j", "c")
    desk.until_text(".card.selected .state", "Confirmed")
    server.kill()
    desk.press("j", "x")
    desk.page.wait_for_selector(".banner.lost:not([hidden])")
    desk.until_text(".card.selected .state", "Not saved")
    desk.press("t")
    desk.page.keyboard.type("written while the server was away")
    desk.press("Control+Enter")
    desk.until_text(".saved", "2 decisions not saved yet")
    server.restart()
    desk.until_saved()
    desk.page.wait_for_selector(".banner.lost", state="hidden")
    review = review_of(server, "exam")
    assert [finding(review, name)["decision"] for name in ("1.1", "1.2")] == ["confirmed", "rejected"]
    assert finding(review, "1.2")["note"] == "written while the server was away"
    assert review["version"] == 3
    desk.close()


def test_unsaved_decisions_survive_a_reload_of_the_page(desk: Desk, library: Server) -> None:
    desk.open_exam("reload")
    desk.page.route("**/events", lambda route: route.abort())
    desk.press("j", "c")
    desk.until_text(".card.selected .state", "Not saved")
    desk.page.on("dialog", lambda dialog: dialog.accept())
    desk.page.unroute("**/events")
    desk.page.reload()  # once: a second one may come before all is saved, and Chromium complains of that
    desk.until_text(".card .state", "Confirmed")
    assert finding(review_of(library, "reload"), "1.1")["decision"] == "confirmed"


def test_an_answer_that_got_lost_does_not_act_twice(desk: Desk, library: Server) -> None:
    desk.open_exam("lost")
    answers = []

    def lose_the_first(route: Any) -> None:
        answer = route.fetch()
        answers.append(answer.status)
        if len(answers) == 1:
            route.abort()
        else:
            route.fulfill(response=answer)

    desk.page.route("**/events", lose_the_first)
    desk.press("a")
    desk.page.keyboard.type("polyp")
    desk.press("Enter")
    desk.until("() => document.querySelectorAll('#panel-findings .card').length === 4")
    desk.until_saved()
    assert answers == [200, 200]
    assert review_of(library, "lost")["version"] == 1


def test_two_readers_at_once(chromium: Any, accounts_server: Server) -> None:
    desks = {name: Desk(chromium) for name in ("anna", "ben")}
    for name, desk in desks.items():
        desk.log_in(accounts_server.base, name, PASSWORD)
        desk.open_exam("exam")
    anna, ben = desks.values()
    anna.press("j", "c")  # both at the same state, on different findings: both count
    ben.press("j", "j", "x")
    anna.until_saved()
    ben.until_saved()
    for desk in desks.values():  # each comes to see what the other did
        desk.until_text(".card[data-id='1.1'] .state", "Confirmed")
        desk.until_text(".card[data-id='1.2'] .state", "Rejected")
    anna.page.locator(".card[data-id='2.1'] .pick").click()
    ben.page.route("**/review", lambda route: route.abort())  # ben's page does not hear of anna's decision
    anna.press("c")
    anna.until_text(".card[data-id='2.1'] .state", "Confirmed")
    ben.page.locator(".card[data-id='2.1'] .pick").click()
    ben.press("x")
    ben.page.wait_for_selector(".toast.bad")
    ben.until_text(".card[data-id='2.1'] .state", "Confirmed")
    for desk in desks.values():
        desk.close()


def test_a_wrong_password_and_a_foreign_address_lead_nowhere(chromium: Any, accounts_server: Server) -> None:
    desk = Desk(chromium)
    desk.page.goto(f"{accounts_server.base}/login?next=//evil.example/")
    desk.page.fill("#user", "anna")
    desk.page.fill("#password", "wrong")
    desk.page.keyboard.press("Enter")
    desk.until("() => document.querySelector('.trouble').textContent.length > 5")
    desk.page.fill("#password", PASSWORD)
    desk.page.keyboard.press("Enter")
    desk.page.wait_for_selector("tbody tr")
    assert desk.page.url == f"{accounts_server.base}/"
    desk.page.get_by_role("button", name="Log out").click()
    desk.page.wait_for_selector("#password")
    desk.close()


def test_an_admin_makes_accounts_and_gives_exams_to_readers(chromium: Any, accounts_server: Server) -> None:
    chief, dora = Desk(chromium), Desk(chromium)
    page = chief.page
    chief.log_in(accounts_server.base, "chief", PASSWORD)
    page.get_by_role("checkbox", name="Choose exam").check()
    page.select_option(".chosen select", "anna")
    page.locator("[data-action=assign]").click()
    chief.until_text(".col-reader", "anna")
    chief.press("s", "a")  # and by keys: choose, then to the list of readers
    chief.until("() => document.activeElement === document.querySelector('.chosen select')")
    page.select_option(".chosen select", "ben")
    page.locator("[data-action=second]").click()
    chief.until("() => document.querySelectorAll('tbody tr').length === 2")
    chief.until_text("tbody small", "second reading")

    page.get_by_role("link", name="Accounts").click()
    page.fill("#new-user", "dora")
    page.fill("#new-password", "a long secret")
    page.keyboard.press("Enter")
    page.wait_for_selector("tr[data-user=dora]")
    page.locator("tr[data-user=ben] [data-action=close]").click()
    page.locator("dialog .primary").click()
    page.wait_for_selector("tr[data-user=ben].closed")
    page.get_by_label("Role of chief").select_option("reader")
    page.wait_for_selector(".toast.bad")  # nobody would be left who may change anything
    chief.until("() => document.querySelector('tr[data-user=chief] select').value === 'admin'")

    dora.log_in(accounts_server.base, "dora", "a long secret")
    dora.until_text("p[role=status]", "There is no exam here yet")
    assert dora.page.get_by_role("link", name="Accounts").count() == 0
    dora.page.get_by_role("button", name="dora").click()
    dora.page.fill("#ask-current", "a long secret")
    dora.page.fill("#ask-password", "another secret")
    dora.page.keyboard.press("Enter")
    dora.page.wait_for_selector("#user")
    dora.log_in(accounts_server.base, "dora", "another secret")
    chief.close()
    dora.close()


def test_what_was_signed_is_exported_and_what_cannot_be_made_is_explained(desk: Desk, library: Server) -> None:
    desk.page.locator("tbody a.exam", has_text="export").click()
    desk.page.wait_for_selector(".tabs")
    desk.press("j", "c")
    desk.until_saved()
    desk.press("o")
    desk.until_text(".others", "Once the report is signed")
    assert desk.page.locator("[data-of=signed] [data-export]").count() == 0
    desk.page.locator(".others summary").click()

    def download(of: str) -> tuple[str, bytes]:
        with desk.page.expect_download(timeout=PATIENCE) as waiting:
            desk.page.locator(f"[data-of={of}] [data-export=pdf]").click()
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()

    name, software = download("software")
    assert (name, software[:4]) == ("export-software.pdf", b"%PDF")
    desk.press("s")
    desk.answer("Enter")
    desk.until_text(".others", "Version 1 as it was signed")
    assert desk.page.locator(".choose input").count() == 1, "only images that were signed"
    assert desk.page.locator(".section:visible textarea").evaluate_all("(all) => all.every((one) => one.value)")
    client = library.browser()
    signed = client.get(f"/api/exams/{client.exam('export')}/report.pdf").content
    assert download("signed") == ("export-signed-1.pdf", signed)
    missing = {"kind": "dicom", "title": "DICOM", "about": "objects", "missing": "Install the extra first"}
    desk.page.route("**/api/exports", lambda route: route.fulfill(json={"exports": [missing]}))
    desk.page.reload()
    desk.until_text(".missing", "Install the extra first")
    assert desk.page.locator("[data-export]").count() == 0


def test_words_stay_words(desk: Desk) -> None:
    evil = "<img src=x onerror=alert(1)>"
    desk.open_exam("words")
    desk.press("j", "t")
    desk.page.keyboard.type(evil)
    desk.answer("Control+Enter")
    desk.press("l")
    desk.page.keyboard.type(evil)
    desk.press("Enter")
    desk.until_text(".card.selected .name", evil)
    desk.until_text(".card.selected .note", evil)
    assert desk.page.locator("img[src=x]").count() == 0


def test_by_touch_on_a_phone(chromium: Any, library: Server) -> None:
    desk = Desk(chromium, width=390, height=844, has_touch=True, is_mobile=True)
    page = desk.page
    page.goto(library.url)
    page.wait_for_selector("tbody tr")
    page.locator("tbody a.exam", has_text="touch").tap()
    page.wait_for_selector(".card")
    page.locator(".card[data-id='1.1'] .pick").tap()
    desk.until_frame(20)
    page.locator(".card.selected [data-action=confirm]").tap()
    desk.until_text(".card.selected .state", "Confirmed")
    page.get_by_role("button", name="Next frame").tap()
    desk.until_frame(21)
    page.evaluate("scrollTo(0, 0)")
    box = page.locator(".track-of-time").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 85)
    desk.until("() => Math.abs(document.querySelector('.pane canvas').dataset.frame - 53) <= 2")
    desk.close()


def test_the_slider_tells_how_many_and_how_long(desk: Desk) -> None:
    desk.open_exam("slider")
    words = desk.page.locator(".slider .words")
    cards = desk.page.locator("#panel-findings .card")
    told = []
    for key, count in (("", 3), (".", 4), (",", 3), (",", 2)):
        desk.press(*key)
        assert f"{count} possible findings, about " in words.inner_text()
        assert cards.count() == count
        told.append(words.inner_text())
    assert len(set(told)) == 3, "the time follows the number"


def test_a_landmark_is_told_with_the_time_at_which_it_was_set(desk: Desk) -> None:
    desk.open_exam("organs")
    held: list[Any] = []
    desk.page.route("**/events", lambda route: route.continue_() if held else held.append(route))
    desk.press("Shift+ArrowRight", "w", "End")
    desk.until_frame(99 + EXAMS.index("organs"))
    held[0].continue_()
    desk.until_text(".toast", "First duodenal image: 00:00:10.")
    desk.press("q", "e", "r")
    desk.until_text(".toast", "Last image: 00:01:50.")
    assert desk.page.locator(".toast").count() == 2, "more would cover the image"


def test_a_decision_waits_for_its_reader_to_log_in_again(chromium: Any, accounts_server: Server) -> None:
    desk = Desk(chromium)
    desk.log_in(accounts_server.base, "anna", PASSWORD)
    desk.open_exam("exam")
    address = desk.page.url.split("#")[0]
    desk.context.clear_cookies()  # as if the session had ended
    desk.press("j", "c")
    for user, state in (("ben", "To decide"), ("anna", "Confirmed")):
        desk.page.wait_for_selector("#user")
        desk.page.fill("#user", user)
        desk.page.fill("#password", PASSWORD)
        desk.press("Enter")
        desk.until_text(".card[data-id='1.1'] .state", state)
        desk.until_saved()
        if user == "ben":
            desk.context.clear_cookies()
            desk.page.goto(address)
    (client := accounts_server.stranger()).log_in("ben")
    events = client.get(f"/api/exams/{client.exam()}/events").json()["events"]
    assert [(one["by"], one["kind"]) for one in events] == [("anna", "confirm")]
    desk.close()


def test_the_mark_frames_the_place_that_the_results_name(desk: Desk) -> None:
    desk.open_exam("mark")
    desk.press("j")
    desk.until_frame(20)
    yellow = """(places) => {
      const canvas = document.querySelector('.pane canvas'), side = Math.min(canvas.width, canvas.height);
      const context = canvas.getContext('2d');
      return places.map(([x, y]) => {
        const left = (canvas.width - side) / 2 + x * side - 3, top = (canvas.height - side) / 2 + y * side - 3;
        const { data } = context.getImageData(left, top, 6, 6);
        return [...data.keys()].some((i) => i % 4 === 0 && data[i] > 230 && data[i + 1] > 200 && data[i + 2] < 170);
      });
    }"""
    corners = [(x, y) for x in (MARK.left, MARK.right) for y in (MARK.top, MARK.bottom)]
    middle = ((MARK.left + MARK.right) / 2, (MARK.top + MARK.bottom) / 2)
    desk.press("i")
    desk.until_text(".where", "Where the software sees polyp")
    assert desk.page.evaluate(yellow, [*corners, middle]) == [True, True, True, True, False]
    desk.press("i")
    desk.until("() => document.querySelector('.where').hidden")
    assert desk.page.evaluate(yellow, corners) == [False] * 4


def test_thirty_thousand_frames(chromium: Any, tmp_path: Path) -> None:
    count = LONG
    video = numbered_video(tmp_path / "long.mp4", count, options={"preset": "ultrafast", "g": "25"})
    (tmp_path / "long.clock.csv").write_text("frame,seconds\n" + "".join(f"{i},{i}\n" for i in range(count)))
    with open_numbered(video) as exam:
        make_summary("long", exam.digest, count).write(tmp_path / "long" / "summary.json")
    server = Server(tmp_path, str(tmp_path / "reviews.sqlite")).start()
    try:
        look_around(chromium, server, count)
    finally:
        server.stop()


def look_around(chromium: Any, server: Server, count: int) -> None:
    desk = Desk(chromium)
    desk.page.goto(server.url)
    desk.open_exam("long")
    desk.press("End")
    desk.until_frame(count - 1)
    desk.press("Shift+ArrowLeft", "2")
    desk.until_frame(count - 11, count - 10)
    box = desk.page.locator(".track-of-time").bounding_box()
    desk.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 80)
    middle = "() => Number(document.querySelector('.pane canvas').dataset.frame)"
    desk.until(f"() => Math.abs(({middle})() - 15000) < 60")
    here = desk.page.evaluate(middle)
    desk.until_frame(here, here + 1)
    desk.close()
