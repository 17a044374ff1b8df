"""The service in a thread of this process, on a port of its own: one for many tests."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import uvicorn

from stateward.server.head_limit import HeadLimit

T = TypeVar("T")
PATIENCE = 30.0  # seconds


class RunningService:
    """A real server that answers below /NAME with whatever application was mounted there."""

    def __init__(self) -> None:
        self._apps: dict[str, Any] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._dispatch,
            interface="asgi3",
            http=HeadLimit,
            lifespan="off",
            proxy_headers=False,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=60,
        )
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="service")
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._server.serve([self._socket]))
        self._loop.close()

    async def _dispatch(self, scope: Any, receive: Any, send: Any) -> None:
        name, path = scope["path"][1:].split("/", 1)
        scope = {**scope, "root_path": f"/{name}", "path": f"/{name}/{path}"}
        await self._apps[name](scope, receive, send)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it on the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def mount(self, name: str, make: Callable[[], Any]) -> str:
        """Serve an application, which is made on the server's event loop; returns its URL."""

        async def mounted() -> None:
            self._apps[name] = make()

        self.call(mounted())
        return f"http://127.0.0.1:{self.port}/{name}"

    def unmount(self, name: str, close: Callable[[], Awaitable[None]]) -> None:
        """Serve it no longer, and close what it served."""

        async def closed() -> None:
            del self._apps[name]
            await close()

        self.call(closed())

    def connections(self) -> int:
        """How many are open."""
        return len(self._server.server_state.connections)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()
        assert not self._thread.is_alive()


@contextmanager
def running_service() -> Iterator[RunningService]:
    service = RunningService()
    try:
        yield service
    finally:
        service.close()
