"""What operators do through the REST API is in the operations log, and cannot be left out of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal

import pytest
from servers.service import RunningService

from service.conftest import Served
from service.test_rest import MESSAGES, Api, shown
from stateward import sync
from stateward.ops import Commit, Drop
from stateward.records import LoggedOperation
from stateward.server.rest_routes import ROUTES
from stateward.server.route import RestRoute
from stateward.world import World

# What agents do all day, whoever has lent them the key.
AGENTS = {
    "POST /v1/threads/{thread}/messages",
    "POST /v1/conversations",
    "POST /v1/conversations/{conversation}/items",
    "POST /v1/journals/{journal}/events",
    "POST /v1/workflows/{workflow}/start",
}
# What hands out what people have said to agents.
TRANSCRIPTS = {
    "/v1/threads/{thread}",
    "/v1/threads/{thread}/about",
    "/v1/threads/{thread}/changes",
    "/v1/threads/{thread}/knew/{version}",
    "/v1/threads/{thread}/live",
    "/v1/threads/{thread}/messages",
    "/v1/conversations/{conversation}",
    "/v1/conversations/{conversation}/items",
    "/v1/conversations/{conversation}/items/{item}",
    "/v1/context",
    "/v1/users/{user}/export",
    *(
        f"{of}/documents{rest}"
        for of in ("/v1/users/{user}", "/v1/shared/{shared}")
        for rest in ("", "/{name}", "/{name}/history", "/{name}/diff")
    ),
    "/v1/journals/{journal}/changes",
    "/v1/workflows/{workflow}",
    "/v1/workflows/{workflow}/records",
    "/v1/tasks/{task}",
    "/v1/effects/{effect}",
}


@pytest.fixture(scope="module")
def api(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Served(service, tmp_path_factory.mktemp("log") / "store.db", "rest-log")
    yield Api(served)
    served.close()


def log_of(api: Api, namespace: str = "default") -> list[LoggedOperation]:
    with sync.open(api.served.direct, namespace=namespace, heartbeat=None) as store:
        assert store.operations.verify().ok
        return list(store.operations.entries())


def logged(route: RestRoute) -> Literal["read", "change"] | None:
    """Return whether the log has what the route reads, or what it changes; None: neither."""
    row = route.action if route.action is not None and route.action.log else route.deed
    return None if row is None else "read" if row.reads else "change"


def test_every_route_that_changes_something_says_what_the_log_says_of_it() -> None:
    unsaid = {
        f"{route.method} {route.path}"
        for route in ROUTES
        if route.method != "GET" and logged(route) != "change"
    }
    assert unsaid == AGENTS, "a new route that changes something by hand needs a deed"
    read = {route.path for route in ROUTES if route.method == "GET" and logged(route) is not None}
    assert read == TRANSCRIPTS, "a new route that hands out transcripts needs a deed"
    for route in ROUTES:
        if route.deed is not None:
            known = {*route.names, *route.query.__struct_fields__, ""}
            assert route.deed.name in known, route


def test_what_an_operator_does_has_two_entries_and_a_read_one(api: Api) -> None:
    agent = api.served.key("write", ("one",))
    boss = api.served.key("operate", ("one",))
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    traced = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    api.ask("POST", "/v1/threads/t/messages?user=ada", MESSAGES, agent)
    api.ask("PUT", "/v1/users/ada/documents/d", {"secret": 1}, agent, if_none_match="*")
    api.ask("POST", "/v1/workflows/w/start", {"kind": "k"}, agent)
    assert api.ask("GET", "/v1/threads/t", key=agent).status == 200
    assert log_of(api, "one") == [], "agents do nothing by hand"
    asked: list[tuple[str, str, Any, dict[str, str], int]] = [
        ("GET", "/v1/threads/t", None, {}, 200),
        ("GET", "/v1/threads/t/changes?follow=false", None, {}, 200),
        ("GET", "/v1/threads/none", None, {}, 404),
        ("GET", "/v1/users/ada/documents/d", None, {}, 200),
        ("PUT", "/v1/users/ada/documents/d", {"secret": 2}, {"if_match": "*"}, 200),
        ("PUT", "/v1/users/ada/documents/d", {"secret": 3}, {"if_none_match": "*"}, 412),
        ("PUT", "/v1/users/ada/documents/d", [], {"if_match": "*"}, 400),
        ("POST", "/v1/workflows/w/signals/go", {"value": "secret"}, {}, 201),
        ("POST", "/v1/workflows/w/cancel", {"reason": "secret"}, {}, 200),
        ("POST", "/v1/workflows/w/cancel", {"reason": "secret"}, {}, 200),
        ("POST", "/v1/workflows/none/cancel", None, {}, 404),
        ("POST", "/v1/users/ada/erase", None, {}, 200),
    ]
    for method, path, body, headers, status in asked:
        told = api.ask(method, path, body, boss, **headers, **traced)
        assert told.status == status, (path, told)
    entries = log_of(api, "one")
    assert [(each.what, each.outcome) for each in entries] == [
        ("thread read", "done"),
        ("thread read", "done"),
        ("document read", "done"),
        ("document put", "intended"),
        ("document put", "done"),
        ("document put", "intended"),
        ("document put", "failed"),
        *[("workflow signal", "intended"), ("workflow signal", "done")],
        *[("workflow cancel", "intended"), ("workflow cancel", "done")] * 2,
        *[("user erase", "intended"), ("user erase", "done")],
    ]
    assert {each.who for each in entries} == {"key " + boss.split(".")[1]}
    assert {each.correlation for each in entries} == {trace}
    by = {(each.what, each.outcome): each for each in entries}
    assert by["thread read", "done"].target == "thread/t"
    assert by["document put", "intended"].detail == {"interface": "rest", "name": "d"}
    assert by["document put", "intended"].target.startswith("user/sha256:")
    assert by["workflow signal", "intended"].detail == {
        "interface": "rest",
        "before": "active",
        "signal": "go",
    }
    assert [each.detail.get("changed") for each in entries if each.what == "workflow cancel"] == [
        *(None, True, None, False)
    ]
    assert "secret" not in repr(entries)


def test_a_lease_is_broken_under_its_own_kind(api: Api) -> None:
    asked = {"token": 1, "leader": True}
    with sync.open(api.served.direct, heartbeat=None) as store:
        assert api.ask("POST", "/v1/locks/l/break", asked).status == 404
        with store.elect("l", ttl=600):
            assert api.ask("POST", "/v1/locks/l/break", {**asked, "token": 7}).status == 409
    intended, failed = log_of(api)[-2:]
    assert intended.target == "leader/l"
    assert intended.detail == {"interface": "rest", "token": 7}
    assert failed.outcome == "failed"


def test_a_deletion_that_was_interrupted_is_completed_by_its_repetition(api: Api) -> None:
    boss = api.served.key("operate", ("halves",))
    with sync.open(api.served.direct, namespace="halves", heartbeat=None) as store:
        thread = store.thread("t-1")
        thread.append({"role": "user", "content": "hi"})
        thread.effect("call-1", lambda: "done")
        # As far as a process came that was killed after its first commit.
        drop = Commit(thread.handle.entity, World().new_op(), (Drop(),))
        store.sections["workflows"].execute([drop])
        assert [effect.id for effect in store.effects()]
        assert api.ask("DELETE", "/v1/threads/t-1", key=boss).status == 204
        assert [effect.id for effect in store.effects()] == []


def test_the_log_is_read_page_by_page_verified_and_exported(api: Api) -> None:
    boss = api.served.key("operate", ("pages",))
    agent = api.served.key("write", ("pages",))
    for n in range(3):
        api.ask("POST", f"/v1/threads/t-{n}/messages", MESSAGES, agent)
        api.ask("DELETE", f"/v1/threads/t-{n}", key=boss)
    assert api.ask("DELETE", "/v1/threads/t-0", key=boss).status == 204, "there is nothing to do"
    found: list[int] = []
    after = ""
    for _ in range(10):
        page = shown(api.ask("GET", f"/v1/operations-log?limit=4{after}", key=boss))
        found += [each["number"] for each in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == [6, 5, 4, 3, 2, 1], "newest first"
    some = shown(api.ask("GET", "/v1/operations-log?target=thread/t-1", key=boss))["items"]
    assert [each["number"] for each in some] == [4, 3]
    check = shown(api.ask("GET", "/v1/operations-log/verify", key=boss))
    assert (check["ok"], check["entries"], check["problems"]) == (True, 6, [])
    other = f"/v1/operations-log/verify?head=7:{'0' * 64}"
    assert shown(api.ask("GET", other, key=boss))["ok"] is False
    assert api.ask("GET", "/v1/operations-log/verify?head=x", key=boss).status == 400
    assert api.ask("GET", "/v1/operations-log?after=x", key=boss).status == 400
    exported = api.ask("GET", "/v1/operations-log/export", key=boss)
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert len(exported.body.splitlines()) == 7, "a line that says what it is, and the entries"


def test_who_goes_on_looking_is_in_the_log_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = api.served.key("write", ("looks",))
    boss = api.served.key("operate", ("looks",))
    other = api.served.key("operate", ("looks",))
    for thread in ("t", "u"):
        api.ask("POST", f"/v1/threads/{thread}/messages", MESSAGES, agent)
    first = api.ask("GET", "/v1/threads/t/messages", key=boss).headers["stateward-look"]
    assert first == "1"
    for path in ("messages", "about", "changes?follow=false"):
        told = api.ask("GET", f"/v1/threads/t/{path}", key=boss, stateward_look=first)
        assert told.status == 200
        assert told.headers["stateward-look"] == first
    assert len(log_of(api, "looks")) == 1
    # What the entry does not say, or what is no entry, is another look.
    asked = [("u", boss, first), ("t", other, first), ("t", boss, "99")]
    asked += [("t", boss, wrong) for wrong in ("0", "-1", "x", "1" * 16, "1.0", "\u0661")]
    for number, (thread, key, look) in enumerate(asked, 2):
        header = look.encode().decode("latin-1")
        told = api.ask("GET", f"/v1/threads/{thread}/about", key=key, stateward_look=header)
        assert told.headers["stateward-look"] == str(number), (thread, look)
    assert len(log_of(api, "looks")) == 1 + len(asked)
    told = api.ask("GET", "/v1/threads/t/about", key=agent, stateward_look=first)
    assert "stateward-look" not in told.headers, "agents do nothing by hand"
    entries = len(log_of(api, "looks"))
    monkeypatch.setattr("stateward.actions.action_log.LOOK_SPAN", timedelta(0))
    api.ask("GET", "/v1/threads/t/about", key=boss, stateward_look=first)
    assert len(log_of(api, "looks")) == entries + 1, "it was too long ago"
