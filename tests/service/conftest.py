"""One service for all tests of a module, and stores behind it."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from servers.service import PATIENCE, RunningService, running_service

import stateward
from stateward import sync
from stateward.server import app
from stateward.server.keys import new_key, storing
from stateward.world import World


class Told(NamedTuple):
    """What a client was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = msgspec.json.decode(self.body)
        assert document["status"] == self.status
        assert document["title"]
        assert document["detail"]
        return document

    @property
    def error(self) -> str:
        """The name of the error, in whichever of the two forms it is told."""
        if self.headers["content-type"] == "application/problem+json":
            return str(self.problem["error"])
        error = msgspec.json.decode(self.body)["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"]
        assert error["type"]
        return str(error["code"])


class Served:
    """A store behind the service: that of a URL, or of a file in SQLite."""

    def __init__(
        self, service: RunningService, where: Path | str, name: str, **options: Any
    ) -> None:
        self.direct = where if isinstance(where, str) else f"sqlite:///{where}"
        self._service = service
        self._name = name
        self.port = service.port
        self._store = stateward.open(self.direct, spill=False, heartbeat=None, metrics=False)
        self.app: Any = None
        self.url = service.mount(name, lambda: self._made(**options))

    def _made(self, **options: Any) -> Any:
        self.app = app(self._store, **options)
        return self.app

    @property
    def engine(self) -> Any:
        """What the service itself asks."""
        return self._store.sections["threads"].stack.engine

    def url_with(self, key: str) -> str:
        return self.url.replace("http://", f"http://{key}@")

    def key(self, scope: str = "write", namespaces: Any = ("default",), **options: Any) -> str:
        """A key in full, stored past the service."""
        secret, record = new_key(World(), scope, namespaces, **options)
        with sync.open(self.direct, heartbeat=None) as store:
            store.sections["workflows"].execute([storing(record, 0, World().new_op())])
        return secret

    def ask(
        self, method: str, path: str, body: Any = None, key: str | None = None, **headers: str
    ) -> Told:
        """One request, as any client may send it."""
        given = {"content-type": "application/msgpack"} if body is not None else {}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            given["authorization"] = f"Bearer {key}"
        data = body if body is None or isinstance(body, bytes) else msgspec.msgpack.encode(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, f"/{self._name}{path}", data, given)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Told(answer.status, told, answer.read())
        finally:
            connection.close()

    def call(self, work: Any) -> Any:
        """Run it where the service runs."""
        return self._service.call(work)

    def close(self) -> None:
        self._service.unmount(self._name, self.app.close)


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with running_service() as running:
        yield running


@pytest.fixture
def serve(service: RunningService, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Puts stores behind the service, with options of `app`."""
    made: list[Served] = []

    def served(**options: Any) -> Served:
        name = f"{tmp_path.name}-{len(made)}"
        one = Served(service, tmp_path / f"{len(made)}.db", name, **options)
        made.append(one)
        return one

    yield served
    for each in made:
        each.close()
