"""The REST API: what each route answers, to whom, and what becomes of nonsense."""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import fields
from servers.issuer import Issuer
from servers.service import PATIENCE, RunningService

from service.conftest import Served, Told
from service.test_tokens import trusting
from stateward import sync
from stateward.audit.forms.schema import to_json
from stateward.audit.report import Report
from stateward.errors import Permanent, StoreUnavailable
from stateward.ops import Acquire, Applied, Commit, Entity
from stateward.records import AuditInfo
from stateward.server import stream
from stateward.server.asker import DeviceRights
from stateward.server.rest_routes import ROUTES, openapi
from stateward.server.route import EVENTS, RestRoute
from stateward.world import World

ROOT = Path(__file__).parent.parent.parent
SECRET = "adas-secret"
EVERYTHING = DeviceRights(documents=("*",), starts=("*",), signals=("*",))
UNKNOWN_KEY = "sw.AAAAAAAAAAAAAAAA.BBBBBBBBBBBBBBBBCCCCCCCCCCCCCCCC"
MESSAGES = {"messages": [{"role": "user", "content": SECRET}]}
NAMES = {
    "thread": "ada-thread",
    "conversation": "ada-conversation",
    "item": "msg_ada",
    "user": "ada",
    "name": "prefs",
    "shared": "ada-shared",
    "workflow": "ada-workflow",
    "signal": "go",
    "task": "ada-task",
    "effect": "",  # known when it was carried out
    "question": "",  # known when it was asked
    "schedule": "ada-schedule",
    "lock": "ada-lock",
    "journal": "ada-journal",
    "audit": "ada-audit",
    "kind": "ada-kind",
    "key": "",  # known when it was made
    "version": "1",
}
BODIES: dict[str, Any] = {
    "AppendBody": {"messages": [{"role": "user", "content": "intruded"}]},
    "ForkBody": {"to": "u/ada/intruded"},
    "StartBody": {"kind": "k"},
    "StepForkBody": {"to": "intruded", "at_step": "one#1"},
    "ResolveBody": {"decision": "done"},
    "ScheduleBody": {"cron": "0 3 * * *", "task": "nightly"},
    "BreakBody": {"token": 1},
    "EventsBody": {"events": [{"intruded": True}]},
    "ItemsBody": {"items": [{"role": "user", "content": "intruded"}]},
    "MetadataBody": {"metadata": {"intruded": "yes"}},
    "StopBody": {"request": "r"},
    "KeyBody": {"scope": "read", "namespaces": ["intruded"]},
}


