"""Every sentence is implied by its example: no loss is reported where messages are in disorder."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from audit.auditing import answer, judged
from audit.test_promises import CASES, JUDGED
from audit.test_questions import good, outage
from stateward.audit.differences import (
    AGAIN,
    ALTERED,
    ERROR,
    FOREIGN,
    LATE,
    MISSING,
    NEVER,
    OWN,
    REORDERED,
    STALE,
    SURPLUS,
    TOLD,
    classify,
)
from stateward.audit.questions.classes import ALL, CLASSES
from stateward.audit.questions.promise import Promise
from stateward.audit.record import Check, Drill, Monitoring, Outage, Tried, TurnRace
from stateward.audit.report import Answer
from stateward.audit.targets.memory import Memory, VersionConflict
from stateward.audit.workloads import (
    document_updates,
    fidelity,
    isolation,
    keys,
    kills,
    orphans,
    tasks,
    version_conflicts,
    windows,
)
from stateward.audit.workloads.trials import Trials, merged

Json = dict[str, Any]

# --- any difference ------------------------------------------------------------------------

PLACES = [(field, promise) for field, promise in CASES if not promise.weak]
ITEMS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6)


def reverse(draw: Any, items: list[str]) -> list[str]:
    return draw(st.permutations(items))


def drop(draw: Any, items: list[str]) -> list[str]:
    place = draw(st.integers(0, len(items) - 1))
    return items[:place] + items[place + 1 :]


def repeat(draw: Any, items: list[str]) -> list[str]:
    return [*items, draw(st.sampled_from(items))]


def change(draw: Any, items: list[str]) -> list[str]:
    place = draw(st.integers(0, len(items) - 1))
    return [*items[:place], "changed", *items[place + 1 :]]


@st.composite
def differences(draw: Any) -> tuple[list[str], list[str]]:
    """Draw what was stored, and what came back."""
    stored = draw(ITEMS)
    found = list(stored)
    for mutate in draw(st.lists(st.sampled_from([reverse, drop, repeat, change]), max_size=3)):
        if found:
            found = mutate(draw, found)
    return stored, found


def lacks(stored: list[str], found: list[str]) -> bool:
    return bool(Counter(stored) - Counter(found))


# What a class claims of what was stored and what was found, without the audit's own code.
CLAIMS: dict[str, Callable[[list[str], list[str]], bool]] = {
    MISSING: lacks,
    SURPLUS: lambda stored, found: lacks(found, stored),
    ALTERED: lambda stored, found: lacks(stored, found) and "changed" in found,
    REORDERED: lambda stored, found: Counter(stored) == Counter(found) and stored != found,
}


@settings(max_examples=400, deadline=None)
@given(difference=differences())
def test_the_class_of_a_difference_is_true_of_it(difference: tuple[list[str], list[str]]) -> None:
    stored, found = difference
    assume(stored != found)
    messages, others = ([{"content": each} for each in some] for some in (stored, found))
    for kind in (classify(stored, found), classify(messages, others)):
        assert CLAIMS[kind](stored, found)
    with_fields = [{**each, "id": number} for number, each in enumerate(others)]
    assert CLAIMS[classify(messages, with_fields)](stored, found)


@settings(max_examples=300, deadline=None)
@given(
    place=st.sampled_from(PLACES),
    difference=differences(),
    error=st.sampled_from([None, ValueError("no"), OSError("gone")]),
)
def test_every_sentence_is_implied_by_its_example(
    place: tuple[str, Promise], difference: tuple[list[str], list[str]], error: Exception | None
) -> None:
    field, promise = place
    stored, found = difference
    assume(stored != found)
    trials = Trials()
    if error is None:
        trials.compare(promise.name, "store, load", stored, found)
    else:
        trials.differ(promise.name, "store, load", str(stored), error)
    (check,) = merged(trials)
    (example,) = check.examples
    assert check.kinds == {example.kind: 1}
    report = answered(field, check)
    claimed = kinds_of(report.summary, promise)
    assert example.kind in claimed
    if error is None:
        assert example.kind in promise.claims or CLAIMS[example.kind](stored, found)
    else:
        assert claimed == {ERROR} or ERROR in promise.claims
        assert "store, load" in report.counter_example


def answered(field: str, *checks: Check) -> Answer:
    """Return the answer to the question about a field in which only these checks are broken."""
    record = good()
    broken = {check.promise for check in checks}
    rest = [check for check in getattr(record, field) if check.promise not in broken]
    setattr(record, field, [*rest, *checks])
    return answer(judged(record), JUDGED[field].QUESTION.id)


def kinds_of(summary: str, promise: Promise) -> set[str]:
    """Return the classes of which a sentence is true."""
    if promise.broken in summary:
        return {OWN, *promise.claims}
    for kind, sentence in promise.sentences.items():
        if sentence in summary:
            return {kind}
    for kind, words in CLASSES.items():
        if words.sentence.partition("{")[0] in summary:
            return {kind}
    raise AssertionError(f"no sentence of {promise.name!r}: {summary}")


# Words of a promise's own sentence, and the classes of which a sentence with these can be true.
WORDS = {
    r"\b(lost|lacks|gone|missing|not all come back|not returned whole|leaves parts)\b": {
        MISSING, ALTERED, STALE, NEVER,
    },
    r"\bcome back changed\b": {ALTERED},
    r"\bmixed up\b": {FOREIGN, ALTERED, SURPLUS},
    r"\b(in the order|its place in the order)\b": {REORDERED},
    r"\b(is stored again|more than once|runs? twice)\b": {SURPLUS, AGAIN},
    r"\bresumes\b|\bis recorded as done\b": {NEVER},
    r"\b(raises|gets) an error\b": {ERROR, LATE},
}  # fmt: skip


@pytest.mark.parametrize(("field", "promise"), CASES, ids=[f"{f}-{p.name}" for f, p in CASES])
def test_a_promise_claims_no_more_than_its_words_say(field: str, promise: Promise) -> None:
    allowed = [kinds for words, kinds in WORDS.items() if re.search(words, promise.broken)]
    if allowed:
        assert set(promise.claims) <= set.union(*allowed), promise.broken
    assert set(promise.claims) <= {*ALL, ERROR, LATE}
    assert set(ALL) == {OWN, *CLASSES} - {ERROR, LATE}


# --- clauses that were once untrue ----------------------------------------------------------


class Sound:
    """Sound in one process."""

    provides = ("threads", "users", "versions")

    def __init__(self) -> None:
        self.threads: dict[str, list[str]] = {}
        self.keys: set[tuple[str, str]] = set()
        self.users: dict[str, tuple[str, int]] = {}

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        stored = [json.dumps(each) for each in messages]
        if (thread, key) not in self.keys:
            self.keys.add((thread, key))
            self.threads.setdefault(thread, []).extend(stored)

    def load(self, thread: str, last: int | None) -> list[Json]:
        stored = [json.loads(each) for each in self.threads.get(thread, [])]
        return stored if last is None else stored[max(0, len(stored) - last) :]

    def get_user(self, user: str) -> tuple[Json, int]:
        value, version = self.users.get(user, ("{}", 0))
        return json.loads(value), version

    def is_current(self, expect: int, version: int) -> bool:
        return expect == version

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        version = self.get_user(user)[1]
        if expect is not None and not self.is_current(expect, version):
            raise VersionConflict("another version", expect, version)
        self.users[user] = (json.dumps(value), version + 1)
        return version + 1

    def update_user(self, user: str, change: Callable[[Json], Json]) -> None:
        self.put_user(user, change(self.get_user(user)[0]))


class Tied(Sound):
    """Messages of one turn come back in reverse."""

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        super().append(thread, messages[::-1], key)


class Refuses(Sound):
    """Refuses what is no plain text, by an error."""

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        if not all(isinstance(each.get("content"), str) for each in messages):
            raise ValueError("content must be a text")
        super().append(thread, messages, key)


class Aborted(Sound):
    """Fails for ever after one text that it cannot store."""

    is_aborted = False

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        self.is_aborted |= any("👍" in str(each.get("content")) for each in messages)
        if self.is_aborted:
            raise RuntimeError("current transaction is aborted")
        super().append(thread, messages, key)


class DropsLong(Sound):
    """Stores nothing of a long message, and says nothing."""

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        if len(str(messages)) < 8000:
            super().append(thread, messages, key)


class CutsEmoji(Sound):
    def append(self, thread: str, messages: list[Json], key: str) -> None:
        for each in messages:
            text = str(each.get("content"))
            each = {**each, "content": "".join(c for c in text if ord(c) < 0x10000)}
            super().append(thread, [each], f"{key}/{text}")


class CutsIds(Sound):
    """Cuts the ids of users and conversations."""

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        super().append(thread[:16], messages, key)

    def load(self, thread: str, last: int | None) -> list[Json]:
        return super().load(thread[:16], last)

    def get_user(self, user: str) -> tuple[Json, int]:
        return super().get_user(user[:16])

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        return super().put_user(user[:16], value, expect)


class AcceptsOlder(Sound):
    def is_current(self, expect: int, version: int) -> bool:
        return expect <= version


class Swallows(Sound):
    """Acknowledges a creation of what exists already, and drops it."""

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        if expect == 0 and user in self.users:
            return self.users[user][1]
        return super().put_user(user, value, expect)


class Fails(Sound):
    """A turn that is delivered again ends in an error."""

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        if (thread, key) in self.keys:
            raise OSError("a connection without a commit")
        super().append(thread, messages, key)


class StaleUsers(Sound):
    """Returns the state before the last write."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, str] = {}

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        before = self.users.get(user, ("{}", 0))[0]
        version = super().put_user(user, value, expect)
        self.before[user] = before
        return version

    def get_user(self, user: str) -> tuple[Json, int]:
        return json.loads(self.before.get(user, "{}")), super().get_user(user)[1]


