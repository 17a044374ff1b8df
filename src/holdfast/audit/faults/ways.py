"""Where the servers of a target listen, and how replicas are led to them through a proxy.

A replica is to go on believing that it talks to the server itself: a cluster's nodes tell each
other's addresses, and TLS verifies the name of the host. So Redis connections are led aside when
they are made (see `routing`), and PostgreSQL is told an address beside the name of its host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from holdfast.audit.targets import Place
from holdfast.errors import StoreUnavailable
from holdfast.registry import parse
from holdfast.world import World

PORTS = {"redis": 6379, "postgres": 5432, "postgresql": 5432}
HERE = "127.0.0.1"
SOCKET = "it is reached through a socket of this machine, and no proxy can be put there"


class Way(Struct, frozen=True):
    """The servers' addresses; `change` makes a replica's place from the ports of a proxy."""

    addresses: list[tuple[str, int]]
    change: Callable[[list[int]], dict[str, Any]]


async def way_to(place: Place) -> Way | str:
    """How to put a proxy before this target; or why that cannot be done."""
    if place.kind != "store":
        return _plainly(place.url)
    scheme = place.name.partition("://")[0]
    if scheme in ("postgres", "postgresql"):
        return _to_postgres(place.name)
    if scheme in ("redis", "rediss", "redis+cluster", "redis+sentinel"):
        return await _to_redis(place.name)
    return SOCKET if scheme == "unix" else f"no proxy can be put before {scheme}://"


def _plainly(url: str | None) -> Way | str:
    """Whatever uses this URL is told another host and port: one server, without TLS."""
    if url is None:
        return "the target has no server that a proxy could be put before: pass --url"
    scheme, _, rest = url.partition("://")
    scheme = scheme.partition("+")[0] if scheme.startswith("postgres") else scheme
    if scheme not in PORTS:
        return f"no proxy can be put before the target's server ({scheme}://)"
    if "," in rest.partition("/")[0]:
        return "no proxy can be put before several servers of a target that is not a store"
    parts = urlsplit(url)
    if "sslmode=verify" in parts.query:
        return "the name of its host is verified, and this target can be told no other address"
    user, at, _ = parts.netloc.rpartition("@")

    def change(ports: list[int]) -> dict[str, Any]:
        return {"url": urlunsplit(parts._replace(netloc=f"{user}{at}{HERE}:{ports[0]}"))}

    return Way([(parts.hostname or HERE, parts.port or PORTS[scheme])], change)


def _to_postgres(url: str) -> Way | str:
    from holdfast.engines.postgres.settings import read_settings

    said = read_settings(parse(url), World()).conninfo
    hosts = str(said.get("host") or said.get("hostaddr") or "").split(",")
    if not hosts[0]:
        return "its address is not in the URL" if said.get("service") else SOCKET
    if any(host.startswith(("/", "@")) for host in hosts):
        return SOCKET
    numbers = str(said.get("port") or PORTS["postgres"]).split(",")
    numbers = numbers * len(hosts) if len(numbers) == 1 else numbers
    where = str(said.get("hostaddr") or ",".join(hosts)).split(",")
    addresses = [
        (address or host, int(number or PORTS["postgres"]))
        for host, address, number in zip(hosts, where, numbers, strict=True)
    ]

    def change(ports: list[int]) -> dict[str, Any]:
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        query |= {
            "host": ",".join(hosts),
            "hostaddr": ",".join(HERE for _ in ports),
            "port": ",".join(map(str, ports)),
        }
        there = parts._replace(netloc=f"{user}{at}", query=urlencode(query))
        return {"name": _with_slashes(urlunsplit(there))}

    return Way(addresses, change)


def _with_slashes(url: str) -> str:
    """Without a host, `urlunsplit` leaves the slashes out."""
    scheme, _, rest = url.partition(":")
    return url if rest.startswith("//") else f"{scheme}://{rest}"


async def _to_redis(url: str) -> Way | str:
    from holdfast.engines.redis.server import parse_server

    server = parse_server(parse(url), World())
    found = list(server.addresses)
    if server.cluster or server.service:
        try:
            found += await _others(server)
        except StoreUnavailable as error:
            return f"its servers could not be found: {error}"
    addresses = list(dict.fromkeys((each.host, each.port) for each in found))

    def change(ports: list[int]) -> dict[str, Any]:
        pairs = zip(addresses, ports, strict=True)
        return {"routes": {f"{host}:{number}": port for (host, number), port in pairs}}

    return Way(addresses, change)


async def _others(server: Any) -> list[Any]:
    """The servers that those of the URL name: a cluster's nodes, or those that sentinels watch."""
    from holdfast.engines.redis.server import Address

    failure: StoreUnavailable | None = None
    for address in server.addresses:
        try:
            if server.cluster:
                (slots,) = await _ask(server, address, ("CLUSTER", "SLOTS"))
                nodes = [node for _, _, *nodes in slots for node in nodes]
                return [Address(_host(node[0], address.host), int(node[1])) for node in nodes]
            primary, replicas = await _ask(
                server.without_login(),
                address,
                ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", server.service),
                ("SENTINEL", "REPLICAS", server.service),
            )
            found = [Address(primary[0].decode(), int(primary[1]))]
            for flat in replicas:
                said = dict(zip(flat[::2], flat[1::2], strict=True))
                found.append(Address(said[b"ip"].decode(), int(said[b"port"])))
            return found
        except StoreUnavailable as error:
            failure = error
    assert failure is not None
    raise failure


def _host(said: bytes | None, asked: str) -> str:
    """A node that does not know its own name means the one that was asked."""
    host = said.decode() if said else ""
    return host if host not in ("", "?") else asked


async def _ask(server: Any, address: Any, *commands: tuple[str, ...]) -> list[Any]:
    from hiredis import ReplyError

    from holdfast.engines.redis.link import Link

    link = Link(server, address)
    await link.connect()
    try:
        replies = await link.trip(commands)
    finally:
        await link.close()
    for reply in replies:
        if isinstance(reply, ReplyError) or reply is None:
            raise StoreUnavailable(f"{address} does not tell ({commands[0][0]}): {reply}")
    return replies
