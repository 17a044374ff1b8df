"""Check a built site: links lead somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urlsplit

FETCHED = {  # attributes that a browser follows by itself
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
}


class Page(HTMLParser):
    """What a page links to, what it fetches, and the places that may be linked to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.places: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.places.add(value)
            elif (tag, name) in FETCHED:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def problems(site: Path) -> list[str]:
    """What is wrong, one line each."""
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    # The page for unknown addresses may be shown at any of them: its links are absolute.
    names = sorted(name for name in files if name.endswith(".html") and name != "404.html")
    pages = {name: Page((site / name).read_text("utf-8")) for name in names}
    wrong = []
    for name, page in pages.items():
        wrong += [f"{name} fetches {target}" for target in page.fetched if urlsplit(target).netloc]
        for target in dict.fromkeys([*page.links, *page.fetched]):
            why = _why_not(name, target, files, pages)
            if why:
                wrong.append(f"{name} links to {target}: {why}")
    return wrong


def _why_not(name: str, target: str, files: set[str], pages: dict[str, Page]) -> str | None:
    """Why a link leads nowhere, or None if it leads somewhere."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    linked = normpath(join(dirname(name), unquote(parts.path))) if parts.path else name
    if linked not in files:
        linked = normpath(join(linked, "index.html"))  # what a server shows of a folder
    if linked not in files:
        return "no such page"
    place = unquote(parts.fragment)
    if place and linked in pages and place not in pages[linked].places:
        return "no such place in it"
    return None
