"""The reader's front end without a browser: types, pure functions, and that it says what the server says."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dice_ce.outputs.report.theme import SHADES, SHAPES, theme_css
from dice_ce.reader import contract
from dice_ce.taxonomy import NEUTRAL, PALETTE
from tests.peers import miss

WEB = Path(contract.__file__).parent / "web"
SCRIPTS = sorted((WEB / "js").glob("*.js"))
PAGES = sorted(WEB.glob("*.html"))
MODELS = {
    "Session": contract.Session,
    "Label": contract.LabelFacts,
    "Row": contract.WorklistRow,
    "Worklist": contract.Worklist,
    "EvidenceFrame": contract.EvidenceFrame,
    "Mark": contract.Mark,
    "Evidence": contract.Evidence,
    "Context": contract.Context,
    "Finding": contract.FindingView,
    "Landmark": contract.LandmarkView,
    "Measures": contract.Measures,
    "Section": contract.SectionView,
    "Signature": contract.Signature,
    "Review": contract.Review,
    "Rung": contract.Rung,
    "Details": contract.ExamDetails,
    "TimelineFacts": contract.Timeline,
    "EventLine": contract.EventView,
    "Deed": contract.DeedView,
    "User": contract.UserView,
    "Export": contract.Export,
}
"""Types that the front end writes down, and what the server sends."""


def run(tool: str, package: str, *words: str) -> None:
    """Run a tool of Debian's packages, and show what it complains about."""
    path = shutil.which(tool)
    if path is None:
        miss(f"install {package} ({tool}) to check the reader's scripts")
    done = subprocess.run([path, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_fit() -> None:
    run("tsc", "node-typescript", "-p", str(WEB / "jsconfig.json"))


def test_pure_functions() -> None:
    run("node", "nodejs", "--test", str(Path(__file__).parent / "web"))


def fields_of(name: str) -> set[str]:
    """Names of the fields of a type in api.js."""
    text = (WEB / "js" / "api.js").read_text()
    found = re.search(rf"@typedef \{{(\{{[^@]*?\}})\}} {name}\b", text)
    assert found, name
    flat = found.group(1)[1:-1]
    while "{" in flat:
        flat = re.sub(r"\{[^{}]*\}", "object", flat)
    return set(re.findall(r"(\w+)\??:", flat))


@pytest.mark.parametrize("name", MODELS)
def test_the_pages_expect_what_the_server_sends(name: str) -> None:
    assert fields_of(name) <= set(MODELS[name].model_fields)


def test_marks_are_those_of_the_report() -> None:
    text = (WEB / "js" / "labels.js").read_text()
    assert tuple(re.findall(r'"(M[^"]+)"', text)) == SHAPES


class Inline(HTMLParser):
    """Notes what the content security policy of the pages forbids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.outside: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        for name, value in attrs:
            if name == "style" or name.startswith("on"):
                self.found.append(f"{tag} {name}")
            if name in ("src", "href"):
                self.outside.append(value or "")

    def handle_data(self, data: str) -> None:
        if self._in in ("script", "style") and data.strip():
            self.found.append(f"inline {self._in}")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_have_nothing_inline_and_nothing_from_elsewhere(page: Path) -> None:
    seen = Inline(page.read_text())
    assert seen.found == []
    for address in seen.outside:
        name = address.removeprefix("/static/")
        assert name != address
        assert name == "theme.css" or (WEB / name).is_file(), address


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_neither_write_markup_nor_leave_the_machine(script: Path) -> None:
    text = script.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    for name in re.findall(r'from "\./([^"]+)"', text):
        assert (script.parent / name).is_file()


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_on_every_ground(side: int) -> None:
    for ink in ("ink", "soft", "accent"):
        for ground in ("ground", "sheet", "faint"):
            assert contrast(SHADES[ink][side], SHADES[ground][side]) >= 4.5, (ink, ground)
    assert contrast(SHADES["ink"][side], SHADES["warn-ground"][side]) >= 4.5


def test_the_theme_has_every_shade_and_label_for_light_and_dark() -> None:
    css = theme_css()
    for light, dark in (*SHADES.values(), *PALETTE, NEUTRAL):
        assert light in css
        assert css.count(dark) >= 2, "by the system, and by choice"
