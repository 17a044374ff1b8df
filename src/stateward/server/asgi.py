"""Requests and replies as ASGI carries them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from stateward.server.problems import Refusal
from stateward.server.reply import Reply

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class HungUp(Exception):
    """The client closed the connection before its request was complete: nothing was done."""


async def hung_up(receive: Receive) -> None:
    """Wait until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Arriving:
    """Bytes of bodies that are not complete: those of one asker, and of all, are limited."""

    def __init__(self, largest: int) -> None:
        self._most_of_one = largest
        self._most = 4 * largest
        self._of: Counter[str] = Counter()

    @contextmanager
    def of(self, who: str) -> Iterator[Callable[[int], None]]:
        """Return a function that is called with the size of each piece; it may refuse it."""
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            held += size
            self._of[who] += size
            if self._of[who] > self._most_of_one or self._of.total() > self._most:
                raise Refusal(
                    429,
                    "too many bytes of bodies arrive at the same time: send fewer at once",
                    **{"retry-after": "1", "connection": "close"},
                )

        try:
            yield grow
        finally:
            self._of[who] -= held
            if not self._of[who]:
                del self._of[who]


async def read_body(
    headers: Mapping[bytes, bytes],
    receive: Receive,
    largest: int,
    seconds: float,
    grow: Callable[[int], None],
) -> bytes:
    """Return the whole body of a request; raises a refusal if it is too large or too slow."""
    too_large = Refusal(413, f"the body has more than {largest:,} bytes", connection="close")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > largest:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HungUp
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > largest:
                    raise too_large
                grow(len(parts[-1]))
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as error:
        late = f"the body did not arrive within {seconds:g} seconds"
        raise Refusal(408, late, connection="close") from error


def again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with a body that was read already."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


async def send_whole(reply: Reply, send: Send) -> None:
    """Send a reply that is no stream."""
    data, kind = reply.body
    headers = [(b"content-length", str(len(data)).encode())]
    if data:
        headers.append((b"content-type", kind.encode()))
    if "x-content-type-options" not in reply.headers:
        headers.append((b"x-content-type-options", b"nosniff"))
    headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def below_root(scope: Message) -> str:
    """Return the path of a request below the path at which the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def segments(scope: Message) -> list[bytes]:
    """Return the segments of the path below the root, as sent: a quoted slash is part of a name."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    below = scope.get("root_path", "").count("/") + 1
    return [b"", *raw.partition(b"?")[0].split(b"/")[below:]]
