"""A Stateward service as a target: recognised, and audited as the store that it is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.postgres import PostgresServer
from servers.redis import running
from servers.service import RunningService, running_service

import stateward
from audit.auditing import answer, judged, recorded, small
from stateward.audit.report import BAD
from stateward.audit.safety import isolation
from stateward.audit.targets.choice import choose
from stateward.audit.targets.http import HttpTarget
from stateward.audit.targets.service import ServiceTarget
from stateward.server import app
from stateward.server.keys import new_key, storing
from stateward.world import World

NAMESPACE = f"{isolation.PREFIX}of-a-test"


def served(url: str) -> str:
    """What starts a service before that store, as `--start-command` wants it."""
    serve = f"{shlex.quote(sys.executable)} -m stateward serve {url} --port $PORT --insecure-local"
    return shlex.join(["sh", "-c", f"exec {serve}"])


@pytest.fixture
def service() -> Iterator[RunningService]:
    with running_service() as running:
        yield running


def test_a_service_is_audited_as_a_store_and_killed_meanwhile() -> None:
    command = served("sqlite:///$FOLDER/agents.db")
    asked = ("sessions", "backup", "outage", "erasure")
    record = recorded(
        small(None, *asked, start_command=command, faults=("crash", "refuse"), recovery=30.0)
    )
    assert record.problems == {}
    assert record.left == ""
    report = judged(record)
    assert {each.id: each.summary for each in report.answers if each.verdict in BAD} == {}
    assert {answer(report, id).verdict for id in ("sessions", "backup", "erasure")} == {"pass"}
    assert all(each.fired for each in record.outages or ())
    (crash,) = [each for each in record.outages or () if each.kills]
    assert crash.kills == 2
    assert set(crash.accepted) <= set(crash.found)


async def test_what_answers_is_found_out_by_one_request(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stateward.open(f"sqlite:///{tmp_path}/agents.db", spill=False, heartbeat=None)
    secret, record = new_key(World(), "write", None)
    asked: list[str] = []

    async def another(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": b'{"provides": ["threads"]}'})

    ours = service.mount("ours", lambda: app(store))
    theirs = service.mount("theirs", lambda: another)
    storing_key = storing(record, 0, World().new_op())
    try:

        def target(url: str) -> Any:
            return choose(url, str(tmp_path), NAMESPACE, None)

        found = await target(theirs).recognised()
        assert (type(found), asked) == (HttpTarget, ["/theirs/live"])
        nobody = await target("http://127.0.0.1:9").recognised()
        assert type(nobody) is HttpTarget
        assert type(await target("https://host?ca=ca.pem").recognised()) is ServiceTarget
        found = await target(ours).recognised()
        assert type(found) is ServiceTarget
        with pytest.raises(stateward.AccessRefused, match="needs a key"):
            await found.prepare()
        service.call(store.sections["workflows"].execute([storing_key]))
        monkeypatch.setenv("STATEWARD_KEY", secret)
        await found.prepare()
        assert await found.clear() == ""
    finally:
        service.unmount("ours", store.close)


# --- every question ---------------------------------------------------------------------


def all_pass(url: str, where: str | None) -> None:
    report = judged(recorded(small(None, start_command=served(url), url=where, recovery=30.0)))
    shown = {each.id: each.summary for each in report.answers if each.verdict in BAD}
    assert shown == {}
    timed = {"latency", "concurrency", "slowdown"}  # which this machine may be too busy for
    unknown = {each.id for each in report.answers if each.verdict == "unknown"}
    assert unknown <= timed


@pytest.mark.soak
def test_all_questions_through_a_service_before_sqlite() -> None:
    all_pass("sqlite:///$FOLDER/agents.db", None)


@pytest.mark.soak
def test_all_questions_through_a_service_before_valkey(tmp_path: Path) -> None:
    with running(tmp_path, "valkey", "--appendonly", "yes", "--appendfsync", "always") as server:
        all_pass(server.url, server.url)


@pytest.mark.soak
def test_all_questions_through_a_service_before_postgresql() -> None:
    server = PostgresServer().start()
    try:
        all_pass(shlex.quote(server.url), server.url)
    finally:
        server.remove()
