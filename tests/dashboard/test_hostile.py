"""What is stored may be written by anybody: none of it is ever run, wherever it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser
from servers.service import RunningService
from service.conftest import Served

from dashboard.conftest import Dashboard
from dashboard.filled import filled

PAYLOADS = (
    "<script>harmed(1)</script>",
    "<img src=x onerror=harmed(2)>",
    '"><img src=x onerror=harmed(3)>',
    "'><svg onload=harmed(4)>",
    "<svg><script>harmed(5)</script></svg>",
    "javascript:harmed(6)",
    "<a href=javascript:harmed(7)>x</a>",
    "<iframe srcdoc='<script>parent.harmed(8)</script>'>",
    "<iframe src=javascript:harmed(9)>",
    "<body onload=harmed(10)>",
    "</title><script>harmed(11)</script>",
    "</textarea><script>harmed(12)</script>",
    "</style><script>harmed(13)</script>",
    "</script><script>harmed(14)</script>",
    "<details open ontoggle=harmed(15)>",
    "<input autofocus onfocus=harmed(16)>",
    "<video><source onerror=harmed(17)>",
    "<audio src=x onerror=harmed(18)>",
    "<object data=javascript:harmed(19)>",
    "<embed src=javascript:harmed(20)>",
    "<math><mtext></mtext><img src onerror=harmed(21)></math>",
    "<base href=https://elsewhere.example/>",
    "<link rel=stylesheet href=https://elsewhere.example/x.css>",
    "<meta http-equiv=refresh content='0;url=https://elsewhere.example/'>",
    "<form action=https://elsewhere.example><button>x</button></form>",
    "<img src=https://elsewhere.example/pixel>",
    "<style>@import url(https://elsewhere.example/x.css)</style>",
    "<div style=background:url(https://elsewhere.example/y)>",
    "{{constructor.constructor('harmed(29)')()}}",
    "${harmed(30)}",
    "`${harmed(31)}`",
    "<template shadowrootmode=open><script>harmed(32)</script></template>",
    "<x onclick=harmed(33)>",
    "&lt;script&gt;harmed(34)&lt;/script&gt;",
    "\\u003cscript\\u003eharmed(35)\\u003c/script\\u003e",
    "data:text/html,<script>harmed(36)</script>",
    '{"type":"p","props":{"dangerouslySetInnerHTML":{"__html":"<img src=x onerror=harmed(37)>"}}}',
    "![x](javascript:harmed(38))",
    "<!--><img src=x onerror=harmed(39)>-->",
    "\u202e<script>harmed(40)</script>\u202c",
)
LISTS = ("now", "threads", "users", "work/waiting", "work/workflows", "work/tasks", "work/effects")
MORE = ("leases", "storage", "operations", "keys", "signals", "audits")
# Elements that nothing on these pages is made of.
FOREIGN = (
    "main :is(script, img, iframe, object, embed, video, audio, base, link, meta, style, math)"
)


@pytest.fixture(scope="module")
def hostile(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store in which every name and every text means harm."""
    one = Served(service, tmp_path_factory.mktemp("hostile") / "agents.db", "hostile")
    for payload in PAYLOADS:
        filled(one.direct, lambda text, payload=payload: f"{text}{payload}", threads=1)
        one.key("read", ("default",), note=payload)
    yield one
    one.close()


def test_nothing_that_is_stored_is_run_or_asks_for_anything(
    browser: Browser, hostile: Served
) -> None:
    now = Dashboard(browser, hostile.url)
    now.enter(hostile.key("admin", None))
    seen = 0
    for page in (*LISTS, *MORE, *details()):
        now.go(page)
        found = now.tab.evaluate(
            """(foreign) => ({
              foreign: [...document.querySelectorAll(foreign)].map((e) => e.outerHTML),
              links: [...document.querySelectorAll("a")].map((a) => a.getAttribute("href")),
              handlers: [...document.querySelectorAll("main *")].filter((e) =>
                e.getAttributeNames().some((name) => name.startsWith("on"))).length,
              shown: document.body.innerText.includes("harmed("),
            })""",
            FOREIGN,
        )
        assert found["foreign"] == [], page
        assert found["handlers"] == 0, page
        assert all(href is None or href.startswith("#") for href in found["links"]), page
        seen += found["shown"]
    assert seen > len(PAYLOADS), "the payloads were looked at"
    assert now.harm() == []
    assert [url for url in now.requests if not url.startswith(hostile.url)] == []
    now.close()


def details() -> Iterator[str]:
    """Pages of one thing each, whose name means harm: every payload in one of each kind's."""
    for number, payload in enumerate(PAYLOADS):
        named = [
            f"threads/{quote('s-order' + payload, safe='')}?at=5",
            f"users/{quote('u-42' + payload, safe='')}",
            f"users/{quote('u-42' + payload, safe='')}/{quote('preferences' + payload, safe='')}",
            f"work/workflow/{quote('refund-991' + payload, safe='')}",
            f"find?q={quote('u-42' + payload, safe='')}",
        ]
        yield named[0]
        yield named[1 + number % 4]
