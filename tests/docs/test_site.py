"""The documentation site: built offline, whole, and asking nobody else for anything.

`make docs` has built it already and says where: SITE. Otherwise it is built here, once a module.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browsing import browser
from markdown_it import MarkdownIt
from pages import DOCS, ROOT, all_markdown, name_of
from playwright.sync_api import Browser, Page, expect

import stateward
from docs_site import api, commands, http_api, navigation
from docs_site.build import BuildFailed, build, check_places
from docs_site.links import problems
from docs_site.pages import link_from, staged, with_links
from stateward import cli

__all__ = ["browser"]  # the fixture

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
AXE = ROOT / "tests" / "dashboard" / "axe.min.js.gz"
PATIENCE = 30_000.0  # milliseconds
expect.set_options(timeout=PATIENCE)
LOOKED_AT = (  # pictures, wide tables, long code, generated references
    "overview.html",
    "performance.html",
    "reference/commands.html",
    "reference/http.html",
    "reference/api/threads.html",
)
BRIGHTNESS = """getComputedStyle(document.body).backgroundColor
  .match(/[\\d.]+/g).slice(0, 3).map(Number).reduce((sum, each) => sum + each, 0) / 3"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("SITE")
    return Path(given) if given else build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served, by nothing but a file server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class Visit:
    """A tab that may go nowhere else, and what it asked for."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE)
        self.tab: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.address = address
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))

    def elsewhere(self) -> list[str]:
        return [
            url for url in self.requests if not url.startswith((self.address, "data:", "blob:"))
        ]

    def sideways(self) -> int:
        wider: int = self.tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        return wider


# --- the site ---------------------------------------------------------------------------


def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path) -> None:
    assert problems(site) == []
    assert len(list(site.rglob("*.html"))) > len(staged()) / 2


def test_every_page_is_there_as_html_and_as_markdown(site: Path) -> None:
    for name in staged().values():
        assert (site / name).is_file(), name
        if name.endswith(".md"):
            assert (site / name).with_suffix(".html").is_file(), name


def test_every_page_is_listed_for_models_with_a_sentence(site: Path) -> None:
    lines = (site / "llms.txt").read_text("utf-8").splitlines()
    listed = dict(re.findall(r"^- \[.+\]\((\S+)\): (.+)$", "\n".join(lines), re.MULTILINE))
    assert set(listed) == {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    groups = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    assert groups == ["Start", "Build", "Run", "Prove", "Reference", "Why"]


def test_a_page_is_built_as_hosts_of_markdown_show_it(site: Path) -> None:
    """Readers of Markdown differ on lists, fences and tables; both must show the same."""
    parts = re.compile(r"<(li|table|tr|h\d|pre|blockquote|strong|img)\b")
    plain = MarkdownIt("commonmark").enable("table")
    for page in sorted(site.rglob("*.md")):
        html = page.with_suffix(".html").read_text("utf-8")
        article = html[html.index("<article") : html.index("</article>")]
        shown, meant = (
            Counter(parts.findall(text))
            for text in (article, plain.render(page.read_text("utf-8")))
        )
        assert shown == meant, page.relative_to(site)


def test_pages_ask_nobody_else_and_fit_a_phone(browser: Browser, address: str) -> None:
    visit = Visit(browser, address, viewport=PHONE)
    for name in LOOKED_AT:
        visit.tab.goto(address + name)
        expect(visit.tab.locator("h1")).to_be_visible()
        assert visit.sideways() <= 0, name
    assert visit.elsewhere() == []
    assert visit.complaints == []
    visit.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_can_be_read_by_everybody(browser: Browser, address: str, scheme: Any) -> None:
    """Contrast, names and roles are as axe-core wants them."""
    visit = Visit(browser, address, viewport=DESK, color_scheme=scheme)
    visit.tab.goto(address + "reference/errors.html")
    visit.tab.evaluate(gzip.decompress(AXE.read_bytes()).decode())
    found = visit.tab.evaluate("axe.run().then((result) => result.violations)")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []
    visit.context.close()


def test_the_search_finds_a_page_and_the_site_is_dark_at_night(
    browser: Browser, address: str
) -> None:
    visit = Visit(browser, address, viewport=DESK, color_scheme="dark")
    visit.tab.goto(address + "index.html")
    assert visit.tab.evaluate(BRIGHTNESS) < 60
    visit.tab.get_by_role("button", name="Search").first.click()
    visit.tab.get_by_role("combobox", name="Search").fill("retry safely")
    visit.tab.get_by_role("option", name="Retry safely").first.click()
    expect(visit.tab.locator("h1")).to_contain_text("Retry safely")
    assert visit.elsewhere() == []
    visit.context.close()


# --- what it is made of -----------------------------------------------------------------


def test_a_link_to_nowhere_and_a_foreign_script_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="#top">x</a><a href="#no">x</a><a href="gone.html">x</a>'
        '<a href="https://example.com/">x</a><script src="https://example.com/x.js"></script>'
    )
    assert problems(tmp_path) == [
        "index.html fetches https://example.com/x.js",
        "index.html links to #no: no such place in it",
        "index.html links to gone.html: no such page",
    ]


def test_the_index_names_the_groups_of_the_navigation() -> None:
    heads = re.findall(r"^## (.+)$", (DOCS / "index.md").read_text("utf-8"), re.MULTILINE)
    assert heads == ["Start", "Build", "Run", "Prove", "Reference", "Why"]


def test_links_lead_into_the_site_and_to_the_repository_for_the_rest() -> None:
    assert link_from("docs/how-to/cache.md", "../../README.md#quickstart") == (
        "../overview.md#quickstart"
    )
    home = "https://github.com/stateward/stateward"
    assert link_from("README.md", f"{home}/blob/main/docs/tutorial.md") == "tutorial.md"
    assert link_from("docs/index.md", "decisions/") == "decisions/index.md"
    assert (
        link_from("docs/index.md", "../deploy/serve.toml") == f"{home}/blob/main/deploy/serve.toml"
    )
    assert with_links("```\n[x](../y)\n```\n", "docs/index.md") == "```\n[x](../y)\n```\n"


def test_no_two_pages_have_the_same_title() -> None:
    titles = [re.search(r"^# (.+)$", page.read_text("utf-8"), re.M) for page in all_markdown()]
    names = [title[1] for title in titles if title is not None]
    assert sorted({name for name in names if names.count(name) > 1}) == ["Stateward"], (
        f"of {[name_of(page) for page in all_markdown()]}"
    )


def test_a_page_without_a_place_and_a_place_without_a_page_are_refused() -> None:
    check_places({"a.md", "b.md"}, ["a.md", "b.md"])
    for placed, said in (
        (["a.md"], "has no: b.md"),
        (["a.md", "b.md", "c.md"], "has no page for: c.md"),
        (["a.md", "b.md", "a.md"], "has twice: a.md"),
    ):
        with pytest.raises(BuildFailed, match=said):
            check_places({"a.md", "b.md"}, placed)


def test_a_folder_in_the_navigation_is_what_is_left_of_it() -> None:
    nav = [{"Why": ["why/b.md", "why/*.md"]}, "index.md"]
    pages = ["why/a.md", "why/b.md", "why/c.md", "index.md"]
    assert navigation.expanded(nav, pages) == [
        {"Why": ["why/b.md", "why/a.md", "why/c.md"]},
        "index.md",
    ]


def test_every_public_name_has_a_section_of_the_api() -> None:
    text = "\n".join(api.pages().values())
    names = re.findall(r"^## `(\w+)`$", text, re.MULTILINE)
    assert sorted(names) == sorted(stateward.__all__)
    assert "### `Thread.append`" in text
    assert "self" not in re.findall(r"\w+", "".join(re.findall(r"```python\n(.*?)```", text, re.S)))


def test_every_option_of_every_command_is_in_its_section() -> None:
    sections = dict(
        re.findall(r"^## `stateward ([a-z ]+)`\n(.*?)(?=^## |\Z)", commands.page(), re.M | re.S)
    )
    assert list(sections) == list(cli.COMMANDS)
    for name, section in sections.items():
        for action in cli.command_parser(name)._actions:
            hidden = action.help == argparse.SUPPRESS or "--help" in action.option_strings
            for option in action.option_strings:
                assert hidden or f"`{option}" in section, f"stateward {name} {option}"


def test_every_route_and_type_has_a_section_of_the_http_reference() -> None:
    document = DOCS / "reference" / "openapi.json"
    text = http_api.page(document)
    for route in re.findall(
        r"^\| `([A-Z]+ /v1/\S+)`", (DOCS / "reference/rest.md").read_text(), re.M
    ):
        assert f"\n### `{route}`\n" in text
    assert "\n### `Problem`\n" in text
