"""A memory in any language, by HTTP: seven routes under a namespace.

    GET    /{namespace}               {"provides": ["threads", …]}: the parts that it has
    DELETE /{namespace}               removes all that was written there
    POST   /{namespace}/threads/{id}  messages as NDJSON, all or none; Idempotency-Key, Fence-Token
    GET    /{namespace}/threads/{id}  the same, oldest first; ?last=N
    GET    /{namespace}/users/{id}    the document, its version as ETag; {} and "0" if unknown
    PUT    /{namespace}/users/{id}    If-Match; 412 if it has another version
    POST   /{namespace}/claims/{id}   take, renew, settle or give up a claim

`docs/reference/memory.openapi.yaml` has all details. Tasks, workflows and locks are made of claims:
the holder of a claim's token works, and the result that settles the claim is visible to all.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Self
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from stateward.audit.faults.route import Route, plain_route
from stateward.audit.targets.memory import Json, NamedSteps, Refused, VersionConflict
from stateward.audit.targets.service import ServiceTarget, is_service
from stateward.audit.targets.target import AuditTarget, cleaned
from stateward.engines.registry import parse
from stateward.errors import InvalidInput

JSON, NDJSON = "application/json", "application/x-ndjson"
GONE = (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected)
TIMEOUT = 5.0  # seconds that a call may take
CLAIM = 2.0  # seconds that a claim lasts unless it is renewed
AGAIN = 0.05  # seconds before a claim that another holds is asked for again
TRIES = 1000  # of an update against faster ones by others

_claimed: ContextVar[str] = ContextVar("claimed")


class Answered(Exception):
    """An answer that is no success, and means nothing that the contract names."""

    def __init__(self, status: int, said: str, version: int | None) -> None:
        super().__init__(f"HTTP {status}: {said[:200]}")
        self.status = status
        self.version = version


class Unavailable(Answered):
    """503: the service says that its store does not answer."""


class HttpMemory:
    """The routes as a memory. Plain calls block, each thread on its own connection."""

    unavailable = (OSError, TimeoutError, http.client.HTTPException, Unavailable)

    def __init__(self, url: str, namespace: str) -> None:
        parts = urlsplit(url)
        self._parts = parts
        self._base = f"{parts.path.rstrip('/')}/{_quoted(namespace)}"
        self._local = threading.local()
        self._opened: list[http.client.HTTPConnection] = []
        self.provides: list[str] = []

    def open(self) -> None:
        self.provides = list(self.describe().get("provides", ()))

    def describe(self) -> Json:
        return _object(self._call("GET", "")[0])

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def clean(self) -> None:
        self._call("DELETE", "")

    def append(self, thread: str, messages: list[Json], key: str, fence: Any = None) -> None:
        headers = {"content-type": NDJSON, "idempotency-key": _quoted(key)}
        if fence is not None:
            headers["fence-token"] = str(fence)
        lines = "".join(f"{json.dumps(message)}\n" for message in messages)
        try:
            self._call("POST", f"/threads/{_quoted(thread)}", lines, headers)
        except Answered as error:
            if error.status != 409:
                raise
            raise Refused(str(error)) from error

    def load(self, thread: str, last: int | None) -> list[Json]:
        window = "" if last is None else f"?last={last}"
        body, _ = self._call("GET", f"/threads/{_quoted(thread)}{window}")
        return [json.loads(line) for line in body.split("\n") if line]

    def get_user(self, user: str) -> tuple[Json, int | None]:
        body, version = self._call("GET", f"/users/{_quoted(user)}")
        return _object(body), version

    def put_user(self, user: str, value: Json, expect: int | None = None) -> int | None:
        headers = {"content-type": JSON}
        if expect is not None:
            headers["if-match"] = f'"{expect}"'
        try:
            return self._call("PUT", f"/users/{_quoted(user)}", json.dumps(value), headers)[1]
        except Answered as error:
            if error.status != 412:
                raise
            raise VersionConflict(str(error), expect, error.version) from error

    # --- made of the routes -------------------------------------------------------------

    async def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        """Read, change, and write for the version that was read, until no one was faster."""
        for _ in range(TRIES):
            value, version = await asyncio.to_thread(self.get_user, user)
            changed = change(value)
            new = value if changed is None else changed
            try:
                await asyncio.to_thread(self.put_user, user, new, version)
            except VersionConflict:
                await asyncio.sleep(random.uniform(0.0, AGAIN))
            else:
                return
        raise VersionConflict(f"{TRIES} concurrent writers were faster")

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        return await self._once(f"task/{task}", function)

    async def run_workflow(self, id: str, steps: NamedSteps) -> Any:
        async def drive() -> list[Any]:
            # Quoted, so that no id and name together read as another id and name.
            return [
                await self._once(f"step/{_quoted(id)}/{_quoted(name)}", function)
                for name, function in steps
            ]

        return await self._once(f"workflow/{id}", drive)

    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[Any]:
        """Hold a lock that is not renewed, so that a holder who outstays it is refused."""
        id = f"thread/{thread}"
        claim = await self._taken(id, ttl)
        try:
            yield claim["token"]
        finally:
            await self._claim(id, token=claim["token"], release=True)

    async def _once(self, id: str, function: Callable[[], Any]) -> Any:
        claim = await self._taken(id, CLAIM)
        if "result" in claim:
            return json.loads(claim["result"])
        token = claim["token"]
        renewing = asyncio.create_task(self._renew(id, token))
        working = _claimed.set(f"{self._base}/{id}")
        try:
            result = await function()
        except BaseException:
            await self._claim(id, token=token, release=True)
            raise
        finally:
            _claimed.reset(working)
            renewing.cancel()
        await self._claim(id, token=token, result=json.dumps(result))
        return result

    def effect_key(self) -> str:
        """Return the claim's name, which is the same for every holder."""
        return _claimed.get()

    async def _taken(self, id: str, ttl: float) -> Json:
        """Wait for the claim; return its token, or the result that it was settled with."""
        while True:
            claim = await self._claim(id, ttl=ttl)
            if "token" in claim or "result" in claim:
                return claim
            await asyncio.sleep(AGAIN)

    async def _renew(self, id: str, token: int) -> None:
        while True:
            await asyncio.sleep(CLAIM / 3)
            try:
                await self._claim(id, token=token, ttl=CLAIM)
            except self.unavailable:
                continue
            except Refused:
                return  # the claim is lost: the result will be refused

    async def _claim(self, id: str, **body: Any) -> Json:
        path = f"/claims/{_quoted(id)}"
        try:
            answer, _ = await asyncio.to_thread(self._call, "POST", path, json.dumps(body))
        except Answered as error:
            if error.status != 409:
                raise
            if "token" in body and "release" not in body:
                raise Refused(str(error)) from error
            return {}
        return _object(answer)

    # --- one call -----------------------------------------------------------------------

    def _call(
        self, method: str, path: str, body: str | None = None, headers: Json | None = None
    ) -> tuple[str, int | None]:
        """Return the body of the answer, and its version."""
        if headers is None:
            headers = {} if body is None else {"content-type": JSON}
        harmless = method == "GET" or "idempotency-key" in headers
        was_used = getattr(self._local, "connection", None) is not None
        try:
            status, tag, content = self._exchange(method, path, body, headers)
        except GONE:
            if not was_used or not harmless:
                raise
            # The server ended a connection that was idle: that says nothing of the next one.
            status, tag, content = self._exchange(method, path, body, headers)
        version = int(tag) if tag.isdigit() else None
        if status >= 300:
            raise (Unavailable if status == 503 else Answered)(status, content, version)
        return content, version

    def _exchange(
        self, method: str, path: str, body: str | None, headers: Json
    ) -> tuple[int, str, str]:
        connection = self._connection()
        try:
            data = None if body is None else body.encode()
            connection.request(method, self._base + path, data, headers)
            with connection.getresponse() as response:
                tag = response.headers.get("etag", "").strip('W/"')
                return response.status, tag, response.read().decode()
        except BaseException:
            connection.close()  # a later answer would belong to this call
            self._local.connection = None
            self._opened.remove(connection)
            raise

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            host = self._parts.hostname or "127.0.0.1"
            connection = self._local.connection = kind(host, self._parts.port, timeout=TIMEOUT)
            self._opened.append(connection)
        return connection


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _object(body: str) -> Json:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise Answered(200, body, None)
    return value


