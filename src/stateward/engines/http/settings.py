"""Settings of the service that a URL names, and how to talk to that service. No I/O here."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from urllib.parse import quote, unquote

from msgspec import Struct

from stateward.engines.url import EngineURL, is_loopback
from stateward.errors import InvalidInput
from stateward.wire import Body
from stateward.world import World

OPTIONS = ("timeout", "ca", "cert", "key", "insecure")
KEY = "STATEWARD_KEY"  # the environment's key for URLs that have none
TRUSTED = 5.0  # seconds that a connection may be idle before it is tried for a short time first
SHORT_TRY = 1.0
CONNECTING = 3.0  # seconds that making a connection may take at most
PORTS = {"http": 80, "https": 443}


class Endpoint(Struct, frozen=True):
    """Address of the service, and the credentials to use there."""

    name: str  # for messages: without the key
    host: str
    port: int
    path: str  # before /v1: of a service that another application has mounted
    tls: ssl.SSLContext | None
    key: str
    login: Callable[[], tuple[str | None, str] | None] | None
    timeout: float
    world: World

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    def deadline(self, asked: float | None) -> float:
        """Return the time by which an exchange must end."""
        end = self.world.monotonic() + self.timeout
        return end if asked is None else min(end, asked)

    def left(self, deadline: float) -> float:
        """Return the seconds left until a deadline."""
        return deadline - self.world.monotonic()

    def first_try(self, idle_since: float, deadline: float) -> float:
        """Return the time until which a connection that was idle may take for an answer."""
        now = self.world.monotonic()
        if now - idle_since < TRUSTED:
            return deadline
        return now + min(SHORT_TRY, (deadline - now) / 3)

    def request(self, what: str, preamble: bytes, body: Body) -> bytes:
        """A whole request; `what` is its method and its path."""
        method, _, path = what.partition(" ")
        head = (
            f"{method} {self.path}{path} HTTP/1.1\r\ncontent-length: {len(body.data)}\r\n"
            f"content-type: {body.kind}\r\n"
        )
        return b"".join((head.encode("ascii"), preamble, b"\r\n", body.data))

    def preamble(self, login: tuple[str | None, str] | None) -> bytes:
        """The headers that are the same in every request of a connection."""
        key = self.key if login is None else _header_safe(login[1], self.name)
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [f"host: {host}:{self.port}"]
        if key:
            lines.append(f"authorization: Bearer {key}")
        return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def parse_service(url: EngineURL, world: World) -> Endpoint:
    """Parse https://KEY@host:port/path, and http:// for this machine."""
    url.only(*OPTIONS)
    authority, slash, path = url.text.partition("://")[2].partition("?")[0].partition("/")
    login, _, address = authority.rpartition("@")
    name, _, password = login.partition(":")
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, ""
    host = host.strip("[]")
    if url.hosts is None or not host.isascii() or (port and not 0 < int(port) < 65_536):
        raise InvalidInput(
            f"{url.safe!r} is not a usable URL: it names one host, a port is a number from 1 to "
            "65535, and a key stands before an @, as in https://KEY@host"
        )
    if "," in host or not host:
        raise InvalidInput(f"{url.safe!r} must name one host, as in https://KEY@host:7878")
    _refuse_plain(url, host)
    shown = url.safe.rstrip("/")
    key = _header_safe(unquote(password or name) or os.environ.get(KEY, ""), shown)
    return Endpoint(
        shown,
        host,
        int(port) if port else PORTS[url.scheme],
        quote(unquote(slash + path), safe="/~").rstrip("/"),
        _tls(url),
        key,
        None if url.credentials is None else url.login,
        _seconds(url),
        world,
    )


def _header_safe(key: str, service: str) -> str:
    """Return the key; raises if the key could end its header and begin another."""
    if not all("!" <= character <= "~" for character in key):
        raise InvalidInput(f"the key for {service} has characters that no key has")
    return key


def _refuse_plain(url: EngineURL, host: str) -> None:
    """Refuse to send a key, and users' messages, in the clear by accident."""
    allowed = url.option("insecure", ("on", "off"), "off") == "on"
    if url.scheme == "https" or allowed or is_loopback(host):
        return
    raise InvalidInput(
        f"{url.safe!r} would send the key and all state unencrypted: use https://, or say "
        "?insecure=on if the network between is trusted"
    )


def _tls(url: EngineURL) -> ssl.SSLContext | None:
    if url.scheme == "http":
        return None
    try:
        context = ssl.create_default_context(cafile=url.options.get("ca"))
        if "cert" in url.options:
            context.load_cert_chain(url.options["cert"], url.options.get("key"))
        return context
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"the certificates for {url.safe!r} cannot be used: {error}") from error


def _seconds(url: EngineURL) -> float:
    text = url.options.get("timeout", "10")
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 120:
        raise InvalidInput(f"timeout={text!r} in the URL is not a number from 0 to 120")
    return value
