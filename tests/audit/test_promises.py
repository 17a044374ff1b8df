"""Every promise that is tried: broken it fails its question, untried it is not passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from audit.auditing import answer, judged
from audit.test_questions import good
from stateward.audit import questions
from stateward.audit.questions.promise import Promise
from stateward.audit.record import Check, Counterexample, Record
from stateward.audit.workloads.trials import Trials, difference, merged, message_difference, shown
from stateward.cli.audit.run import saved
from stateward.errors import InvalidInput

# The fields of a record that hold checks, and the questions that judge them.
JUDGED: dict[str, Any] = {
    "fidelity": questions.fidelity,
    "windows": questions.windows,
    "keys": questions.keys,
    "isolation": questions.isolation,
    "lock_checks": questions.locks,
    "task_checks": questions.tasks,
    "workflow_checks": questions.workflows,
    "version_checks": questions.conflicts,
    "update_checks": questions.updates,
    "kill_checks": questions.kills,
    "lasting": questions.keepsakes,
    "retention": questions.retention,
    "effects": questions.effects,
    "orphans": questions.orphans,
    "erasure": questions.erasure,
    "context": questions.context,
}
CASES = [
    (field, promise)
    for field, module in JUDGED.items()
    for promise in (*module.PROMISES, *getattr(module, "EXTREMES", ()))
]
CHANCE = {  # whether these come about is chance, or depends on the memory
    ("kill_checks", "whole turns"),
    ("kill_checks", "redelivery after a kill"),
    ("kill_checks", "completed tasks"),
    ("workflow_checks", "results of steps"),
    ("task_checks", "failed task can be retried"),
    ("effects", "same key for every attempt"),
    ("effects", "repeated actions can be detected"),
    ("erasure", "a later backup"),
    ("erasure", "no trace in the server's files"),
    ("erasure", "spilled turns"),
    ("isolation", "separate tenants"),
    ("isolation", "transactions end with their call"),
    ("erasure", "transactions end with their call"),
    ("kill_checks", "one writer, without any kill"),
    *(("fidelity", promise.name) for promise in questions.fidelity.EXTREMES),
}


def changed(field: str, name: str, **changes: Any) -> Record:
    """A good record in which one check is another."""
    record = good()
    checks: list[Check] = getattr(record, field)
    setattr(record, field, [replace(c, **changes) if c.promise == name else c for c in checks])
    return record


@pytest.mark.parametrize(("field", "promise"), CASES, ids=[f"{f}-{p.name}" for f, p in CASES])
def test_a_promise_that_is_broken_once_fails_its_question(field: str, promise: Promise) -> None:
    example = Counterexample("do this", "one", "another")
    record = changed(field, promise.name, differing=1, examples=[example])
    found = answer(judged(record), JUDGED[field].QUESTION.id)
    assert found.verdict == ("warn" if promise.weak else "fail")
    assert f"{promise.broken} (1 of 20 trials)" in found.summary
    assert found.counter_example == "do this\n  expected: one\n  found:    another"
    assert found.remedy
    assert f"--only {found.id}" in found.reproduce


@pytest.mark.parametrize(("field", "promise"), CASES, ids=[f"{f}-{p.name}" for f, p in CASES])
def test_a_promise_that_was_not_tried_is_not_kept(field: str, promise: Promise) -> None:
    record = good()
    checks: list[Check] = getattr(record, field)
    setattr(record, field, [check for check in checks if check.promise != promise.name])
    found = answer(judged(record), JUDGED[field].QUESTION.id)
    if (field, promise.name) in CHANCE:
        assert found.verdict == "pass"
    else:
        assert (found.verdict, promise.name in found.summary) == ("unknown", True)


def test_a_record_of_another_format_is_not_judged(tmp_path: Path) -> None:
    record, file = good(), tmp_path / "record.json"
    file.write_bytes(msgspec.json.encode(record))
    assert judged(saved(str(file))).answers == judged(record).answers
    record.format += 1
    file.write_bytes(msgspec.json.encode(record))
    with pytest.raises(InvalidInput, match="run the audit again"):
        saved(str(file))


def test_what_a_memory_refuses_by_an_error_is_no_failure_where_it_may() -> None:
    record = changed("fidelity", "extreme ids", refused=["an id of 600 bytes: ValueError"])
    found = answer(judged(record), "fidelity")
    assert found.verdict == "pass"
    assert "an id of 600 bytes: ValueError" in [fact.value for fact in found.evidence]
    record = changed("fidelity", "texts", refused=["emoji: UnicodeEncodeError"])
    assert answer(judged(record), "fidelity").verdict == "fail"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, 2], (1, 2)),
    ],
)
def test_values_that_are_the_same(one: Any, other: Any) -> None:
    assert difference(one, other) is None


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (True, 1, ""),
        (None, "", ""),
        (2**53 + 1, float(2**53), ""),
        ("1", 1, ""),
        ("e\u0301", "\u00e9", ""),
        ({"a": {"b": None}}, {"a": {}}, "['a']['b']"),
        ({"a": 1}, {"a": 1, "b": 2}, "['b']"),
        ([1, [2]], [1, [3]], "[1][0]"),
        ([1, 2], [1], "the number of items"),
    ],
)
def test_values_that_differ_are_told_with_where(one: Any, other: Any, where: str) -> None:
    found = difference(one, other)
    assert found is not None
    assert found[0] == where


def test_a_memory_may_give_messages_fields_of_its_own_but_none_may_be_missing() -> None:
    given = [{"role": "user", "content": "a", "name": None}]
    assert message_difference(given, [{**given[0], "id": 7, "at": "now"}]) is None
    assert message_difference(given, [{"role": "user", "content": "a"}]) is not None
    assert message_difference(given, []) is not None
    assert message_difference(given, [*given, *given]) is not None


def test_of_a_long_text_what_is_around_the_difference_is_shown() -> None:
    one, other = shown("x" * 70_000 + "end", "x" * 65_536)
    assert one.startswith("70,003 characters, of which from 65,476: ")
    assert other.startswith("65,536 characters")
    assert len(one) < 300


def test_trials_of_several_replicas_add_up() -> None:
    first, second = Trials(), Trials()
    first.compare("kept", "do", 1, 1)
    first.compare("broken", "do", [1, 2], [1, 3])
    second.compare("broken", "do", 1, 1)
    second.refuse("broken", "a thing", ValueError("no"))
    found = {check.promise: check for check in merged(first, second.plain())}
    assert (found["kept"].tried, found["kept"].differing) == (1, 0)
    assert (found["broken"].tried, found["broken"].differing) == (3, 1)
    assert found["broken"].examples == [Counterexample("do at [1]", "2", "3", "altered")]
    assert found["broken"].refused == ["a thing: ValueError: no"]
