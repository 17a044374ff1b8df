"""The listener: what it counts, what it logs, and that it never stands in the way."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import stateward
from stateward import InvalidInput, ThreadListener, sync
from stateward.repeats import Repeat, RepeatDetector, find_repeats, find_repeats_async

Message = dict[str, Any]


def says(role: str, text: str) -> Message:
    return {"role": role, "content": text}


QUESTION = says("assistant", "At which secret address do you live?")
ANSWER = says("user", "At 1 Hidden Lane.")
TALK = (QUESTION, ANSWER, says("assistant", "Thanks."), says("user", "Sure."), QUESTION)


async def test_a_repeat_is_counted_logged_and_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    passed: list[tuple[str, str, Repeat]] = []
    detector = RepeatDetector(on_repeat=lambda *told: passed.append(told))
    async with stateward.open("memory://", listener=detector, namespace="shop") as store:
        for message in TALK:
            await store.thread("s-1").append(message)
    assert detector.counts == {"asked_again": 1}
    ((namespace, thread, repeat),) = passed
    assert (namespace, thread) == ("shop", "s-1")
    assert (repeat.kind, repeat.at, repeat.earlier) == ("asked_again", 4, 0)
    (record,) = [one for one in caplog.records if one.name == "stateward.context"]
    assert record.getMessage() == "context_break"
    fields = vars(record)
    names = ("event", "namespace", "thread_id", "kind", "at", "earlier")
    assert {name: fields[name] for name in names} == {
        "event": "context_break",
        "namespace": "shop",
        "thread_id": "s-1",
        "kind": "asked_again",
        "at": 4,
        "earlier": 0,
    }


def mine(message: Message) -> stateward.MessageShape | None:
    """Messages of a form of one's own."""
    if "says" not in message:
        return None
    role: Any = "assistant" if message["from"] == "bot" else "user"
    return stateward.MessageShape(role, text=message["says"])


OWN = [
    {"from": "bot" if one["role"] == "assistant" else "you", "says": one["content"]} for one in TALK
]


async def test_it_reads_a_form_of_ones_own_as_its_store_does() -> None:
    detector = RepeatDetector()
    async with stateward.open("memory://", listener=detector, shape=mine) as store:
        for message in OWN:
            await store.thread("s-1").append(message)
    assert detector.counts == {"asked_again": 1}
    blind = RepeatDetector()
    async with stateward.open("memory://", listener=blind) as store:
        await store.thread("s-1").append(*OWN)
    assert not blind.counts


async def test_it_keeps_a_shape_of_its_own_and_so_does_a_search() -> None:
    detector = RepeatDetector(shape=mine)
    with sync.open("memory://", listener=detector, shape=lambda message: None):
        assert detector.shape is mine
    detector.prime("s-1", OWN[:4])
    assert [repeat.kind for repeat in await detector.feed_async("s-1", OWN[4:])] == ["asked_again"]
    assert find_repeats(OWN, shape=mine) == find_repeats(TALK)
    assert await find_repeats_async(OWN, shape=mine) == find_repeats(TALK)
    for refused in ("mine", 1):
        with pytest.raises(InvalidInput, match="shape="):
            RepeatDetector(shape=refused)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="shape="):
            find_repeats(OWN, shape=refused)  # type: ignore[arg-type]


async def test_the_log_has_nothing_of_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    detector = RepeatDetector()
    detector.know("u-1", {"secret_address": "1 Hidden Lane"})
    async with stateward.open("memory://", listener=detector) as store:
        await store.thread("s-1", "u-1").append(*TALK, says("user", "I already told you: Hidden!"))
    assert sum(detector.counts.values()) >= 2
    said = " ".join(str(vars(record)) for record in caplog.records)
    assert "context_break" in said
    assert "Hidden" not in said
    assert "secret" not in said


def test_the_blocking_store_tells_the_same_listener() -> None:
    detector = RepeatDetector()
    with sync.open("memory://", listener=detector) as store:
        store.thread("s-1").append(*TALK)
    assert detector.counts == {"asked_again": 1}


async def test_an_append_that_was_a_duplicate_does_not_count_twice(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str | None, int, int]] = []

    class Notes(ThreadListener):
        def appended(
            self, namespace: str, thread: str, user: str | None, messages: Any, version: int
        ) -> None:
            seen.append((namespace, thread, user, len(messages), version))

    async with stateward.open(f"sqlite:///{tmp_path}/agents.db", listener=Notes()) as store:
        thread = store.thread("s-1", "u-1")
        for _ in range(3):
            await thread.append(QUESTION, ANSWER, key="k-1")
        with pytest.raises(stateward.StateConflictError):
            await thread.append(ANSWER, expect=0)
    assert seen == [("default", "s-1", "u-1", 2, 2)]


