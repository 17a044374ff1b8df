"""A page in a real Chromium, for tests of what Stateward writes as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from system_packages import find, is_required

DESK, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}


class Opened:
    """A page in a tab of its own, and what the browser had to say about it."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.tab: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(path.as_uri())

    def ask(self, code: str) -> Any:
        return self.tab.evaluate(code)

    def sideways(self) -> list[str]:
        """What sticks out to the right, other than inside of what may be scrolled."""
        found: list[str] = self.ask(
            """() => [...document.querySelectorAll("body *")]
              .filter((e) => !e.closest(".scroll, .hidden, .skip, svg.shape"))
              .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5)
              .map((e) => e.tagName + "." + e.getAttribute("class"))"""
        )
        width = self.ask("document.documentElement.scrollWidth - innerWidth")
        return [*found, f"the page is {width} px too wide"] if width > 0 else found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium; where there is none and none can be had, nothing is known."""
    path = find("chromium-headless-shell")
    if path is None:
        if is_required("chromium-headless-shell"):
            pytest.fail("no Chromium: the report was NOT looked at in a browser")
        pytest.skip("no Chromium")  # and the end of the run says so: tests/conftest.py
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


_CONTRAST = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((v) => {
      v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let worst = 99;
  for (const element of document.querySelectorAll("SELECTOR")) {
    let ground = element;
    while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") {
      ground = ground.parentElement;
    }
    const colours = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor];
    const [high, low] = colours.map(light).sort((x, y) => y - x);
    worst = Math.min(worst, (high + 0.05) / (low + 0.05));
  }
  return worst;
}"""


def contrast(opened: Opened, selector: str) -> float:
    """The worst contrast of a text to the ground behind it, as WCAG counts it."""
    ratio: float = opened.ask(_CONTRAST.replace("SELECTOR", selector))
    return ratio