class Api:
    """The service of one store, asked as a program in any language would."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.admin = served.key("admin", None)

    def ask(
        self, method: str, path: str, body: Any = None, key: str | None = "", **headers: str
    ) -> Told:
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"content_type": "application/json", **headers}
        secret = self.admin if key == "" else key
        return self.served.ask(method, path, data, secret, **headers)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    issuer.add("one")
    yield issuer
    issuer.close()


@pytest.fixture(scope="module")
def api(
    service: RunningService, tmp_path_factory: pytest.TempPathFactory, issuer: Issuer
) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("rest")
    served = Served(service, folder / "store.db", "rest", jwt=trusting(issuer), devices=EVERYTHING)
    begin_all_that_is_adas(served)
    yield Api(served)
    served.close()


def begin_all_that_is_adas(served: Served) -> None:
    """Something of hers for every route."""
    with sync.open(served.direct, heartbeat=None) as store:
        thread = store.thread("ada-thread", user="ada")
        thread.append({"role": "user", "content": SECRET}, saw=thread.load())
        with thread.turn(key="r", live=True) as turn:
            turn.write(SECRET)
            turn.store({"role": "assistant", "content": turn.text})
        item = {"id": "msg_ada", "role": "user", "content": SECRET}
        secret = {"metadata": {"secret": SECRET}}
        store.thread("ada-conversation", user="ada").append(item, vars=secret)
        store.user("ada").put({"secret": SECRET}, "prefs")
        store.user("ada").put({"secret": SECRET, "more": 1}, "prefs")
        store.shared("ada-shared", user="ada").put({"secret": SECRET}, "prefs")
        store.shared("ada-shared", user="ada").put({"secret": SECRET, "more": 1}, "prefs")
        begin_adas_work(store)
    NAMES["key"] = served.key("read").split(".")[1]


def begin_adas_work(store: sync.Store) -> None:

    def fails() -> None:
        raise Permanent(SECRET)

    with suppress(StoreUnavailable), store.workflow("ada-workflow", kind="k", user="ada") as run:
        run.step("one", lambda: SECRET)
        run.state["secret"] = SECRET
        raise StoreUnavailable("leave it to others")
    with suppress(Permanent):
        store.once("ada-task", fails, user="ada")
    with suppress(Permanent):
        store.thread("ada-thread").effect("call", fails)
    NAMES["effect"] = next(iter(store.effects())).id
    with store.workflow("ada-asks", kind="k", user="ada") as run:
        run.wait("approval", ask=SECRET)
    NAMES["question"] = next(iter(store.waiting())).id
    store.schedule("ada-schedule", user="ada").declare("0 3 * * *", task="nightly", args=[SECRET])
    store.journal("ada-journal", user="ada").append({"secret": SECRET})
    held = Report(1, "", "hers", "pass", SECRET, "", 1, "", "", 1.0, False, answers=())
    store.audits.keep(AuditInfo("ada-audit"), to_json(held))
    lock = Entity("default", "lock", "ada-lock")
    take = Commit(lock, World().new_op(), (Acquire("nonce", 3600.0, SECRET),))
    (taken,) = store.sections["workflows"].execute([take])
    assert isinstance(taken, Applied)
    assert taken.lease is not None
    BODIES["BreakBody"]["token"] = taken.lease.token


def shown(told: Told) -> Any:
    return json.loads(told.body)


# --- who may ask ------------------------------------------------------------------------


def request_of(route: RestRoute) -> tuple[str, str, Any, dict[str, str]]:
    """A request to a route about what is Ada's."""
    parts = [quote(NAMES[p[1:-1]], safe="") if p[:1] == "{" else p for p in route.segments]
    fields = route.query.__struct_fields__
    query = [f"{name}={value}" for name, value in ASKED.items() if name in fields]
    path = "/".join(parts) + ("?" + "&".join(query) if query else "")
    body = None
    headers = {}
    if route.body is not None:
        body = BODIES.get(getattr(route.body, "__name__", ""), {})
        headers["content_type"] = route.takes
    if route.method == "PUT":
        headers["if_match"] = "*"
    return route.method, path, body, headers


ASKED = {
    "old": "1",
    "text": "ada",
    "user": "ada",
    "follow": "false",
    "thread": "ada-thread",
    "wait": "0",
    "request": "r",
}


def all_that_is_adas(api: Api) -> list[Any]:
    with sync.open(api.served.direct, heartbeat=None) as store:
        documents = [store.user("ada"), store.shared("ada-shared")]
        return [
            [info.id for info in store.threads()],
            store.thread("ada-thread").load().messages,
            store.thread("ada-conversation").load().messages,
            store.thread("ada-conversation").vars.get().value,
            [list(each.list()) for each in documents],
            [(info.id, info.status, info.state) for info in store.workflows()],
            [(info.id, info.status) for info in store.tasks()],
            [(info.id, info.status) for info in store.effects()],
            [(info.id, info.status) for info in store.schedules()],
            [change.message for change in store.journal("ada-journal").changes(follow=False)],
        ]


