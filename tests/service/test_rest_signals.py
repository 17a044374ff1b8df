"""Over HTTP: what was measured, whom it concerned, and the audits that are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.service import RunningService

from service.conftest import Served, Told
from stateward import sync
from stateward.audit.archive import info_of
from stateward.audit.forms import schema
from stateward.audit.report import FORMAT, Answer, Report
from stateward.kinds import HEARTBEAT
from stateward.ops import Entity
from stateward.records import AuditInfo
from stateward.state.replica_record import Beat, beating
from stateward.state.signal_record import Reading, Readings
from stateward.world import World

SCRIPT = "<script>alert(1)</script>"


def report(started: str, verdict: Any) -> Report:
    answer = Answer("races", 10, "Do they race?", "It matters.", verdict, f"found {SCRIPT}")
    return Report(
        format=FORMAT,
        target=SCRIPT,
        title="mine",
        verdict=verdict,
        sentence=SCRIPT,
        profile="quick",
        seed=7,
        command="stateward audit",
        started=started,
        seconds=1.0,
        interrupted=False,
        answers=(answer,),
        environment={"machine": "m"},
    )


@pytest.fixture(scope="module")
def served(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(service, tmp_path_factory.mktemp("signals") / "store.db", "signals")
    world = World()
    with sync.open(one.direct, heartbeat=None) as store:
        for namespace, events in (("default", 1), ("acme", 2)):
            readings = Readings()
            named = [("default", "thread", "ours"), ("acme", "thread", "theirs")]
            reading = Reading(
                at=world.now() - 60,
                lookups=[9, 5],
                counts={"late": events},
                concerned={"late": named},
            )
            readings.add(reading)
            entity = Entity(namespace, HEARTBEAT, f"of {namespace}")
            commit = beating(entity, world.new_op(), Beat(every=10.0), readings.writes())
            store.sections["workflows"].execute([commit])
        for day, verdict in (("01", "pass"), ("02", "fail")):
            made = report(f"2026-11-{day}T00:00:00+00:00", verdict)
            store.audits.keep(info_of(made), schema.to_json(made))
        store.audits.keep(AuditInfo("0-unreadable"), b"no report")
    yield one
    one.close()


def shown(told: Told) -> Any:
    assert told.status == 200, told.body
    return json.loads(told.body)


def test_signals_are_answered_for_all_processes(served: Served) -> None:
    admin = served.key("read", None)
    told = shown(served.ask("GET", "/v1/signals?since=600&step=60", key=admin))
    assert told["step"] == 60.0
    assert told["total"]["late"] == 1
    assert told["total"]["lookups"] == 5
    assert told["total"]["concerned"] == {"late": [{"kind": "thread", "id": "ours"}]}
    assert sum(point["late"] for point in told["points"]) == 1
    none = shown(served.ask("GET", "/v1/signals?replica=nobody", key=admin))
    assert none["points"] == []


def test_a_tenant_is_told_nothing_of_the_others(served: Served) -> None:
    tenant = served.key("read", ("acme",))
    told = shown(served.ask("GET", "/v1/signals", key=tenant))
    assert told["total"]["late"] == 2
    assert told["total"]["concerned"] == {"late": [{"kind": "thread", "id": "theirs"}]}
    operator = served.key("read", None)
    told = shown(served.ask("GET", "/v1/signals", key=operator, stateward_namespace="acme"))
    assert told["total"]["late"] == 3
    assert told["total"]["concerned"] == {"late": [{"kind": "thread", "id": "theirs"}]}
    assert shown(served.ask("GET", "/v1/audits", key=tenant))["items"] == []


@pytest.mark.parametrize("query", ["since=0", "since=90000", "since=x", "step=1", "other=1"])
def test_nonsense_is_refused(served: Served, query: str) -> None:
    told = served.ask("GET", f"/v1/signals?{query}", key=served.key("read", None))
    assert told.problem["status"] == 400


def test_a_key_of_one_user_is_refused(served: Served) -> None:
    key = served.key("write", ("default",), user="ada")
    for path in ("/v1/signals", "/v1/audits", "/v1/audits/a", "/v1/audits/a/report"):
        assert served.ask("GET", path, key=key).problem["status"] == 403


def test_kept_audits_are_listed_and_compared(served: Served) -> None:
    key = served.key("read", None)
    items = shown(served.ask("GET", "/v1/audits", key=key))["items"]
    assert [item["verdict"] for item in items] == ["fail", "pass", "unknown"]
    last = shown(served.ask("GET", f"/v1/audits/{items[0]['id']}", key=key))
    assert last["report"]["answers"][0]["id"] == "races"
    assert last["before"] == items[1]
    assert last["info"] == items[0]
    assert [change["direction"] for change in last["changes"]["changes"]] == ["worse"]
    first = shown(served.ask("GET", f"/v1/audits/{items[1]['id']}", key=key))
    assert (first["before"], first["changes"]) == (None, None)
    for id in ("none", "0-unreadable"):
        assert served.ask("GET", f"/v1/audits/{id}", key=key).problem["status"] == 404


def test_the_page_of_an_audit_can_run_nothing_but_its_own_script(served: Served) -> None:
    key = served.key("read", None)
    (last, *_) = shown(served.ask("GET", "/v1/audits?limit=1", key=key))["items"]
    told = served.ask("GET", f"/v1/audits/{last['id']}/report", key=key)
    assert (told.status, told.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = told.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; ")
    assert "unsafe" not in policy
    assert "allow-same-origin" not in policy
    assert SCRIPT.encode() not in told.body
    assert b"&lt;script&gt;" in told.body
    assert told.headers["cache-control"] == "no-store"


def test_a_key_that_only_writes_keeps_no_audit(served: Served, tmp_path: Path) -> None:
    with (
        sync.open(served.url_with(served.key("write")), heartbeat=None) as store,
        pytest.raises(Exception, match="operate"),
    ):
        store.audits.keep(AuditInfo("forged"), b"{}")
    with sync.open(served.url_with(served.key("operate")), heartbeat=None) as store:
        store.audits.keep(AuditInfo("0-ours"), b"{}")
        assert store.audits.get("0-ours") is not None
