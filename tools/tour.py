"""The dashboard of a made-up day: pictures of it for the docs, and how fast its pages are.

    python tools/tour.py                 take the pictures of docs/how-to/look-at-a-store.md
    python tools/tour.py --all FOLDER    every page, wide and narrow, light and dark, to look at
    python tools/tour.py --measure       how long each page takes to its first content
    python tools/tour.py --measure --threads 100000 --messages 1000000

It needs Chromium, and playwright from requirements-dev.txt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, expect, sync_playwright

from system_packages import find

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "images"
PATIENCE = 60_000.0  # milliseconds
DESK, PHONE = (1280, 800), (390, 780)
PAGES = (
    *("now", "find?q=u-2", "threads", "threads/s-forgot", "threads/s-012", "threads/s-002?at=4"),
    *("users", "users/u-2", "users/u-2/preferences", "work/waiting", "work/workflows"),
    *("work/workflow/refund-2", "work/tasks", "work/effects", "work/schedules", "leases"),
    *("signals?since=86400", "storage", "audits", "operations", "keys", "nowhere"),
)
# When there is something to read, and when everything is there: both in a frame that was drawn.
WATCH = """
  window.first = window.whole = null;
  const look = () => {
    const content = document.querySelector("main .content");
    const busy = document.querySelectorAll("[aria-busy]").length;
    const read = content && (!busy || content.querySelector(".panel, .rows, .tile b, .message"));
    if (read) first ??= performance.now();
    if (read && !busy) whole ??= performance.now();
    if (whole === null) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
"""
SEEN = """() => new Promise((seen) => {
  const both = () => [window.first, window.whole];
  const look = () => window.whole ? seen(both()) : requestAnimationFrame(look);
  look();
})"""


class Picture(NamedTuple):
    """What is shown of which page, and how."""

    name: str
    page: str
    size: tuple[int, int] = DESK
    dark: bool = False


TOUR = (
    Picture("dashboard-now", "now"),
    Picture("dashboard-thread", "threads/s-002?at=4", (1280, 900)),
    Picture("dashboard-document", "users/u-2/preferences", (1280, 700)),
    Picture("dashboard-work", "work/waiting", (1280, 520)),
    Picture("dashboard-signals", "signals?since=86400", (1280, 900), dark=True),
    Picture("dashboard-phone", "threads/s-forgot", PHONE),
)


@contextmanager
def served(threads: int, messages: int) -> Iterator[str]:
    """The address of the dashboard of a store with a day in it, and so many conversations more."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "agents.db"
        made = [sys.executable, str(ROOT / "tools" / "shop_day.py"), str(file)]
        subprocess.run([*made, f"--threads={threads}", f"--messages={messages}"], check=True)
        command = [sys.executable, "-m", "stateward", "ui", f"sqlite:///{file}"]
        with subprocess.Popen([*command, "--no-open", "--json"], stdout=subprocess.PIPE) as serving:
            assert serving.stdout is not None
            try:
                yield json.loads(serving.stdout.readline())["url"]
            finally:
                serving.terminate()


def opened(browser: Browser, url: str, size: tuple[int, int], *, dark: bool) -> Page:
    """A tab that has the key."""
    width, height = size
    tab = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        locale="en-GB",
        timezone_id="UTC",
    )
    tab.set_default_timeout(PATIENCE)
    tab.goto(url)
    settled(tab)
    return tab


def settled(tab: Page) -> None:
    expect(tab.locator("main h1")).to_be_visible(timeout=PATIENCE)
    expect(tab.locator("[aria-busy]")).to_have_count(0, timeout=PATIENCE)
    expect(tab.locator(".tile b", has_text="…")).to_have_count(0, timeout=PATIENCE)


def turn(tab: Page, page: str) -> None:
    tab.evaluate("(hash) => { location.hash = hash; }", f"#/{page}")
    settled(tab)


def take_tour(browser: Browser, url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for picture in TOUR:
        tab = opened(browser, url, picture.size, dark=picture.dark)
        turn(tab, picture.page)
        path = folder / f"{picture.name}.png"
        tab.screenshot(path=path)
        tab.close()
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def take_all(browser: Browser, url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for size, dark in ((DESK, False), (DESK, True), (PHONE, False), (PHONE, True)):
        tab = opened(browser, url, size, dark=dark)
        for number, page in enumerate(PAGES):
            turn(tab, page)
            name = "".join(each if each.isalnum() else "-" for each in page)
            look = f"{size[0]}-{'dark' if dark else 'light'}"
            tab.screenshot(path=folder / f"{look}-{number:02}-{name}.png", full_page=True)
        tab.close()


def measure(browser: Browser, url: str, times: int) -> None:
    """From the start of the navigation: the medians and the worst, in milliseconds."""
    tab = opened(browser, url, DESK, dark=False)
    tab.add_init_script(WATCH)
    here = url.partition("#")[0]
    firsts: list[float] = []
    print("| page | first content | all of it |\n| --- | ---: | ---: |")
    for page in PAGES[:-1]:
        found = []
        for _ in range(times):
            tab.goto("about:blank")
            tab.goto(f"{here}#/{page}")
            found.append(tab.evaluate(SEEN))
        first, whole = (statistics.median(column) for column in zip(*found, strict=True))
        firsts += (each[0] for each in found)
        print(f"| `{page}` | {first:.0f} ms | {whole:.0f} ms |", flush=True)
    print(f"median {statistics.median(firsts):.0f} ms, worst {max(firsts):.0f} ms")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="pictures of every page")
    parser.add_argument("--measure", action="store_true", help="how fast the pages are")
    parser.add_argument("--times", type=int, default=5, help="that each page is measured")
    parser.add_argument("--threads", type=int, default=0, help="so many conversations more")
    parser.add_argument("--messages", type=int, default=0, help="with so many messages in all")
    options = parser.parse_args(argv)
    path = find("chromium-headless-shell")
    if path is None:
        print("No Chromium was found: apt-get install chromium-headless-shell", file=sys.stderr)
        return 1
    with served(options.threads, options.messages) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        if options.measure:
            measure(browser, url, options.times)
        elif options.all:
            take_all(browser, url, options.all)
        else:
            take_tour(browser, url, PICTURES)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
