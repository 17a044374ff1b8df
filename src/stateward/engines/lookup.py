"""Addresses of a host, looked up off the threads of the application, which may all be busy."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

from stateward.world import World


async def connect_by_name(
    world: World, protocol: asyncio.BaseProtocol, host: str, port: int, tls: Any
) -> None:
    """Connect to the first address of a host that answers; TLS verifies the host's name.

    Raises the `OSError` of the last address.
    """
    loop = asyncio.get_running_loop()
    name = None if tls is None else host
    failure: OSError | None = None
    for address, at in await addresses_of(world, host, port):
        try:
            await loop.create_connection(
                lambda: protocol, address, at, ssl=tls, server_hostname=name
            )
        except OSError as error:
            failure = error
        else:
            return
    raise failure or OSError(f"{host} has no address")


async def addresses_of(world: World, host: str, port: int) -> list[tuple[str, int]]:
    """Return the addresses of a host and their ports, without a look-up if it is one."""
    try:
        ip_address(host)
    except ValueError:
        try:
            infos = await world.offload(_look_up, host, port)
        except UnicodeError as error:  # no host can have that name
            raise OSError(f"{host} is not the name of a host") from error
        return list(dict.fromkeys(info[4][:2] for info in infos))
    return [(host, port)]


def _look_up(host: str, port: int) -> Any:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
