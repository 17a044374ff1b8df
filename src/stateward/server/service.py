"""The service as an ASGI application: routes in one table, and one door to all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from importlib import import_module
from typing import Any, TypeVar

from msgspec.json import encode as encode_json
from msgspec.structs import replace

from stateward.errors import InvalidInput, NotPermitted
from stateward.observe.correlation import correlate, trace_id
from stateward.server.asgi import (
    Arriving,
    HungUp,
    Message,
    Receive,
    Send,
    again,
    below_root,
    hung_up,
    read_body,
    segments,
    send_whole,
)
from stateward.server.asker import Asker, DeviceRights
from stateward.server.dashboard import dashboard
from stateward.server.door import Door
from stateward.server.keys import new_key
from stateward.server.log_heads import LogHeads, LogHeadSettings
from stateward.server.openai_error import in_openais_form, is_openais
from stateward.server.problems import Refusal, problem_of
from stateward.server.quotas import Quotas, QuotaSettings
from stateward.server.rates import RateSettings
from stateward.server.reply import Reply
from stateward.server.rest import decoded_body, decoded_query, namespace_of, store_for
from stateward.server.rest_log import LOOK, answered
from stateward.server.rest_routes import ROUTES
from stateward.server.rights_table import (
    METRICS,
    REFUSALS,
    SERVICE,
    TOOLS,
    WRITING_TOOLS,
    RoleSettings,
    roles_of,
)
from stateward.server.route import RestCall, RestRoute, RouteTable
from stateward.server.store_calls import ServiceCall, StoreCalls
from stateward.server.stream import streamed
from stateward.server.stream_looks import StreamLooks
from stateward.server.tokens import JwtSettings
from stateward.server.watch import Watch
from stateward.store import Store
from stateward.wire import EXECUTE, JSON, MSGPACK, PROBLEM, STORE, WAIT, Body

T = TypeVar("T")

LARGEST_OF_USERS = 4 << 20  # bytes of operations of one user's key
TRACEPARENT = b"traceparent"  # of W3C Trace Context
CORRELATION = b"stateward-correlation"  # by which the log knows the request
MCP = {TOOLS: False, WRITING_TOOLS: True}  # whether its tools may change something
PRIVATE = {"cache-control": "no-store"}  # for whoever stands between


class Application:
    """A store behind HTTP. Without a credential one is given `/live` and `/ui` alone."""

    def __init__(
        self,
        store: Store,
        *,
        insecure_local: bool,
        largest_body: int,
        body_seconds: float,
        jwt: JwtSettings | None,
        rates: RateSettings,
        devices: DeviceRights,
        roles: Mapping[str, RoleSettings],
        log_heads: LogHeadSettings,
        quotas: QuotaSettings,
    ) -> None:
        if len(store.sections.stacks) > 1:
            raise InvalidInput(
                "a service serves one store: serve the stores of a layered store separately"
            )
        scope = store.sections["workflows"]
        self._store = store
        self._stack = scope.stack
        self._world = scope.world
        self._namespace = scope.namespace
        self._quotas = Quotas(quotas, self._stack, self._world) if quotas.limits else None
        self._door = Door(
            self._stack,
            self._world,
            insecure_local=insecure_local,
            jwt=jwt,
            rates=rates,
            devices=devices,
            roles=roles_of(roles),
            meter=self._quotas,
        )
        self._largest_body = largest_body
        self._body_seconds = body_seconds
        self._watch = Watch(self._world, self._door.keys)
        self._heads = LogHeads(log_heads, store, self._world) if log_heads.publishes else None
        self._tasks: list[asyncio.Task[None]] = []
        self._arriving = Arriving(largest_body)
        self._stopping = asyncio.Event()
        self._looks = StreamLooks()
        self.failure: Exception | None = None  # what kept the store from being opened
        self.rest = RouteTable(ROUTES)
        calls = StoreCalls(store, self._world, self._door.rates, largest_body, self._stopping)
        self.routes: dict[tuple[str, str], Callable[[ServiceCall], Awaitable[Reply]]] = {
            ("POST", EXECUTE): calls.execute,
            ("POST", WAIT): calls.wait,
            ("GET", METRICS): self._metrics,
            ("GET", REFUSALS): self._refusals,
            ("GET", STORE): calls.describe,
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live_along(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        send = self._watched(scope, send)
        traces = [value for name, value in scope["headers"] if name == TRACEPARENT]
        trace = trace_id(traces[0].decode("latin-1")) if len(traces) == 1 else None
        if trace is None:
            await self._answer(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((CORRELATION, trace.encode()))
            await send(message)

        with correlate(trace):
            await self._answer(scope, receive, sent)

    def _watched(self, scope: Message, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._watch.answered(message["status"], scope)
            await send(message)

        return sent

    async def _refusals(self, call: ServiceCall) -> Reply:
        _require_all_tenants(call.asker)
        shown = encode_json(self._watch.refusals())
        return Reply(200, Body(shown, JSON), {**PRIVATE})

    async def _metrics(self, call: ServiceCall) -> Reply:
        _require_all_tenants(call.asker)
        heads = {} if self._heads is None else self._heads.counts
        text = self._watch.metrics(heads, {} if self._quotas is None else self._quotas.counts)
        return Reply(200, Body(text.encode(), "text/plain; version=0.0.4"))

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if below_root(scope) in MCP:
            await self._answer_tools(scope, receive, send)
            return
        try:
            reply = await self._reply(scope, receive)
        except HungUp:
            return  # no one is there to be told
        except Exception as error:
            reply = reply_of(error)
        if reply.events is not None and reply.asker is not None:
            try:
                with self._door.rates.stream(reply.asker):
                    await self._stream(reply.asker, reply.events, reply, scope, receive, send)
                    return
            except Refusal as error:
                await reply.events.aclose()
                reply = reply_of(error)
        if is_openais(below_root(scope)):
            reply = in_openais_form(reply)
        await send_whole(reply, send)

    async def _stream(
        self,
        asker: Asker,
        events: AsyncGenerator[bytes, None],
        reply: Reply,
        scope: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        headers.append((b"x-content-type-options", b"nosniff"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        ends: list[Coroutine[Any, Any, object]] = [hung_up(receive)]
        lost: list[bool] = []

        async def without_credential() -> None:
            await self._door.ended(asker, scope)
            lost.append(True)

        ends.append(without_credential())
        if reply.follows:  # whatever else has a last event, and its reader takes the end for it
            ends.append(self._stopping.wait())
        if await streamed(events, send, ends) and not lost:  # else the connection ends, too
            await send({"type": "http.response.body", "body": b""})

    def stop(self) -> None:
        """Let those who wait for news go, so that a server that is stopping does not wait."""
        self._stopping.set()

    def lend_key(self, scope: str) -> str:
        """A key for every namespace that is in no store, and ends with the application."""
        secret, record = new_key(self._world, scope, note="lent")
        self._door.keys.lend(record)
        return secret

    async def close(self) -> None:
        """End what the service has begun by itself, and close its store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._door.close()
        await self._store.close()

    # --- the door -------------------------------------------------------------------

    async def _reply(self, scope: Message, receive: Receive) -> Reply:
        path = below_root(scope)
        if path == "/live" and scope["method"] in ("GET", "HEAD"):
            return Reply(200, Body(b'{"live":true}', JSON))
        headers = dict(scope["headers"])
        if path == "/ui" or path.startswith("/ui/"):
            tag = headers.get(b"if-none-match", b"").decode("latin-1")
            return dashboard(scope["method"], path.removeprefix("/ui"), tag)
        asker = await self._door.asker(scope, headers)
        answer = self.routes.get((scope["method"], path))
        if answer is None:
            match = self.rest.find(scope["method"], segments(scope))
            if match is not None:
                return await self._rest(asker, *match, scope, receive)
            methods = {method for method, each in self.routes if each == path}
            if methods:
                raise Refusal(405, f"use {' or '.join(sorted(methods))}", allow=", ".join(methods))
            raise Refusal(404, "the service has no such path")
        needs = SERVICE[scope["method"], path]
        asker.require_right(needs.right, needs.least)
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
        data = b""
        if scope["method"] == "POST":
            if kind not in (MSGPACK, JSON):
                raise Refusal(415, f"the body must be {MSGPACK} or {JSON}")
            # A key of one user is refused anyway, once its request is understood.
            largest = self._largest_body
            if asker.user is not None:
                largest = min(largest, LARGEST_OF_USERS)
            data = await self._body(asker, headers, receive, largest)
        acting = asker.acting(needs.least)
        return await answer(ServiceCall(acting, Body(data, kind), lambda: hung_up(receive)))

    async def _body(
        self, asker: Asker, headers: Mapping[bytes, bytes], receive: Receive, largest: int
    ) -> bytes:
        with self._arriving.of(asker.who) as grow:
            return await read_body(headers, receive, largest, self._body_seconds, grow)

    async def _answer_tools(self, scope: Message, receive: Receive, send: Send) -> None:
        """A request of MCP: with as many tools as the key permits and the path says."""
        write, headers = MCP[below_root(scope)], dict(scope["headers"])
        try:
            asker = await self._door.asker(scope, headers)
            needs = SERVICE["POST", below_root(scope)]
            asker.require_right(needs.right, needs.least)
            namespace = namespace_of(asker, headers, self._namespace)
            if scope["method"] == "POST":
                receive = again(
                    await self._body(asker, headers, receive, self._largest_body), receive
                )
            # Of the extra `mcp`, and slow to import: others are answered in the meantime.
            await self._world.offload(import_module, "stateward.mcp.http")
            from stateward.mcp.http import answer_request
            from stateward.mcp.tool import WRITTEN, ToolCaller
        except HungUp:
            return
        except ImportError:
            why = "this service has no tools for MCP: pip install 'stateward[mcp]' where it runs"
            await send_whole(reply_of(Refusal(404, why)), send)
            return
        except Exception as error:
            await send_whole(reply_of(error), send)
            return
        caller = ToolCaller(
            self._store,
            replace(asker, scope="write" if write else "read", writes=WRITTEN if write else ()),
            asker.who,
            namespace,
            write=write,
            operates=asker.is_operator and asker.user is None,
            logs_reads=asker.is_operator,
        )
        await answer_request(caller, scope, receive, send)

    async def _rest(
        self, asker: Asker, route: RestRoute, path: dict[str, str], scope: Message, receive: Receive
    ) -> Reply:
        """A route of the REST API: whoever asks gets a store that checks whatever they ask."""
        headers = dict(scope["headers"])
        try:
            asker.require_right(route.right, route.least)
            if asker.user is not None and not route.one_users:
                raise NotPermitted("this key is for one user, and this does not belong to one user")
            own = self._namespace
            namespace = namespace_of(asker, headers, own, needed=not route.anywhere)
            body = None
            if route.body is not None:
                data = await self._body(asker, headers, receive, self._largest_body)
                kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
                if kind.strip().lower() != route.takes and (data or kind):
                    raise Refusal(415, f"the body must be {route.takes}")
                body = decoded_body(data, route)
            asked = scope.get("query_string", b"")
            query = decoded_query(asked, route.query)
            route_headers = {
                name.lower(): headers[name.lower().encode()].decode("latin-1")
                for name in route.headers
                if name.lower().encode() in headers
            }
            acting = asker.acting(route.least)
            if asker.user is not None:
                acting = replace(acting, writes=route.writes, names_for_it=route.names_new)
            store = store_for(acting, self._store, namespace, self._looks)
            call = RestCall(acting, store, path, query, body, route_headers, asked.decode("ascii"))
            # The service's own: a key need not be one that may write there.
            within = self._store.within
            look = headers.get(LOOK.encode(), b"").decode("latin-1") or None
            reply = await answered(
                call, route, lambda named: within(named or namespace).operations, look
            )
        except Exception as error:
            if isinstance(error, HungUp):
                raise
            reply = reply_of(error, for_user=asker.user is not None)
        return reply._replace(headers={**reply.headers, **PRIVATE}, asker=asker)

    # --- beginning and end ----------------------------------------------------------

    async def _live_along(self, receive: Receive, send: Send) -> None:
        """The store is open before the first request, and closed after the last."""
        await receive()
        try:
            await self._store.__aenter__()
        except Exception as error:
            self.failure = error
            why = f"{type(error).__name__}: {error}"
            await send({"type": "lifespan.startup.failed", "message": why})
            return
        for each in (self._heads, self._quotas):
            if each is not None:
                self._tasks.append(asyncio.create_task(each.run()))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})