def tell(**event: Any) -> None:
    """Take an event, as the conductor does."""


async def sampled(memory: Sound) -> list[Check]:
    how: dict[str, Any] = {"base": "id-of-a-sample-", "seed": 1, "users": True, "bare": True}
    inner = Memory(memory)
    answers = [await fidelity.write(inner, tell, who=who, **how) for who in (0, 1)]
    written = [number for each in answers for number in each["written"]]
    read = await fidelity.read(inner, tell, written=written, by="another replica", **how)
    return merged(*(each["trials"] for each in answers), read)


async def windowed(memory: Sound) -> list[Check]:
    return merged(await windows.short_ones(Memory(memory), tell, "t", "pairs", "unknown"))


async def versioned(memory: Sound) -> list[Check]:
    return merged(await version_conflicts.edges(Memory(memory), tell, ["a", "b"]))


async def redelivered(memory: Sound) -> list[Check]:
    inner = Memory(memory)
    between = await keys.crowd(inner, tell, "t", 20)
    return merged(await keys.again(inner, tell, "t", between, "the same replica"))


async def updated(memory: Sound) -> list[Check]:
    return merged(await document_updates.alone(Memory(memory), tell, "a", "b"))


async def erring(memory: Sound) -> list[Check]:
    return merged(await isolation.errors(Memory(memory), tell, ["a", "b", "c"], True))


