"""Replies to a client: an answer as a whole, or a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

from stateward.server.asker import Asker
from stateward.wire import JSON, Body


class Reply(NamedTuple):
    """An answer as a whole, or a stream of events."""

    status: int
    body: Body = Body(b"", JSON)
    headers: Mapping[str, str] = {}
    events: AsyncGenerator[bytes, None] | None = None  # instead of the body
    follows: bool = False  # what is yet to come as well: such a stream ends when the service does
    asker: Asker | None = None  # whose stream it is
    told: Mapping[str, Any] = {}  # what the operations log says of it besides
