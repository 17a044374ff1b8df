"""Who may ask for what, of whom, and through which interface: every cell, made from the table.

Beside what the table says, each principal has a promise that no row can take back: whoever may not
write is refused each change, a device learns nothing of others, not even what exists, and an
auditor reads no conversation.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping, MutableMapping
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import pytest

import stateward
from stateward import EffectUnknown, Permanent
from stateward.actions.rights import BUILT_IN, OWN, ROLES, SCOPE_OF, Only
from stateward.mcp.tools import TOOLS
from stateward.server.asker import Asker, DeviceRights, with_role
from stateward.server.keys import new_key
from stateward.server.rest_routes import ROUTES
from stateward.server.rights_table import (
    SERVICE,
    RoleSettings,
    explained,
    rights_of,
    roles_of,
    rows,
)
from stateward.server.route import RouteTable
from stateward.server.service import Application, app
from stateward.store import Store
from stateward.wire import EXECUTE, ExecuteBody, WaitBody
from stateward.world import World

pytestmark = pytest.mark.verify

OWNERS = {"own": "ada", "others": "bob", "absent": "nob"}  # of one length, as their answers are
SECRET = "s3cret-of-"
SUPPORT = RoleSettings(rights=("threads.read", "workflows.*", "tasks.cancel"))
ROLES_OF = roles_of({"support": SUPPORT})
DEVICES = DeviceRights(documents=("*",), starts=("*",), signals=("*",))
OTHER = "other"  # the namespace of another tenant


class Principal(NamedTuple):
    """The key of a principal; `rights` are those of a role that is none of the four."""

    role: str
    user: str | None = None
    rights: frozenset[str] | None = None
    namespaces: tuple[str, ...] | None = ("default",)

    @property
    def reads_only(self) -> bool:
        return self.role in ("reader", "auditor")

    def may(self, right: str, least: str, for_one_user: bool) -> bool:
        """Return whether the table lets the principal ask."""
        if self.user is not None and not for_one_user:
            return False
        if right == OWN:
            return True
        if self.rights is not None:
            return right in self.rights or f"{right.partition('.')[0]}.*" in self.rights
        return ROLES.index(least) <= ROLES.index(self.role)


PRINCIPALS = {
    "device": Principal("agent", "ada"),
    "device that reads": Principal("reader", "ada"),
    "reader": Principal("reader"),
    "auditor": Principal("auditor", None, frozenset(("log.read", "audits.read", "signals.read"))),
    "support": Principal("support", None, frozenset(SUPPORT.rights)),
    "other tenant": Principal("operator", namespaces=(OTHER,)),
    "agent": Principal("agent"),
    "operator": Principal("operator"),
    "admin": Principal("admin", namespaces=None),
}
BODIES: dict[str, Any] = {
    "POST /v1/threads/{thread}/messages": {"messages": [{"role": "user", "content": "hi"}]},
    "POST /v1/threads/{thread}/fork": {"to": "u/{user}/fork"},
    "POST /v1/conversations/{conversation}/items": {
        "items": [{"type": "message", "role": "user", "content": "hi"}]
    },
    "POST /v1/conversations": {},
    "POST /v1/conversations/{conversation}": {"metadata": {"a": "b"}},
    "POST /v1/threads/{thread}/stop": {"request": "r"},
    "POST /v1/workflows/{workflow}/start": {"kind": "k"},
    "POST /v1/workflows/{workflow}/fork": {"to": "u/{user}/forked", "at_step": "one#1"},
    "POST /v1/effects/{effect}/resolve": {"decision": "done"},
    "PUT /v1/schedules/{schedule}": {"cron": "0 3 * * *", "task": "f"},
    "POST /v1/locks/{lock}/break": {"token": 1},
    "POST /v1/journals/{journal}/events": {"events": [{"a": 1}]},
    "POST /v1/keys": {"namespaces": ["default"], "scope": "read"},
}
QUERIES = {
    "GET /v1/threads/{thread}/live": "request=r",
    "GET /v1/context": "user={user}&thread={thread}",
    "GET /v1/find": "text={thread}",
}
DIFF = "old=1"
TOOL_ARGUMENTS: dict[str, dict[str, Any]] = {
    "find": {"text": "{thread}"},
    "read_conversation": {"thread": "{thread}"},
    "why": {"thread": "{thread}"},
    "read_document": {"user": "{user}", "name": "profile"},
    "list_documents": {"user": "{user}"},
    "patch_document": {"user": "{user}", "name": "profile", "patch": {"a": 1}},
    "undo_document": {"user": "{user}", "name": "profile"},
    "answer_question": {"question": "{question}", "value": True},
}


# --- what there is ------------------------------------------------------------------------


async def _cut_off() -> None:
    raise TimeoutError


async def _fails() -> None:
    raise Permanent("no")


async def fill(store: Store, user: str) -> dict[str, str]:
    """Make one of everything that belongs to a user; returns the names in paths."""
    secret = SECRET + user
    for thread in (f"t-{user}", f"conv_{user}"):
        await store.thread(thread, user).append({"role": "user", "content": secret})
        async with store.thread(thread, user).turn(key="r", live=True) as turn:
            await turn.write(secret)
            await turn.store({"role": "assistant", "content": turn.text})
    with pytest.raises(EffectUnknown):
        await store.thread(f"t-{user}", user).effect("c", _cut_off)
    await store.user(user).document("profile").put({"a": secret})
    await store.shared(f"s-{user}", user).document("profile").put({"a": secret})
    async with store.workflow(f"w-{user}", kind="k", input=secret, user=user) as run:
        await run.step("one", str, 1)
        await run.wait("approval", ask=secret)
    with pytest.raises(Permanent):
        await store.once(f"k-{user}", _fails, user=user)
    await store.schedule(f"c-{user}", user).declare("0 3 * * *", task="f")
    await store.journal(f"j-{user}", user).append({"a": secret})
    names = names_of(user)
    async for question in store.waiting(user=user):
        names["question"] = question.id
    return names


def names_of(user: str) -> dict[str, str]:
    """Return the names in paths of what belongs to somebody; nobody's are of nothing."""
    return {
        "thread": f"t-{user}",
        "conversation": f"conv_{user}",
        "workflow": f"w-{user}",
        "task": f"k-{user}",
        "effect": f"thread/t-{user}/c",
        "schedule": f"c-{user}",
        "journal": f"j-{user}",
        "shared": f"s-{user}",
        "user": user,
        "question": "0" * 16,
        **dict.fromkeys(("lock", "audit", "key", "kind"), f"x-{user}"),
        **{"name": "profile", "item": "msg_1", "version": "1", "signal": "go"},
    }


