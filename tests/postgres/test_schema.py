"""The schema: migrated by several at once, used by a role with few rights, read with SQL."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from servers.postgres import PostgresServer

import stateward
from postgres.conftest import make_blocking, make_engine
from stateward.engine import (
    CALL_SECONDS,
    GRACE,
    KEY_SECONDS,
    KEYS_KEPT,
    OPS_KEPT,
    OPS_MOST,
    OPS_SECONDS,
)
from stateward.engines.postgres import schema as postgres_schema
from stateward.engines.postgres.schema import adapted, migrations
from stateward.engines.sql import Migration
from stateward.errors import SchemaError
from stateward.ops import Acquire, Append, Applied, Commit, Drop, Entity, Fetch, Put, SetHead, Sweep


def test_replicas_that_start_at_once_migrate_once(url: str) -> None:
    engines = [make_blocking(url) for _ in range(8)]
    with ThreadPoolExecutor(len(engines)) as threads:
        applied = list(threads.map(lambda engine: list(engine.migrate()), engines))
    names = [step.name for step in migrations("any")]
    assert sorted(applied) == [*[[]] * 7, names]


def test_replicas_that_open_at_once_all_work(url: str) -> None:
    def use(number: int) -> Any:
        engine = make_blocking(url)
        engine.open()
        it = Entity("n", "thread", f"{number}")
        outcome = engine.execute([Commit(it, "op", (Append(("1",)),))])[0]
        engine.close()
        return outcome

    with ThreadPoolExecutor(6) as threads:
        outcomes = list(threads.map(use, range(6)))
    assert all(isinstance(outcome, Applied) for outcome in outcomes)


LATER = """-- oldest release that may use the schema after this step: 0.2.0
ALTER TABLE stateward.entities ADD COLUMN colour text;
CREATE INDEX log_by_time ON stateward.log (at);
CREATE OR REPLACE FUNCTION stateward.clock() RETURNS float8 LANGUAGE sql VOLATILE AS
$$ SELECT date_part('epoch', statement_timestamp()) $$;
"""


def test_a_schema_migrated_step_by_step_is_as_a_fresh_one_and_as_the_printed_sql_leaves_it(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = (make_blocking(server.url_of(name)) for name in ("zz_1", "zz_2", "zz_3"))
    first = [step.name for step in migrations("any")]
    assert one.migrate() == first
    before = catalogue(server, "zz_1")

    def newer(name: str) -> list[Migration]:
        """What a newer release has: one migration more."""
        return [*migrations(name), Migration(later, adapted(LATER, name))]

    later = f"{len(first) + 1:04}_later"
    monkeypatch.setattr(postgres_schema, "migrations", newer)
    assert one.migrate() == [later]
    assert two.migrate() == [*first, later]
    server.run_sql(three.pending_sql())  # type: ignore[attr-defined]
    assert three.migrate() == []
    assert before != catalogue(server, "zz_1")
    assert catalogue(server, "zz_1") == catalogue(server, "zz_2") == catalogue(server, "zz_3")
    for engine in (one, two, three):
        engine.open()
        assert engine.describe().schema == len(first) + 1
        engine.close()


def catalogue(server: PostgresServer, schema: str) -> list[Any]:
    """Everything in a schema, in words."""
    inside = f"= '{schema}'::regnamespace"
    queries = (
        "SELECT c.relname, c.relkind::text, c.reloptions::text FROM pg_class c"
        f" WHERE c.relnamespace {inside} ORDER BY 1",
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
        " a.attidentity::text, a.attcollation::regcollation::text,"
        " pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a JOIN pg_class c ON"
        " c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum"
        f" WHERE a.attnum > 0 AND c.relnamespace {inside} ORDER BY 1, 2",
        f"SELECT indexdef FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY indexname",
        f"SELECT definition FROM pg_views WHERE schemaname = '{schema}' ORDER BY viewname",
        f"SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace {inside} ORDER BY proname",
    )
    return [
        str(row).replace(f'"{schema}"', "SCHEMA").replace(schema, "SCHEMA")
        for query in queries
        for row in server.run_sql(query)
    ]


def test_the_promises_in_sql_are_those_of_the_contract() -> None:
    text = "".join(step.sql for step in migrations("any"))
    ops = (OPS_SECONDS, OPS_KEPT, OPS_MOST, CALL_SECONDS)
    for number in (GRACE, GRACE / 10, KEY_SECONDS, KEYS_KEPT, *ops):
        assert str(int(number)) in text, number


def test_without_migrating_a_store_says_what_is_missing_and_the_sql_for_it(
    server: PostgresServer, url: str
) -> None:
    careful = make_blocking(f"{url}&migrate=off")
    with pytest.raises(SchemaError, match=r"0001_initial.*migrate"):
        careful.open()
    server.run_sql(careful.pending_sql())  # type: ignore[attr-defined]
    careful.open()
    assert list(careful.migrate()) == []
    assert careful.pending_sql() == ""  # type: ignore[attr-defined]
    careful.close()


def test_a_schema_of_a_newer_release_is_refused(
    server: PostgresServer, url: str, schema: str
) -> None:
    make_blocking(url).migrate()
    server.run_sql(f"UPDATE {schema}.about SET value = '99.0.0' WHERE name = 'oldest_release'")
    for attempt in (make_blocking(url).open, make_blocking(url).migrate):
        with pytest.raises(SchemaError, match=r"needs Stateward 99\.0\.0"):
            attempt()


def test_a_schema_that_holds_something_else_is_left_alone(
    server: PostgresServer, url: str, schema: str
) -> None:
    server.run_sql(f"CREATE SCHEMA {schema}")
    server.run_sql(f"CREATE TABLE {schema}.entities (precious text)")
    with pytest.raises(SchemaError, match="something else"):
        make_blocking(url).open()
    tables = server.run_sql(
        f"SELECT relname FROM pg_class WHERE relnamespace='{schema}'::regnamespace"
    )
    assert tables == [("entities",)]


def test_a_schema_that_vanishes_is_not_taken_for_an_empty_store(
    server: PostgresServer, url: str, schema: str
) -> None:
    engine = make_blocking(url)
    engine.open()
    server.run_sql(f"DROP SCHEMA {schema} CASCADE")
    for op in (
        Fetch(Entity("n", "thread", "it")),
        Commit(Entity("n", "thread", "it"), "op", (Append(("1",)),)),
    ):
        with pytest.raises(SchemaError, match="migrate"):
            engine.execute([op])
    engine.close()


def test_a_database_that_cannot_hold_all_text_is_refused(server: PostgresServer) -> None:
    server.run_sql("CREATE DATABASE narrow ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(SchemaError, match="UTF8"):
        make_blocking(server.database("narrow")).open()


DOCS = Path(__file__).parents[2] / "docs"


def sql_of(page: str, schema: str, role: str = "agents") -> list[str]:
    """The SQL that a page shows, for this schema and role."""
    shown = re.findall(r"^```sql\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.DOTALL | re.M)
    assert shown, page
    return [re.sub(r"\bagents\b", role, re.sub(r"\bstateward\b", schema, text)) for text in shown]


async def test_a_role_without_other_rights_can_do_everything(
    server: PostgresServer, url: str, schema: str
) -> None:
    make_blocking(url).migrate()
    role = f"{schema}_agent"
    (grants,) = sql_of("how-to/managed-postgresql.md", schema, role)
    create, _, rest = grants.partition(";")
    server.run_sql("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema + " FROM PUBLIC")
    server.run_sql(create)
    theirs = url.replace("postgres@", f"{role}@") + "&migrate=off"
    with pytest.raises(SchemaError, match="grant"):
        await make_engine(theirs).open()
    server.run_sql(rest)
    (shorter,) = sql_of("reference/urls.md", schema, role)
    assert all(line in grants for line in shorter.splitlines())
    async with stateward.open(theirs) as store:
        thread = store.thread("t", user="u")
        await thread.append({"n": 1})
        assert (await thread.load()).messages == [{"n": 1}]
        await store.user("u").put({"name": "someone"})
        assert [info.id async for info in store.threads(user="u")] == ["t"]
        await thread.delete()
        await store.sweep()
        assert (await store.health()).ok
    engine = make_engine(theirs)
    await engine.open()
    await engine.wait({Entity("n", "thread", "t"): 0}, 0.2)
    await engine.close()


async def test_a_store_describes_how_durable_it_is(server: PostgresServer, url: str) -> None:
    engine = make_engine(url)
    await engine.open()
    said = await engine.describe()
    await engine.close()
    assert (said.engine, said.schema) == ("postgresql", len(migrations("any")))
    assert said.version.startswith("18")
    assert said.settings["fsync"] == said.settings["synchronous_commit"] == "on"
    assert said.settings["max_connections"] == 60
    assert said.bytes is not None
    assert said.bytes > 0
    assert "survives" in said.durability


async def test_a_store_that_may_lose_writes_says_so(server: PostgresServer, schema: str) -> None:
    server.run_sql(f"CREATE ROLE {schema}_hasty LOGIN SUPERUSER")
    server.run_sql(f"ALTER ROLE {schema}_hasty SET synchronous_commit = off")
    engine = make_engine(server.url_of(schema).replace("postgres@", f"{schema}_hasty@"))
    await engine.open()
    assert "may lose" in (await engine.describe()).durability
    await engine.close()


# --- views ------------------------------------------------------------------------------


async def test_threads_messages_and_users_can_be_read_with_sql(
    server: PostgresServer, url: str, schema: str
) -> None:
    async with stateward.open(url, namespace="shop") as store:
        await store.thread("t-1", user="u-1").append({"role": "user", "content": "Grüße"})
        await store.thread("t-1", user="u-1").append({"role": "assistant", "content": "Hi"})
        await store.thread("gone", user="u-1").append({"role": "user", "content": "no"})
        await store.thread("gone", user="u-1").delete()
        await store.user("u-1").put({"plan": "gold"}, name="profile")
    assert server.run_sql(
        f'SELECT namespace, thread, "user", version, messages, expires_at > created_at'
        f" FROM {schema}.threads"
    ) == [("shop", "t-1", "u-1", 2, 2, True)]
    assert server.run_sql(
        f"SELECT thread, version, message ->> 'role', message ->> 'content'"
        f" FROM {schema}.messages ORDER BY version"
    ) == [("t-1", 1, "user", "Grüße"), ("t-1", 2, "assistant", "Hi")]
    assert server.run_sql(
        f"SELECT \"user\", document, version, value ->> 'plan' FROM {schema}.users"
    ) == [("u-1", "profile", 1, "gold")]


def test_workflows_and_tasks_can_be_read_with_sql(
    server: PostgresServer, url: str, schema: str
) -> None:
    engine = make_blocking(url)
    engine.open()
    meta = json.dumps({"kind": "refund", "input": {"order": 991}, "machine": {}})
    call = json.dumps({"name": "charge", "fingerprint": "f", "args": [991], "kwargs": {}})
    error = json.dumps({"type": "X", "message": "declined", "permanent": False, "failures": 2})
    running = SetHead(status="active", due_in=30.0)
    engine.execute(
        [
            Commit(
                Entity("n", "workflow", "w-1"),
                "op",
                (
                    Acquire("nonce", 30.0, "replica 1"),
                    running,
                    Put("meta", meta),
                    Put("state", '{"approved": true}'),
                    Put("step", '{"at": "review"}'),
                    Append(('{"step": "fetch"}',)),
                ),
                owner="u-1",
            ),
            Commit(
                Entity("n", "task", "done"),
                "op",
                (SetHead(status="completed"), Put("call", call), Put("result", '{"value": 7}')),
            ),
            Commit(
                Entity("n", "task", "failed"),
                "op",
                (SetHead(status="failed"), Put("call", call), Put("error", error)),
            ),
        ]
    )
    engine.close()
    assert server.run_sql(
        "SELECT workflow, kind, \"user\", status, step, input ->> 'order',"
        f" state ->> 'approved', recorded, driver, due_at > now() FROM {schema}.workflows"
    ) == [("w-1", "refund", "u-1", "active", "review", "991", "true", 1, "replica 1", True)]
    assert server.run_sql(
        f"SELECT task, function, status, failures, error, result::text FROM {schema}.tasks"
        " ORDER BY task"
    ) == [
        ("done", "charge", "completed", 0, None, "7"),
        ("failed", "charge", "failed", 2, "declined", None),
    ]


def test_the_views_are_those_of_the_reference_and_its_questions_can_be_asked(
    server: PostgresServer, url: str, schema: str
) -> None:
    make_blocking(url).migrate()
    page = (DOCS / "reference/sql-views.md").read_text("utf-8")
    there: dict[str, set[str]] = {}
    for view, column in server.run_sql(
        "SELECT table_name, column_name FROM information_schema.columns JOIN"
        " information_schema.views USING (table_schema, table_name)"
        f" WHERE table_schema = '{schema}'"
    ):
        there.setdefault(view, set()).add(column)
    assert set(there) == {"threads", "messages", "users", "workflows", "tasks"}
    for view, columns in there.items():
        section = page.partition(f"\n## `{view}`\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", " ".join(rows))) == columns, view
    reader = f"{schema}_reader"
    for statement in (
        f"CREATE ROLE {reader} LOGIN",
        f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC",
        f"GRANT USAGE ON SCHEMA {schema} TO {reader}",
        f"GRANT EXECUTE ON FUNCTION {schema}.clock() TO {reader}",
        *(f"GRANT SELECT ON {schema}.{view} TO {reader}" for view in there),
    ):
        server.run_sql(statement)
    questions = sql_of("reference/sql-views.md", schema)
    assert len(questions) >= 4
    with psycopg.connect(server.url.replace("postgres@", f"{reader}@")) as connection:
        for question in questions:
            assert connection.execute(question).fetchall() == []  # type: ignore[call-overload]


def test_what_is_swept_is_gone_from_the_tables(
    server: PostgresServer, url: str, schema: str
) -> None:
    engine = make_blocking(url)
    engine.open()
    it = Entity("n", "thread", "it")
    engine.execute([Commit(it, "1", (Append(('"secret"',)), Put("doc", '"secret"')))])
    engine.execute([Commit(it, "2", (Drop(),))])
    assert server.run_sql(f"SELECT count(*) FROM {schema}.log") == [(1,)]
    swept = engine.execute([Sweep()])[0]
    assert (swept.rows, swept.more) == (2, False)  # type: ignore[union-attr]
    for table in ("log", "documents"):
        assert server.run_sql(f"SELECT count(*) FROM {schema}.{table}") == [(0,)]
    assert server.run_sql(f"SELECT count(*) FROM {schema}.entities") == [(1,)]
    engine.close()


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from stateward.errors import InvalidInput

    for name in [
        name for name in sys.modules if name.startswith(("psycopg", "stateward.engines.p"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidInput, match=r"pip install 'stateward\[postgres\]'"):
        make_engine("postgresql://host/database")
    assert psycopg is not None