def _require_all_tenants(asker: Asker) -> None:
    if asker.namespaces is not None or asker.user is not None:
        raise NotPermitted("these numbers are of all tenants: ask with a key for all of them")


def reply_of(error: Exception, *, for_user: bool = False) -> Reply:
    """The problem document of an error."""
    status, document, more = problem_of(error, for_user=for_user)
    return Reply(status, Body(document, PROBLEM), more)


def app(
    store: Store,
    *,
    insecure_local: bool = False,
    largest_body: int = 64 << 20,
    body_seconds: float = 30.0,
    jwt: JwtSettings | None = None,
    rates: RateSettings | None = None,
    devices: DeviceRights | None = None,
    roles: Mapping[str, RoleSettings] | None = None,
    log_heads: LogHeadSettings | None = None,
    quotas: QuotaSettings | None = None,
) -> Application:
    """The service of a store, for any ASGI server, alone or mounted into another application.

    Whoever asks needs a key (`stateward key create`) or, with `jwt`, a token of the issuer that it
    names; but with `insecure_local` not those on this machine. `rates` are the limits of each
    asker, `devices` what keys of one user may do beside their own conversations, and `roles` the
    roles of your own that keys and tokens may name. `log_heads` is where heads of the operations
    logs are published, and `quotas` is how many bytes namespaces may keep; both need a server that
    runs the application's lifespan. A body may have `largest_body` bytes and take `body_seconds` to
    arrive. The store opens and closes with the application; mounted into another, at its first use,
    and whoever made it closes it. Raises `InvalidInput` for a layered store.
    """
    return Application(
        store,
        insecure_local=insecure_local,
        largest_body=largest_body,
        body_seconds=body_seconds,
        jwt=jwt,
        rates=rates or RateSettings(),
        devices=devices or DeviceRights(),
        roles=roles or {},
        log_heads=log_heads or LogHeadSettings(),
        quotas=quotas or QuotaSettings(),
    )