def test_every_route_refuses_whoever_may_not_ask(api: Api, issuer: Issuer) -> None:
    served = api.served
    before = all_that_is_adas(api)
    token = issuer.token
    lower = {"write": "read", "operate": "write", "admin": "operate"}
    no_key: dict[str, str | None] = {
        "no key": None,
        "wrong key": UNKNOWN_KEY,
        "expired": served.key("admin", None, lifetime=-1.0),
        "expired token": token(sub="ada", exp=1),
        "token for another service": token(sub="ada", aud="other"),
        "unsigned token": issuer.unsigned(sub="ada", scope="stateward:admin"),
        "token of the public key": issuer.with_secret(issuer.public_pem(), sub="ada"),
    }
    other_tenants = (
        served.key("admin", ("other",)),
        token(sub="ada", namespace="other", scope="stateward:admin"),
    )
    weak = {
        scope: (served.key(low, None), token(sub="ada", scope=f"stateward:{low}"))
        for scope, low in lower.items()
    }
    bobs = (
        served.key("admin", ("default",), user="bob"),
        token(sub="bob", scope="stateward:admin"),
    )
    for route in ROUTES:
        method, path, body, headers = request_of(route)
        for who, key in no_key.items():
            assert api.ask(method, path, body, key, **headers).status == 401, (route, who)
        for key in other_tenants:
            told = api.ask(method, path, body, key, stateward_namespace="default", **headers)
            assert (told.status, told.error) == (403, "NotPermitted"), route
            told = api.ask(method, path, body, key, **headers)
            assert SECRET.encode() not in told.body, route
        for key in weak.get(route.scope, ()):
            told = api.ask(method, path, body, key, **headers)
            assert (told.status, told.error) == (403, "NotPermitted"), route
        for key in bobs:
            told = api.ask(method, path, body, key, **headers)
            of_all = (
                told.status < 300
                and "{" not in route.path
                and "user" not in route.query.__struct_fields__
            )
            unanswered = told.body == b'{"changed":false}'
            assert told.status in (403, 404) or of_all or unanswered, (route, told)
            assert SECRET.encode() not in told.body, route
    assert all_that_is_adas(api) == before


def test_every_route_answers_who_may_ask(api: Api, issuer: Issuer) -> None:
    """The matrix would prove nothing if its requests were refused for another reason."""
    ask_every_route(api, issuer.token(sub="ada", scope="stateward:operate"))


def ask_every_route(api: Api, token: str | None = None) -> None:
    """Each once, as somebody who may; what only reads, with a token too."""
    ada = api.served.key("operate", ("default",), user="ada")
    last = sorted(
        ROUTES, key=lambda it: (it.path.endswith(("/erase", "/revoke")), it.method == "DELETE")
    )
    for route in last:
        method, path, body, headers = request_of(route)
        not_hers = not route.one_users
        told = api.ask(method, path, body, "" if not_hers else ada, **headers)
        assert told.status in (200, 201, 204), (route, told)
        if token is not None and method == "GET" and not not_hers:
            assert api.ask(method, path, body, token, **headers).status == told.status, route
        if route.output is not None:
            assert told.headers["content-type"] == route.gives
        assert told.headers["cache-control"] == "no-store"


def test_namespaces_are_those_of_the_key(api: Api) -> None:
    served = api.served
    one, two = served.key("write", ("one",)), served.key("write", ("one", "zwei/ä"))
    assert api.ask("POST", "/v1/threads/n/messages", MESSAGES, one).status == 201
    assert api.ask("GET", "/v1/threads/n", key=two).problem["status"] == 400
    assert api.ask("GET", "/v1/threads/n", key=two, stateward_namespace="one").status == 200
    told = api.ask("GET", "/v1/threads/n", key=two, stateward_namespace=quote("zwei/ä", safe=""))
    assert told.status == 404
    assert api.ask("GET", "/v1/threads/n").status == 404
    told = api.ask("GET", "/v1/threads", stateward_namespace="stateward.service", key=two)
    assert told.status == 403


# --- conversations ----------------------------------------------------------------------


def test_an_append_is_carried_out_once(api: Api) -> None:
    path = "/v1/threads/once%2F1/messages"
    first = api.ask("POST", path, MESSAGES, idempotency_key="k")
    again = api.ask("POST", path, MESSAGES, idempotency_key="k")
    other = api.ask("POST", path, BODIES["AppendBody"], idempotency_key="k")
    assert (first.status, again.status, other.status) == (201, 200, 422)
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert shown(again)["version"] == shown(first)["version"] == 1
    assert other.problem["error"] == "KeyReusedError"
    assert shown(api.ask("GET", "/v1/threads/once%2F1"))["id"] == "once/1"


