"""The real command over stdin and stdout and over HTTP, and the service's own tools."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from servers.redis import running
from service.conftest import Served, serve, service  # noqa: F401 - fixtures

from mcp_server.conftest import (
    COMMAND,
    SECRET,
    Seeded,
    in_process,
    over_stdio,
    said,
    seed,
    use_every_tool,
)
from stateward import sync
from stateward.cli import main
from stateward.mcp.tools import READS, TOOLS

PATIENCE = 60.0  # seconds


@asynccontextmanager
async def over_http(url: str, key: str | None = None) -> AsyncIterator[ClientSession]:
    """The SDK's own session, with the handshake that most clients still speak."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as connection,
        streamable_http_client(url, http_client=connection) as (read, write),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


@contextmanager
def listening(url: str, *options: str) -> Iterator[str]:
    """The command with --http; gives where it listens."""
    command = [*COMMAND, url, "--http", "127.0.0.1:0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()
            assert server.wait(PATIENCE) == 0


# --- stdin and stdout -------------------------------------------------------------------


async def test_every_tool_over_stdio(seeded: Seeded) -> None:
    async with asyncio.timeout(PATIENCE), over_stdio(seeded.url, "--write", "--by", "ada") as it:
        await use_every_tool(it, seeded)
    with sync.open(seeded.url, heartbeat=None) as store:
        first = next(iter(store.operations.entries()))
        assert first.who.endswith("(says: ada)")
        assert first.what == "thread pin"


async def test_the_command_only_reads_and_is_for_one_user_if_told_so(seeded: Seeded) -> None:
    async with asyncio.timeout(PATIENCE), over_stdio(seeded.url, "--user", "eve") as it:
        listed = {tool.name for tool in (await it.list_tools()).tools}
        assert listed == {tool.name for tool in READS} - {"health"}
        for name in sorted(listed):
            assert SECRET not in said(await it.call_tool(name, seeded.arguments[name]))


def test_stdout_has_answers_and_nothing_else(seeded: Seeded) -> None:
    """Also where lines are nonsense, and where something is logged."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "by hand", "version": "1"}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "nonsense"},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "health"}},
    ]
    with subprocess.Popen(
        [*COMMAND, seeded.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"this is no JSON\n")
        answers: dict[int, dict[str, Any]] = {}
        for line in lines:
            server.stdin.write(json.dumps(line).encode() + b"\n")
            server.stdin.flush()
        while set(answers) != {1, 2, 3, 4}:
            told = json.loads(server.stdout.readline())  # or the test fails here
            if told.get("id") is not None:
                answers[told["id"]] = told
        server.stdin.close()
        rest = server.stdout.read()
        assert server.wait(PATIENCE) == 0, "who closes stdin ends it"
    assert all(json.loads(line) for line in rest.splitlines())
    assert len(answers[2]["result"]["tools"]) == len(READS)
    assert "error" in answers[3]
    assert answers[4]["result"]["structuredContent"]["ok"]


CLIENT = """
import asyncio, sys
from mcp import ClientSession, StdioServerParameters, stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_server_ends_when_its_client_is_killed(seeded: Seeded) -> None:
    command = [sys.executable, "-c", CLIENT, *COMMAND, seeded.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{client.pid}/task/{client.pid}/children")
        (server,) = [
            int(pid)
            for pid in children.read_text().split()
            if b"stateward" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        watch = os.pidfd_open(server)
        try:
            client.kill()
            asyncio.run(_ended(watch))
        finally:
            os.close(watch)


async def _ended(watch: int) -> None:
    """The process of this descriptor is gone."""
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(watch, gone.set)
    async with asyncio.timeout(PATIENCE):
        await gone.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_though_stdin_is_open(seeded: Seeded, number: signal.Signals) -> None:
    with subprocess.Popen(
        [*COMMAND, seeded.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        server.stdin.flush()
        assert server.stdout.readline()
        server.send_signal(number)
        assert server.wait(PATIENCE) == -number


async def test_a_store_that_is_down_is_said_in_words_and_comes_back(tmp_path: Path) -> None:
    with running(tmp_path, "valkey", "--appendonly", "yes", "--appendfsync", "always") as server:
        seeded = seed(server.url)
        async with asyncio.timeout(PATIENCE), in_process(server.url) as client:
            assert not (await client.call_tool("list_conversations", {})).is_error
            server.kill()
            for tool in TOOLS:
                result = await client.call_tool(tool.name, seeded.arguments[tool.name])
                if tool.name == "health":
                    assert result.structured_content["ok"] is False
                    continue
                assert result.is_error
                assert "does not answer" in said(result)
                assert "127.0.0.1" not in said(result)
            server.start()
            for _ in range(1000):  # until the breaker lets somebody try
                if not (await client.call_tool("list_conversations", {})).is_error:
                    break
                await asyncio.sleep(0.05)
            await use_every_tool(client, seeded)


def test_the_command_starts_though_its_store_is_down(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        url = server.url
        seed(url)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "by hand", "version": "1"}
    asked = {"name": "list_tasks"}
    lines: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    with subprocess.Popen(
        [*COMMAND, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        process.stdin.flush()
        told = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.communicate(timeout=PATIENCE)
    assert told[1]["result"]["isError"]
    assert "does not answer" in told[1]["result"]["content"][0]["text"]


# --- HTTP on this machine ---------------------------------------------------------------


async def test_every_tool_over_http(seeded: Seeded) -> None:
    with listening(seeded.url, "--write") as url:
        async with asyncio.timeout(PATIENCE):
            async with over_http(url) as session:
                await use_every_tool(session, seeded)
            async with Client(url) as client:  # the protocol's newer form, without a handshake
                listed = (await client.list_tools()).tools
                assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
                result = await client.call_tool("read_conversation", {"thread": "ada-thread"})
                assert SECRET in said(result)
        _refuses_strangers(url)


def _refuses_strangers(url: str) -> None:
    """Pages of others that lead a name here, and whatever else browsers can send."""
    port = int(url.split(":")[2].split("/")[0])
    hello = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    good = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    asked: list[tuple[str, str, dict[str, str], int]] = [
        ("POST", "/mcp", {"host": "evil.example.com"}, 421),
        ("POST", "/mcp", {"host": "localhost.evil.example.com"}, 421),
        ("POST", "/mcp", {"origin": "https://evil.example.com"}, 403),
        ("POST", "/mcp", {"origin": "null"}, 403),
        ("POST", "/mcp", {"content-type": "text/plain"}, 400),
        ("POST", "/mcp", {}, 200),
        ("GET", "/mcp", {}, 405),
        ("DELETE", "/mcp", {}, 405),
        ("POST", "/", {}, 404),
        ("POST", "/v1/threads", {}, 404),
    ]
    for method, path, headers, status in asked:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request(method, path, hello, {**good, **headers})
        assert connection.getresponse().status == status, (method, path, headers)
        connection.close()


@pytest.mark.parametrize(
    "where", ["0.0.0.0:0", "[::]:0", "192.168.1.1:80", "example.com:80", "127.0.0.1", ":80", "x:y"]
)
def test_http_is_for_this_machine_alone(
    seeded: Seeded, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", seeded.url, "--http", where]) == 2
    assert "127.0.0.1:" in capsys.readouterr().err


def test_a_store_that_is_not_there_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", f"sqlite:///{tmp_path}/none.db"]) != 0
    assert capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# --- the service ------------------------------------------------------------------------


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:  # noqa: F811
    return serve()


async def test_the_service_has_the_same_tools_for_who_has_a_key(served: Served) -> None:
    seeded = seed(served.direct)
    async with asyncio.timeout(PATIENCE):
        async with over_http(f"{served.url}/mcp/write", served.key("write")) as session:
            await use_every_tool(session, seeded)
        async with over_http(f"{served.url}/mcp", served.key("admin")) as session:
            listed = (await session.list_tools()).tools
            assert [tool.name for tool in listed] == [tool.name for tool in READS]
            assert SECRET in said(
                await session.call_tool("read_conversation", {"thread": "ada-thread"})
            )
    with sync.open(served.direct, heartbeat=None) as store:
        entries = list(store.operations.entries())
        assert [it.what for it in entries if it.outcome == "done"] == [
            "thread pin",
            "thread unpin",
            *("document patch", "document undo", "question answer"),
            "thread read",  # by an operator
        ]
        assert {it.who[:4] for it in entries} == {"key "}


async def test_a_key_of_one_user_has_only_what_is_theirs(served: Served) -> None:
    seeded = seed(served.direct)
    key = served.key("write", user="eve")
    async with asyncio.timeout(PATIENCE), over_http(f"{served.url}/mcp/write", key) as session:
        listed = [tool.name for tool in (await session.list_tools()).tools]
        assert "health" not in listed
        for name in listed:
            given = {k: v for k, v in seeded.arguments[name].items() if k != "user"}
            assert "ada-" not in said(await session.call_tool(name, given))
            assert "ada-" not in said(await session.call_tool(name, seeded.arguments[name]))


def test_the_service_lets_nobody_in_without_a_key(served: Served) -> None:
    hello = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    good = {"content_type": "application/json", "accept": "application/json, text/event-stream"}
    for path in ("/mcp", "/mcp/write"):
        assert served.ask("POST", path, hello, **good).status == 401
        assert served.ask("POST", path, hello, key="sw.nonsense", **good).status == 401
    assert served.ask("POST", "/mcp/write", hello, key=served.key("read"), **good).status == 403
    assert served.ask("POST", "/mcp", hello, key=served.key("read"), **good).status == 200
    assert served.ask("GET", "/mcp", key=served.key("read"), **good).status == 405
    assert served.ask("POST", "/mcp/other", hello, key=served.key("read"), **good).status == 404


def test_without_the_extra_it_says_what_to_install(
    served: Served,
    seeded: Seeded,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "stateward.mcp.http", None)
    monkeypatch.setitem(sys.modules, "mcp", None)
    told = served.ask("POST", "/mcp", b"{}", key=served.key("read"))
    assert told.status == 404
    assert "stateward[mcp]" in told.problem["detail"]
    assert main(["mcp", seeded.url]) == 2
    assert "stateward[mcp]" in capsys.readouterr().err


async def test_the_command_over_a_service(served: Served) -> None:
    """A store's URL may be a service's: what its key may do is all that the tools can."""
    seeded = seed(served.direct)
    async with asyncio.timeout(PATIENCE):
        url = served.url_with(served.key("operate"))
        async with in_process(url) as client:
            await use_every_tool(client, seeded)
        async with in_process(served.url_with(served.key("read"))) as client:
            result = await client.call_tool("patch_document", seeded.arguments["patch_document"])
            assert result.is_error
            assert "scope" in said(result)
