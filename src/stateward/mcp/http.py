"""Streamable HTTP: each request is a whole conversation with a server made for whoever asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from stateward.mcp.server import mcp_server
from stateward.mcp.tool import ToolCaller
from stateward.server.door import is_forwarded
from stateward.store import Store

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
PATH = "/mcp"
NAMES = ("127.0.0.1", "localhost", "[::1]")  # by which this machine calls itself
OF_THIS_MACHINE = TransportSecuritySettings(
    enable_dns_rebinding_protection=True,
    allowed_hosts=[*NAMES, *(f"{name}:*" for name in NAMES)],
    allowed_origins=[f"http://{name}:*" for name in NAMES],
)


async def answer_request(
    caller: ToolCaller,
    scope: Message,
    receive: Receive,
    send: Send,
    security: TransportSecuritySettings | None = None,
) -> None:
    """One request. There are no sessions: nothing is left of it for whoever comes next."""
    if scope["method"] != "POST":  # neither streams of news nor sessions to end
        headers = [(b"allow", b"POST"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 405, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    manager = StreamableHTTPSessionManager(
        mcp_server(caller), json_response=True, stateless=True, security_settings=security
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


class McpApplication:
    """The tools for everybody on this machine, as their own ASGI application."""

    def __init__(self, store: Store, caller: ToolCaller) -> None:
        self._store = store
        self._caller = caller
        self.failure: Exception | None = None  # what kept the store from being opened

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live_along(receive, send)
        elif scope["type"] == "http" and is_forwarded(scope):
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"this is for this machine alone"})
        elif scope["type"] == "http" and scope["path"] == PATH:
            await answer_request(self._caller, scope, receive, send, OF_THIS_MACHINE)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close", "code": 1003})

    def stop(self) -> None:
        """Nobody waits for news here."""

    async def _live_along(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._store.__aenter__()
        except Exception as error:
            self.failure = error
            await send({"type": "lifespan.startup.failed", "message": f"{error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._store.close()
        await send({"type": "lifespan.shutdown.complete"})
