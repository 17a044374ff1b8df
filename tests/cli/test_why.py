"""`stateward why`: an agent that forgot for different reasons, each named, as people run it."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateward import cli, sync
from stateward.context.compaction import Compaction
from stateward.sync.testing.faults import open_faulty

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
    "summarised": (summarised, "A summary of 24 characters was given in the place of"),
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