def test_an_append_is_for_the_version_that_was_read(api: Api) -> None:
    path = "/v1/threads/matched/messages"
    assert api.ask("POST", path, MESSAGES, if_none_match="*").status == 201
    refused = api.ask("POST", path, MESSAGES, if_none_match="*")
    assert refused.status == 412
    tag = api.ask("GET", "/v1/threads/matched").headers["etag"]
    assert refused.headers["etag"] == tag
    assert api.ask("POST", path, MESSAGES, if_match=tag).status == 201
    assert api.ask("POST", path, MESSAGES, if_match=tag).status == 412
    assert api.ask("POST", path, MESSAGES, if_match="1").status == 400
    assert shown(api.ask("GET", "/v1/threads/matched"))["version"] == 2


def test_lists_go_on_where_they_stopped(api: Api) -> None:
    key = api.served.key("write", ("lists",))
    ids = {f"t-{n}" for n in range(5)}
    for id in ids:
        api.ask("POST", f"/v1/threads/{id}/messages", MESSAGES, key)
    found: list[str] = []
    query = "?limit=2&prefix=t-"
    for _ in range(10):
        told = api.ask("GET", f"/v1/threads{query}", key=key)
        found += [item["id"] for item in shown(told)["items"]]
        if shown(told)["next"] is None:
            assert "link" not in told.headers
            break
        query = told.headers["link"].removeprefix("<").partition(">")[0]
    assert len(found) == 5
    assert set(found) == ids


def test_a_stream_goes_on_after_the_last_event(api: Api) -> None:
    for n in range(3):
        api.ask("POST", "/v1/threads/told/messages", {"messages": [{"n": n}]})
    path = "/v1/threads/told/changes?follow=false"
    told = api.ask("GET", path)
    assert told.headers["content-type"] == EVENTS
    events = told.body.decode().strip().split("\n\n")
    assert len(events) == 3
    ids = [each.split("\n")[0].removeprefix("id: ") for each in events]
    rest = api.ask("GET", path, last_event_id=ids[0])
    assert rest.body.decode().strip().split("\n\n") == events[1:]
    api.ask("DELETE", "/v1/threads/told")
    gone = api.ask("GET", path, last_event_id=ids[0]).body.decode()
    assert gone.startswith("event: reset\n")


def test_a_window_is_given_in_the_shape_that_was_asked_for(api: Api) -> None:
    image = {"format": "png", "source": {"bytes": "aGk="}}
    said = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"image": image}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "a cat"}]},
    ]
    api.ask("POST", "/v1/threads/shaped/messages", {"messages": said})
    told = shown(api.ask("GET", "/v1/threads/shaped?as=bedrock"))
    assert told["system"] == "be kind"
    assert told["messages"] == [
        {"role": "user", "content": [{"image": image}]},
        {"role": "assistant", "content": [{"text": "a cat"}]},
    ]
    (lost,) = told["lost"]
    assert (lost["number"], lost["part"], lost["what"]) == (3, 1, "thinking")
    assert shown(api.ask("GET", "/v1/threads/shaped"))["messages"] == said
    assert api.ask("GET", "/v1/threads/shaped?as=cohere").status == 400


def test_a_fork_and_its_origin(api: Api) -> None:
    api.ask("POST", "/v1/threads/origin/messages", {"messages": [{"n": 1}, {"n": 2}]})
    assert api.ask("POST", "/v1/threads/origin/fork", {"to": "branch", "at": 1}).status == 201
    assert shown(api.ask("GET", "/v1/threads/branch"))["messages"] == [{"n": 1}]
    assert api.ask("POST", "/v1/threads/origin/fork", {"to": "branch"}).status == 412
    assert api.ask("POST", "/v1/threads/nowhere/fork", {"to": "b2"}).status == 404


# --- documents --------------------------------------------------------------------------


