"""A store in a file with one of everything that actions are about, and the ways to ask for them."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

import stateward
from stateward import EffectUnknown, Permanent, cli
from stateward.actions.action import Action
from stateward.mcp.server import TOOLS
from stateward.mcp.tool import WRITTEN, ToolCall, ToolCaller
from stateward.records import LoggedOperation
from stateward.server.asker import Asker
from stateward.server.service import app

# Arguments of each action, on things that `filled` makes; "question": the id of the one there is.
ARGUMENTS: dict[str, dict[str, Any]] = {
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
    "kind list": {},
    "kind pause": {"kind": "k"},
    "kind resume": {"kind": "k"},
}


async def _fails() -> None:
    raise Permanent("no")


async def _cut_off() -> None:
    raise TimeoutError


async def fill(url: str) -> str:
    """Make one of everything; returns the id of the open question."""
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
        (question,) = [question.id async for question in store.waiting()]
        return question


class Interfaces:
    """A store that is made anew for each request, so that each finds the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self.url = ""
        self._question = ""

    def arguments(self, row: Action) -> dict[str, Any]:
        """Fill a new store, and return arguments that fit."""
        self._made += 1
        self.url = f"sqlite:///{self._folder}/{self._made}.db"
        self._question = asyncio.run(fill(self.url))
        given = ARGUMENTS[row.name]
        return {n: self._question if v == "question" else v for n, v in given.items()}

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
        body = b"" if method == "GET" else json.dumps(rest).encode()
        if not rest:
            body = b""
        store = stateward.open(self.url, heartbeat=None)
        application = app(store, insecure_local=True)
        async with store:
            return await _answered(application, method, path, body)

    def by_mcp(self, row: Action, given: dict[str, Any]) -> None:
        """Call the tool."""
        asyncio.run(self._by_mcp(row, given))

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
    for field in options_of(row):
        if field.name in given:
            value = given[field.name]
            is_json = field.name == "value"
            words += [f"--{option_of(row, field)}", json.dumps(value) if is_json else value]
    return [*words, *([] if row.reads else ["--yes"])]


async def _answered(application: Any, method: str, path: str, body: bytes) -> int:
    arriving: list[dict[str, Any]] = [{"type": "http.request", "body": body}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if arriving:
            return arriving.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(len(body)).encode())]
    if body:
        headers.append((b"content-type", b"application/json"))
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
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
