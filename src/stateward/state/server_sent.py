"""Live answers as server-sent events, whichever server sends them. No I/O."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import quote, unquote

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import encode

from stateward.state.stream_record import LiveEvent


class LiveData(Struct, frozen=True):
    """The data of a server-sent event of a live answer, which is `begin`, `delta` or `end`.

    A `delta` has `text`, its `parts` unless all are text, and `late` if they were stored late. An
    `end` has the `status`, and the `message` if one is stored.
    """

    text: str | UnsetType = UNSET
    parts: tuple[Any, ...] | UnsetType = UNSET
    late: bool | UnsetType = UNSET
    status: Literal["done", "stopped", "interrupted", "absent"] | UnsetType = UNSET
    message: dict[str, Any] | UnsetType | None = UNSET


def server_sent(event: LiveEvent) -> bytes:
    """Return an event of `thread.live` as a server-sent event; its id is the cursor."""
    if event.kind == "end":
        data = LiveData(status=event.status or UNSET, message=event.message)
    else:
        has_others = any(type(part) is not str for part in event.parts)
        parts = event.parts if has_others else UNSET
        data = LiveData(event.text, parts, event.late or UNSET)
    id = quote(event.cursor, safe=".:")
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (id.encode(), event.kind.encode(), encode(data))


def cursor_of(last_event: str | None) -> str | None:
    """Return the cursor that the `Last-Event-ID` of a client stands for."""
    return None if last_event is None else unquote(last_event)