# --- asking ---------------------------------------------------------------------------------


class Answered(NamedTuple):
    """What came back."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def is_refused(self) -> bool:
        """Whether the key is refused, and not what it asks for."""
        return self.status == 403 and b'"NotPermitted"' in self.body

    def without(self, names: Mapping[str, str]) -> Answered:
        """Return it without the ids that were asked for, and without what says when it was."""
        body = self.body
        for name in sorted(names.values(), key=len, reverse=True):
            body = body.replace(name.encode(), b"?")
        kept = tuple(pair for pair in self.headers if pair[0] not in (b"content-length", b"date"))
        return Answered(self.status, kept, re.sub(rb'"server_time":[^,}]*', b"", body))


def filled(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments with the names of what belongs to somebody."""
    return {n: v.format_map(names) if isinstance(v, str) else v for n, v in given.items()}


class Service:
    """A service in this process, with a key for each principal."""

    def __init__(self, application: Application, names: dict[str, dict[str, str]]) -> None:
        self.application = application
        self.names = names
        self.keys: dict[str, str] = {}
        for name, each in PRINCIPALS.items():
            role = each.role if each.rights is not None else SCOPE_OF[each.role]
            secret, record = new_key(World(), role, each.namespaces, user=each.user)
            application._door.keys.lend(record)
            self.keys[name] = secret

    async def ask(
        self, key: str | None, method: str, path: str, body: Any = None, **more: str
    ) -> Answered:
        sent: list[MutableMapping[str, Any]] = []
        arriving = [b"" if body is None else json.dumps(body).encode()]
        headers = [(b"host", b"127.0.0.1"), (b"accept", b"application/json, text/event-stream")]
        headers.append((b"content-length", str(len(arriving[0])).encode()))
        if body is not None:
            patches = b"merge-patch+" if method == "PATCH" else b""
            headers.append((b"content-type", b"application/" + patches + b"json"))
        if key is not None:
            headers.append((b"authorization", f"Bearer {self.keys[key]}".encode()))
        headers += [(name.encode(), value.encode()) for name, value in more.items()]
        streams = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if arriving:
                return {"type": "http.request", "body": arriving.pop()}
            await streams.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)
            if any(
                value.startswith(b"text/event-stream") for _, value in message.get("headers", ())
            ):
                streams.set()  # it would never end by itself

        path, _, query = path.partition("?")
        scope = {
            **{"type": "http", "http_version": "1.1", "method": method, "scheme": "http"},
            **{"path": path, "raw_path": path.encode(), "query_string": query.encode()},
            **{"root_path": "", "headers": headers},
            **{"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)},
        }
        await asyncio.wait_for(self.application(scope, receive, send), 30)
        parts = [message.get("body", b"") for message in sent[1:]]
        return Answered(sent[0]["status"], tuple(sent[0]["headers"]), b"".join(parts))

    async def ask_route(self, key: str | None, route: Any, whose: str, **more: str) -> Answered:
        """Ask for a route of what belongs to somebody."""
        asked = f"{route.method} {route.path}"
        names = self.names[whose]
        path = route.path.format_map({k: v.replace("/", "%2F") for k, v in names.items()})
        query = DIFF if route.path.endswith("/diff") else QUERIES.get(asked, "").format_map(names)
        body = None if route.body is None else filled(BODIES.get(asked, {}), names)
        if "If-Match" in route.headers:
            more["if-match"] = "*"
        return await self.ask(key, route.method, f"{path}?{query}", body, **more)

    async def call_tool(self, key: str, name: str, changes: bool, whose: str) -> Answered:
        """Call a tool about what belongs to somebody."""
        arguments = filled(TOOL_ARGUMENTS.get(name, {}), self.names[whose])
        path = "/mcp/write" if changes else "/mcp"
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        return await self.ask(
            *(key, "POST", path), body | {"params": {"name": name, "arguments": arguments}}
        )


async def _service() -> AsyncIterator[Service]:
    store = stateward.open("memory://", heartbeat=None, metrics=False)
    async with store:
        names = {whose: names_of(user) for whose, user in OWNERS.items()}
        for whose in ("own", "others"):
            names[whose] = await fill(store, OWNERS[whose])
        yield Service(app(store, devices=DEVICES, roles={"support": SUPPORT}), names)


def in_a_service(test: Any) -> Any:
    """Run a coroutine with a service of its own."""

    async def run() -> None:
        async for service in _service():
            await test(service)

    def runs() -> None:
        asyncio.run(run())

    runs.__name__, runs.__doc__ = test.__name__, test.__doc__
    return runs


# --- the matrix -----------------------------------------------------------------------------

EVERY = [*ROUTES]


@in_a_service
async def test_nobody_is_let_in_without_a_key(service: Service) -> None:
    for route in EVERY:
        assert (await service.ask_route(None, route, "own")).status == 401, route.path
    for method, path in SERVICE:
        assert (await service.ask(None, method, path, {})).status == 401, path


async def _check_routes(service: Service, name: str) -> None:
    principal = PRINCIPALS[name]
    for route in sorted(EVERY, key=lambda each: each.method == "DELETE"):
        is_permitted = principal.may(route.right, route.least, route.one_users)
        if principal.reads_only and route.method != "GET":
            assert not is_permitted, f"{name} may not ask for {route.method} {route.path}"
        of_it = {}
        for whose in ("absent", "others", "own"):
            answered = of_it[whose] = await service.ask_route(name, route, whose)
            cell = (name, route.method, route.path, whose, answered)
            assert answered.status < 500, cell
            if principal.user is None or not is_permitted:
                assert answered.is_refused != is_permitted, cell
            elif whose != "own" or not is_permitted:
                assert (SECRET + "bob").encode() not in answered.body, cell
            if name == "auditor" or (name == "other tenant" and principal.namespaces):
                assert SECRET.encode() not in answered.body, cell
        names_something = route.names or f"{route.method} {route.path}" in QUERIES
        if principal.user is not None and names_something:
            absent, others = (
                of_it[each].without(service.names[each]) for each in ("absent", "others")
            )
            assert absent == others, (name, route.method, route.path)
        if "default" in (principal.namespaces or ()):
            elsewhere = {"stateward-namespace": OTHER}
            answered = await service.ask_route(name, route, "own", **elsewhere)
            assert answered.status == 403, (name, route.path, answered)


@pytest.mark.parametrize("name", PRINCIPALS)
def test_routes_answer_each_principal_as_the_table_says(name: str) -> None:
    async def check(service: Service) -> None:
        await _check_routes(service, name)

    in_a_service(check)()


@pytest.mark.parametrize("name", PRINCIPALS)
def test_tools_answer_each_principal_as_the_table_says(name: str) -> None:
    pytest.importorskip("mcp")
    principal = PRINCIPALS[name]

    async def check(service: Service) -> None:
        for tool in TOOLS:
            needed = SERVICE["POST", "/mcp/write" if tool.changes else "/mcp"]
            is_let_in = principal.may(needed.right, needed.least, True)
            is_permitted = is_let_in and principal.may(tool.needs[0], tool.needs[1], tool.one_users)
            of_it = {}
            for whose in ("absent", "others", "own"):
                answered = await service.call_tool(name, tool.name, tool.changes, whose)
                cell = (name, tool.name, whose, answered)
                assert answered.status == (200 if is_let_in else 403), cell
                of_it[whose] = answered.without(service.names[whose])
                if is_let_in and not is_permitted:
                    assert b"there is no tool" in answered.body, cell
                if principal.user is not None:
                    assert (SECRET + "bob").encode() not in answered.body, cell
                if name in ("auditor", "other tenant"):
                    assert SECRET.encode() not in answered.body, cell
            if principal.user is not None:
                assert of_it["absent"] == of_it["others"], (name, tool.name)

    in_a_service(check)()


@pytest.mark.parametrize("name", PRINCIPALS)
def test_calls_of_agents_and_monitoring_answer_as_the_table_says(name: str) -> None:
    principal = PRINCIPALS[name]

    async def check(service: Service) -> None:
        for (method, path), row in SERVICE.items():
            if path.startswith("/mcp"):
                continue
            body = msgspec.to_builtins(
                ExecuteBody((), None) if path == EXECUTE else WaitBody((), 0.0)
            )
            answered = await service.ask(name, method, path, body if method == "POST" else None)
            is_permitted = principal.may(row.right, row.least, row.for_one_user)
            if path in ("/metrics", "/v1/refusals"):
                is_permitted = is_permitted and principal.namespaces is None  # of all tenants
            assert answered.is_refused != is_permitted, (name, path, answered)

    in_a_service(check)()


def asker_of(name: str) -> Asker:
    principal = PRINCIPALS[name]
    scope = principal.role if principal.rights is not None else SCOPE_OF[principal.role]
    return with_role(Asker(name, scope, None, principal.user), ROLES_OF)


@pytest.mark.parametrize("name", PRINCIPALS)
def test_an_explanation_says_what_the_table_says(name: str) -> None:
    principal, asker = PRINCIPALS[name], asker_of(name)
    for row in rows():
        may, why = explained(asker, row.name)
        assert may == principal.may(row.right, row.least, row.for_one_user), (row.name, why)
        assert row.right in why
        assert may == (row.right in rights_of(asker)) or row.right == OWN or principal.user


# --- narrowing ------------------------------------------------------------------------------


@in_a_service
async def test_a_key_that_is_narrowed_to_names_reaches_no_others(service: Service) -> None:
    only = Only(kinds=("other",), signals=("go",), documents=("notes",))
    secret, record = new_key(World(), "operate", ("default",), only=only)
    service.application._door.keys.lend(record)
    service.keys["narrow"] = secret
    for route in EVERY:
        answered = await service.ask_route("narrow", route, "own")
        assert answered.status < 500, (route.path, answered)
        about_workflows = "{workflow}" in route.path or "{question}" in route.path
        one_document = "/documents" in route.path and "{name}" in route.path
        if (about_workflows and not route.path.endswith("/start")) or one_document:
            assert answered.status == 403, (route.method, route.path, answered)
        if route.path in ("/v1/workflows", "/v1/waiting"):
            assert json.loads(answered.body)["items"] == []
    for path in ("/v1/execute", "/v1/wait"):
        assert (await service.ask("narrow", "POST", path, {"ops": []})).status == 403
    found = await service.call_tool("narrow", "find", False, "own")
    assert b"only for certain" in found.body, "find looks at ids of every kind"
    listed = await service.ask("narrow", "GET", "/v1/users/ada/documents")
    assert listed.status == 403, "names of documents are not told either"
    path, new = "/v1/users/ada/documents/notes", {"if-none-match": "*"}
    put = await service.ask("narrow", "PUT", path, {"a": 1}, **new)
    assert put.status == 201


@in_a_service
async def test_a_role_that_is_no_more_is_refused(service: Service) -> None:
    secret, record = new_key(World(), "gone", ("default",))
    service.application._door.keys.lend(record)
    service.keys["gone"] = secret
    answered = await service.ask("gone", "GET", "/v1/threads")
    assert answered.status == 403
    assert b"[roles.gone]" in answered.body
    assert "gone" not in BUILT_IN


# --- what it costs --------------------------------------------------------------------------

MOST_SHARE = 0.05  # of a request's calls: to find its route, and whether the key has its right


@in_a_service
async def test_finding_a_route_and_its_right_is_a_small_part_of_a_request(service: Service) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    asking = ("POST", "/v1/threads/t-ada/messages", body)
    assert (await service.ask("agent", *asking)).status == 201  # the key is looked up by now
    counted = (RouteTable.find.__code__, Asker.require_right.__code__)
    calls, depth, of_them = 0, 0, 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, depth, of_them
        starts = event in ("call", "c_call")
        calls += starts
        depth += (frame.f_code in counted) * ((event == "call") - (event == "return"))
        of_them += starts and depth > 0

    sys.setprofile(count)
    try:
        answered = await service.ask("agent", *asking)
    finally:
        sys.setprofile(None)
    assert answered.status == 201
    assert 0 < of_them <= MOST_SHARE * calls, (of_them, calls)
