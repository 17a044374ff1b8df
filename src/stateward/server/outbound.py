"""Requests that the service itself makes: for an issuer's keys, and to publish heads of its log."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from stateward.engines.url import is_loopback
from stateward.errors import InvalidInput

FETCH_SECONDS = 10.0  # that an exchange may take, all in all
LARGEST_ANSWER = 1 << 18  # bytes
CHUNK = 65_536


class Unfetched(Exception):
    """An answer could not be had; what it says is for the service's log."""


def check_address(where: str, setting: str, danger: str) -> None:
    """Refuse an address that is none, or that is reached in plain text on another machine."""
    try:
        url = urlsplit(where)
        host, port = url.hostname or "", url.port
    except ValueError as error:
        raise InvalidInput(f"{setting} is a URL, not {where!r}: {error}") from error
    if url.scheme == "http" and not is_loopback(host):
        raise InvalidInput(f"{setting} must be https://: otherwise {danger}")
    plain = where.isascii() and where.isprintable() and " " not in where
    if url.scheme not in ("http", "https") or not host or url.username or port == 0 or not plain:
        raise InvalidInput(f"{setting} is https://host/path, without a password, or a file")


async def exchange(where: str, body: bytes | None = None) -> bytes:
    """Get the body at a URL, or post JSON to it. Raises `Unfetched`, `OSError`, `TimeoutError`.

    Redirects are not followed: the address is the one that was configured.
    """
    async with asyncio.timeout(FETCH_SECONDS):
        return await _exchange(where, body)


async def _exchange(where: str, body: bytes | None) -> bytes:
    url = urlsplit(where)
    tls = ssl.create_default_context() if url.scheme == "https" else None
    assert url.hostname is not None
    port = url.port or (443 if tls else 80)
    limit = LARGEST_ANSWER
    reader, writer = await asyncio.open_connection(url.hostname, port, ssl=tls, limit=limit)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"host: {url.netloc}"]
        lines += ["accept: application/json", "connection: close"]
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + (body or b""))
        return await _body(reader, {200} if body is None else {200, 201, 202, 204})
    except (EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
        raise Unfetched(f"what came is not HTTP/1.1, or is cut off: {error}") from error
    finally:
        writer.close()


async def _body(reader: asyncio.StreamReader, good: set[int]) -> bytes:
    """Read the whole body of an answer, at whose end the connection closes."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(first.split()[1])
    if status not in good:
        raise Unfetched(f"it was answered with status {status}")
    if status == 204:
        return b""
    pairs = (line.lower().partition(":") for line in lines)
    headers = {name.strip(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length")
    if length is not None:
        return await reader.readexactly(_small(int(length)))
    chunked = headers.get("transfer-encoding") == "chunked"
    data = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16) if chunked else CHUNK
        _small(len(data) + size)
        part = (await reader.readexactly(size + 2))[:-2] if chunked else await reader.read(size)
        if not part:
            return data
        data += part


def _small(size: int) -> int:
    if not 0 <= size <= LARGEST_ANSWER:
        raise Unfetched(f"more than {LARGEST_ANSWER:,} bytes came")
    return size
