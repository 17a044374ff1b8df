"""Every route of the REST API once over every engine that is a server of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import running
from servers.service import RunningService

from service.conftest import Served
from service.test_rest import EVERYTHING, Api, ask_every_route, begin_all_that_is_adas, shown


@contextmanager
def valkey(folder: Path) -> Iterator[str]:
    with running(folder, "valkey", "--appendonly", "no") as server:
        yield server.url


@contextmanager
def postgres(_folder: Path) -> Iterator[str]:
    server = PostgresServer(fsync="off").start()
    try:
        yield server.url
    finally:
        server.remove()


@pytest.mark.parametrize("server", [valkey, postgres], ids=lambda server: str(server.__name__))
def test_every_route_answers(
    service: RunningService, tmp_path: Path, server: Callable[[Path], Iterator[str]]
) -> None:
    with server(tmp_path) as url:  # type: ignore[attr-defined]
        served = Served(service, url, f"rest-{server.__name__}", devices=EVERYTHING)
        try:
            begin_all_that_is_adas(served)
            api = Api(served)
            for path in ("threads", "workflows", "tasks", "effects", "keys", "locks"):
                told = api.ask("GET", f"/v1/{path}?after=x")
                assert told.status == (200 if path == "locks" else 400), (path, told)
            ask_every_route(api)
            check = shown(api.ask("GET", "/v1/operations-log/verify"))
            assert check["ok"]
            assert check["entries"] > 50, "all that an operator did is in it"
        finally:
            served.close()
