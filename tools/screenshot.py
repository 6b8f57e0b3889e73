"""Take an image of a report for the README, in a real Chromium.

python tools/screenshot.py demo/exam/report.html docs/images/report.png [--finding 14] [--chromium /usr/bin/chromium]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main() -> None:
    """Open the page and save what the first screens show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("image", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--height", type=int, default=870, help="of the part of the page that is shown")
    parser.add_argument("--finding", type=int, help="show this finding instead of the top of the page")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": options.height})
        page.goto(options.report.absolute().as_uri())
        page.add_style_tag(content="#bar { position: static }")  # it would lie over a finding
        target = page.locator("#findings > li").nth(options.finding - 1) if options.finding else page
        target.screenshot(path=options.image)
        browser.close()


if __name__ == "__main__":
    main()
