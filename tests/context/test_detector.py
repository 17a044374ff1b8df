"""The hook on append: what it counts, what it logs, and that it never stands in the way."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import stateward
from stateward import InvalidInput, sync
from stateward.repeats import Repeat, RepeatDetector

Message = dict[str, Any]


def says(role: str, text: str) -> Message:
    return {"role": role, "content": text}


QUESTION = says("assistant", "At which secret address do you live?")
ANSWER = says("user", "At 1 Hidden Lane.")
TALK = (QUESTION, ANSWER, says("assistant", "Thanks."), says("user", "Sure."), QUESTION)


async def test_a_repeat_is_counted_logged_and_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    passed: list[tuple[str, Repeat]] = []
    detector = RepeatDetector(on_repeat=lambda thread, repeat: passed.append((thread, repeat)))
    async with stateward.open("memory://", on_append=detector.appended) as store:
        for message in TALK:
            await store.thread("s-1").append(message)
    assert detector.counts == {"asked_again": 1}
    ((thread, repeat),) = passed
    assert (thread, repeat.kind, repeat.at, repeat.earlier) == ("s-1", "asked_again", 4, 0)
    (record,) = [one for one in caplog.records if one.name == "stateward.context"]
    assert record.getMessage() == "context_break"
    fields = vars(record)
    assert {name: fields[name] for name in ("event", "thread_id", "kind", "at", "earlier")} == {
        "event": "context_break",
        "thread_id": "s-1",
        "kind": "asked_again",
        "at": 4,
        "earlier": 0,
    }


async def test_the_log_has_nothing_of_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    detector = RepeatDetector()
    detector.know("u-1", {"secret_address": "1 Hidden Lane"})
    async with stateward.open("memory://", on_append=detector.appended) as store:
        await store.thread("s-1", "u-1").append(*TALK, says("user", "I already told you: Hidden!"))
    assert sum(detector.counts.values()) >= 2
    said = " ".join(str(vars(record)) for record in caplog.records)
    assert "context_break" in said
    assert "Hidden" not in said
    assert "secret" not in said


def test_the_blocking_store_has_the_same_hook() -> None:
    detector = RepeatDetector()
    with sync.open("memory://", on_append=detector.appended) as store:
        store.thread("s-1").append(*TALK)
    assert detector.counts == {"asked_again": 1}


async def test_an_append_that_was_a_duplicate_does_not_count_twice(tmp_path: Path) -> None:
    seen: list[tuple[str, str | None, int]] = []

    def note(thread: str, user: str | None, messages: Any) -> None:
        seen.append((thread, user, len(messages)))

    async with stateward.open(f"sqlite:///{tmp_path}/agents.db", on_append=note) as store:
        thread = store.thread("s-1", "u-1")
        for _ in range(3):
            await thread.append(QUESTION, ANSWER, key="k-1")
        with pytest.raises(stateward.StateConflictError):
            await thread.append(ANSWER, expect=0)
    assert seen == [("s-1", "u-1", 2)]


async def test_a_hook_that_fails_is_logged_and_the_append_stands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(thread: str, user: str | None, messages: Any) -> None:
        raise RuntimeError("1 Hidden Lane")

    async with stateward.open("memory://", on_append=fails) as store:
        appended = await store.thread("s-1").append(ANSWER)
        assert appended.status == "stored"
        assert (await store.thread("s-1").load()).messages == [ANSWER]
    (record,) = [one for one in caplog.records if one.name == "stateward.threads"]
    assert (record.levelno, vars(record)["error"]) == (logging.ERROR, "RuntimeError")
    assert "Hidden" not in str(vars(record))


async def _async_hook(thread: str, user: str | None, messages: Any) -> None: ...


@pytest.mark.parametrize("hook", [_async_hook, "print", 7])
def test_a_hook_that_cannot_be_called_is_refused_when_opening(hook: Any) -> None:
    with pytest.raises(InvalidInput, match="on_append="):
        stateward.open("memory://", on_append=hook)
    with pytest.raises(InvalidInput, match="on_append="):
        sync.open("memory://", on_append=hook)


def test_the_state_counts_from_when_the_detector_knows_it() -> None:
    detector = RepeatDetector()
    question = says("assistant", "What is your email address?")
    assert detector.feed("s-1", [question], user="u-1") == []
    detector.know("u-1", {"email": "ana@example.org"})
    assert detector.feed("s-2", [question], user="u-2") == []
    (found,) = detector.feed("s-3", [question], user="u-1")
    assert (found.kind, found.earlier, found.evidence) == ("already_given", None, "email")


def test_a_process_that_takes_over_is_primed_with_the_history() -> None:
    calls: list[str] = []

    def judge(question: str, earlier: str) -> bool:
        calls.append(question)
        return True

    detector = RepeatDetector(judge=judge)
    detector.prime("s-1", TALK)
    assert calls == []
    assert detector.counts == {}
    (found,) = detector.feed("s-1", [says("user", "Hm."), QUESTION])
    assert (found.kind, found.at) == ("asked_again", 6)
    assert len(calls) == 1


def test_only_the_conversations_used_last_are_remembered() -> None:
    detector = RepeatDetector(threads=2)
    for thread in ("a", "b", "a", "c"):
        detector.feed(thread, [QUESTION, ANSWER])
    assert detector.feed("b", [QUESTION]) == []  # forgotten, and "a" for it
    assert [r.kind for r in detector.feed("c", [QUESTION])] == ["asked_again"]


async def test_models_that_are_async_are_fed_with_feed_async() -> None:
    async def judge(question: str, earlier: str) -> bool:
        return True

    detector = RepeatDetector(judge=judge)
    (found,) = await detector.feed_async("s-1", TALK)
    assert found.kind == "asked_again"
    with pytest.raises(InvalidInput, match="feed_async"):
        detector.feed("s-1", [QUESTION])


def test_several_threads_may_feed_one_detector() -> None:
    detector = RepeatDetector()

    def feed(number: int) -> None:
        for _ in range(20):
            for message in TALK:
                detector.feed(f"s-{number}", [message])

    workers = [threading.Thread(target=feed, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert detector.counts["asked_again"] == 4 * (20 * 2 - 1)


@pytest.mark.parametrize(
    ("options", "words"), [({"window": 0}, "window="), ({"embed": 3}, "embed=")]
)
def test_wrong_options_are_told_when_it_is_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        RepeatDetector(**options)


def test_wrong_messages_are_told_and_change_nothing() -> None:
    detector = RepeatDetector()
    with pytest.raises(InvalidInput, match="message 1"):
        detector.feed("s-1", [QUESTION, "hello"])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="state="):
        detector.know("u-1", "ana")  # type: ignore[arg-type]
    assert detector.feed("s-1", [ANSWER, QUESTION]) == []