@pytest.mark.parametrize("under", ["/v1/users/doc-user", "/v1/shared/doc-shared"])
def test_a_document_has_versions(api: Api, under: str) -> None:
    path = f"{under}/documents/a%2Fb"
    assert api.ask("GET", path).status == 404
    assert api.ask("PUT", path, {"n": 1}).status == 428
    assert api.ask("PUT", path, {"n": 1}, if_match="*").status == 412
    made = api.ask("PUT", path, {"n": 1}, if_none_match="*")
    assert (made.status, shown(made)) == (201, {"n": 1})
    assert api.ask("PUT", path, {"n": 2}, if_none_match="*").headers["etag"] == made.headers["etag"]
    assert api.ask("GET", path, if_none_match=made.headers["etag"]).status == 304
    two = api.ask("PUT", path, {"n": 2}, if_match=made.headers["etag"])
    assert two.status == 200
    stale = api.ask("PUT", path, {"n": 3}, if_match=made.headers["etag"])
    assert (stale.status, stale.headers["etag"]) == (412, two.headers["etag"])
    patch = {"content_type": "application/merge-patch+json"}
    assert shown(api.ask("PATCH", path, {"m": 1, "n": None}, **patch)) == {"m": 1}
    assert api.ask("PATCH", path, {"m": 2}, if_match=two.headers["etag"], **patch).status == 412
    assert api.ask("PATCH", path, {"m": 2}).status == 415
    assert [each["value"] for each in shown(api.ask("GET", f"{path}/history"))["items"]] == [
        {"m": 1},
        {"n": 2},
        {"n": 1},
    ]
    assert shown(api.ask("GET", f"{path}?version=1")) == {"n": 1}
    assert shown(api.ask("POST", f"{path}/undo", {"to": 2})) == {"n": 2}
    assert shown(api.ask("POST", f"{path}/undo")) == {"m": 1}
    names = [item["name"] for item in shown(api.ask("GET", f"{under}/documents"))["items"]]
    assert names == ["a/b"]
    assert api.ask("DELETE", path, if_match=two.headers["etag"]).status == 412
    assert api.ask("DELETE", path).status == 204
    assert api.ask("GET", path).status == 404


# --- work -------------------------------------------------------------------------------


def test_a_workflow_is_told_once_and_operated(api: Api) -> None:
    path = "/v1/workflows/flow"
    assert api.ask("GET", path).status == 404
    for way in ("signals/go", "cancel", "retry"):
        assert api.ask("POST", f"{path}/{way}").status == 404, way
    assert api.ask("POST", f"{path}/fork", BODIES["StepForkBody"]).status == 404
    assert api.ask("POST", f"{path}/start", {"kind": "order", "input": 7}).status == 201
    again = api.ask("POST", f"{path}/start", {"kind": "order", "input": 7})
    assert (again.status, shown(again)) == (200, {"changed": False})
    assert api.ask("POST", f"{path}/start", {"kind": "order", "input": 8}).status == 422
    assert api.ask("POST", f"{path}/signals/go", {"value": 1}, idempotency_key="k").status == 201
    told = api.ask("POST", f"{path}/signals/go", {"value": 1}, idempotency_key="k")
    assert (told.status, told.headers["idempotent-replayed"]) == (200, "true")
    assert shown(api.ask("POST", f"{path}/cancel", {"reason": "no stock"})) == {"changed": True}
    info = shown(api.ask("GET", path))
    assert info["status"] == "cancelled"
    assert info["error"].endswith("no stock")
    assert api.ask("POST", f"{path}/signals/go").status == 409
    listed = shown(api.ask("GET", "/v1/workflows?status=cancelled&kind=order"))["items"]
    assert [item["id"] for item in listed] == ["flow"]
    assert shown(api.ask("POST", f"{path}/retry")) == {"changed": True}
    assert shown(api.ask("GET", path))["status"] == "active"


def test_what_is_not_there_is_404(api: Api) -> None:
    for method, path, body in (
        ("GET", "/v1/tasks/none", None),
        ("POST", "/v1/tasks/none/retry", None),
        ("POST", "/v1/tasks/none/cancel", None),
        ("POST", "/v1/effects/thread%2Fnone%2Fcall/resolve", {"decision": "done"}),
        ("GET", "/v1/schedules/none", None),
        ("POST", "/v1/schedules/none/pause", None),
        ("POST", "/v1/locks/none/break", {"token": 1}),
    ):
        told = api.ask(method, path, body)
        assert told.status == 404, (path, told)
        assert told.problem["detail"]
    assert shown(api.ask("POST", "/v1/waiting/none/answer")) == {"changed": False}


