"""`stateward why`: an agent that forgot for different reasons, each named, as people run it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import DESK, PHONE, Opened, browser, contrast
from playwright.sync_api import Browser

from stateward import cli, sync
from stateward.context.compaction import Compaction
from stateward.sync.testing.faults import open_faulty

__all__ = ["browser"]  # the fixture

Message = dict[str, Any]

ASKED, TOLD = "What is the order number?", "B-7731"
IMPATIENT = sync.Policy(read_timeout=0.5, write_timeout=0.5, breaker_failures=1_000_000)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def agent(text: str) -> Message:
    return {"role": "assistant", "content": text}


def begin(store: sync.Store, id: str, owner: str | None = "u-1") -> sync.Thread:
    """A conversation in which the user has said which order they mean."""
    thread = store.thread(id, owner)
    thread.append(user("I want to return a lamp."), agent(ASKED), saw=thread.load())
    thread.append(user(TOLD), agent("Thank you."), saw=thread.load())
    return thread


def talk(thread: sync.Thread, turns: int) -> None:
    for n in range(turns):
        thread.append(user(f"It flickers, number {n}."), agent("I see."), saw=thread.load(last=4))


def forget(thread: sync.Thread, saw: Any) -> None:
    thread.append(user("So?"), agent("Could you give me the order number?"), saw=saw)


def older_than_the_window(url: str, folder: Path) -> None:
    with sync.open(url) as store:
        thread = begin(store, "window")
        talk(thread, 4)
        forget(thread, thread.load(last=4))


def summarised(url: str, folder: Path) -> None:
    with sync.open(url) as store:
        thread = begin(store, "summarised")
        talk(thread, 4)
        how = Compaction(lambda messages, before: "The user returns a lamp.", after=6, keep=2)
        thread.compact(how)
        forget(thread, thread.load(summarize=how))


def written_later_by_another_replica(url: str, folder: Path) -> None:
    with sync.open(url) as store, sync.open(url) as other:
        thread = store.thread("later", "u-1")
        thread.append(user("I want to return a lamp."), agent("Gladly."), saw=thread.load())
        window = thread.load(last=20)
        beside = other.thread("later", "u-1")
        beside.append(user("Wait."), agent(ASKED), saw=beside.load())
        beside.append(user(TOLD), agent("Thank you."), saw=beside.load())
        forget(thread, window)


def kept_on_a_machine(url: str, folder: Path) -> None:
    with (
        open_faulty(url, identity=url, policy=IMPATIENT, spill=str(folder / "spill")) as store,
        sync.open(url) as other,
    ):
        thread = store.thread("kept", "u-1")
        thread.append(user("I want to return a lamp."), agent(ASKED), saw=thread.load())
        window = thread.load()
        with store.faults.unavailable():
            said = thread.append(user(TOLD), agent("Thank you."), saw=window)
            assert said.status == "spilled"
            beside = other.thread("kept", "u-1")
            forget(beside, beside.load(last=20))
        wait_until(lambda: store.counters.replayed == 1)


def the_store_could_not_be_read(url: str, folder: Path) -> None:
    with open_faulty(url, identity=url, policy=IMPATIENT, spill=str(folder / "spill")) as store:
        thread = begin(store, "unread")
        with store.faults.unavailable(), thread.turn(key="r-9", last=20) as turn:
            assert turn.messages == []
            turn.store(user("So?"), agent("Could you give me the order number?"))
        wait_until(lambda: store.counters.replayed == 1)


def only_the_thread_was_asked_for(url: str, folder: Path) -> None:
    with sync.open(url) as store:
        store.user("u-1").put({"email": "ana@example.org"}, "profile")
        thread = store.thread("not_asked", "u-1")
        ask = agent("What is your email address?")
        thread.append(user("I want to return a lamp."), ask, saw=thread.load())


def the_documents_are_another_users(url: str, folder: Path) -> None:
    with sync.open(url) as store:
        store.user("u-42").put({"email": "ana@example.org"}, "profile")
        thread = store.thread("other_user", "visitor-7")
        ask = agent("What is your email address?")
        context = store.context(user="visitor-7", thread="other_user")
        thread.append(user("I want to return a lamp."), ask, saw=context)


def it_was_given(url: str, folder: Path) -> None:
    with sync.open(url) as store:
        thread = begin(store, "given")
        forget(thread, thread.load(last=20))


FORGOT: dict[str, tuple[Callable[[str, Path], None], str]] = {
    "window": (older_than_the_window, "outside of its window (last=4)"),
    "summarised": (summarised, "A summary of 24 characters was given instead of"),
    "later": (written_later_by_another_replica, "stored by another request"),
    "kept": (kept_on_a_machine, "kept on a machine that could not reach the store"),
    "unread": (the_store_could_not_be_read, "The store could not be read"),
    "not_asked": (only_the_thread_was_asked_for, "Only the thread was asked for"),
    "other_user": (the_documents_are_another_users, "The thread belongs to visitor-7"),
    "given": (it_was_given, "in its window: the model was given what it asked for"),
}


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "what the test waits for does not happen"
        time.sleep(0.005)


def say(*words: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cli.main(["why", *words]) == 0
    return printed.getvalue()


def told(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(say(*words, "--json"))
    return found


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store in which each of the conversations has happened."""
    folder = tmp_path_factory.mktemp("why")
    place = f"sqlite:///{folder}/agents.db"
    for happen, _ in FORGOT.values():
        happen(place, folder)
    return place