async def orphaned(memory: Sound) -> list[Check]:
    inner = Memory(memory)
    await orphans.begin(inner, tell, "added")
    await orphans.begin(inner, tell, "left")
    checks = [await orphans.go_on(inner, tell, "added", "left")]
    checks.append(await orphans.windows(inner, tell, "windows"))
    checks.append(await orphans.whole(inner, tell, "windows"))
    return merged(*checks)


async def killed(memory: Sound) -> list[Check]:
    trials, names = Trials(), [f"0.0.{number}.0" for number in range(9)]
    for name in names:
        memory.append("t", kills.turn(name), name)
    await kills._conversation(Memory(memory), trials, "t", names, [], True)
    return merged(trials)


Scene = Callable[[Any], Any]
UNTRUE: list[tuple[str, Scene, type[Sound], str, str]] = [
    # field, what is tried, memory, words that are true of it, words that are not
    ("kill_checks", killed, Tied, "in another order", "lost"),
    ("orphans", orphaned, Tied, "in another order", "without its result|gone|changed"),
    ("windows", windowed, Tied, "in another order", "whole|changed|missing"),
    ("fidelity", sampled, Tied, "in another order", "lost|changed|not all come back"),
    ("fidelity", sampled, Refuses, "a call fails with ValueError", "lost|changed"),
    ("fidelity", sampled, Aborted, "a call fails with RuntimeError", "lost|changed|mixed up"),
    ("fidelity", sampled, DropsLong, "is missing", "changed|mixed up"),
    ("fidelity", sampled, CutsEmoji, "changed", "mixed up|another id"),
    ("fidelity", sampled, CutsIds, "under another id", "changed|missing"),
    ("version_checks", versioned, AcceptsOlder, "an old version is accepted", "is refused"),
    ("version_checks", versioned, Swallows, "though nothing is stored", "overwrites"),
    ("keys", redelivered, Fails, "a call fails with OSError", "stored again"),
    ("update_checks", updated, StaleUsers, "an earlier state", "still changes|merges|keeps what"),
    ("isolation", erring, StaleUsers, "an earlier state", "leaves data behind|breaks"),
]


@pytest.mark.parametrize(
    ("field", "scene", "memory", "true", "untrue"),
    UNTRUE,
    ids=[f"{field}-{memory.__name__}" for field, _, memory, *_ in UNTRUE],
)
async def test_a_sentence_says_what_was_found_and_no_more(
    field: str, scene: Scene, memory: type[Sound], true: str, untrue: str
) -> None:
    weak = {promise.name for _, promise in CASES if promise.weak}
    assert {check.promise for check in await scene(Sound()) if check.differing} <= weak
    broken = [check for check in await scene(memory()) if check.differing]
    found = answered(field, *broken)
    assert found.verdict == "fail"
    assert re.search(true, found.summary)
    sentences = re.sub(r"\([^()]*\)", "", found.summary)  # without the names of what was tried
    assert not re.search(untrue, sentences), found.summary
    assert found.counter_example.count("expected:") >= len({c.promise for c in broken})


