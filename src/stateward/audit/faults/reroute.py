"""Connections of this process that go elsewhere than they are meant to.

In a replica only. What makes a connection still names the server's own host, so that a cluster's
addresses mean what they say and TLS verifies the right name; only the way there is another one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

HERE = "127.0.0.1"


def take(routes: Mapping[str, int]) -> None:
    """Redirect new connections to each "host:port" to its port on this machine."""
    loop: Any = asyncio.get_running_loop()
    connect, connect_blocking = loop.create_connection, socket.create_connection

    async def create_connection(
        protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        way = routes.get(f"{host}:{port}")
        if way is None:
            return await connect(protocol_factory, host, port, **options)
        if options.get("ssl"):
            options["server_hostname"] = options.get("server_hostname") or host
        return await connect(protocol_factory, HERE, way, **options)

    def create_blocking_connection(address: tuple[str, int], *args: Any, **options: Any) -> Any:
        way = routes.get(f"{address[0]}:{address[1]}")
        to = address if way is None else (HERE, way)
        return connect_blocking(to, *args, **options)

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        way = routes.get(f"{host}:{port}")  # this machine may not know the name
        return look_up(host, port, *args, **options) if way is None else look_up(HERE, way)

    look_up, socket.getaddrinfo = socket.getaddrinfo, getaddrinfo
    loop.create_connection = create_connection
    socket.create_connection = create_blocking_connection  # type: ignore[assignment]
