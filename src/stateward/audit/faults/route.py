"""Addresses at which a target's servers listen, and the way to them through a proxy.

A replica is to continue believing that it talks to the server itself: a cluster's nodes tell each
other's addresses, and TLS verifies the name of the host. So its connections are led aside when they
are made (see `reroute`), or its engine says another URL with the same name of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from stateward.engine import Reached
from stateward.engines.registry import create_engine, parse
from stateward.errors import StoreUnavailable
from stateward.world import World

PORTS = {"redis": 6379, "postgres": 5432, "postgresql": 5432, "http": 80}
HERE = "127.0.0.1"
SOCKET = "it is not reached by TCP, or not by an address in its URL, so no proxy can be put there"


class Route(Struct, frozen=True):
    """The servers' addresses; `change` says, of a proxy's ports, how a replica's target differs."""

    addresses: list[tuple[str, int]]
    change: Callable[[list[int]], dict[str, Any]]


async def store_route(url: str) -> Route | str:
    """Return how to put a proxy before a store, or why that cannot be done."""
    engine = create_engine(parse(url), World())
    if not hasattr(engine, "addresses"):
        return f"no proxy can be put before {url.partition(':')[0]}://"
    reached: Reached = engine
    try:
        addresses = list(await reached.addresses())
    except StoreUnavailable as error:
        return f"its servers could not be found: {error}"
    if not addresses:
        return SOCKET

    def change(ports: list[int]) -> dict[str, Any]:
        pairs = zip(addresses, ports, strict=True)
        routes = {f"{host}:{number}": port for (host, number), port in pairs}
        return {"name": reached.through(url, ports), "routes": routes}

    return Route(addresses, change)


def plain_route(url: str | None) -> Route | str:
    """Route a URL to another host and port: one server, without TLS."""
    if url is None:
        return "the target has no server that a proxy could be put before: pass --url"
    scheme, _, rest = url.partition("://")
    scheme = scheme.partition("+")[0] if scheme.startswith("postgres") else scheme
    if "," in rest.partition("/")[0]:
        return "no proxy can be put before several servers of a target that is not a store"
    parts = urlsplit(url)
    port = parts.port or PORTS.get(scheme)
    if port is None or not parts.hostname:
        return f"no proxy can be put before {scheme}:// without a host and a port in its URL"
    if "sslmode=verify" in parts.query:
        return "its host name is verified, and this target takes no other address"
    user, at, _ = parts.netloc.rpartition("@")

    def change(ports: list[int]) -> dict[str, Any]:
        return {"url": urlunsplit(parts._replace(netloc=f"{user}{at}{HERE}:{ports[0]}"))}

    return Route([(parts.hostname, port)], change)