def test_locks_are_listed_page_by_page(api: Api) -> None:
    key = api.served.key("read", ("locks",))
    with sync.open(api.served.direct, heartbeat=None) as store:
        for name in ("a", "b", "c"):
            lock = Entity("locks", "lock", name)
            take = Commit(lock, World().new_op(), (Acquire("nonce", 3600.0, "somebody"),))
            store.sections["workflows"].execute([take])
    found, after = [], ""
    for _ in range(3):
        page = shown(api.ask("GET", f"/v1/locks?limit=2{after}", key=key))
        found += [(item["name"], item["holder"]) for item in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == [(name, "somebody") for name in ("a", "b", "c")]


def test_a_context_a_journal_and_the_feed(api: Api) -> None:
    key = api.served.key("operate", ("together",))
    api.ask("POST", "/v1/threads/t/messages?user=eve", MESSAGES, key)
    api.ask("PUT", "/v1/users/eve/documents/prefs", {"a": 1}, key, if_none_match="*")
    api.ask("POST", "/v1/workflows/w/start?user=eve", {"kind": "order"}, key)
    context = shown(api.ask("GET", "/v1/context?user=eve&thread=t", key=key))
    assert context["thread"]["messages"] == MESSAGES["messages"]
    assert [(of["name"], of["value"]) for of in context["user"]] == [("prefs", {"a": 1})]
    assert [of["id"] for of in context["workflows"]] == ["w"]
    path = "/v1/journals/j/events"
    assert api.ask("POST", path, {"events": [{"n": 1}]}, key, idempotency_key="k").status == 201
    assert api.ask("POST", path, {"events": [{"n": 1}]}, key, idempotency_key="k").status == 200
    assert api.ask("POST", path, {"events": [{"n": 2}]}, key, if_none_match="*").status == 412
    told = api.ask("GET", "/v1/journals/j/changes?follow=false", key=key).body.decode()
    assert told.count("data: ") == 1
    feed = api.ask("GET", "/v1/changes?follow=false", key=key).body.decode()
    events = [json.loads(line[6:]) for line in feed.split("\n") if line.startswith("data: ")]
    assert {(each["kind"], each["id"]) for each in events} == {
        ("thread", "t"),
        ("user", "eve"),
        ("workflow", "w"),
        ("journal", "j"),
    }
    eve = api.served.key("read", ("together",), user="eve")
    hers = api.ask("GET", "/v1/changes?follow=false&kinds=thread,journal", key=eve).body.decode()
    assert hers.count("data: ") == 1, "the journal is nobody's"
    assert shown(api.ask("GET", "/v1/namespaces", key=key)) == {"items": ["together"]}
    assert shown(api.ask("GET", "/v1/storage", key=key))["kinds"]["thread"] == 1
    exported = api.ask("GET", "/v1/users/eve/export", key=key)
    assert exported.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in exported.body.splitlines()]
    assert SECRET in json.dumps(lines)
    receipt = shown(api.ask("POST", "/v1/users/eve/erase", key=key))
    assert receipt["removed"]["thread"] == 1
    assert api.ask("GET", "/v1/threads/t", key=key).status == 404


# --- streams ----------------------------------------------------------------------------


def test_a_stream_tells_what_comes(api: Api) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", api.served.port, timeout=PATIENCE)
    try:
        headers = {"authorization": f"Bearer {api.admin}"}
        connection.request("GET", "/rest/v1/threads/live/changes", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        for n in range(2):
            api.ask("POST", "/v1/threads/live/messages", {"messages": [{"n": n}]})
            lines = [answer.readline() for _ in range(3)]
            assert lines[0].startswith(b"id: ")
            assert json.loads(lines[1].removeprefix(b"data: "))["message"] == {"n": n}
            assert lines[2] == b"\n"
    finally:
        connection.close()


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"data: 1\n\n"


async def silent() -> AsyncGenerator[bytes, None]:
    yield b"data: 1\n\n"
    await asyncio.Event().wait()


async def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SLOW_SECONDS", 0.05)
    taken = []

    async def send(message: dict[str, Any]) -> None:
        taken.append(message)
        if len(taken) == 3:
            await asyncio.Event().wait()

    events = endless()
    async with asyncio.timeout(PATIENCE):
        assert not await stream.streamed(events, send, ())
    assert len(taken) == 3, "nothing is kept for it"
    assert [event async for event in events] == [], "the source is closed"


async def test_a_quiet_stream_says_that_it_lives_and_ends_with_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "QUIET_SECONDS", 0.01)
    stopping, taken = asyncio.Event(), []

    async def send(message: dict[str, Any]) -> None:
        taken.append(message["body"])
        if len(taken) == 3:
            stopping.set()

    async with asyncio.timeout(PATIENCE):
        assert await stream.streamed(silent(), send, (stopping.wait(),))
    assert taken[:3] == [b"data: 1\n\n", stream.COMMENT, stream.COMMENT]


