"""A store for FastAPI, Starlette and every other ASGI application.

    app.add_middleware(StoreMiddleware, store=stateward.open("sqlite:///agents.db"))

One middleware opens and closes the store with the application, gives it to handlers, answers the
store's errors with the status that clients know what to do with, and serves `/live`, `/ready` and
`/metrics`. It needs no framework: only ASGI.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

from msgspec.json import encode as encode_json

import stateward
from stateward import sync
from stateward.observe.exporters.prometheus import CONTENT_TYPE, scrape

AnyStore = stateward.Store | sync.Store
Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

# Replies to a client, by the first error that fits; "": the text of the error about the request.
# The texts of other errors may name hosts, so they only go to the log. An error that is not here
# is a fault of the application.
ANSWERS = {
    stateward.EntityBusy: (423, "This is locked by another process. Try again."),
    stateward.LeaseHeld: (423, "Another process is working on this. Try again."),
    stateward.StoreUnavailable: (503, "The memory of this service does not answer. Try again."),
    stateward.StoreClosed: (503, "This service is shutting down. Try again."),
    stateward.StateConflictError: (
        409,
        "This was changed by another process. Read it, and try again.",
    ),
    stateward.LeaseLost: (409, "Another process has taken this over. Nothing was stored."),
    stateward.ConversationDeletedError: (410, "This conversation was deleted. Nothing was stored."),
    stateward.KeyReusedError: (409, "This key was used for another request."),
    stateward.WorkflowFinished: (409, "This has ended already."),
    stateward.NotYoursError: (403, "This belongs to another user."),
    stateward.WrongReplica: (421, "This lives with another replica."),
    stateward.TooLarge: (413, ""),
    stateward.InvalidInput: (400, ""),
}

_store: ContextVar[AnyStore | None] = ContextVar("stateward_store", default=None)


async def current_store() -> Any:
    """Return the store of the application that handles a request: `Depends(current_store)`."""
    store = _store.get()
    if store is None:
        raise stateward.StoreMisused(
            "there is no store here: app.add_middleware(StoreMiddleware, store=stateward.open(…))"
        )
    return store


class StoreMiddleware:
    """An ASGI application with a store.

    `store` is an async or a blocking one, or a function that makes one each time the application
    starts (for tests, which start it often). `live`, `ready` and `metrics` are paths; None:
    no such route. Anyone who can reach the application can read its metrics.

    Handlers have the store as `Depends(current_store)`, or as `request.state.store`. Handlers of
    errors that the application itself has come first.
    """

    def __init__(
        self,
        app: ASGIApp,
        store: AnyStore | Callable[[], AnyStore],
        *,
        live: str | None = "/live",
        ready: str | None = "/ready",
        metrics: str | None = "/metrics",
    ) -> None:
        if not (isinstance(store, AnyStore) or callable(store)):
            raise stateward.InvalidInput(
                "StoreMiddleware needs store=stateward.open(…), or a function that gives one, "
                f"not {type(store).__name__}"
            )
        self._app = app
        self._given = store
        self._made: AnyStore | None = None
        routes = {live: self._live, ready: self._ready, metrics: self._metrics}
        self._routes = {path: route for path, route in routes.items() if path is not None}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            route = self._routes.get(scope["path"].removeprefix(scope.get("root_path", "")))
            if route is not None:
                await route(scope, send)
                return
        store = self._current()
        scope.setdefault("state", {})["store"] = store
        token = _store.set(store)
        trace = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        try:
            with stateward.correlate(traceparent=trace):
                await self._answer(scope, receive, send)
        finally:
            _store.reset(token)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except stateward.StatewardError as error:
            answer = next((row for kind, row in ANSWERS.items() if isinstance(error, kind)), None)
            if answer is None or begun or scope["type"] != "http":
                raise
            status, detail = answer
            body = {"error": type(error).__name__, "detail": detail or str(error)}
            seconds = math.ceil(error.remaining) if isinstance(error, stateward.LeaseHeld) else 2
            retry = {"retry-after": str(max(1, seconds))} if status in (423, 503) else {}
            await _respond(send, status, encode_json(body), **retry)

    # --- the store ------------------------------------------------------------------

    def _current(self) -> AnyStore:
        """Return the store; a server without lifespan events opens the store at its first use."""
        if self._made is None:
            self._made = self._given if isinstance(self._given, AnyStore) else self._given()
        return self._made

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open the store before the application starts, and close the store after its end."""

        async def receiving() -> Message:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self._enter()
                except Exception as error:
                    why = f"{type(error).__name__}: {error}"
                    await send({"type": "lifespan.startup.failed", "message": why})
                    raise
            return message

        async def sending(message: Message) -> None:
            if message["type"] != "lifespan.startup.complete":
                await self._leave()
            await send(message)

        await self._app(scope, receiving, sending)

    async def _enter(self) -> None:
        store = self._current()
        if isinstance(store, stateward.Store):
            await store.__aenter__()
        else:
            await asyncio.to_thread(store.__enter__)

    async def _leave(self) -> None:
        store, self._made = self._current(), None
        if isinstance(store, stateward.Store):
            await store.close()
        else:
            await asyncio.to_thread(store.close)

    # --- routes ---------------------------------------------------------------------

    async def _live(self, _scope: Scope, send: Send) -> None:
        """Reply that the process is alive."""
        await _respond(send, 200, b'{"live":true}')

    async def _ready(self, scope: Scope, send: Send) -> None:
        """Reply whether the store was ever reached; with `?store=1`, whether it answers now.

        In a later outage of the store the service still answers, and so remains ready.
        """
        store = self._current()
        stacks = store.sections.stacks
        ready = all(stack.is_open() for stack in stacks)
        waiting = sum(stack.backlog.depth for stack in stacks)
        status = {"ready": ready, "breaker": store.breaker, "spill_depth": waiting}
        if b"store=1" in scope["query_string"].split(b"&"):
            status["store"] = ready = ready and await _answers(store)
        await _respond(send, 200 if ready else 503, encode_json(status))

    async def _metrics(self, _scope: Scope, send: Send) -> None:
        text = await asyncio.to_thread(scrape, self._current())
        await _respond(send, 200, text.encode(), CONTENT_TYPE)


async def _answers(store: AnyStore) -> bool:
    """Return whether the store answers a health check."""
    if isinstance(store, stateward.Store):
        return (await store.health()).answers
    return (await asyncio.to_thread(store.health)).answers


async def _respond(
    send: Send, status: int, body: bytes, kind: str = "application/json", **more: str
) -> None:
    headers = {"content-type": kind, "content-length": str(len(body)), **more}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
