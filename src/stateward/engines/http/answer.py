"""One exchange of HTTP/1.1 without any I/O: how an answer is read, and what it means."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

LINE, REST = 0, -1  # instead of a number of bytes: up to the end of a line; all that comes
HEADERS = 100  # lines, before something is wrong


class Answer(NamedTuple):
    """A whole answer. `last`: the connection ends with it.

    `tried`: the same was sent before on a connection that ended, and may have arrived there, too.
    """

    status: int
    body: bytes
    last: bool
    kind: bytes = b""
    tried: bool = False


class Garbled(Exception):
    """An answer that is not HTTP/1.1."""


class Incoming:
    """An answer as it comes in, piece by piece."""

    def __init__(self) -> None:
        self.begun = False
        self._buffer = bytearray()
        self._plan = _answer()
        self._wanted = next(self._plan)

    def take(self, data: bytes) -> Answer | None:
        """Take data that has arrived (b"": the end); return the answer once it is whole."""
        buffer = self._buffer
        buffer += data
        self.begun = True
        try:
            while True:
                if self._wanted == LINE:
                    size = buffer.find(b"\n") + 1
                elif self._wanted == REST:
                    size = 0 if data else len(buffer)
                else:
                    size = self._wanted if len(buffer) >= self._wanted else 0
                if not size and not (self._wanted == REST and not data):
                    break
                piece = bytes(buffer[:size])
                del buffer[:size]
                self._wanted = self._plan.send(piece)
        except StopIteration as end:
            answer: Answer = end.value
            return answer._replace(last=True) if buffer else answer  # more than was asked for
        if not data:
            raise ConnectionError("end of the connection")
        return None


def _answer() -> Generator[int, bytes, Answer]:
    """Plan the read of an answer: yield the size to read next, and return the answer."""
    first: list[bytes] = []
    headers: dict[bytes, bytes] = {}
    status = 100
    while status < 200:  # 1xx answers only announce the real one
        first = (yield LINE).split(None, 2)
        if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
            raise Garbled("the first line is not HTTP/1.1")
        status, headers = int(first[1]), {}
        for _ in range(HEADERS):
            name, colon, value = (yield LINE).partition(b":")
            if not colon:
                break
            headers[name.strip().lower()] = value.strip().lower()
        else:
            raise Garbled("there is no end to its headers")
    kind = headers.get(b"content-type", b"")
    last = first[0] == b"HTTP/1.0" or headers.get(b"connection") == b"close"
    try:
        if headers.get(b"transfer-encoding") == b"chunked":
            parts = []
            while size := int((yield LINE).partition(b";")[0], 16):
                parts.append((yield size + 2)[:-2])
            while (yield LINE).strip():
                pass
            return Answer(status, b"".join(parts), last, kind)
        length = headers.get(b"content-length")
        if status in (204, 304) or length == b"0":
            return Answer(status, b"", last, kind)
        if length is None:
            return Answer(status, (yield REST), True, kind)
        return Answer(status, (yield int(length)), last, kind)
    except ValueError as error:
        raise Garbled(f"a length is no number: {error}") from error
