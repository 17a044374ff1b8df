"""Where the servers of a URL listen, and the URL by way of other ports. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

PORT = 5432
HERE = "127.0.0.1"


def addresses_of(conninfo: Mapping[str, Any]) -> list[tuple[str, int]]:
    """None if it is reached through a socket of this machine, or as a service file says."""
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


def through(url: str, conninfo: Mapping[str, Any], ports: Sequence[int]) -> str:
    """The names of the hosts stay, because TLS verifies them; where they are is said beside."""
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
