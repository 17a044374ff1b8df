"""What an operator asks at 3 a.m., each answered within three clicks of the first page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from playwright.sync_api import expect
from service.conftest import Served

from dashboard.conftest import Dashboard
from stateward import sync

Look = Callable[..., Dashboard]


def test_is_it_us_or_the_store(look: Look) -> None:
    now = look()
    expect(now.tab.get_by_role("status").first).to_contain_text(
        "The store answers, but not everything is well"
    )
    expect(now.tab.get_by_role("row", name="agents-1")).to_contain_text("alive")
    expect(now.tab.get_by_role("link", name="Workflows failed")).to_contain_text("3")
    assert now.clicks == 0


def test_where_is_this_users_conversation(look: Look) -> None:
    now = look()
    now.tab.keyboard.press("/")
    now.tab.keyboard.type("u-42")
    now.tab.keyboard.press("Enter")
    now.click(now.tab.get_by_role("link", name="Where is order o-991?"))
    expect(now.tab.get_by_role("article", name="user, message 2")).to_contain_text("o-991")
    assert now.clicks <= 3


def test_a_transcript_reads_as_a_conversation(look: Look) -> None:
    now = look("threads/s-order")
    said = now.tab.get_by_role("article")
    expect(said).to_have_count(8)  # of 9: a tool's result stands with its call
    call = now.tab.get_by_role("article", name="assistant, message 3")
    call.locator("summary").click()
    expect(call).to_contain_text('"status": "sent"')
    long = now.tab.get_by_role("article", name="assistant, message 5")
    before = len(long.inner_text())
    long.get_by_role("button", name="more characters").click()
    assert len(long.inner_text()) > before + 1000
    expect(now.tab.get_by_role("status")).to_have_text("live")


def test_one_look_at_a_conversation_is_one_entry_of_the_log(look: Look, served: Served) -> None:
    """Whatever the page asks for: messages, what there is beside them, news, what it knew."""

    def read() -> int:
        with sync.open(served.direct, heartbeat=None) as store:
            target = "thread/s-order"
            return sum(it.target == target for it in store.operations.entries())

    before = read()
    now = look("threads/s-order?at=3")
    expect(now.tab.get_by_role("status")).to_have_text("live")
    now.settled()
    assert read() == before + 1
    now.go("threads")
    now.go("threads/s-order")
    expect(now.tab.get_by_role("status")).to_have_text("live")
    assert read() == before + 2, "to come back is to look again"


def test_a_conversation_goes_on_while_one_looks(look: Look, served: Served) -> None:
    now = look("threads/s-1")
    with sync.open(served.direct, heartbeat=None) as store:
        store.thread("s-1", user="u-42").append({"role": "user", "content": "Are you there?"})
    expect(now.tab.get_by_text("Are you there?")).to_be_visible()


def test_what_did_the_agent_see_when_it_answered_this(look: Look) -> None:
    now = look()
    now.click(now.tab.get_by_role("link", name="Where is order o-991?"))
    now.click(now.tab.get_by_role("button", name="saw 2 of 2 messages, preferences v2"))
    knew = now.tab.get_by_role("complementary", name="What it knew")
    expect(knew).to_contain_text("messages 2 → 9")
    knew.get_by_text("document, version 2").click()
    expect(knew).to_contain_text('"language": "de"')
    assert now.clicks <= 3


def test_who_changed_this_preference_from_what(look: Look, served: Served) -> None:
    now = look()
    now.click(now.tab.get_by_role("link", name="u-42").first)
    now.click(now.tab.get_by_role("link", name="preferences"))
    expect(now.tab.locator(".diff .gone")).to_contain_text('"language": "en"')
    expect(now.tab.locator(".diff .came")).to_contain_text('"language": "de"')
    assert now.clicks <= 3
    now.tab.get_by_role("button", name="Make it this again").click()
    now.tab.get_by_role("dialog").get_by_role("button", name="Make it this again").click()
    expect(now.tab.get_by_text("Version 3", exact=True)).to_be_visible()
    with sync.open(served.direct, heartbeat=None) as store:
        assert store.user("u-42").get("preferences").value["language"] == "en"


def test_which_work_hangs_and_for_whom_it_waits(look: Look, served: Served) -> None:
    now = look()
    now.click(now.tab.get_by_role("link", name="Questions open"))
    row = now.tab.get_by_role("row", name="refund-991")
    expect(row).to_contain_text("support")
    row.get_by_role("button", name="Approve").click()
    now.tab.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(now.tab.get_by_role("dialog")).to_contain_text("The next worker continues")
    with sync.open(served.direct, heartbeat=None) as store:
        assert list(store.waiting()) == []


def test_several_are_retried_after_their_number_was_typed(look: Look, served: Served) -> None:
    now = look()
    now.click(now.tab.get_by_role("link", name="Workflows failed"))
    now.tab.get_by_role("checkbox", name="Choose all").check()
    now.tab.get_by_role("button", name="Retry 3").click()
    dialog = now.tab.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Retry 3")).to_be_disabled()
    dialog.get_by_role("textbox").fill("3")
    dialog.get_by_role("button", name="Retry 3").click()
    expect(dialog).to_contain_text("3 done")
    with sync.open(served.direct, heartbeat=None) as store:
        assert not list(store.workflows(status="failed"))


def test_who_holds_the_lock_and_breaking_it_is_logged(look: Look) -> None:
    now = look()
    now.click(now.link("Leases"))
    row = now.tab.get_by_role("row", name="inventory")
    expect(row).to_contain_text("replica-b on host-inventory")
    row.get_by_role("button", name="Break").click()
    dialog = now.tab.get_by_role("dialog")
    assert dialog.evaluate("(it) => it.scrollWidth <= it.clientWidth"), "all of it can be read"
    dialog.get_by_role("textbox").fill("inventory")
    now.tab.get_by_role("dialog").get_by_role("button", name="Break").click()
    expect(row).to_have_count(0)
    now.click(now.link("Operations log"))
    expect(now.tab.get_by_role("row", name="lock break").first).to_contain_text("lock/inventory")


def test_does_it_fill_up(look: Look) -> None:
    now = look()
    now.click(now.link("Storage"))
    expect(now.tab.get_by_role("row", name="thread 4")).to_be_visible()
    expect(now.tab.get_by_text("in all")).to_be_visible()
    expect(now.tab.get_by_text(re.compile(r"^[345](\.\d)? MB a day$"))).to_be_visible()
    expect(now.tab.get_by_text("Full, at this pace")).to_be_visible()


def test_give_this_person_their_data_and_forget_them(look: Look, served: Served) -> None:
    with sync.open(served.direct, heartbeat=None) as store:
        store.thread("theirs", user="eve").append({"role": "user", "content": "mine alone"})
    now = look("users/eve")
    now.tab.get_by_role("button", name="Export").click()
    with now.tab.expect_download() as download:
        now.tab.get_by_role("dialog").get_by_role("button", name="Export").click()
    lines = download.value.path().read_text("utf-8").splitlines()
    assert any("mine alone" in line and json.loads(line) for line in lines)
    now.tab.get_by_role("dialog").get_by_role("button", name="Close").click()
    now.tab.get_by_role("button", name="Erase").click()
    dialog = now.tab.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Erase")).to_be_disabled()
    dialog.get_by_role("textbox").fill("eve")
    dialog.get_by_role("button", name="Erase").click()
    expect(dialog).to_contain_text("Keep this receipt")
    with sync.open(served.direct, heartbeat=None) as store:
        assert not store.thread("theirs", user="eve").load().exists


def test_were_turns_lost_and_whose(look: Look) -> None:
    now = look()
    now.click(now.link("Signals"))
    expect(now.tab.get_by_text("40 suppressed")).to_be_visible()
    now.click(now.tab.get_by_role("link", name="thread s-order").first)
    expect(now.tab.get_by_role("article").first).to_be_visible()
    assert now.clicks <= 3


def test_where_did_the_agent_forget(look: Look, served: Served) -> None:
    said = ("My order number is o-4711.", "Thank you.", "When does it come?", "Which order?")
    with sync.open(served.direct, heartbeat=None) as store:
        thread = store.thread("forgot")
        for question, text in zip(said[::2], said[1::2], strict=True):
            thread.append(
                {"role": "user", "content": question}, {"role": "assistant", "content": text}
            )
        thread.append({"role": "user", "content": "I already told you: o-4711!"})
        now = look("threads/forgot")
        expect(now.tab.get_by_text("Context break: the user has said it before")).to_be_visible()
        thread.delete()


def test_is_it_fit_for_production_and_what_changed(look: Look) -> None:
    now = look()
    now.click(now.link("Audit"))
    expect(now.tab.get_by_role("row", name="fail").first).to_be_visible()
    now.click(now.tab.get_by_role("row", name="fail").get_by_role("link").first)
    expect(now.tab.get_by_text("worse").first).to_be_visible()
    with now.tab.expect_download() as download:
        now.tab.get_by_role("button", name="Download the full report").click()
    assert download.value.path().read_text("utf-8").startswith("<!doctype html>")
    assert now.clicks <= 3