# --- nonsense ---------------------------------------------------------------------------

APPEND = "/v1/threads/nonsense/messages"


def cursor(said: Any) -> str:
    """A cursor that nobody has told."""
    return urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")


NONSENSE: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("POST", APPEND, b"{", {}, 400),
    ("POST", APPEND, b"", {}, 400),
    ("POST", APPEND, b"\xff\xfe", {}, 400),
    ("POST", APPEND, b'{"messages":[{"a":' + b"[" * 50_000, {}, 400),
    ("POST", APPEND, {"messages": []}, {}, 400),
    ("POST", APPEND, {"messages": {}}, {}, 400),
    ("POST", APPEND, {"messages": ["text"]}, {}, 400),
    ("POST", APPEND, {**MESSAGES, "unknown": 1}, {}, 400),
    ("POST", APPEND, [], {}, 400),
    ("POST", APPEND, MESSAGES, {"content_type": "text/plain"}, 415),
    ("POST", APPEND, MESSAGES, {"if_match": '"x-1"'}, 400),
    ("POST", APPEND, MESSAGES, {"if_match": '"' + "9" * 400 + '-1"'}, 400),
    ("POST", APPEND, MESSAGES, {"if_match": '"1-a"', "if_none_match": "*"}, 400),
    ("POST", APPEND, MESSAGES, {"idempotency_key": "x" * 5000}, 400),
    ("POST", APPEND + "?user=", MESSAGES, {}, 400),
    ("POST", APPEND + "?nobody=1", MESSAGES, {}, 400),
    ("POST", APPEND + "?user=a&user=b", MESSAGES, {}, 400),
    ("POST", APPEND + "?user=%ff", MESSAGES, {}, 400),
    ("POST", APPEND, MESSAGES, {"stateward_namespace": ""}, 400),
    ("PUT", "/v1/users/u/documents/d", [1], {"if_none_match": "*"}, 400),
    ("PUT", "/v1/users/u/documents/d", b"null", {"if_none_match": "*"}, 400),
    ("PUT", "/v1/users/u/documents/d", b'{"a":NaN}', {"if_none_match": "*"}, 400),
    ("GET", "/v1/threads?limit=0", None, {}, 400),
    ("GET", "/v1/threads?limit=1001", None, {}, 400),
    ("GET", "/v1/threads?limit=many", None, {}, 400),
    ("GET", "/v1/threads/t?last=null", None, {}, 400),
    ("GET", "/v1/threads?after=nowhere", None, {}, 400),
    ("GET", f"/v1/threads?after={cursor(['nowhere'])}", None, {}, 400),
    ("GET", f"/v1/workflows?after={cursor([None, 1.0, '', 0.0, '', -5])}", None, {}, 400),
    ("GET", f"/v1/changes?after={cursor({'thread': [1, 'nowhere']})}&follow=false", None, {}, 400),
    ("GET", "/v1/threads?" + "&".join(f"p{n}=1" for n in range(60)), None, {}, 400),
    ("GET", "/v1/threads/%ff", None, {}, 400),
    ("GET", f"/v1/threads/{'x' * 3000}", None, {}, 400),
    ("GET", "/v1/threads/..", None, {}, 404),
    ("GET", "/v1/threads/..%2f..%2fetc%2fpasswd", None, {}, 404),
    ("GET", "/v1/threads/%00", None, {}, 404),
    ("GET", "/v1/threads/", None, {}, 404),
    ("GET", "/v1//threads", None, {}, 404),
    ("GET", "/v1/threads/a/b/c", None, {}, 404),
    ("GET", "/v1/threads/t/changes?after=x", None, {}, 400),
    ("GET", "/v1/threads/t/changes", None, {"last_event_id": "x"}, 400),
    ("GET", "/v1/context?user=u", None, {}, 400),
    ("GET", "/v1/changes?kinds=nonsense&follow=false&x=1", None, {}, 400),
    ("GET", "/v1/changes?after=5", None, {}, 400),
    ("GET", "/v1/changes", None, {"last_event_id": "%ff"}, 400),
    ("GET", "/v1/workflows?status=odd", None, {}, 400),
    ("POST", "/v1/workflows/nonsense/start", {}, {}, 400),
    ("PUT", "/v1/schedules/s", {"cron": "never"}, {}, 400),
    ("POST", "/v1/locks/l/break", {"token": "1"}, {}, 400),
    ("DELETE", "/v1/threads", None, {}, 405),
]


