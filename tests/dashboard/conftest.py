"""One browser, one service and one store for all tests of the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import browser
from playwright.sync_api import Browser, Locator, Page, expect
from servers.service import RunningService, running_service
from service.conftest import Served

from dashboard.filled import filled

__all__ = ["browser"]  # the fixture

DESK, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 780}
PATIENCE = 30_000.0  # milliseconds
expect.set_options(timeout=PATIENCE)
WATCH = """
  window.harm = [];
  window.harmed = (what) => { window.harm.push(String(what)); };
  for (const name of ["alert", "confirm", "prompt", "open"]) window[name] = () => harmed(name);
  addEventListener("securitypolicyviolation", (e) => harm.push(e.violatedDirective));
"""


class Dashboard:
    """A tab with the dashboard in it, and what the browser had to say about it."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": DESK, **options})
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(WATCH)
        self.tab: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("console", lambda message: self._heard(message.text))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.clicks = 0

    def _heard(self, text: str) -> None:
        if not text.startswith("Failed to load resource"):  # a 404 that the page deals with
            self.errors.append(text)

    def enter(self, key: str, page: str = "now") -> None:
        """As `stateward ui` opens it."""
        self.tab.goto(f"{self.url}/ui/#key={key}")
        self.go(page)

    def go(self, page: str) -> None:
        """To a permalink."""
        self.tab.evaluate("(hash) => { location.hash = hash; }", f"#/{page}")
        self.settled()

    def settled(self) -> None:
        """All that the page needs was read."""
        expect(self.tab.locator("main h1")).to_be_visible()
        expect(self.tab.locator("[aria-busy]")).to_have_count(0)

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1
        self.settled()

    def link(self, name: str) -> Locator:
        return self.tab.get_by_role("navigation").get_by_role("link", name=name, exact=True)

    def harm(self) -> list[str]:
        found: list[str] = self.tab.evaluate("window.harm")
        return found

    def sideways(self) -> int:
        wider: int = self.tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        return wider

    def close(self) -> None:
        self.context.close()
        assert self.errors == []


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with running_service() as running:
        yield running


@pytest.fixture(scope="module")
def served(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store with something of everything."""
    folder: Path = tmp_path_factory.mktemp("dashboard")
    one = Served(service, folder / "agents.db", "agents")
    filled(one.direct)
    yield one
    one.close()


@pytest.fixture
def look(browser: Browser, served: Served) -> Iterator[Callable[..., Dashboard]]:
    """Opens the dashboard in a tab of its own, at a page."""
    opened: list[Dashboard] = []

    def looked(page: str = "now", scope: str = "admin", **options: Any) -> Dashboard:
        one = Dashboard(browser, served.url, **options)
        opened.append(one)
        one.enter(served.key(scope, None), page)
        return one

    yield looked
    for each in opened:
        each.close()
