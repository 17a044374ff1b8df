"""Routes: what may be asked over HTTP, each one row of a table. All else is made from the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from stateward.server.asker import Asker
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.store import Store
from stateward.wire import JSON

EVENTS = "text/event-stream"
MERGE_PATCH = "application/merge-patch+json"
MATCH, NONE_MATCH, KEY = "If-Match", "If-None-Match", "Idempotency-Key"
LAST_EVENT = "Last-Event-ID"
RETRIES = "X-Stainless-Retry-Count"  # by OpenAI's clients


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class RestCall(NamedTuple):
    """One request that was let in, decoded into what its route takes."""

    asker: Asker
    store: Store  # in the asker's namespace, and every operation passes the asker's check
    path: dict[str, str]
    query: Any
    body: Any
    headers: dict[str, str]  # those that its route takes, in lower case
    asked: str  # the query as it was sent


class RouteDeed(NamedTuple):
    """What the operations log says of a request that someone makes by hand."""

    what: str  # e.g. "workflow cancel"
    kind: str | Callable[[RestCall], str]  # of what it is done to
    name: str  # which name of the path, or parameter, is its id; "": it has none yet
    detail: tuple[str, ...] = ()  # fields of the body or the query that are said too: no content
    reads: bool = False  # it hands out what people have said, and changes nothing
    makes_room: bool = False  # it can be done in a store that is full
    namespace: str | None = None  # in whose log it is; None: in that of the request's


class RestRoute(NamedTuple):
    """One row: how it is asked, what the key needs, what goes in and out, and what it is for."""

    method: str
    path: str
    scope: str
    answer: Callable[[RestCall], Awaitable[Reply]]
    purpose: str
    output: Any = None  # None: no body
    query: type[Struct] = Nothing
    body: Any = None
    status: int = 200
    headers: tuple[str, ...] = ()  # of the request
    empty: tuple[int, ...] = ()  # statuses besides that come without a body
    takes: str = JSON
    gives: str = JSON
    one_users: bool = True  # False: a key of one user is refused
    anywhere: bool = False  # True: it is about no namespace, and none need be said
    deed: RouteDeed | None = None  # None: not by hand, or nothing that people have said

    @property
    def segments(self) -> list[str]:
        return self.path.split("/")

    @property
    def names(self) -> list[str]:
        """What its path names, in order."""
        return [part[1:-1] for part in self.segments if part.startswith("{")]


class RouteTable:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[RestRoute]) -> None:
        self.routes = tuple(routes)
        self._by_length: dict[int, list[RestRoute]] = {}
        for route in routes:
            self._by_length.setdefault(len(route.segments), []).append(route)

    def find(self, method: str, path: Sequence[bytes]) -> tuple[RestRoute, dict[str, str]] | None:
        """The route of a path, as it is before it is unquoted, and what the path names.

        None: there is none. With another method only, raises a refusal.
        """
        fitting = [
            route for route in self._by_length.get(len(path), ()) if _fits(route.segments, path)
        ]
        if not fitting:
            return None
        for route in fitting:
            if route.method == method:
                return route, _named(route.segments, path)
        known = sorted({route.method for route in fitting})
        raise Refusal(405, f"use {' or '.join(known)}", allow=", ".join(known))


def _fits(segments: Sequence[str], path: Sequence[bytes]) -> bool:
    pairs = zip(segments, path, strict=True)
    return all(given if part.startswith("{") else given == part.encode() for part, given in pairs)


def _named(segments: Sequence[str], path: Sequence[bytes]) -> dict[str, str]:
    try:
        return {
            part[1:-1]: unquote_to_bytes(given).decode()
            for part, given in zip(segments, path, strict=True)
            if part.startswith("{")
        }
    except UnicodeDecodeError as error:
        raise Refusal(400, "a name in the path is not UTF-8") from error