@pytest.mark.parametrize("asked", NONSENSE, ids=lambda asked: f"{asked[0]} {asked[1][:40]}")
def test_nonsense_is_a_clear_problem(
    api: Api, asked: Any, caplog: pytest.LogCaptureFixture
) -> None:
    method, path, body, headers, status = asked
    told = api.ask(method, path, body, **headers)
    assert told.status == status, told
    assert "Traceback" not in told.problem["detail"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert api.ask("GET", "/v1/threads/nonsense").status == 404, "nothing is half written"


def test_a_cursor_in_execute_is_checked_as_well(api: Api) -> None:
    for order in ({}, {"due": True}, {"recent": True}):
        op = {"type": "List", "namespace": "default", "kind": "thread", "after": "x", **order}
        told = api.ask("POST", "/v1/execute", [[op], 5])
        assert (told.status, told.problem["error"]) == (400, "InvalidInput")


def test_a_stamp_of_somebody_elses_making_stays_in_its_header(api: Api) -> None:
    """An operation's id is its stamp, and clients of `execute` choose it freely."""
    op = 'x"\r\nset-cookie: a=b\r\n\r\n'
    commit = {
        "type": "Commit",
        "entity": ["default", "thread", "stamped"],
        "op": op,
        "writes": [{"type": "Append", "bodies": ['{"n":1}']}],
    }
    assert api.ask("POST", "/v1/execute", [[commit], 5]).status == 200
    told = api.ask("GET", "/v1/threads/stamped")
    assert "set-cookie" not in told.headers
    tag = told.headers["etag"]
    assert api.ask("POST", "/v1/threads/stamped/messages", MESSAGES, if_match=tag).status == 201
    told_all = api.ask("GET", "/v1/threads/stamped/changes?follow=false").body.decode()
    first = told_all.split("\n")[0].removeprefix("id: ")
    rest = api.ask("GET", "/v1/threads/stamped/changes?follow=false", last_event_id=first)
    assert rest.body.decode().count("data: ") == 1


# --- what is made from the table --------------------------------------------------------


def test_what_is_made_from_the_table_is_committed() -> None:
    spec = importlib.util.spec_from_file_location("openapi_tool", ROOT / "tools" / "openapi.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for path, data in tool.made().items():
        assert path.read_bytes() == data, f"{path.name}: run python tools/openapi.py"


def test_the_document_is_served_and_names_every_route(api: Api) -> None:
    document = shown(api.ask("GET", "/v1/openapi.json"))
    assert document == json.loads((ROOT / "docs" / "reference" / "openapi.json").read_bytes())
    asked = {(m.upper(), path) for path, ways in document["paths"].items() for m in ways}
    assert asked == {(route.method, route.path) for route in ROUTES}
    names = [way["operationId"] for ways in document["paths"].values() for way in ways.values()]
    assert len(set(names)) == len(names)
    text = json.dumps(openapi())
    for schema in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert schema in document["components"]["schemas"]


def test_the_document_has_every_parameter_of_every_route() -> None:
    for route in ROUTES:
        said = openapi()["paths"][route.path][route.method.lower()]["parameters"]
        named = {each["name"] for each in said if each.get("in") == "query"}
        assert named == {field.encode_name for field in fields(route.query)}, route.path