def words_for(reason: str) -> list[str]:
    return [reason, *(["--user", "u-42"] if reason == "other_user" else [])]


@pytest.mark.parametrize("reason", FORGOT)
def test_the_reason_is_named(url: str, reason: str) -> None:
    found = told(url, *words_for(reason))
    (main, *_) = found["causes"]
    assert (main["reason"], main["matters"]) == (reason, True), found["causes"]
    assert found["judgement"] == ("given" if reason == "given" else "lost")
    assert main["sentence"] in found["answer"]
    (sign, *_) = found["signs"]
    assert (sign["given"], sign["reason"]) == (reason == "given", reason)
    shown = say(url, *words_for(reason))
    assert FORGOT[reason][1] in " ".join(shown.split())
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "\x1b" not in shown, "no colours where there is no terminal"


@pytest.mark.parametrize("reason", FORGOT)
def test_inspect_repeats_says_whether_it_was_given(url: str, reason: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert cli.main(["inspect", "repeats", url, "--thread", reason, "--json"]) == 0
    found = json.loads(printed.getvalue())["repeats"]
    expected = [] if reason == "other_user" else [reason == "given"]
    assert [one["given"] for one in found] == expected


# --- which turn -------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


def test_a_turn_can_be_named_by_any_of_its_messages(url: str) -> None:
    for word in ("7", "8"):
        found = told(url, "window", word)
        assert (found["turn"]["first"], found["turn"]["last"]) == (7, 8)
        assert (found["judgement"], found["signs"]) == ("nothing", [])
        assert [sign["turn"] for sign in found["others"]] == [14]
        assert [m["number"] for m in found["messages"] if m["given"]] == [3, 4, 5, 6]
    shown = say(url, "window", "7")
    assert "NO SIGN" in shown
    assert f"stateward why {url} window 14" in " ".join(shown.split())


def test_of_a_question_that_was_stored_alone_the_answer_is_explained(place: str) -> None:
    with sync.open(place) as store:
        thread = store.thread("s-1", "u-1")
        for n in range(3):
            thread.append(user(f"I tell you {n}."))
            thread.append(agent("Thank you."), saw=thread.load(last=1))
    for word in ((), ("5",), ("6",)):
        found = told(place, "s-1", *word)
        assert (found["turn"]["first"], found["turn"]["last"]) == (6, 6)
        assert [m["number"] for m in found["messages"] if m["given"]] == [5]


def test_a_complaint_speaks_against_the_turn_before_it(place: str) -> None:
    with sync.open(place) as store:
        thread = store.thread("s-1", "u-1")
        thread.append(user("I live in Lyon."), agent("Lovely."), saw=thread.load())
        thread.append(user("Ship it."), agent("To Paris, then."), saw=thread.load(after=2))
        thread.append(user("I already told you!"), agent("Sorry."), saw=thread.load())
    found = told(place, "s-1")
    assert (found["turn"]["last"], found["judgement"]) == (4, "lost")
    assert [(sign["kind"], sign["at"]) for sign in found["signs"]] == [("complaint", 5)]
    assert [(c["reason"], c["numbers"]) for c in found["causes"]] == [("window", [1, 2])]
    assert "after=2" in found["answer"]


def test_without_a_receipt_nothing_is_known_and_it_says_how_to_keep_one(place: str) -> None:
    with sync.open(place) as store:
        store.thread("s-1").append(user("Hello."), agent("What is your name?"))
    found = told(place, "s-1")
    assert found["judgement"] == "unknown"
    assert (found["receipt"], found["before"], found["now"]) == (None, None, None)
    assert "saw=window" in found["advice"]
    assert "UNKNOWN" in say(place, "s-1")


def test_where_the_thread_does_not_tell_any_more_nothing_is_claimed(place: str) -> None:
    with sync.open(place) as store:
        thread = begin(store, "s-1")
        talk(thread, 1)
        forget(thread, thread.load(last=2))
    with contextlib.closing(sqlite3.connect(place.removeprefix("sqlite:///"))) as database:
        database.execute("DELETE FROM log WHERE seq = 5")  # nobody has a record of that
        database.execute("UPDATE entities SET live = live - 1 WHERE kind = 'thread'")
        database.commit()
    found = told(place, "s-1", "8")
    assert found["judgement"] == "unknown"
    assert {m["given"] for m in found["messages"]} == {None}


# --- what else is said ------------------------------------------------------------------


def test_what_was_removed_or_changed_before_and_meanwhile_is_named(place: str) -> None:
    with sync.open(place) as store:
        thread = begin(store, "s-1")
        store.user("u-1").put({"city": "Lyon", "tea": True}, "profile")
        talk(thread, 1)
        context = store.context(user="u-1", thread="s-1")
        thread.append(user("And?"), agent("Well."), saw=context)
        thread.edit({3: None, 5: user("It hums.")})
        context = store.context(user="u-1", thread="s-1", last=2)
        store.user("u-1").put({"city": "Paris", "tea": True}, "profile")
        thread.append(user("So?"), agent("Hm."), saw=context)
        store.user("u-1").document("taste").put({"tea": False})
        thread.append(user("Bye."), agent("Bye."), saw=thread.load())
    found = told(place, "s-1", "10")
    causes = {cause["reason"]: cause for cause in found["causes"]}
    assert causes["removed"]["numbers"] == [3]
    assert causes["rewritten"]["numbers"] == [5]
    assert causes["later"]["documents"] == ["profile"]
    assert causes["window"]["numbers"] == [1, 2, 4, 5, 6]
    assert found["documents"] == {"profile": {"city": "Lyon", "tea": True}}
    assert (found["before"]["came"], found["before"]["left"]) == ([7, 8], [1, 2, 3, 4, 5, 6])
    assert found["now"]["came"] == [11, 12]
    told_now = " ".join(found["now"]["sentences"])
    assert "“profile”: version 1 to 2 (city)" in told_now
    assert "“taste”: new" in told_now


def test_what_the_model_did_twice_in_one_turn_was_not_lost(place: str) -> None:
    def call(id: str) -> list[Message]:
        made = {"id": id, "type": "function", "function": {"name": "track", "arguments": "{}"}}
        said = {"role": "assistant", "content": None, "tool_calls": [made]}
        return [said, {"role": "tool", "tool_call_id": id, "content": "on its way"}]

    with sync.open(place) as store:
        thread = store.thread("s-1", "u-1")
        twice = [user("Where is it?"), *call("c-1"), *call("c-2"), agent("On its way.")]
        thread.append(*twice, saw=thread.load())
    found = told(place, "s-1", "6")
    (sign,) = found["signs"]
    assert (sign["kind"], sign["given"], sign["reason"]) == ("tool_call", True, "given")
    assert (found["judgement"], found["causes"][0]["numbers"]) == ("given", [2])


def test_a_fork_is_no_turn_and_its_origin_is_named(place: str) -> None:
    with sync.open(place) as store:
        thread = begin(store, "s-1")
        forget(thread, thread.load(last=2))
        thread.fork(to="s-2")
    found = told(place, "s-2")
    assert (found["judgement"], [sign["given"] for sign in found["signs"]]) == ("unknown", [None])
    assert "copied from the thread “s-1”: look there" in found["answer"]


def test_what_a_window_left_out_is_told_from_what_is_older(place: str) -> None:
    made = {"id": "c-1", "type": "function", "function": {"name": "track", "arguments": "{}"}}
    with sync.open(place) as store:
        thread = store.thread("s-1", "u-1")
        thread.append({"role": "system", "content": "Be kind."})
        talk(thread, 2)
        thread.append(user("Where?"), {"role": "assistant", "content": None, "tool_calls": [made]})
        thread.append(user("Well?"), agent("Soon."), saw=thread.load())
        thread.append(user("Bye."), agent("Bye."), saw=thread.load(last=6))
    found = told(place, "s-1")
    reasons = {m["number"]: m["reason"] for m in found["messages"]}
    assert found["receipt"]["left_out"]["unpaired"] == 1
    assert reasons == {
        **dict.fromkeys((1, 4, 5, 6, 8, 9), None),
        **dict.fromkeys((2, 3), "window"),
        7: "unpaired",
    }


def test_a_user_of_whom_nothing_is_kept_is_named(url: str) -> None:
    found = told(url, "other_user", "--user", "u-nobody")
    assert [c["sentence"] for c in found["causes"]] == [
        "There are no documents of u-nobody: check the id."
    ]


def test_colours_are_for_terminals(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    for coloured in (True, False):
        with contextlib.redirect_stdout(Terminal()) as printed:
            assert cli.main(["why", url, "window"]) == 0
        assert ("\x1b[1;31mLOST" in printed.getvalue()) == coloured
        monkeypatch.setenv("NO_COLOR", "1")


def test_of_a_long_thread_only_the_last_messages_are_read(place: str) -> None:
    with sync.open(place) as store:
        thread = begin(store, "s-1")
        talk(thread, 20)
    found = told(place, "s-1", "--last", "10")
    assert [m["number"] for m in found["messages"]] == list(range(35, 43))
    (cause,) = found["causes"]
    assert (cause["numbers"], "and so were 34 older ones" in cause["sentence"]) == (
        [35, 36, 37, 38],
        True,
    )


def test_what_is_stored_cannot_steer_the_terminal(place: str) -> None:
    with sync.open(place) as store:
        thread = store.thread("s-1", "u-1")
        thread.append(user("\x1b[2J\x9b2J <b>ha"), agent("\x1b]0;x\x07"), saw=thread.load())
        thread.append(user("\u202eno"), agent("no"), saw=thread.load())
    shown = say(place, "s-1")
    assert all(character.isprintable() or character == "\n" for character in shown)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("s-1",), 2, "STATEWARD_URL"),
        (("sqlite:///agents.db",), 2, "say which thread"),
        (("sqlite:///agents.db", "a", "1", "2"), 2, "say which thread"),
        (("sqlite:///agents.db", "nobody"), 2, "there is no thread 'nobody'"),
        (("sqlite:///agents.db", "s-1", "x"), 2, "not a position in a history"),
        (("sqlite:///agents.db", "s-1", "9"), 2, "has no message 9"),
        (("sqlite:///agents.db", "s-1", "2.xyz"), 1, "not the one you were reading"),
        (("sqlite:///agents.db", "s-1", "--last", "0"), 2, "--last must be"),
        (("sqlite:///agnets.db", "s-1"), 1, "there is no store"),
    ],
)
def test_wrong_usage_is_one_line(
    words: tuple[str, ...],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("STATEWARD_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with sync.open("sqlite:///agents.db") as store:
        store.thread("s-1").append(user("Hello."), agent("Hello."))
    assert cli.main(["why", *words]) == code
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert said in error
    assert not (tmp_path / "agnets.db").exists()


def test_it_is_a_command_of_its_own(url: str) -> None:
    env = {**os.environ, "STATEWARD_URL": url}
    command = [sys.executable, "-m", "stateward", "why", "window"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("LOST  Thread window, messages 13–14, ")


# --- the page ---------------------------------------------------------------------------


def test_the_page_is_one_file_with_all_of_it(url: str, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    assert f"page: {file}" in say(url, "window", "--html", str(file))
    page = file.read_text("utf-8")
    assert "Messages 1–8 were outside of its window (last=4)." in page
    assert "default-src 'none'" in page
    assert page.count("It flickers, number") == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_fits_a_screen_and_asks_nobody_for_anything(
    url: str, tmp_path: Path, browser: Browser, size: Any, scheme: Any
) -> None:
    with sync.open(url) as store:
        long = store.thread("long-" + "x" * 200, "u-1")
        long.append(user("y" * 500), agent("<script>alert(1)</script>"), saw=long.load())
        long.append(user("So?"), agent("z" * 500), saw=long.load())
    for thread in ("summarised", long.id):
        file = tmp_path / "why.html"
        say(url, thread, "--html", str(file))
        opened = Opened(browser, file, viewport=size, color_scheme=scheme)
        assert opened.sideways() == []
        assert opened.complaints == []
        assert opened.requests == [file.as_uri()]
        assert contrast(opened, ".sight, .verdict, .sentence, .card p, td") >= 4.5
        opened.context.close()
