"""Settings of the servers that a URL names, and how to talk to them. No I/O here."""

from __future__ import annotations

import ssl
from urllib.parse import unquote

from stateward.engines.plaintext import warn_of_plaintext
from stateward.engines.redis.client.server import Address, Login, Server
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.world import World

OPTIONS = ("wait_replicas", "timeout", "ca", "cert", "key")
SENTINELS = ("sentinel_user", "sentinel_password", "sentinel_tls")
PORT, SENTINEL_PORT = 6379, 26379


def parse_server(url: EngineURL, world: World) -> Server:
    """Parse redis://, rediss://, unix://, redis+cluster:// and redis+sentinel://."""
    sentinels = url.scheme == "redis+sentinel"
    several = sentinels or url.scheme == "redis+cluster"
    own = (("tls",) if several else ()) + (SENTINELS if sentinels else ())
    url.only(*OPTIONS, *own, *(("insecure",) if url.scheme not in ("rediss", "unix") else ()))
    authority, slash, path = url.text.partition("://")[2].partition("?")[0].partition("/")
    path = unquote(slash + path)
    login, _, hosts = authority.rpartition("@")
    username, _, password = login.partition(":")
    addresses = _addresses(url, hosts, path)
    tls, sentinel_tls = _tls(url)
    if tls is None:
        remedy = "rediss://, or tls=on with redis+cluster:// and redis+sentinel://"
        names = [address.host for address in addresses]
        is_allowed = url.option("insecure", ("on", "off"), "off") == "on"
        secret = not is_allowed and (password or url.credentials is not None)
        allowing = "insecure=on" if secret else None
        warn_of_plaintext(url.safe, names, remedy, allowing=allowing)
    return Server(
        addresses,
        unquote(username) or None,
        unquote(password) or None,
        tls,
        _number(url, "timeout", 5.0),
        int(_number(url, "wait_replicas", 0.0)),
        url.scheme == "redis+cluster",
        _service(url, path),
        None if url.credentials is None else url.login,
        world,
        _sentinel_login(url),
        sentinel_tls,
    )


def _sentinel_login(url: EngineURL) -> Login:
    user, password = (url.options.get(name) for name in ("sentinel_user", "sentinel_password"))
    if user is not None and password is None:
        raise InvalidInput("the URL option 'sentinel_user' needs 'sentinel_password' beside it")
    return None if password is None else (user, password)


def _addresses(url: EngineURL, hosts: str, path: str) -> tuple[Address, ...]:
    if url.scheme == "unix":
        if not path:
            raise InvalidInput(f"{url.safe!r} names no socket: use unix:///run/redis.sock")
        return (Address(path, 0),)
    if url.scheme != "redis+sentinel" and path not in ("", "/", "/0"):
        raise InvalidInput(
            f"{url.safe!r}: only database 0 can be used; keep applications apart with "
            "namespaces, which also work on clusters and managed servers"
        )
    names = hosts.split(",")
    if len(names) > 1 and url.scheme in ("redis", "rediss"):
        raise InvalidInput(f"{url.safe!r} names several servers: use redis+cluster://")
    return tuple(_address(url, name) for name in names)


def _address(url: EngineURL, name: str) -> Address:
    host, colon, port = name.rpartition(":")
    if not colon or name.endswith("]"):
        host, port = name, ""
    default = SENTINEL_PORT if url.scheme == "redis+sentinel" else PORT
    if url.hosts is None or (port and not 0 < int(port) < 65_536):
        raise InvalidInput(
            f"{url.safe!r} is not a usable URL: a port is a number from 1 to 65535, and user and "
            "password stand before an @"
        )
    return Address(host.strip("[]") or "localhost", int(port) if port else default)


def _service(url: EngineURL, path: str) -> str:
    if url.scheme != "redis+sentinel":
        return ""
    service = path.strip("/")
    if not service:
        raise InvalidInput(
            f"{url.safe!r} does not say which primary: add the name that the sentinels know it by, "
            "e.g. redis+sentinel://host:26379/mymaster"
        )
    return service


def _tls(url: EngineURL) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the TLS settings of the server, and those of the sentinels."""
    files = {name: url.options[name] for name in ("ca", "cert", "key") if name in url.options}
    words = ("on", "off")
    tls = "on" if url.scheme == "rediss" else url.option("tls", words, "off")
    sentinel_tls = url.option("sentinel_tls", words, tls)
    if tls == sentinel_tls == "off":
        for name in files:
            raise InvalidInput(f"the URL option {name!r} needs TLS: use rediss://, or tls=on")
        return None, None
    try:
        context = ssl.create_default_context(cafile=files.get("ca"))
        if "cert" in files:
            context.load_cert_chain(files["cert"], files.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"the certificates for {url.safe!r} cannot be used: {error}") from error
    return context if tls == "on" else None, context if sentinel_tls == "on" else None


def _number(url: EngineURL, name: str, default: float) -> float:
    text = url.options.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6 or (name == "timeout" and value == 0):
        raise InvalidInput(f"{name}={text!r} in the URL is not a number that makes sense")
    return value