async def test_a_listener_that_fails_is_logged_and_what_it_was_told_of_stands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("1 Hidden Lane")

    class Fails(ThreadListener):
        appended = edited = deleted = erased = fails

    async with stateward.open("memory://", listener=Fails()) as store:
        thread = store.thread("s-1", user="u-1")
        appended = await thread.append(ANSWER)
        assert appended.status == "stored"
        assert (await thread.load()).messages == [ANSWER]
        await thread.edit({1: QUESTION})
        assert (await thread.load()).messages == [QUESTION]
        await thread.delete()
        assert not (await thread.load()).exists
        await store.user("u-1").erase()
    records = [one for one in caplog.records if one.name == "stateward.threads"]
    assert len(records) == 4
    for record in records:
        assert (record.levelno, vars(record)["error"]) == (logging.ERROR, "RuntimeError")
        assert "Hidden" not in str(vars(record))


class _Async(ThreadListener):
    async def deleted(self, namespace: str, thread: str) -> None: ...


@pytest.mark.parametrize("listener", [_Async(), print, "print", 7])
def test_a_listener_that_cannot_be_told_is_refused_when_opening(listener: Any) -> None:
    with pytest.raises(InvalidInput, match="listener="):
        stateward.open("memory://", listener=listener)
    with pytest.raises(InvalidInput, match="listener="):
        sync.open("memory://", listener=listener)


# --- whose words it keeps ---------------------------------------------------------------


async def test_the_words_of_one_namespace_are_no_evidence_in_another() -> None:
    detector = RepeatDetector()
    detector.know("u-1", {"secret_address": "1 Hidden Lane"}, namespace="one")
    async with (
        stateward.open("memory://", listener=detector, namespace="one") as one,
        stateward.open("memory://", listener=detector, namespace="two") as two,
    ):
        await one.thread("s-1", "u-1").append(QUESTION, ANSWER)
        assert detector.counts == {"already_given": 1}
        await two.thread("s-1", "u-1").append(QUESTION)
        assert detector.counts == {"already_given": 1}
        await one.thread("s-1", "u-1").append(QUESTION)
    assert sum(detector.counts.values()) == 2


FORGOTTEN: dict[str, Any] = {
    "delete": lambda store: store.thread("s-1", "u-1").delete(),
    "delete by whoever": lambda store: store.thread("s-1").delete(),
    "edit": lambda store: store.thread("s-1", "u-1").edit({2: None}),
    "erase": lambda store: store.user("u-1").erase(),
}


@pytest.mark.parametrize("way", FORGOTTEN)
async def test_what_is_gone_is_forgotten(way: str) -> None:
    detector = RepeatDetector()
    async with stateward.open("memory://", listener=detector) as store:
        await store.thread("s-1").append(QUESTION, ANSWER)  # begun before anybody signed in
        await store.thread("s-1").claim(user="u-1")
        await store.thread("s-2", "u-1").append(QUESTION, ANSWER)
        await FORGOTTEN[way](store)
        await store.thread("s-1", "u-1").append(QUESTION)
        assert detector.counts == {}
        await store.thread("s-2", "u-1").append(QUESTION)
        assert detector.counts == ({} if way == "erase" else {"asked_again": 1})


async def test_the_state_of_a_user_who_was_erased_is_forgotten() -> None:
    detector = RepeatDetector()
    detector.know("u-1", {"secret_address": "1 Hidden Lane"})
    detector.know("u-1", {"secret_address": "1 Hidden Lane"}, namespace="other")
    async with stateward.open("memory://", listener=detector) as store:
        await store.user("u-1").erase()
        await store.thread("s-1", "u-1").append(QUESTION)
    assert detector.counts == {}
    assert detector.feed("s-1", [QUESTION], user="u-1", namespace="other") != []


async def test_a_thread_that_another_process_deleted_and_began_anew_is_a_new_one(
    tmp_path: Path,
) -> None:
    detector = RepeatDetector()
    url = f"sqlite:///{tmp_path}/agents.db"
    async with stateward.open(url, listener=detector) as store, stateward.open(url) as other:
        await store.thread("s-1").append(QUESTION, ANSWER)
        await other.thread("s-1").append(says("assistant", "Thanks."))
        await store.thread("s-1").append(QUESTION)
        assert detector.counts == {"asked_again": 1}
        await other.thread("s-1").delete()
        await store.thread("s-1").append(QUESTION)
        assert detector.counts == {"asked_again": 1}


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
