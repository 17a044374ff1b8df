"""The same questions, of a store with 100,000 conversations and 1,000,000 messages."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from servers.service import RunningService
from service.conftest import Served

from dashboard.filled import filled
from dashboard.test_questions import *  # noqa: F403  the tests, for the store below
from dashboard.test_questions import Look

pytestmark = pytest.mark.soak

THREADS, MESSAGES, SEED = 100_000, 1_000_000, 7
DAY = Path(__file__).parent.parent.parent / "tools" / "shop_day.py"


@pytest.fixture(scope="module")
def served(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The store of the other tests, with many more conversations in it."""
    file = tmp_path_factory.mktemp("large") / "agents.db"
    runpy.run_path(str(DAY))["fill"](f"sqlite:///{file}", THREADS, MESSAGES, SEED)
    one = Served(service, file, "large")
    filled(one.direct)
    yield one
    one.close()


def test_does_it_fill_up(look: Look) -> None:
    now = look()
    now.click(now.link("Storage"))
    expect(now.tab.get_by_role("row", name=f"thread {THREADS + 4:,}")).to_be_visible()
    expect(now.tab.get_by_text("in all")).to_be_visible()


def test_a_page_reads_one_page_of_a_list(look: Look) -> None:
    """Whatever there is: no list is asked for twice, and none is asked to be long."""
    now = look()
    for page in ("threads", "users", "find?q=c-0", "work/workflows", "work/tasks", "storage"):
        now.requests.clear()
        with now.tab.expect_event("requestfinished"):
            now.go(page)
        now.settled()
        asked = [url.partition("/v1/")[2] for url in now.requests]
        assert len(set(asked)) == len(asked), (page, asked)
        assert not any("after=" in url for url in asked), (page, asked)
