"""A real Chromium in front of a real server, and how to look at what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.peers import CHROMIUM, miss

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 300_000
"""Milliseconds that a page may take, however busy the machine is."""
READ_FRAME = """() => [...document.querySelectorAll('.pane canvas')].map((canvas) => {
  if (!canvas.width || canvas.classList.contains('late')) return -1;
  const side = Math.min(canvas.width, canvas.height);
  const [left, top] = [(canvas.width - side) / 2, (canvas.height - side) / 2];
  const context = canvas.getContext('2d');
  let number = 0;
  for (let k = 0; k < 16; k += 1) {
    const x = left + ((k % 4) + 0.5) * side / 4, y = top + (Math.floor(k / 4) + 0.5) * side / 4;
    if (context.getImageData(x, y, 1, 1).data[0] > 128) number += 2 ** k;
  }
  return number;
})"""
"""The ordinals that the pixels on screen show; see `tests.material.numbered`."""


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Start the browser, or skip with the reason."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        miss("pip install playwright to test the reader's pages")
    if not CHROMIUM.is_file():
        miss(f"install chromium ({CHROMIUM}) to test the reader's pages")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield chromium
        chromium.close()


class Desk:
    """One reader at a browser of their own. Whatever the page complains about is noted."""

    def __init__(self, chromium: Any, *, width: int = 1440, height: int = 900, **settings: Any) -> None:
        self.context = chromium.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", **settings
        )
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda message: self._note(message))

    def _note(self, message: Any) -> None:
        ours = ("Failed to load resource", "Canvas2D: Multiple readback")  # a killed server, and our looking at pixels
        if message.type in ("error", "warning") and not message.text.startswith(ours):
            self.troubles.append(message.text)

    def close(self) -> None:
        """Leave; a page that complained fails the test."""
        self.context.close()
        assert not self.troubles, self.troubles

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def answer(self, key: str) -> None:
        """Press the key that answers a question, and wait until the page listens to other keys again."""
        self.page.keyboard.press(key)
        self.until("() => !document.querySelector('dialog.ask')")

    def until(self, condition: str, argument: object = None) -> None:
        """Wait until a condition in the page holds."""
        self.page.wait_for_function(condition, arg=argument, timeout=PATIENCE)

    def until_frame(self, *ordinals: int) -> None:
        """Wait until exactly these frames are on screen, by their pixels."""
        self.until(f"(wanted) => JSON.stringify(({READ_FRAME})()) === JSON.stringify(wanted)", list(ordinals))

    def until_saved(self) -> None:
        """Wait until the server has acknowledged everything."""
        self.until("() => document.querySelector('.saved')?.dataset.state === 'idle'")

    def until_text(self, selector: str, text: str) -> None:
        """Wait until some element says this."""
        self.until(
            "([name, text]) => [...document.querySelectorAll(name)].some((one) => one.textContent.includes(text))",
            [selector, text],
        )

    def log_in(self, base: str, user: str, password: str) -> None:
        """Come in with name and password, as far as the worklist."""
        self.page.goto(base)
        self.page.fill("#user", user)
        self.page.fill("#password", password)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("tbody", state="attached")

    def open_exam(self, name: str) -> None:
        """Go from the worklist to the exam."""
        self.page.locator("tbody a.exam", has_text=name).click()
        self.page.wait_for_selector(".tabs")
        self.until_frame(0)
