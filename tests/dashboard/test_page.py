"""The page itself: who may see it, what it is made of, how it is used."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from servers.service import RunningService
from service.conftest import Served

import typescript
from dashboard.conftest import DESK, PHONE, Dashboard
from stateward import sync
from stateward.server.dashboard import assets

Look = Callable[..., Dashboard]

FOLDER = Path(__file__).parent
UI = typescript.ROOT / "src" / "stateward" / "server" / "ui"
AXE = FOLDER / "axe.min.js.gz"
AXE_RUN = (
    "(only) => axe.run(document, {resultTypes: ['violations'], ...only}).then((r) => r.violations)"
)
# Names and roles are the same in the dark.
RULES: dict[str, Any] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
MOST_BYTES = 150 * 1024
PAGES = (
    *("now", "find?q=u-42", "threads", "threads/s-order?at=3", "users", "users/u-42"),
    *("users/u-42/preferences", "work/waiting", "work/workflows", "work/workflow/refund-991"),
    *("work/tasks", "work/effects", "work/schedules", "leases", "storage", "operations", "keys"),
    *("signals", "audits"),
)


def test_the_files_are_small_and_kept_for_good(served: Served) -> None:
    page, digest, files = assets()
    assert sum(map(len, files.values())) <= MOST_BYTES
    told = served.ask("GET", "/ui/")
    assert told.status == 200
    assert told.headers["etag"] == f'"{digest}"'
    assert served.ask("GET", "/ui/", if_none_match=told.headers["etag"]).status == 304
    for name in files:
        file = served.ask("GET", f"/ui/{digest}/{name}")
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert name.encode() in page or not name.endswith((".js", ".css"))
    assert served.ask("GET", f"/ui/{'0' * 16}/app.js").headers["cache-control"] == "no-store"
    redirect = served.ask("GET", "/ui")
    assert (redirect.status, redirect.headers["location"]) == (307, "ui/")
    for path in ("/ui/x", f"/ui/{digest}/none.js", f"/ui/{digest}/../app.js", "/ui//"):
        assert served.ask("GET", path).status == 404, path
    assert served.ask("POST", "/ui/", b"").status == 405


def test_the_policy_lets_nothing_run_but_the_pages_own_files(served: Served) -> None:
    for path in ("/ui/", f"/ui/{assets().digest}/app.js"):
        headers = served.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_one_signs_in_with_a_key_that_stays_in_the_tab(browser: Browser, served: Served) -> None:
    door = Dashboard(browser, served.url)
    door.tab.goto(f"{served.url}/ui/#/leases")
    door.tab.get_by_label("Key").fill("sw.no.key")
    door.tab.get_by_role("button", name="Sign in").click()
    expect(door.tab.get_by_role("alert")).to_contain_text("stateward key create")
    key = served.key("read")
    door.tab.get_by_label("Key").fill(key)
    door.tab.get_by_role("button", name="Sign in").click()
    expect(door.tab.get_by_role("heading", name="Leases", exact=True)).to_be_visible()
    assert not any(key in url for url in door.requests)
    assert door.tab.evaluate("localStorage.length + document.cookie.length") == 0
    door.tab.get_by_role("button", name="Sign out").click()
    expect(door.tab.get_by_role("button", name="Sign in")).to_be_visible()
    assert door.tab.evaluate("sessionStorage.length") == 0
    door.close()


def test_the_key_of_the_address_is_taken_out_of_it(look: Look) -> None:
    now = look()
    assert "key" not in now.tab.url
    now.tab.go_back()
    assert "sw." not in now.tab.url


def test_what_a_key_may_not_is_said_and_not_hidden(look: Look) -> None:
    reader = look("keys", scope="read")
    expect(reader.tab.get_by_role("alert")).to_contain_text("keys.read needs 'admin'")


def test_what_a_key_is_not_enough_for_says_so_before_one_tries(look: Look) -> None:
    reader = look("threads/s-order", scope="read")
    expect(reader.tab.get_by_text("Key: read")).to_be_visible()
    delete = reader.tab.get_by_role("button", name="Delete")
    expect(delete).to_be_disabled()
    expect(delete).to_have_attribute(
        "title", "It needs a key with the scope write. Yours has read."
    )
    expect(reader.link("Now")).to_have_attribute("title", re.compile("scope operate"))
    expect(reader.link("Threads")).not_to_have_attribute("title", re.compile("."))
    reader.link("Now").click()
    expect(reader.tab.get_by_role("alert").first).to_contain_text("health.read needs 'operate'")


def test_a_key_that_may_not_see_the_first_page_begins_with_threads(
    browser: Browser, served: Served
) -> None:
    theirs = Dashboard(browser, served.url)
    theirs.tab.goto(f"{served.url}/ui/#key={served.key('read', user='u-42')}")
    expect(theirs.tab.get_by_role("heading", name="Threads", exact=True)).to_be_visible()
    expect(theirs.tab.get_by_text("Key: read, for u-42")).to_be_visible()
    theirs.settled()
    theirs.close()


def test_a_key_of_several_namespaces_looks_at_the_first(browser: Browser, served: Served) -> None:
    door = Dashboard(browser, served.url)
    door.tab.goto(f"{served.url}/ui/#key={served.key('operate', ('shop', 'desk'))}")
    expect(door.tab.get_by_role("combobox", name="Namespace")).to_have_value("desk")
    expect(door.tab.get_by_text("No heartbeats")).to_be_visible()
    door.close()


def test_on_this_machine_alone_no_key_is_needed(
    browser: Browser, service: RunningService, tmp_path: Path
) -> None:
    local = Served(service, tmp_path / "local.db", "local", insecure_local=True)
    with sync.open(local.direct, heartbeat=None) as store:
        store.thread("s-1").append({"role": "user", "content": "hello"})
    here = Dashboard(browser, local.url)
    here.tab.goto(f"{local.url}/ui/#/threads/s-1")
    here.tab.get_by_role("button", name="Archive").click()
    here.tab.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(here.tab.get_by_role("button", name="Unarchive")).to_be_visible()
    here.close()
    local.close()


def test_no_line_of_the_sources_is_longer_than_120_characters() -> None:
    sources = [path for path in UI.iterdir() if path.suffix in (".js", ".css", ".html")]
    assert len(sources) > 20
    for path in sources:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            assert len(line) <= 120, f"{path.name}:{number}"


def test_the_types_of_the_pages_agree() -> None:
    """As its JSDoc says them; `make verify` has installed the compiler."""
    compiler = typescript.tool("typescript", "bin/tsc")
    typescript.run(typescript.node(), compiler, "-p", FOLDER, cwd=FOLDER)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out_by_how_it_looks(look: Look, scheme: str) -> None:
    """Also on a phone: nothing sticks out. Contrast, names and roles are as axe-core wants them."""
    now = look(color_scheme=scheme)
    axe = gzip.decompress(AXE.read_bytes()).decode()
    now.tab.evaluate(axe)
    found: dict[str, Any] = {}
    for page in PAGES:
        now.go(page)
        for violation in now.tab.evaluate(AXE_RUN, RULES[scheme]):
            if violation["impact"] in ("serious", "critical"):
                where = [node["html"][:120] for node in violation["nodes"][:3]]
                found[f"{page}: {violation['id']}"] = where
    assert found == {}
    now.tab.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    for page in PAGES:
        now.go(page)
        assert now.sideways() <= 0, page


def test_the_keyboard_alone_is_enough(look: Look) -> None:
    now = look()
    press = now.tab.keyboard.press
    press("g")
    press("t")
    # Exactly: the first page has a heading that speaks of threads, too.
    expect(now.tab.get_by_role("heading", name="Threads", exact=True)).to_be_visible()
    now.settled()
    press("j")
    press("Enter")
    expect(now.tab.get_by_role("article").first).to_be_visible()
    press("?")
    expect(now.tab.get_by_role("dialog", name="Keyboard")).to_be_visible()
    press("Escape")
    expect(now.tab.get_by_role("dialog", name="Keyboard")).to_have_count(0)
    press("g")
    press("l")
    expect(now.tab.get_by_role("heading", name="Leases", exact=True)).to_be_visible()
    now.settled()
    now.tab.get_by_role("button", name="Break").first.focus()
    press("Enter")
    dialog = now.tab.get_by_role("dialog")
    expect(dialog).to_be_visible()
    press("Escape")
    expect(dialog).to_be_hidden()
    expect(now.tab.get_by_role("button", name="Break").first).to_be_focused()
    press("/")
    expect(now.tab.get_by_label("Find an id")).to_be_focused()


def test_light_and_dark_can_be_chosen(look: Look) -> None:
    now = look(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = now.tab.evaluate(ground)
    switch = now.tab.get_by_role("button", name="Theme")
    switch.click()
    assert now.tab.evaluate(ground) == light
    switch.click()
    dark = now.tab.evaluate(ground)
    assert dark != light
    now.tab.reload()
    now.settled()
    assert now.tab.evaluate(ground) == dark


def test_a_service_that_is_away_is_said_to_be(look: Look) -> None:
    now = look()
    now.context.set_offline(True)
    now.tab.keyboard.press("r")
    expect(now.tab.get_by_role("alert").first).to_contain_text("does not answer")
    now.context.set_offline(False)
    now.tab.get_by_role("button", name="Ask again").first.click()
    expect(now.tab.get_by_role("alert")).to_have_count(0)
    now.errors.clear()  # the browser's own, of requests that failed


def test_every_page_has_a_line_to_copy_and_a_title(look: Look) -> None:
    now = look(viewport=DESK)
    for page in PAGES:
        now.go(page)
        assert now.tab.locator(".copy code").first.inner_text().startswith("curl "), page
        assert now.tab.title().endswith("· Stateward")
        assert "sw." not in now.tab.locator(".copy").inner_text()
