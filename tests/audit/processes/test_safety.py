"""An audit does no harm to the store it looks at, and leaves nothing in it."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import redis
from servers.postgres import PostgresServer
from servers.redis import running

import stateward
import stateward.sync
from audit.auditing import SMALL, answer, judged, recorded, small
from stateward import cli
from stateward.audit.conductor import Audit
from stateward.audit.faults.choice import FaultChoice
from stateward.audit.faults.disk import Locked
from stateward.audit.options import plan
from stateward.audit.profiles import AuditSizes, sizes_of
from stateward.audit.safety import headroom, isolation
from stateward.audit.safety.probe import Probe, Stop
from stateward.audit.targets.store import StoreMemory, StoreTarget
from stateward.benchmark.benchmark import Benchmark, BenchPlan
from stateward.engines.redis.outcomes import times_of
from stateward.errors import InvalidInput


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


def schemas(server: PostgresServer) -> list[str]:
    rows = server.run_sql("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'stateward%'")
    return [name for (name,) in rows]


# --- nothing is left --------------------------------------------------------------------


def test_a_database_has_the_same_schemas_and_rows_after_an_audit(postgres: PostgresServer) -> None:
    with stateward.sync.open(postgres.url) as store:
        store.user("u-1").put({"name": "Noor"})
    rows = "SELECT namespace, kind, name FROM stateward.entities"
    before = postgres.run_sql(rows)
    seen: list[str] = []

    def watch(_: str) -> None:
        seen.extend(name for name in schemas(postgres) if name != "stateward")

    record = asyncio.run(Audit(small(postgres.url, "sessions"), watch).run())
    assert {a.verdict for a in judged(record).answers} == {"pass"}
    (own,) = set(seen)
    assert own.startswith("stateward_audit_")
    assert schemas(postgres) == ["stateward"]
    assert postgres.run_sql(rows) == before
    assert own not in json.dumps(record.environment)


def test_your_own_backup_is_told_the_schema_and_its_copy_is_looked_for_there(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    stateward_command = f"{shlex.quote(sys.executable)} -m stateward"
    postgres.run_sql("CREATE DATABASE copy")
    there, copy = postgres.url, postgres.database("copy")
    told = "?schema=$STATEWARD_AUDIT_SCHEMA"
    record = recorded(
        small(
            there,
            "backup",
            backup_command=f'{stateward_command} backup "{there}{told}" {tmp_path}/b '
            "--namespace $STATEWARD_AUDIT_NAMESPACE",
            restore_command=f'{stateward_command} restore {tmp_path}/b "{copy}{told}"',
            restored=copy,
        )
    )
    found = answer(judged(record), "backup")
    assert (found.verdict, record.problems) == ("pass", {}), found.summary


def test_a_schema_that_a_killed_audit_left_is_removed_by_clean_and_no_other(
    postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    target = StoreTarget(postgres.url, "stateward-audit-0123456789ab", "")
    left = target.apart(own=True, observing=False)
    asyncio.run(left.prepare())
    with stateward.sync.open(left.name, namespace=left.namespace) as store:
        store.user("u-1").put({"name": "Noor"})
    postgres.run_sql("CREATE SCHEMA stateward_audit_of_mine")  # without the note
    try:
        assert "stateward_audit_0123456789ab" in schemas(postgres)
        assert cli.main(["audit", "clean", postgres.url]) == 0
        assert "schema stateward_audit_0123456789ab: removed" in capsys.readouterr().out
        assert "stateward_audit_0123456789ab" not in schemas(postgres)
        assert "stateward_audit_of_mine" in schemas(postgres)
    finally:
        postgres.run_sql("DROP SCHEMA stateward_audit_of_mine")


def test_a_role_that_may_make_no_schema_is_told_what_to_do(postgres: PostgresServer) -> None:
    postgres.run_sql("CREATE ROLE weak LOGIN")
    url = postgres.url.replace("postgres@", "weak@")
    with pytest.raises(InvalidInput, match="GRANT CREATE ON DATABASE"):
        recorded(small(url, "sessions"))


def test_in_a_namespace_that_was_named_no_table_is_made_or_changed(tmp_path: Path) -> None:
    server = PostgresServer().start()
    try:
        with pytest.raises(stateward.SchemaError, match="stateward migrate"):
            recorded(small(server.url, "sessions", namespace="empty"))
        with pytest.raises(stateward.StatewardError, match="stateward migrate"):
            recorded(small(server.url, "settings", observe=True))
        assert schemas(server) == []
        with stateward.sync.open(server.url) as store:
            store.user("u-1").put({"name": "Noor"})
        record = recorded(small(server.url, "sessions", namespace="empty"))
        assert answer(judged(record), "sessions").verdict == "pass"
        living = "SELECT namespace FROM stateward.entities WHERE expires IS NULL OR expires > 0"
        assert server.run_sql(living) == [("default",)]
    finally:
        server.remove()


def test_a_redis_has_as_many_keys_after_an_audit_as_before(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        with stateward.sync.open(server.url) as store:
            store.user("u-1").put({"name": "Noor"})
        before = server.ask("DBSIZE")
        record = recorded(small(server.url, "sessions", "workflows"))
        assert {a.verdict for a in judged(record).answers} == {"pass"}
        assert record.workflow_checks
        assert server.ask("DBSIZE") == before


def test_a_file_has_no_row_of_an_audit_left(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    with stateward.sync.open(f"sqlite:///{path}") as store:
        store.user("u-1").put({"name": "Noor"})
    recorded(small(f"sqlite:///{path}", "sessions", "workflows"))
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT namespace, kind, name FROM entities").fetchall()
    assert rows == [("default", "user", "u-1")]
    for table in ("log", "documents", "ops"):
        theirs = f"SELECT count(*) FROM {table} WHERE entity NOT IN (SELECT id FROM entities)"
        assert connection.execute(theirs).get == 0
    connection.close()


def test_cleaning_a_file_that_is_not_there_makes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["audit", "clean", f"sqlite:///{tmp_path}/none.db"]) == 0
    assert "no audit has left anything" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


async def test_whatever_an_audit_writes_into_redis_expires_by_itself(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        presence = await isolation.Presence(server.url, "ours").begin()
        await presence.end()
        target = StoreMemory(StoreTarget(server.url, "ours", str(tmp_path)))
        await target.open()

        async def done() -> str:
            return "done"

        await target.append("t", [{"role": "user", "content": "hello"}], "k")
        await target.put_user("u", {"name": "Noor"})
        await target.run_once("task", done)
        await target.run_workflow("w", [("one", done)])
        async with target.lock("locked", 5.0):
            pass
        await target.close()
        keys = [word for word in server.ask("KEYS", "stateward:{*}").split() if b"{" in word]
        assert len(keys) >= 6
        with redis.Redis(port=server.port) as asking:
            for key in keys:  # no key has a time to live: the sweep removes what has expired
                _, expires = times_of(asking.hget(key, "tip"))
                assert 0 < expires - time.time() <= 9 * 86_400, key


# --- nothing of anybody else's is removed, or waits -------------------------------------


@pytest.fixture(params=["sqlite", "valkey", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/agents.db"
    elif request.param == "valkey":
        with running(tmp_path, "valkey") as server:
            yield server.url
    else:
        yield request.getfixturevalue("postgres").url


class Agent:
    """One that begins to use the store as soon as the audit or benchmark writes."""

    def __init__(self, url: str, namespace: str) -> None:
        self._url, self._namespace = url, namespace
        self.store: stateward.sync.Store | None = None

    def begin(self, *_: object) -> None:
        if self.store is None:
            self.store = stateward.sync.open(self._url, namespace=self._namespace)
            self.store.__enter__()
            self.store.user("u-1").put({"name": "Noor"})
            self.store.thread("customer-1", "u-1").append({"role": "user", "content": "hello"})

    def check(self) -> None:
        assert self.store is not None
        self.store.user("u-2").put({"name": "Ada"})
        self.store.close()
        with stateward.sync.open(self._url, namespace=self._namespace) as later:
            assert later.user("u-1").get().value == {"name": "Noor"}
            assert later.user("u-2").get().value == {"name": "Ada"}
            assert len(later.thread("customer-1", "u-1").load().messages) == 1
            assert [thread.id for thread in later.threads()] == ["customer-1"]


def test_an_agent_that_begins_during_an_audit_loses_nothing(url: str) -> None:
    agent = Agent(url, "default")
    record = asyncio.run(Audit(small(url, "sessions"), agent.begin).run())
    assert answer(judged(record), "sessions").verdict == "pass"
    agent.check()


def test_of_a_namespace_that_was_named_only_what_the_audit_wrote_is_removed(url: str) -> None:
    with stateward.sync.open(url) as store:
        store.user("u-0").put({"name": "Zoe"})
    agent = Agent(url, "named")
    audit = Audit(small(url, "sessions", "preferences", namespace="named"), agent.begin)
    record = asyncio.run(audit.run())
    assert answer(judged(record), "sessions").verdict == "pass"
    agent.check()


def test_an_agent_that_begins_during_a_benchmark_loses_nothing(url: str) -> None:
    with stateward.sync.open(url) as store:
        store.user("u-0").put({"name": "Zoe"})
    for namespace in (None, "named-too"):
        plan = BenchPlan(url, (2,), (10,), ("append", "once"), 0.1, 1, namespace)
        agent = Agent(url, namespace or "other")
        result = asyncio.run(Benchmark(plan, agent.begin).run())
        assert result.left == ""
        agent.check()


def test_a_file_that_others_use_is_not_locked_unless_somebody_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with stateward.sync.open(url) as store:
        store.user("u-1").put({"name": "Noor"})

    def faults(target: StoreTarget, *only: str) -> list[Any]:
        found = asyncio.run(FaultChoice(target, only=only).all())
        return [each for each in found if isinstance(each, Locked)]

    own = StoreTarget(url, f"{isolation.PREFIX}0", str(tmp_path))
    named = StoreTarget(url, "mine", str(tmp_path))
    (locked,) = faults(own.apart(own=True, observing=False))
    assert locked.path != str(tmp_path / "agents.db")
    assert faults(named.apart(own=False, observing=False)) == []
    (locked,) = faults(named.apart(own=False, observing=False), "locked")
    assert locked.path == str(tmp_path / "agents.db")
    said = plan(small(url, "outage", namespace="mine", faults=("locked",)))
    assert "locked for 1 s: other writers wait" in said
    assert "locked" not in plan(small(url, "outage", namespace="mine"))
    assert "in a separate file beside it" in plan(small(url, "outage"))


async def test_an_audit_under_way_is_left_alone_by_clean_until_it_is_killed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "PRESENT", 2.0)
    namespace = "stateward-audit-00000000beef"
    there = isolation.apart(url, namespace, own=True, observing=False)
    await isolation.begin(there, namespace)
    presence = await isolation.Presence(there, namespace).begin()
    memory = StoreMemory(StoreTarget(there, namespace, tempfile.mkdtemp()))
    await memory.open()
    await memory.put_user(f"{isolation.PREFIX}u", {"name": "Noor"})
    (said,) = await isolation.clean(url)
    assert said.endswith(isolation.UNDER_WAY)
    assert (await memory.get_user(f"{isolation.PREFIX}u"))[0] == {"name": "Noor"}
    await memory.close()
    await presence.end()  # nobody renews it any more
    (said,) = await isolation.clean(url)
    assert said.endswith("removed")
    assert await isolation.clean(url) == []


async def test_two_audits_do_not_share_a_namespace(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    presence = await isolation.Presence(url, "named").begin()
    with pytest.raises(InvalidInput, match="another audit works in the namespace 'named'"):
        await isolation.Presence(url, "named").begin()
    await presence.end()


# --- no more than a fifth of what is free -----------------------------------------------


def sizes(**changed: Any) -> AuditSizes:
    return sizes_of("quick", SMALL, changed)


def test_an_audit_takes_smaller_pools_then_fewer_replicas_then_nothing_at_all() -> None:
    def fitted(free: int | None, pools: bool = True) -> tuple[int, int]:
        found, pool = headroom.fit(sizes(replicas=4), 4, free, pools)
        return found.replicas, pool

    assert fitted(None) == (4, 4)
    assert fitted(1000) == (4, 4)
    assert headroom.connections(4, 4) == 35
    assert fitted(174) == (4, 3)
    assert fitted(100) == (4, 2)
    assert fitted(94) == (3, 2)
    assert fitted(174, pools=False) == (3, 4)
    with pytest.raises(InvalidInput, match=r"has 50 free connections.*at most a fifth.*needs 11"):
        fitted(50)


def test_free_connections_are_what_the_server_leaves_to_others() -> None:
    told = {"max_connections": 100, "reserved_connections": 3, "used_connections": 7}
    assert headroom.free_connections(told) == 90
    assert headroom.free_connections({"maxclients": 50, "connected_clients": 60}) == 0
    assert headroom.free_connections({"maxclients": "unknown", "connected_clients": 1}) is None


def test_a_server_with_few_connections_is_never_asked_for_more_than_a_fifth(tmp_path: Path) -> None:
    server = PostgresServer(max_connections="70").start()
    most = 0

    def watch(_: str) -> None:
        nonlocal most
        query = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'stateward'"
        most = max(most, server.run_sql(query)[0][0])

    try:
        options = small(server.url, "sharing", "updates", replicas=4)
        record = asyncio.run(Audit(options, watch).run())
    finally:
        server.remove()
    assert record.environment["replicas"] == 2
    assert 0 < most <= 13
    assert {a.verdict for a in judged(record).answers} == {"pass"}


def test_a_server_without_enough_connections_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, "valkey", "--maxclients", "40") as server:
        with pytest.raises(InvalidInput, match="free connections"):
            recorded(small(server.url, "sessions"))
        assert server.ask("DBSIZE") == b":0\r\n"


# --- it ends itself before it does harm -------------------------------------------------


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        await asyncio.sleep(0.02)


async def test_a_server_that_stops_answering_ends_the_audit_which_then_cleans_up(
    tmp_path: Path,
) -> None:
    with running(tmp_path, "valkey") as server:
        for _ in range(6):  # the load may fail before the probe has looked three times
            begun = asyncio.Event()
            options = small(server.url, "latency", duration=60.0, stop=Stop(seconds=0.5))
            audit = Audit(options, lambda said, at=begun: at.set() if "concurrent" in said else 0)
            task = asyncio.create_task(audit.run())
            await until(lambda at=begun, of=task: at.is_set() or of.done())
            server.pause()
            end = time.monotonic() + 10.0
            while not audit.record.aborted and time.monotonic() < end:  # noqa: ASYNC110 (a plain field)
                await asyncio.sleep(0.02)
            server.resume()
            record = await task
            assert server.ask("DBSIZE") == b":0\r\n"
            if record.aborted:
                break
    report = judged(record)
    assert "3 lookups in a row of the audit's own probe took more than 0.5 s" in report.sentence
    assert report.interrupted
    assert answer(report, "latency").verdict == "unknown"
    assert record.left == ""


async def test_what_a_dead_server_keeps_is_said_with_the_command_that_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateward.audit.targets.store.CLEARING", 0.5)
    with running(tmp_path, "valkey") as server:
        begun = asyncio.Event()
        options = small(server.url, "latency", duration=60.0, stop=Stop(seconds=0.3))
        audit = Audit(options, lambda said: begun.set() if "concurrent" in said else None)
        task = asyncio.create_task(audit.run())
        await until(lambda: begun.is_set() or task.done())
        server.kill()
        record = await task
        server.start()
        assert f"run: stateward audit clean {server.url}" in judged(record).left
        assert server.ask("DBSIZE") != b":0\r\n"
        assert await isolation.clean(server.url) != []
        assert server.ask("DBSIZE") == b":0\r\n"


async def test_a_probe_forgives_what_the_audit_itself_does(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        probe = Probe(server.url, Stop(seconds=0.2))
        assert await probe.harm() == ""
        watching = asyncio.create_task(probe.watch())
        async with probe.away():
            server.pause()
            await asyncio.sleep(1.5)  # more than would end it
            assert not watching.done()
            server.resume()
        server.pause()
        try:
            assert "in a row" in await asyncio.wait_for(watching, 30)
        finally:
            server.resume()
            await probe.close()


async def test_a_replica_that_falls_behind_ends_an_audit(tmp_path: Path) -> None:
    with (
        running(tmp_path / "one", "valkey") as primary,
        running(tmp_path / "two", "valkey", "--replicaof", f"127.0.0.1 {primary.port}") as replica,
    ):
        await until(lambda: b"slave0" in primary.ask("INFO", "replication"))
        await until(lambda: b"state=online" in primary.ask("INFO", "replication"))
        probe = Probe(primary.url, Stop(lag_bytes=100_000.0))
        replica.pause()
        try:
            primary.ask("SET", "large", "x" * 200_000)
            assert "behind, more than" in await probe.harm()
        finally:
            replica.resume()
            await probe.close()


async def test_a_server_whose_memory_fills_up_ends_an_audit(tmp_path: Path) -> None:
    with running(tmp_path, "valkey", "--maxmemory", "20mb") as server:
        probe = Probe(server.url, Stop())
        assert await probe.harm() == ""
        for number in range(16):
            server.ask("SET", f"large-{number}", "x" * 1_000_000)
        assert "of its maxmemory" in await probe.harm()
        await probe.close()


def test_the_limits_of_the_probe_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "--abort-after-ms", "0"]) == 2
    assert "--abort-after-ms" in capsys.readouterr().err
