"""What the reader's pages look like to everybody: contrast, names for screen readers, room on small screens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers import miss
from tests.reader.browsing import Desk, open_chromium
from tests.reader.conftest import PASSWORD, Server
from tests.reader.material import write_result

WIDTHS = {1440: 900, 1024: 768, 390: 844}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with open_chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with one exam, some of whose findings are decided."""
    folder: Path = write_result(tmp_path_factory.mktemp("results"))
    server = Server(folder, str(folder / "reviews.sqlite")).start()
    client = server.browser()
    exam = client.exam()
    assert client.act(exam, 0, kind="confirm", finding="1.1").status_code == 200
    assert client.act(exam, 1, kind="reject", finding="1.2").status_code == 200
    assert client.act(exam, 2, kind="note", finding="1.1", text="a note").status_code == 200
    assert client.act(exam, 3, kind="landmark", name="first_duodenal", frame=10).status_code == 200
    yield server
    server.stop()


def open_scores(desk: Desk) -> None:
    desk.press("v")
    desk.page.evaluate("document.querySelectorAll('details.score').forEach((one) => { one.open = true; })")


def views(desk: Desk, server: Server) -> Iterator[str]:
    """Go from view to view."""
    desk.page.goto(server.url)
    desk.page.wait_for_selector("tbody tr")
    yield "worklist"
    desk.open_exam("exam")
    steps: dict[str, Callable[[], object]] = {
        "a finding": lambda: desk.press("j"),
        "the explanation": lambda: desk.page.locator(".card.selected details.why summary").click(),
        "choosing a label": lambda: desk.press("l"),
        "set aside": lambda: (desk.answer("Escape"), desk.press("d")),
        "measures": lambda: open_scores(desk),
        "keys": lambda: desk.press("?"),
    }
    for name, step in steps.items():
        step()
        yield name
    desk.page.goto(f"{server.base}/exam/{server.browser().exam()}/report")
    desk.page.wait_for_selector(".choose img")
    yield "report"


def department_views(desk: Desk, server: Server) -> Iterator[str]:
    """Go through what only those see who log in."""
    desk.page.goto(server.base)
    desk.page.wait_for_selector("#user")
    yield "login"
    desk.log_in(server.base, "chief", PASSWORD)
    desk.page.get_by_role("checkbox", name="Choose exam").check()
    yield "assigning"
    desk.page.get_by_role("button", name="chief").click()
    yield "own password"
    desk.answer("Escape")
    desk.open_exam("exam")
    yield "reading"
    desk.page.goto(f"{server.base}/accounts")
    desk.page.wait_for_selector("tbody tr")
    yield "accounts"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium: Any, library: Server, accounts_server: Server, theme: str) -> None:
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ModuleNotFoundError:
        miss("pip install axe-playwright-python to test whether everybody can use the reader")
    desk = Desk(chromium, color_scheme=theme)
    for view in itertools.chain(views(desk, library), department_views(desk, accounts_server)):
        # The report's preview is a sandbox: axe cannot talk to it, and complains once it has loaded.
        found = Axe().run(desk.page, options={"iframes": False, "resultTypes": ["violations"]}).response["violations"]
        serious = [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
        assert serious == [], view
    desk.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_screen(chromium: Any, library: Server, accounts_server: Server, width: int) -> None:
    desk = Desk(chromium, width=width, height=WIDTHS[width])
    for view in itertools.chain(views(desk, library), department_views(desk, accounts_server)):
        assert desk.page.evaluate("document.documentElement.scrollWidth") <= width, view
    desk.close()


def test_everything_can_be_reached_with_the_tab_key(chromium: Any, library: Server) -> None:
    desk = Desk(chromium)
    desk.page.goto(library.url)
    desk.open_exam("exam")
    desk.press("j")
    named = set()
    for _ in range(70):
        desk.press("Tab")
        named.add(
            desk.page.evaluate(
                "() => { const one = document.activeElement;"
                " return one.dataset.action || one.getAttribute('aria-label') || one.textContent; }"
            )
        )
    for name in ("play", "add", "zoom-in", "confirm", "reject", "relabel", "split", "merge", "note", "move-keyframe"):
        assert name in named
    assert {"Position in the exam", "Worklist", "Keys", "Report"} <= named
    desk.close()
