"""The table of routes. Routing, checks, the log, OpenAPI and the reference are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from stateward.actions.action import Action
from stateward.actions.arguments import Nothing
from stateward.actions.rights import RIGHT, ROLE_OF
from stateward.errors import InvalidInput
from stateward.server.asker import Asker
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.store import Store
from stateward.wire import EVENTS as EVENTS
from stateward.wire import JSON

MERGE_PATCH = "application/merge-patch+json"
VERBS = {"GET": "read", "DELETE": "delete"}  # of rights
MATCH, NONE_MATCH, KEY = "If-Match", "If-None-Match", "Idempotency-Key"
LAST_EVENT = "Last-Event-ID"
RETRIES = "X-Stainless-Retry-Count"  # by OpenAI's clients


class RestCall(NamedTuple):
    """One request that was let in, decoded into what its route takes."""

    asker: Asker
    store: Store  # in the asker's namespace, and every operation passes the asker's check
    path: dict[str, str]
    query: Any
    body: Any
    headers: dict[str, str]  # those that its route takes, in lower case
    asked: str  # the query as it was sent
    log: Any = None  # of actions: an `ActionLog`


Answer = Callable[[RestCall], Awaitable[Reply]]


class RouteDeed(NamedTuple):
    """The entry in the operations log of a request that a person makes by hand."""

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
    right: str
    scope: str  # the least that has the right
    answer: Answer
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
    writes: tuple[str, ...] = ()  # kinds that a key of one user may write by it
    names_new: bool = False  # what it creates is named by the service
    anywhere: bool = False  # True: it is about no namespace, and none need be said
    deed: RouteDeed | None = None  # None: not by hand, or nothing that people have said
    action: Action | None = None  # which it is made from

    @property
    def least(self) -> str:
        """The least role that has the right."""
        return ROLE_OF[self.scope]

    @property
    def segments(self) -> list[str]:
        return self.path.split("/")

    @property
    def names(self) -> list[str]:
        """Return the names in the path, in order."""
        return [part[1:-1] for part in self.segments if part.startswith("{")]


class RouteOptions(TypedDict, total=False):
    """The fields of a `RestRoute` that few routes need."""

    right: str
    status: int
    headers: tuple[str, ...]
    empty: tuple[int, ...]
    takes: str
    gives: str
    one_users: bool
    writes: tuple[str, ...]
    names_new: bool
    anywhere: bool


class Routes:
    """The rows of one topic: a decorator above each handler makes the row.

    The first sentence of the handler's docstring is the purpose of the route. Its right is that of
    the topic to read, to write or to delete, unless it names another.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._rows: list[RestRoute] = []

    def __iter__(self) -> Iterator[RestRoute]:
        return iter(self._rows)

    def route(
        self,
        asked: str,
        scope: str,
        output: Any,
        query: type[Struct] = Nothing,
        body: Any = None,
        **options: Unpack[RouteOptions],
    ) -> Callable[[Answer], Answer]:
        """Make a row of the handler: `asked` is its method and path, `scope` what the key needs."""
        method, _, path = asked.partition(" ")
        options.setdefault("status", 204 if output is None else 200)
        right = options.pop("right", f"{self._topic}.{VERBS.get(method, 'write')}")
        if RIGHT.fullmatch(right) is None or scope not in ROLE_OF:
            raise InvalidInput(f"{asked} needs a right like threads.read, and a scope that has it")

        def added(handler: Answer) -> Answer:
            purpose = (handler.__doc__ or "").partition("\n")[0].removesuffix(".")
            self._rows.append(
                RestRoute(
                    *(method, path, right, scope, handler, purpose, output, query, body), **options
                )
            )
            return handler

        return added

    def logged(
        self,
        what: str,
        *detail: str,
        kind: str | Callable[[RestCall], str] | None = None,
        name: str | None = None,
        reads: bool = False,
        makes_room: bool = False,
        namespace: str | None = None,
    ) -> Callable[[Answer], Answer]:
        """Log requests of the row below; kind and name are by default the first word of `what`."""
        noun = what.partition(" ")[0]
        kind, name = noun if kind is None else kind, noun if name is None else name
        deed = RouteDeed(what, kind, name, detail, reads, makes_room, namespace)

        def named(handler: Answer) -> Answer:
            assert self._rows[-1].answer is handler
            self._rows[-1] = self._rows[-1]._replace(deed=deed)
            return handler

        return named


class _Path(NamedTuple):
    """One path of the table, taken apart after its second segment, with its route by method."""

    literals: tuple[tuple[int, bytes], ...]
    names: tuple[tuple[int, str], ...]
    methods: dict[str, RestRoute]

    def named(self, segments: Sequence[bytes]) -> dict[str, str] | None:
        """Return the names in the path of a request; None: one of them is empty."""
        names = {}
        for at, name in self.names:
            segment = segments[at]
            if not segment:
                return None
            try:
                text = unquote_to_bytes(segment) if b"%" in segment else segment
                names[name] = text.decode()
            except UnicodeDecodeError as error:
                raise Refusal(400, "a name in the path is not UTF-8") from error
        return names


class RouteTable:
    """Finds the route of a request by how many segments it has, the first two and the last."""

    def __init__(self, routes: Sequence[RestRoute]) -> None:
        self.routes = tuple(routes)
        by_path: dict[str, _Path] = {}
        self._paths: dict[tuple[int, bytes, bytes, bytes], list[_Path]] = {}
        for route in routes:
            path = by_path.get(route.path)
            if path is None:
                path = by_path[route.path] = _taken_apart(route.segments)
                _, first, second, *_ = segments = [part.encode() for part in route.segments]
                last = b"" if segments[-1].startswith(b"{") else segments[-1]
                self._paths.setdefault((len(segments), first, second, last), []).append(path)
            path.methods[route.method] = route
        for (count, first, second, last), paths in self._paths.items():
            if last:  # a name at the end may be this word, too
                paths += self._paths.get((count, first, second, b""), ())

    def find(
        self, method: str, segments: Sequence[bytes]
    ) -> tuple[RestRoute, dict[str, str]] | None:
        """The route of a path, as it is before it is unquoted, and what the path names.

        None: there is none. With another method only, raises a refusal.
        """
        count = len(segments)
        if count < 3:
            return None
        first, second = segments[1], segments[2]
        paths = self._paths.get((count, first, second, segments[-1]))
        if paths is None:
            paths = self._paths.get((count, first, second, b""), [])
        others: dict[str, RestRoute] = {}
        for path in paths:
            for at, literal in path.literals:  # a plain loop: each request runs through it
                if segments[at] != literal:
                    break
            else:
                route = path.methods.get(method)
                if route is None:
                    others.update(path.methods)
                elif (names := path.named(segments)) is not None:
                    return route, names
        if not others or b"" in segments[1:]:
            return None
        methods = sorted(others)
        raise Refusal(405, f"use {' or '.join(methods)}", allow=", ".join(methods))


def _taken_apart(segments: Sequence[str]) -> _Path:
    if segments[2].startswith("{"):
        raise ValueError(f"{'/'.join(segments)}: the segment after /v1 must be a literal")
    places = list(enumerate(segments))[3:]  # the others, and a word at the end, are in the key
    return _Path(
        tuple((at, text.encode()) for at, text in places[:-1] if not text.startswith("{")),
        tuple((at, text[1:-1]) for at, text in places if text.startswith("{")),
        {},
    )
