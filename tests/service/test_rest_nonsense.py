"""Requests made at random from the table of routes: a clear answer to each, never a fault."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any
from urllib.parse import quote, unquote

import pytest
from msgspec import Struct

import stateward
from stateward.server import app
from stateward.server.openai_error import is_openais
from stateward.server.rest_routes import ROUTES
from stateward.server.route import RestRoute

WORDS = [
    *(
        "a",
        "t",
        "ada",
        "",
        "x" * 3000,
        "..",
        "ä/ö",
        "\0",
        "\r\nx: y",
        "1",
        "0",
        "-1",
        "true",
        "null",
    ),
    *("9" * 20, "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "1.x"),
    *("k=v", "thread/t/c", "%", "[1]", "NaN", "1e400", "0 3 * * *", "\ud800"),
]
BROKEN = [
    *(b"", b"{", b"[]", b"null", b'"\\ud800"', b"\xff", b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"),
    b'{"messages":[{"a":' + b"[" * 900 + b"]" * 900 + b"}]}",
]
TAGS = ["*", '"1-x"', '"0-"', "x", "k", "", "1.a", "0", '"-"', "%ff"]


class Nonsense:
    """Requests that nobody would send on purpose."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> tuple[RestRoute, bytes, bytes, bytes, list[tuple[bytes, bytes]]]:
        """A route, path, query, body and headers."""
        draw = self._random
        route = draw.choice(ROUTES)
        parts = [self._name() if part[:1] == "{" else part for part in route.segments]
        query = [
            "follow=false" if name == "follow" else f"{name}={_quoted(draw.choice(WORDS))}"
            for name in route.query.__struct_fields__
            if name == "follow" or draw.random() < 0.35
        ]
        headers = [
            (name.lower().encode(), draw.choice(TAGS).encode())
            for name in route.headers
            if draw.random() < 0.3
        ]
        body = b""
        if route.body is not None:
            body = self._body(route.body)
            headers.append((b"content-type", route.takes.encode()))
        return route, "/".join(parts).encode(), "&".join(query).encode(), body, headers

    def _name(self) -> str:
        return _quoted(self._random.choice(WORDS)) if self._random.random() < 0.5 else "t"

    def _body(self, kind: Any) -> bytes:
        draw = self._random
        if draw.random() < 0.15:
            return draw.choice(BROKEN)
        names = WORDS[:3]
        if isinstance(kind, type) and issubclass(kind, Struct):
            names = [name for name in kind.__struct_fields__ if draw.random() < 0.8]
        value = {name: self._value() for name in names}
        for name in ("messages", "events", "items"):
            if name in value and draw.random() < 0.8:
                value[name] = [{"role": "user", "content": self._value()}]
        return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")

    def _value(self, depth: int = 0) -> Any:
        draw = self._random
        plain = [draw.choice(WORDS), draw.choice([0, -1, 2**70, 1.5, 10**400]), None, True]
        if depth > 2 or draw.random() < 0.7:
            return draw.choice(plain)
        if draw.random() < 0.5:
            return [self._value(depth + 1)]
        return {draw.choice(WORDS): self._value(depth + 1)}


def _quoted(word: str) -> str:
    return quote(word.encode("utf-8", "surrogatepass"), safe="")


async def answered(
    service: Any, method: str, path: bytes, query: bytes, body: bytes, headers: Any
) -> tuple[int, dict[bytes, bytes], bytes]:
    """One request within this process."""
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": body}]

    async def receive() -> Any:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path.decode("ascii"), errors="replace"),
        "raw_path": path,
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    await service(scope, receive, send)
    data = b"".join(message["body"] for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), data


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_is_asked_is_answered_clearly(seed: int) -> None:
    nonsense = Nonsense(seed)
    met = set()
    async with asyncio.timeout(120), stateward.open("memory://", heartbeat=None) as store:
        service = app(store, insecure_local=True)
        for _ in range(750):
            route, *request = nonsense.request()
            status, headers, data = await answered(service, route.method, *request)
            met.add(status)
            assert status < 500, (route.method, request, data)
            assert b"event: problem" not in data, (route.method, request, data)
            assert all(b"\n" not in value and b"\r" not in value for value in headers.values())
            if status >= 400 and is_openais(route.path):
                assert headers[b"content-type"] == b"application/json"
                assert json.loads(data)["error"]["message"]
            elif status >= 400:
                assert headers[b"content-type"] == b"application/problem+json"
                assert json.loads(data)["status"] == status
    assert met >= {200, 201, 204, 400, 404}
