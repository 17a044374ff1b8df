"""The log remembers appends without an index of ops: every retry is known, in whatever order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from stateward.engine import OPS_KEPT
from stateward.engines.sqlite.file import File
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    Log,
    Outcome,
    Put,
    Trim,
)
from stateward.sync.engines.sqlite.engine import SqliteEngine
from stateward.world import World

IT, OTHER = Entity("n", "thread", "it"), Entity("n", "thread", "other")


@pytest.fixture
def engine(path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(File(str(path), relaxed=True, migrate=True, world=World()))
    engine.open()
    yield engine
    engine.close()


def append(op: str, entity: Entity = IT) -> Commit:
    return Commit(entity, op, (Append((f'"{op}"', "2")),))


def answer(engine: SqliteEngine, commit: Commit) -> Outcome:
    (outcome,) = engine.execute([commit])
    return outcome


def entries(engine: SqliteEngine, entity: Entity = IT) -> list[str]:
    """The ops of the appends that are stored."""
    (fetched,) = engine.execute([Fetch(entity, log=Log(details=True))])
    assert isinstance(fetched, Fetched)
    return [entry.stamp for entry in fetched.entries[1::2]]


def remembered(path: Path) -> set[str]:
    connection = apsw.Connection(str(path))
    try:
        return {op for (op,) in connection.execute("SELECT op FROM ops").fetchall()}
    finally:
        connection.close()


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in a batch"])
@pytest.mark.parametrize("seed", range(8))
def test_appends_in_any_order_are_known_when_they_are_sent_again(
    engine: SqliteEngine, together: bool, seed: int
) -> None:
    chance = random.Random(seed)
    ops = [f"{number:03}" for number in range(40)]
    chance.shuffle(ops)
    first: dict[str, Outcome] = {}
    for count, op in enumerate(ops, 1):
        again = chance.choice(ops[:count])
        for sent in (op, again):
            commits = [append(sent), append(sent, OTHER)] if together else [append(sent)]
            outcomes = engine.execute(commits)
            if sent not in first:
                assert [type(outcome) for outcome in outcomes] == [Applied] * len(commits)
                first[sent] = outcomes[0]
            else:
                known = [outcome for outcome in outcomes if isinstance(outcome, Duplicate)]
                assert [each.own for each in known] == [True] * len(commits)
                assert known[0].first == first[sent]
    assert entries(engine) == ops


def test_ops_that_ascend_have_no_row_of_their_own(engine: SqliteEngine, path: Path) -> None:
    for number in range(9):
        assert isinstance(answer(engine, append(f"{number}")), Applied)
    assert isinstance(answer(engine, append("8")), Duplicate)  # the last one: the log tells it
    assert remembered(path) == {"0"}  # which made the conversation
    assert isinstance(answer(engine, append("4")), Duplicate)
    assert remembered(path) == {f"{number}" for number in range(9)}


def test_what_is_filed_is_what_an_entity_owes(engine: SqliteEngine, path: Path) -> None:
    """All of the last two minutes, and at least so many, also of a long conversation."""
    ops = [f"{number:04}" for number in range(3 * OPS_KEPT)]
    for op in ops:
        answer(engine, append(op))
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE log SET at = at - 100000")
    connection.close()
    assert isinstance(answer(engine, append(ops[-OPS_KEPT])), Duplicate)
    assert remembered(path) >= set(ops[-OPS_KEPT:])
    assert ops[OPS_KEPT] not in remembered(path)


def test_a_commit_of_more_than_an_append_may_come_out_of_order(engine: SqliteEngine) -> None:
    late = Commit(IT, "5", (Append(("1", "2")), Put("state", "{}")))
    for commit in (append("1"), append("7"), late, append("6")):
        assert isinstance(answer(engine, commit), Applied)
    for commit in (append("7"), late, append("6"), append("1")):
        assert isinstance(answer(engine, commit), Duplicate)
    assert entries(engine) == ["1", "7", "5", "6"]


def test_a_trimmed_append_out_of_order_is_known(engine: SqliteEngine) -> None:
    for op in ("3", "9", "4"):
        answer(engine, append(op))
    assert isinstance(answer(engine, Commit(IT, "a", (Trim(6),))), Applied)
    for op in ("9", "4", "3"):
        assert isinstance(answer(engine, append(op)), Duplicate)
    assert isinstance(answer(engine, append("b")), Applied)
    assert entries(engine) == ["b"]
