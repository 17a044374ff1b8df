"""A store in a file with one of everything that actions are about, and the ways to ask for them."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest

import stateward
from stateward import EffectUnknown, Permanent, cli
from stateward.actions.action import Action, Missing
from stateward.kinds import LOCK
from stateward.mcp.tool import WRITTEN, ToolCall, ToolCaller
from stateward.mcp.tools import TOOLS
from stateward.ops import Acquire, Applied, Commit, Entity
from stateward.records import LoggedOperation
from stateward.server.asker import Asker
from stateward.server.service import app

# Arguments of each action, on things that `fill` makes; "question" and "token": of what it made.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "thread list": {},
    "thread delete": {"thread": "t"},
    "thread fork": {"thread": "t", "to": "forked", "at": 1},
    "thread describe": {"thread": "t", "title": "secret", "labels": {"secret": "secret"}},
    "thread archive": {"thread": "t"},
    "thread unarchive": {"thread": "t"},
    "thread pin": {"thread": "t"},
    "thread unpin": {"thread": "t"},
    "thread branches": {"thread": "t"},
    "thread lives": {"thread": "t"},
    "thread live": {"thread": "t", "request": "r"},
    "thread stop": {"thread": "t", "request": "r"},
    "thread show": {"thread": "t"},
    "thread messages": {"thread": "t"},
    "thread changes": {"thread": "t", "follow": False},
    "thread about": {"thread": "t"},
    "thread knew": {"thread": "t", "version": "2"},
    "document list": {"user": "ada"},
    "document show": {"user": "ada", "name": "d"},
    "document history": {"user": "ada", "name": "d"},
    "document diff": {"user": "ada", "name": "d", "old": 1},
    "document put": {"user": "ada", "name": "d", "value": {"secret": 1}, "any_version": True},
    "document patch": {"user": "ada", "name": "d", "patch": {"secret": 1}},
    "document delete": {"user": "ada", "name": "d", "forget": True},
    "document undo": {"user": "ada", "name": "d", "to": 1},
    "shared list": {"shared": "s"},
    "shared show": {"shared": "s", "name": "d"},
    "shared history": {"shared": "s", "name": "d"},
    "shared diff": {"shared": "s", "name": "d", "old": 1},
    "shared put": {"shared": "s", "name": "d", "value": {"secret": 1}, "any_version": True},
    "shared patch": {"shared": "s", "name": "d", "patch": {"secret": 1}},
    "shared delete": {"shared": "s", "name": "d", "forget": True},
    "shared undo": {"shared": "s", "name": "d", "to": 1},
    "context show": {"user": "ada", "thread": "t"},
    "context changes": {"follow": False},
    "journal changes": {"journal": "j", "follow": False},
    "journal delete": {"journal": "j"},
    "user list": {},
    "user show": {"user": "ada"},
    "user export": {"user": "ada"},
    "user erase": {"user": "ada"},
    "workflow list": {},
    "workflow show": {"workflow": "waits"},
    "workflow records": {"workflow": "waits"},
    "workflow delete": {"workflow": "ended"},
    "workflow start": {"workflow": "new", "kind": "k"},
    "workflow signal": {"workflow": "waits", "signal": "go", "value": "secret"},
    "workflow cancel": {"workflow": "waits", "reason": "secret"},
    "workflow retry": {"workflow": "failed"},
    "workflow fork": {"workflow": "waits", "to": "forked", "at_step": "one#1"},
    "question list": {},
    "question answer": {"question": "question", "value": "secret"},
    "task list": {},
    "task show": {"task": "failed"},
    "task retry": {"task": "failed"},
    "task cancel": {"task": "failed", "reason": "secret"},
    "effect list": {},
    "effect show": {"effect": "thread/t/c"},
    "effect resolve": {"effect": "thread/t/c", "decision": "done", "result": "secret"},
    "schedule list": {},
    "schedule show": {"schedule": "nightly"},
    "schedule declare": {"schedule": "nightly", "cron": "0 4 * * *", "task": "f"},
    "schedule pause": {"schedule": "nightly"},
    "schedule resume": {"schedule": "nightly"},
    "schedule delete": {"schedule": "nightly"},
    "lock list": {},
    "lock break": {"lock": "l", "token": "token"},
    "operations list": {},
    "operations verify": {},
    "operations export": {},
    "operations trim": {"before": datetime(2000, 1, 1, tzinfo=UTC), "days": 9000.0},
    "kind list": {},
    "kind pause": {"kind": "k"},
    "kind resume": {"kind": "k"},
}


async def _fails() -> None:
    raise Permanent("no")


async def _cut_off() -> None:
    raise TimeoutError


async def fill(url: str) -> dict[str, Any]:
    """Make one of everything; returns the id of the open question, and the token of the lock."""
    async with stateward.open(url, heartbeat=None) as store:
        async with store.workflow("waits", kind="k", user="ada") as run:
            await run.step("one", str, 1)
            await run.wait("approval", ask="May I?")
        async with store.workflow("ended", kind="k", user="ada"):
            pass
        with pytest.raises(Permanent):
            async with store.workflow("failed", kind="k", user="ada"):
                raise Permanent("no")
        with pytest.raises(Permanent):
            await store.once("failed", _fails)
        with pytest.raises(EffectUnknown):
            await store.thread("t", "ada").effect("c", _cut_off)
        await store.schedule("nightly").declare("0 3 * * *", task="f")
        thread = store.thread("t", "ada")
        await thread.append({"role": "user", "content": "secret"})
        await thread.append({"role": "assistant", "content": "yes"}, saw=await thread.load(last=1))
        async with thread.turn(key="r", live=True) as turn:
            await turn.write("secret")
            await turn.store({"role": "user", "content": "?"}, {"content": turn.text})
        for documents in (store.user("ada"), store.shared("s")):
            await documents.put({"secret": 0}, "d")
            await documents.put({"secret": 2}, "d")
        await store.journal("j").append({"secret": 1})
        held = Commit(Entity("default", LOCK, "l"), "op", (Acquire("nonce", 600.0, "holder"),))
        (granted,) = await store.sections["workflows"].execute((held,))
        assert isinstance(granted, Applied)
        assert granted.lease is not None
        (question,) = [question.id async for question in store.waiting()]
        return {"question": question, "token": granted.lease.token}


class Interfaces:
    """A store that is made anew for each request, so that each finds the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self.url = ""
        self._made_ids: dict[str, Any] = {}

    def arguments(self, row: Action) -> dict[str, Any]:
        """Fill a new store, and return arguments that fit."""
        self._made += 1
        self.url = f"sqlite:///{self._folder}/{self._made}.db"
        self._made_ids = asyncio.run(fill(self.url))
        given = ARGUMENTS[row.name]
        return {n: self._made_ids.get(v, v) if isinstance(v, str) else v for n, v in given.items()}

    def log(self) -> list[LoggedOperation]:
        async def read() -> list[LoggedOperation]:
            async with stateward.open(self.url, heartbeat=None) as store:
                assert (await store.operations.verify()).ok
                return [entry async for entry in store.operations.entries()]

        return asyncio.run(read())

    # --- each way to ask ------------------------------------------------------------

    def by_rest(self, row: Action, given: dict[str, Any]) -> int:
        """Ask over HTTP; returns the status."""
        return asyncio.run(self._by_rest(row, given))

    async def _by_rest(self, row: Action, given: dict[str, Any]) -> int:
        assert row.rest is not None
        method, _, path = row.rest.asked.partition(" ")
        rest = {name: value for name, value in given.items() if f"{{{name}}}" not in path}
        for name, value in given.items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        headers = [(b"if-match", b"*")] if rest.pop("any_version", False) else []
        query, body, kind = "", b"", b"application/json"
        if method in ("GET", "DELETE"):
            query = urlencode({name: str(value).lower() for name, value in rest.items()})
        elif row.name.endswith((" put", " patch")):  # the body is the document, or its patch
            (document,) = rest.values()
            body = json.dumps(document).encode()
            kind = b"application/merge-patch+json" if row.name.endswith("patch") else kind
        elif rest:
            body = json.dumps(rest).encode()
        headers += [(b"content-type", kind)] if body else []
        store = stateward.open(self.url, heartbeat=None)
        application = app(store, insecure_local=True)
        async with store:
            return await _answered(application, method, f"{path}?{query}", body, headers)

    def by_mcp(self, row: Action, given: dict[str, Any]) -> int:
        """Call the tool; returns the status that REST has."""
        try:
            asyncio.run(self._by_mcp(row, given))
        except Missing:
            return 404
        return 200

    async def _by_mcp(self, row: Action, given: dict[str, Any]) -> None:
        tool = next(each for each in TOOLS if each.action is row)
        async with stateward.open(self.url, heartbeat=None) as store:
            asker = Asker("model", "write", writes=WRITTEN, is_credential=False)
            caller = ToolCaller(store, asker, "somebody", write=True, logs_reads=True)
            await tool.answer(ToolCall(caller, msgspec.convert(given, tool.arguments)))

    def by_cli(self, row: Action, given: dict[str, Any]) -> int:
        """Run the command; returns its exit code."""
        return cli.main([*row.name.split(" "), self.url, *_words(row, given)])


def _words(row: Action, given: dict[str, Any]) -> list[str]:
    from stateward.cli.action_verb import option_of, options_of, words_of

    if row.name == "effect resolve":  # its options say the decision
        return [given["effect"], f"--{given['decision']}", json.dumps(given["result"]), "--yes"]
    words = [given[name] for name in words_of(row)]
    if row.name == "lock break":
        return [*words, "--yes"]  # it looks the token up
    if row.name == "operations trim":
        return ["--days", str(given["days"]), "--yes"]
    for field in options_of(row):
        if field.name in given:
            value = given[field.name]
            is_json = field.name == "value"
            words += [f"--{option_of(row, field)}", json.dumps(value) if is_json else value]
    return [*words, *([] if row.reads else ["--yes"])]


async def _answered(
    application: Any, method: str, asked: str, body: bytes, headers: list[tuple[bytes, bytes]]
) -> int:
    path, _, query = asked.partition("?")
    arriving: list[dict[str, Any]] = [{"type": "http.request", "body": body}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if arriving:
            return arriving.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"%d" % len(body)), *headers]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }
    await application(scope, receive, send)
    status: int = sent[0]["status"]
    return status


@pytest.fixture
def interfaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interfaces:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Interfaces(tmp_path)
