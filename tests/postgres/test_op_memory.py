"""The log remembers appends: no row of `ops` for them, and every retry is known all the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from servers.postgres import PostgresServer

from postgres.conftest import make_blocking
from stateward.engine import SyncEngine
from stateward.engines.postgres.arrays import register
from stateward.engines.postgres.commit import commit_alone, commit_batch
from stateward.engines.postgres.schema import Queries
from stateward.ops import (
    Append,
    Commit,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    KeyReused,
    Log,
    Put,
    Trim,
)

IT, OTHER = Entity("n", "thread", "it"), Entity("n", "thread", "other")


@pytest.fixture
def engine(url: str) -> Iterator[SyncEngine]:
    engine = make_blocking(url)
    engine.open()
    yield engine
    engine.close()


def append(op: str, entity: Entity = IT, key: str | None = None, body: str = "1") -> Commit:
    return Commit(entity, op, (Append((body, "2"), key),))


def remembered(server: PostgresServer, schema: str) -> set[str]:
    return {op for (op,) in server.run_sql(f"SELECT op FROM {schema}.ops")}


def entries(engine: SyncEngine, entity: Entity = IT) -> list[str]:
    """The ops of the appends that are stored."""
    (fetched,) = engine.execute([Fetch(entity, log=Log(details=True))])
    assert isinstance(fetched, Fetched)
    return [entry.stamp for entry in fetched.entries[1::2]]


@contextmanager
def under_way(server: PostgresServer, schema: str, commit: Commit) -> Iterator[None]:
    """The same call from another connection, stored but not yet committed: a late first attempt."""
    statement = commit_alone([(0, commit)], Queries(schema))
    with psycopg.connect(server.url) as connection:
        register(connection)
        connection.execute(statement.query, statement.params)  # type: ignore[call-overload]
        yield
        connection.commit()


def waits(server: PostgresServer) -> bool:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    return bool(server.run_sql(query)[0][0])


def ask_while_under_way(
    server: PostgresServer, schema: str, engine: SyncEngine, first: Commit, batch: list[Commit]
) -> list[Any]:
    """What a batch answers that has to wait for that first attempt."""
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.extend(engine.execute(batch)))
    with under_way(server, schema, first):
        asking.start()
        while not waits(server) and asking.is_alive():
            pass
    asking.join(30)
    return answers


def test_an_everyday_append_leaves_no_row_in_ops(
    server: PostgresServer, engine: SyncEngine, schema: str
) -> None:
    engine.execute([append("1"), append("1 of the other", OTHER)])
    begun = remembered(server, schema)
    engine.execute([append("2")])
    engine.execute([append("3"), append("3 of the other", OTHER)])
    assert remembered(server, schema) == begun == {"1", "1 of the other"}


@pytest.mark.parametrize("together", [False, True])
def test_a_repeated_append_gets_its_first_answer(engine: SyncEngine, together: bool) -> None:
    beside = [append("beside", OTHER)] if together else []
    engine.execute([append("1")])
    (first,) = engine.execute([append("2")])
    engine.execute([append("3")])
    again, *_ = engine.execute([append("2"), *beside])
    assert isinstance(again, Duplicate)
    assert again.own
    assert again.first == first
    assert entries(engine) == ["1", "2", "3"]
    assert entries(engine, OTHER) == (["beside"] if together else [])


@pytest.mark.parametrize("together", [False, True])
def test_ops_that_come_out_of_order_are_applied_once(
    server: PostgresServer, engine: SyncEngine, schema: str, together: bool
) -> None:
    """Only one that is greater than all before is known to be new without being looked for."""
    beside = [append("beside", OTHER)] if together else []
    engine.execute([append("5")])
    engine.execute([Commit(IT, "9", (Put("d", "1"),))])
    came = ["6", "3", "a", "B", "9a", "4", "é", "b", "c"]
    firsts = {op: engine.execute([append(op), *beside])[0] for op in came}
    assert entries(engine) == ["5", *came]
    for op, first in reversed(firsts.items()):
        again, *_ = engine.execute([append(op), *beside])
        assert isinstance(again, Duplicate)
        assert again.first == first
    (put,) = engine.execute([append("9")])
    assert isinstance(put, Duplicate)
    assert entries(engine) == ["5", *came]
    # Each was filed once, when the next one came that was not the greatest.
    assert remembered(server, schema) - {"beside"} == {"5", "9", *came}
    ((filed, version),) = server.run_sql(
        f"SELECT restored, version FROM {schema}.entities WHERE name = 'it'"
    )
    assert filed == version


def test_of_ops_in_order_none_is_filed(
    server: PostgresServer, engine: SyncEngine, schema: str
) -> None:
    for op in ("1", "2", "3", "4"):
        engine.execute([append(op)])
    filed = f"SELECT restored FROM {schema}.entities WHERE name = 'it'"
    assert server.run_sql(filed) == [(0,)]
    engine.execute([append("35")])  # as from a process whose clock is behind
    assert server.run_sql(filed) == [(8,)]
    engine.execute([append("5")])
    assert server.run_sql(filed) == [(8,)]
    engine.execute([append("41")])
    assert server.run_sql(filed) == [(12,)]
    assert entries(engine) == ["1", "2", "3", "4", "35", "5", "41"]
    assert remembered(server, schema) == {"1", "2", "3", "4", "35", "5"}


@pytest.mark.parametrize("together", [False, True])
def test_a_retry_that_waits_for_its_first_attempt_is_not_stored_again(
    server: PostgresServer, engine: SyncEngine, schema: str, together: bool
) -> None:
    engine.execute([append("1"), append("1", OTHER)])
    batch = [append("late"), *([append("beside", OTHER)] if together else [])]
    answers = ask_while_under_way(server, schema, engine, append("late"), batch)
    assert isinstance(answers[0], Duplicate)
    assert answers[0].own
    assert entries(engine) == ["1", "late"]
    assert entries(engine, OTHER) == (["1", "beside"] if together else ["1"])


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("body", "kind"), [("1", Duplicate), ("another", KeyReused)])
def test_a_key_that_was_waited_for_is_known(
    server: PostgresServer, engine: SyncEngine, schema: str, together: bool, body: str, kind: type
) -> None:
    engine.execute([append("1"), append("1", OTHER)])
    batch = [append("b", key="k", body=body), *([append("beside", OTHER)] if together else [])]
    answers = ask_while_under_way(server, schema, engine, append("a", key="k"), batch)
    assert isinstance(answers[0], kind)
    assert entries(engine) == ["1", "a"]


@pytest.mark.parametrize("together", [False, True])
def test_an_append_that_waited_for_another_is_not_older(
    server: PostgresServer, engine: SyncEngine, schema: str, together: bool
) -> None:
    """The later call may be the first to get the lock."""
    engine.execute([append("1"), append("1", OTHER)])
    batch = [append("b"), *([append("beside", OTHER)] if together else [])]
    statement = (commit_batch if together else commit_alone)(
        list(enumerate(batch)), Queries(schema)
    )
    with psycopg.connect(server.url) as holder, psycopg.connect(server.url) as late:
        register(late)
        holder.execute(f"SELECT FROM {schema}.entities WHERE name = 'it' FOR UPDATE")  # type: ignore[call-overload]
        asking = threading.Thread(target=lambda: late.execute(statement.query, statement.params))  # type: ignore[call-overload]
        asking.start()
        while not waits(server):
            pass
        sooner = commit_alone([(0, append("a"))], Queries(schema))
        holder.execute(sooner.query, sooner.params)  # type: ignore[call-overload]
        holder.commit()
        asking.join(30)
        late.commit()
    (fetched,) = engine.execute([Fetch(IT, log=Log(details=True))])
    assert isinstance(fetched, Fetched)
    assert [entry.stamp for entry in fetched.entries[1::2]] == ["1", "a", "b"]
    times = [entry.at for entry in fetched.entries]
    assert times == sorted(times)
    (again,) = engine.execute([append("b")])
    assert isinstance(again, Duplicate)
    assert again.first.at == times[-1] == fetched.head.updated


def test_trimmed_and_dropped_entries_leave_their_ops(
    server: PostgresServer, engine: SyncEngine, schema: str
) -> None:
    engine.execute([append("1")])
    firsts = {op: engine.execute([append(op)])[0] for op in ("2", "3")}
    engine.execute([Commit(IT, "trim", (Trim(4),))])
    assert server.run_sql(f"SELECT count(*) FROM {schema}.log") == [(2,)]
    engine.execute([Commit(IT, "drop", (Drop(),))])
    engine.execute([append("another life")])
    for op, first in firsts.items():
        (again,) = engine.execute([append(op)])
        assert isinstance(again, Duplicate)
        assert again.first == first


def test_an_append_that_is_trimmed_by_its_own_commit_is_known_with_all_it_did(
    engine: SyncEngine,
) -> None:
    engine.execute([append("1")])
    commit = Commit(IT, "all", (Append(("1", "2")), Put("d", "1"), Trim(4)))
    (first,) = engine.execute([commit])
    (again,) = engine.execute([commit])
    assert isinstance(again, Duplicate)
    assert again.first == first


def test_of_a_long_log_only_what_is_owed_is_copied(
    server: PostgresServer, engine: SyncEngine, schema: str
) -> None:
    engine.execute([append("begin")])
    for number in range(80):
        engine.execute([append(f"c{number:02}")])
    server.run_sql(f"UPDATE {schema}.log SET at = at - 700")
    engine.execute([Commit(IT, "drop", (Drop(),))])
    assert remembered(server, schema) == {"begin", "drop", *(f"c{n}" for n in range(16, 80))}
