"""Take the images of the reader for the README: reads exams in a real Chromium as a person would.

python tools/screenshot_reader.py demo docs/images [--chromium /usr/bin/chromium]

`demo` holds the results of simulated exams, one of them called `exam` (see `make demo`). Reviews go to a folder that is
removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE = 120_000
NOTE = "White spots over two folds, no bleeding."
INDICATION = "Iron-deficiency anaemia; gastroscopy and colonoscopy without a source."


def start(results: Path, database: Path) -> tuple[subprocess.Popen[str], str]:
    """Start a server for one person called anna."""
    words = [sys.executable, "-m", "dice_ce.cli", "read", str(results), "--no-browser", "--json", "--port", "0"]
    environment = {**os.environ, "LOGNAME": "anna"}
    process = subprocess.Popen(
        [*words, "--database", str(database)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("}"):
            break
    return process, str(json.loads("".join(lines))["address"])


def press(page: Any, *keys: str) -> None:
    """Press keys, and wait until all is saved."""
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_function("() => document.querySelector('.saved')?.dataset.state === 'idle'")


def open_exam(page: Any, name: str) -> str:
    """Open an exam from the worklist and return its address."""
    page.locator("tbody a.exam").get_by_text(name, exact=True).click()
    page.wait_for_selector(".tabs")
    return str(page.url).split("#")[0]


def read_exam(page: Any, images: Path) -> None:
    """Decide on the findings of the exam, set landmarks, and show one finding with its evidence."""
    press(page, "j", "c", "j", "c", "t")
    page.keyboard.type(NOTE)
    press(page, "Control+Enter", "j", "x", "j", "c")
    press(page, "Home", "q", *["Shift+ArrowRight"] * 8, "w", "End", "r", *["Shift+ArrowLeft"] * 30, "e")
    press(page, "k", "k", "i")
    page.wait_for_function("() => /^(Where|No single)/.test(document.querySelector('.where').textContent)")
    page.wait_for_load_state("networkidle")
    page.mouse.move(5, 5)
    page.wait_for_selector(".toast", state="detached")
    page.screenshot(path=images / "reader-reading.png")


def sign(page: Any, address: str) -> None:
    """Confirm everything and sign."""
    for _ in range(page.locator("#panel-findings .card").count()):
        press(page, "j", "c")
    page.goto(f"{address}/report")
    page.wait_for_selector("textarea")
    page.keyboard.press("s")
    page.locator("dialog .primary").click()
    page.wait_for_function("() => document.querySelector('.top .pill').textContent.startsWith('Signed')")


def main() -> None:
    """Read, and take three images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        process, url = start(options.results, Path(folder) / "reviews.sqlite")
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="dark", reduced_motion="reduce")
        page.set_default_timeout(PATIENCE)
        page.goto(url)
        address = open_exam(page, "exam")
        read_exam(page, options.images)
        page.emulate_media(color_scheme="light")
        page.goto(f"{address}/report")
        page.fill("#section-indication", INDICATION)
        press(page, "Escape")
        page.frame_locator("iframe.paper").last.locator(f"text={INDICATION}").wait_for()
        page.wait_for_function("() => document.querySelectorAll('iframe.paper').length === 1")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=options.images / "reader-report.png")
        page.goto(url)
        page.wait_for_selector("tbody tr")
        others = [name for name in page.locator("tbody a.exam").all_inner_texts() if name != "exam"]
        if others:
            sign(page, open_exam(page, others[0]))
        page.goto(url)
        page.set_viewport_size({"width": 1440, "height": 540})
        page.wait_for_selector("tbody tr")
        page.screenshot(path=options.images / "reader-worklist.png")
        browser.close()
        process.send_signal(signal.SIGINT)
        process.communicate()


if __name__ == "__main__":
    main()