class HttpTarget(AuditTarget, frozen=True):
    """The URL of a service that has the routes."""

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        if named is None or not named.startswith(("http://", "https://")):
            return None
        if urlsplit(named).fragment:
            raise InvalidInput("the URL of a service by HTTP ends with its path")
        return cls(named, namespace, folder, url=url)

    async def recognised(self) -> AuditTarget:
        """Return the target as a store if a Stateward service answers; only its URL has options."""
        if parse(self.name).options or await is_service(self.name):
            return ServiceTarget(self.name, self.namespace, self.folder, url=self.url)
        if self.url is not None:
            raise InvalidInput("a service by HTTP is named once: leave --url out")
        return self

    def connect(self) -> HttpMemory:
        return HttpMemory(self.name, self.namespace)

    @property
    def title(self) -> str:
        parts = urlsplit(self.name)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    async def route(self) -> Route | str:
        if self.name.startswith("https:"):
            return "no proxy can be put before https://, where the name of the host is verified"
        way = plain_route(self.name)
        if isinstance(way, str):
            return way
        return Route(way.addresses, lambda ports: {"name": way.change(ports)["url"]})

    def restored_at(self, url: str) -> Json:
        return {"name": url}

    def tenant(self) -> Self:
        return replace(self, namespace=f"{self.namespace}-tenant")

    async def clear(self) -> str:
        return await cleaned(self)
