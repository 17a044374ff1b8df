"""The stores of agent frameworks under audit: what is true of each is found, and nothing is left.

What they are said to do here was found by running them, in the versions of constraints.txt.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace
from servers.postgres import PostgresServer
from servers.redis import running

from audit.auditing import answer, audited, recorded, small
from stateward import InvalidInput, cli
from stateward.audit.conductor import Audit
from stateward.audit.report import Report
from stateward.audit.targets.choice import choose
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.frameworks.sandbox import KeysSandbox, SchemaSandbox, sandbox
from stateward.audit.targets.memory import Memory
from stateward.cli.audit.compare import url_for

SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'stateward%'"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


def lost(report: Report, what: str) -> int:
    """How many turns of the race were lost, duplicated or split."""
    found = re.search(rf"(\d+) {what} turns? of \d+", answer(report, "races").summary)
    return int(found[1]) if found else 0


def raced(what: str, target: str, *only: str, **options: Any) -> Report:
    """Of an audit whose race went wrong in this way.

    Whether two replicas meet is chance: where they did not, the race is run again.
    """
    for _ in range(5):
        report = audited(target, *only, **options)
        if lost(report, what):
            break
    return report


def test_langgraph_on_postgresql_loses_turns_that_race_and_grows_with_every_turn(
    postgres: PostgresServer,
) -> None:
    report = raced(
        "lost",
        "langgraph:postgres",
        *("races", "growth"),
        url=postgres.url,
        race_turns=40,
        growth_turns=30,
        history=(10, 1000),
        command="stateward audit langgraph:postgres --seed 7",
    )
    races, growth = answer(report, "races"), answer(report, "growth")
    assert (races.verdict, growth.verdict, report.verdict) == ("fail", "fail", "fail")
    assert lost(report, "lost") > 0
    assert lost(report, "duplicated") == 0  # add_messages knows a message by its id
    assert re.search(r"[1-9]\d\.\d times the space with 1,000 messages", growth.summary)
    assert report.seed == 7
    assert "--seed 7" in races.reproduce
    assert "--seed 7" in growth.reproduce
    assert report.environment["langgraph-checkpoint-postgres"]
    assert postgres.run_sql(SCHEMAS) == []
    assert postgres.run_sql(TABLES) == []


def test_langgraph_on_sqlite_loses_turns_that_race() -> None:
    report = raced("lost", "langgraph:sqlite", "races", race_turns=40)
    assert lost(report, "lost") > 0
    assert lost(report, "duplicated") == 0


def test_a_file_of_strands_is_written_by_two_at_once_and_one_of_them_is_lost() -> None:
    report = raced("lost", "strands:file", "races", "preferences", "outage", race_turns=60)
    assert lost(report, "lost") > 0
    assert "refused while it was down" in answer(report, "outage").summary  # the disk was full
    assert answer(report, "preferences").verdict == "absent"


def test_sessions_of_openai_agents_lose_nothing_but_know_no_repeat() -> None:
    report = audited("openai-agents:sqlite", "races", "workflows", "keys")
    assert_repeats_are_stored_twice(report)
    assert answer(report, "keys").verdict == "absent"
    assert answer(report, "workflows").verdict == "absent"


def test_openai_agents_by_sqlalchemy_know_no_repeat_either() -> None:
    assert_repeats_are_stored_twice(audited("openai-agents:sqlalchemy", "races"))


def test_openai_agents_on_redis_know_no_repeat_either(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        report = audited("openai-agents:redis", "races", url=server.url)
        assert server.ask("DBSIZE") == b":0\r\n"
    assert_repeats_are_stored_twice(report)


def assert_repeats_are_stored_twice(report: Report) -> None:
    assert "because it has no keys" in answer(report, "races").summary
    assert answer(report, "races").verdict == "pass"
    assert (lost(report, "lost"), lost(report, "split")) == (0, 0)
    assert lost(report, "duplicated") == 5  # one turn in five is delivered by both replicas


def test_a_turn_of_adk_is_two_events_and_another_replica_may_come_between() -> None:
    report = raced("split", "adk:database", "races", race_turns=40)
    assert lost(report, "split") > 0
    assert (lost(report, "lost"), lost(report, "duplicated")) == (0, 0)


@pytest.mark.soak
@pytest.mark.parametrize("target", ["adk:database", "openai-agents:sqlalchemy"])
def test_a_database_that_locks_rows_loses_none_either(
    target: str, postgres: PostgresServer
) -> None:
    report = audited(target, "races", "sharing", url=postgres.url, race_turns=40)
    assert lost(report, "lost") == 0
    assert answer(report, "sharing").verdict == "pass"
    assert postgres.run_sql(SCHEMAS) == []


def test_an_audit_that_is_interrupted_removes_its_schema(postgres: PostgresServer) -> None:
    async def interrupted() -> bool:
        begun = asyncio.Event()
        said: list[str] = []

        def show(what: str) -> None:
            said.append(what)
            begun.set()

        options = small("langgraph:postgres", "sessions", url=postgres.url)
        auditing = asyncio.create_task(Audit(options, show).run())
        await begun.wait()
        assert len(await asyncio.to_thread(postgres.run_sql, SCHEMAS)) == 1
        auditing.cancel()
        return (await auditing).interrupted

    assert asyncio.run(interrupted())
    assert postgres.run_sql(SCHEMAS) == []


def test_what_a_killed_audit_left_in_a_database_is_removed_by_clean(
    postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = f"stateward-audit-{uuid4().hex[:12]}"
    left = SchemaSandbox(postgres.url, namespace)
    asyncio.run(left.prepare())
    postgres.run_sql("CREATE SCHEMA stateward_of_somebody")
    clean = ["audit", "clean", "langgraph:postgres", "--url", postgres.url]
    assert cli.main(clean) == 0
    assert left.schema in capsys.readouterr().out
    assert postgres.run_sql(SCHEMAS) == [("stateward_of_somebody",)]
    postgres.run_sql("DROP SCHEMA stateward_of_somebody")
    assert cli.main(clean) == 0
    assert "no audit has left anything" in capsys.readouterr().out


def test_a_place_that_holds_data_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    postgres.run_sql("CREATE SCHEMA mine")
    try:
        with pytest.raises(InvalidInput, match="already exists"):
            audited("langgraph:postgres", "races", url=postgres.url, namespace="mine")
        assert postgres.run_sql("SELECT 1 FROM pg_namespace WHERE nspname = 'mine'") == [(1,)]
    finally:
        postgres.run_sql("DROP SCHEMA mine")
    (tmp_path / "mine.db").write_bytes(b"mine")
    for target, url in [
        ("openai-agents:sqlite", f"sqlite:///{tmp_path}/mine.db"),
        ("strands:file", f"file:///{tmp_path}"),
    ]:
        with pytest.raises(InvalidInput, match="already exists"):
            audited(target, "races", url=url)
    assert (tmp_path / "mine.db").read_bytes() == b"mine"


def test_a_role_that_may_not_create_a_schema_is_told_what_it_lacks(
    postgres: PostgresServer,
) -> None:
    postgres.run_sql("CREATE ROLE plain LOGIN")
    try:
        with pytest.raises(InvalidInput, match="GRANT CREATE"):
            audited("adk:database", "races", url=postgres.url.replace("postgres@", "plain@"))
    finally:
        postgres.run_sql("DROP ROLE plain")


async def test_what_others_begin_to_use_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    file = sandbox(f"sqlite:///{path}", "stateward-audit-1")
    await file.prepare()
    path.write_bytes(b"somebody's")
    await file.clear()
    assert path.read_bytes() == b"somebody's"
    folder = sandbox(f"file:///{tmp_path}/sessions", "stateward-audit-1")
    await folder.prepare()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "one.json").write_text("{}")
    await folder.clear()
    assert (tmp_path / "sessions" / "one.json").exists()
    with running(tmp_path / "redis", "valkey") as server:
        keys = sandbox(server.url, "mine")
        await keys.prepare()
        server.ask("SET", "mine:somebody", "x")
        server.ask("SET", "mine:stateward-audit-race-7-0", "x")
        await keys.clear()
        assert server.ask("KEYS", "*") == b"*1\r\n$13\r\nmine:somebody\r\n"


def test_a_redis_namespace_that_holds_keys_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        server.ask("SET", "mine:1", "kept")
        server.ask("SET", "mine-too:1", "kept")
        with pytest.raises(InvalidInput, match="holds data"):
            audited("openai-agents:redis", "races", url=server.url, namespace="mine")
        server.ask("SET", "mine:stateward-audit-race-7-0", "written")
        asyncio.run(KeysSandbox(server.url, "mine").clear())
        assert server.ask("GET", "mine-too:1") == b"$4\r\nkept\r\n"
        assert server.ask("GET", "mine:1") == b"$4\r\nkept\r\n"
        assert server.ask("DBSIZE") == b":2\r\n"


@pytest.mark.parametrize(
    ("target", "url", "said"),
    [
        ("langgraph:postgres", None, "--url postgresql://"),
        ("openai-agents:redis", None, "--url redis://"),
        ("langgraph:sqlite", "redis://127.0.0.1", "sqlite:///agents.db"),
        ("adk:database", "file:///x", "sqlite:///agents.db or postgresql://"),
        ("langgraph:mysql", None, "langgraph:postgres"),
    ],
)
def test_what_cannot_be_audited_says_why(target: str, url: str | None, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        choose(target, "/tmp", "n", url)


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("langgraph:postgres", "postgresql://me:secret@127.0.0.1:1/agents"),
        ("openai-agents:redis", "redis://me:secret@127.0.0.1:1"),
    ],
)
def test_a_server_that_does_not_answer_is_said_without_its_password(target: str, url: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be") as refused:
        audited(target, "races", url=url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("target", FRAMEWORKS)
def test_a_framework_that_is_not_installed_is_named_with_its_extra(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = replace(FRAMEWORKS[target], packages=("not-installed-here",))
    monkeypatch.setitem(FRAMEWORKS, target, framework)
    said = rf"not-installed-here: pip install 'stateward\[{framework.extra}\]'"
    with pytest.raises(InvalidInput, match=said):
        choose(target, "/tmp", "n", None)


async def test_what_the_target_of_adk_stores_of_a_user_is_what_it_was_given(tmp_path: Path) -> None:
    target = choose("adk:database", str(tmp_path), "n", None)
    await target.prepare()
    memory = Memory(target.connect())
    await memory.call("open")
    try:
        await memory.call("update_user", "u-1", lambda known: known | {"a": None, "b": [1]})
        assert await memory.call("get_user", "u-1") == {"a": None, "b": [1]}
        await memory.call("update_user", "u-1", lambda known: known | {"b": None})
        assert await memory.call("get_user", "u-1") == {"a": None, "b": None}
    finally:
        await memory.call("close")
        await target.clear()


def test_each_target_of_a_comparison_takes_the_first_url_that_it_can_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    urls = ["postgresql://127.0.0.1/a", "redis://127.0.0.1", "sqlite:///a.db"]
    assert url_for("langgraph:postgres", urls) == urls[0]
    assert url_for("openai-agents:redis", urls) == urls[1]
    assert url_for("strands:file", urls) is None
    assert url_for("naive:redis-document", urls[1:]) == urls[1]
    assert url_for("sqlite:///b.db", urls) is None
    both = ["audit", "strands:file", "--url", "file:///x", "--url", "file:///y"]
    assert cli.main(both) == 2
    assert "stateward audit compare" in capsys.readouterr().err


def test_a_comparison_puts_a_frameworks_store_beside_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ["--replicas", "2", "--duration", "1", "--conversations", "10", "--seed", "5"]
    targets = ["strands:file", "naive:process-dict"]
    assert cli.main(["audit", "compare", *targets, *sizes, "--only", "sharing"]) == 0
    shown = capsys.readouterr().out
    assert "strands:file (strands-agents " in shown
    assert "naive:process-dict" in shown


@pytest.mark.soak
def test_faults_reach_a_frameworks_server_through_the_proxy(postgres: PostgresServer) -> None:
    record = recorded(small("langgraph:postgres", "outage", url=postgres.url))
    assert record.outages is not None
    assert len(record.outages) >= 4
    assert all(outage.fired for outage in record.outages)
    assert postgres.run_sql(SCHEMAS) == []


@pytest.mark.soak
@pytest.mark.parametrize("target", FRAMEWORKS)
def test_the_verdicts_are_the_same_again_and_again(
    target: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    with running(tmp_path, "valkey") as redis:
        urls = {"langgraph:postgres": postgres.url, "openai-agents:redis": redis.url}
        asked = ("races", "growth", "sharing", "sessions", "workflows")
        seen = {
            tuple((a.id, a.verdict) for a in report.answers)
            for report in (
                audited(target, *asked, url=urls.get(target), race_turns=40, history=(10, 1000))
                for _ in range(5)
            )
        }
    assert len(seen) == 1