def test_a_lost_result_is_not_a_second_run() -> None:
    trials = Trials()
    forgotten = {"error": None, "result": None, "ran": 0}
    tasks._compare(trials, "long task", "ask for a long task again", "long", 0, forgotten)
    found = answered("task_checks", *merged(trials))
    assert "its result is not returned (long task)" in found.summary
    assert "more than once" not in found.summary


@pytest.mark.parametrize(
    ("promise", "kind", "true", "untrue"),
    [
        ("failed step not recorded as done", AGAIN, "a finished step runs again", "as done"),
        ("takeover by another replica", AGAIN, "a finished step runs again", "no replica"),
        ("failed step not recorded as done", TOLD, "ends without an error", "as done"),
        ("concurrent drivers", ERROR, "a call fails", "more than once"),
    ],
)
def test_a_step_that_runs_again_is_not_one_that_was_left_out(
    promise: str, kind: str, true: str, untrue: str
) -> None:
    trials = Trials()
    trials.differ(promise, "drive a workflow", "ship", "charge, ship", kind)
    found = answered("workflow_checks", *merged(trials))
    assert true in found.summary
    assert untrue not in found.summary.replace(promise, "")


def test_one_writer_without_a_kill_takes_the_blame_from_the_kill() -> None:
    def of(promise: str, kind: str) -> list[Check]:
        trials = Trials()
        trials.differ(promise, f"append 2 messages, acknowledged{kills.KILLED}", "two", "two", kind)
        return merged(trials)

    killing = [*of("acknowledged turns", REORDERED), *of("whole turns", MISSING)]
    checks = kills._not_blamed(killing, of("acknowledged turns", REORDERED))
    found = answered("kill_checks", *checks)
    assert "a kill leaves parts of a turn" in found.summary
    assert "in another order (one writer, without any kill) (1 of 1 trial)" in found.summary
    assert "acknowledged turns" not in found.summary
    assert "append 2 messages, acknowledged\n" in found.counter_example


TURNS = [f"0/{number}" for number in range(20)]
ORDER = [(name, part) for name in TURNS for part in (0, 1)]
OTHER = [
    (
        "a user's document was empty",
        {"outages": [outage(tried=[Tried("user", 0.1, 0.2, "read", complete=False)])]},
        "outage", "an incomplete user's state", "history",
    ),
    (
        "messages of a turn in reverse",
        {"turn_race": TurnRace(TURNS, [(name, 1 - part) for name, part in ORDER], 2)},
        "races", "the messages of 20 turns of 20 are in another order", "split turn",
    ),
    (
        "a backup without users",
        {"drill": Drill(30, {"t": list(range(30))}, {"t": list(range(30))}, False, 1.0, 1.0,
                        "store")},
        "backup", "users' state did not come back as it was", "turns|not what was backed up",
    ),
    (
        "a count of zero",
        {"monitoring": Monitoring("its metrics", 0, dict.fromkeys(("p50", "p95", "p99"), 0.1),
                                  True, 12, "down", 1.0)},
        "monitoring", "do not count lookups", "percentiles",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "id", "true", "untrue"), [each[1:] for each in OTHER],
                         ids=[each[0] for each in OTHER])  # fmt: skip
def test_other_questions_name_what_was_found(
    changes: dict[str, Any], id: str, true: str, untrue: str
) -> None:
    record = good()
    for field, value in changes.items():
        setattr(record, field, value)
    found = answer(judged(record), id)
    assert found.verdict == "fail"
    assert true in found.summary
    assert not re.search(untrue, found.summary + found.counter_example)


def test_a_slow_call_is_not_said_to_have_no_timeout() -> None:
    record = good()
    record.outages = [slow("error", 9.0)]
    found = answer(judged(record), "outage")
    assert "a change of a user's state took 9.0 s to fail (the link is cut)" in found.summary
    record.outages = [slow("stored", 9.0)]
    assert "took 9.0 s to succeed" in answer(judged(record), "outage").summary


def slow(outcome: str, seconds: float) -> Outage:
    return outage(tried=[Tried("change", 0.1, seconds, outcome), Tried("read", 0.1, 0.1, "read")])


def test_a_race_is_to_be_tried_several_times() -> None:
    record = good()
    record.turn_race = TurnRace(TURNS, ORDER[2:], 2)
    assert answer(judged(record), "races").attempts == 5
    assert answer(judged(good()), "races").attempts == 1
