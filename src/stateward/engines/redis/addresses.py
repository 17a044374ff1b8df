"""Where the servers of a URL listen, also those that only other servers name."""

from __future__ import annotations

from typing import Any

from hiredis import ReplyError

from stateward.engines.redis.client.connection import Connection
from stateward.engines.redis.commit import Command
from stateward.engines.redis.failures import refused
from stateward.engines.redis.settings import Address, Server
from stateward.errors import StoreUnavailable


async def addresses_of(server: Server) -> list[Address]:
    """The URL's own first; none if it is reached through a socket of this machine."""
    found = [address for address in server.addresses if address.port]
    if server.cluster or server.service:
        found += await _others(server)
    return list(dict.fromkeys(found))


async def _others(server: Server) -> list[Address]:
    """What the first that answers knows."""
    failure: StoreUnavailable | None = None
    for address in server.addresses:
        try:
            return await (_nodes(server, address) if server.cluster else _watched(server, address))
        except StoreUnavailable as error:
            failure = error
    assert failure is not None
    raise failure


async def _nodes(server: Server, asked: Address) -> list[Address]:
    """The nodes of a cluster, primaries and replicas."""
    (slots,) = await _ask(server, asked, ("CLUSTER", "SLOTS"))
    nodes = [node for _, _, *nodes in slots for node in nodes]
    return [Address(_host(node[0], asked.host), int(node[1])) for node in nodes]


def _host(said: bytes | None, asked: str) -> str:
    """A node that does not know its own name means the one that was asked."""
    host = said.decode() if said else ""
    return host if host not in ("", "?") else asked


async def _watched(server: Server, sentinel: Address) -> list[Address]:
    """The primary that sentinels watch over, and its replicas."""
    primary, replicas = await _ask(
        server.without_login(),
        sentinel,
        ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", server.service),
        ("SENTINEL", "REPLICAS", server.service),
    )
    if primary is None:
        raise StoreUnavailable(
            f"the sentinel {sentinel} knows no primary called {server.service!r}"
        )
    found = [Address(primary[0].decode(), int(primary[1]))]
    for flat in replicas:
        said = dict(zip(flat[::2], flat[1::2], strict=True))
        found.append(Address(said[b"ip"].decode(), int(said[b"port"])))
    return found


async def _ask(server: Server, address: Address, *commands: Command) -> list[Any]:
    link = Connection(server, address)
    await link.connect()
    try:
        replies = await link.trip(commands)
    finally:
        await link.close()
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise refused(reply, str(address))
    return replies
