"""Addresses of the servers that a URL names, and the same URL by way of other ports."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

PORT = 5432
HERE = "127.0.0.1"


def addresses_of(conninfo: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the addresses; none for a local socket, or where a service file has them."""
    hosts = _hosts(conninfo)
    if not hosts[0] or any(host.startswith(("/", "@")) for host in hosts):
        return []
    ports = str(conninfo.get("port") or PORT).split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    where = str(conninfo.get("hostaddr") or ",".join(hosts)).split(",")
    return [
        (address or host, int(port or PORT))
        for host, address, port in zip(hosts, where, ports, strict=True)
    ]


def resolved(conninfo: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the addresses of the hosts, looked up on this thread.

    On an event loop the driver would look them up on the threads of the application, which may all
    be busy. What cannot be found is left to the driver, which says so in its own words.
    """
    try:
        servers = addresses_of(conninfo)
    except ValueError:  # ports that do not fit: the driver says what is wrong with them
        servers = []
    if not servers or conninfo.get("hostaddr"):
        return dict(conninfo)
    each = [(host, port, address) for host, port in servers for address in _looked_up(host, port)]
    names, ports, addresses = (",".join(map(str, column)) for column in zip(*each, strict=True))
    return dict(conninfo) | {"host": names, "port": ports, "hostaddr": addresses}


def _looked_up(host: str, port: int) -> list[str]:
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):  # the latter: no host can have that name
        return [""]
    return [str(info[4][0]) for info in infos]


def through(url: str, conninfo: Mapping[str, Any], ports: Sequence[int]) -> str:
    """Return the URL with ports of this machine; TLS verifies the names of hosts, so they stay."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query |= {
        "host": ",".join(_hosts(conninfo)),
        "hostaddr": ",".join(HERE for _ in ports),
        "port": ",".join(map(str, ports)),
    }
    rest = urlunsplit(("", "", parts.path, urlencode(query), ""))
    return f"{parts.scheme}://{user}{at}{rest}"


def _hosts(conninfo: Mapping[str, Any]) -> list[str]:
    return str(conninfo.get("host") or conninfo.get("hostaddr") or "").split(",")
