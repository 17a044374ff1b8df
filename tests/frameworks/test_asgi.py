"""A store in a web application: opened with it, given to its handlers, its errors answered."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from servers.ports import free_port
from servers.redis import RedisServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute

import stateward
import stateward.sync
from stateward.integrations.asgi import ANSWERS, StoreMiddleware, current_store

ROLES = Path(__file__).parent / "roles"
PATIENCE = 60.0
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

TheStore = Annotated[stateward.Store, Depends(current_store)]

# One of each error that is answered, and the seconds of its Retry-After.
RAISED: dict[Exception, tuple[int, str | None]] = {
    stateward.StateConflictError("host-1"): (409, None),
    stateward.KeyReusedError("host-1"): (409, None),
    stateward.LeaseLost("host-1"): (409, None),
    stateward.WorkflowFinished("host-1"): (409, None),
    stateward.LeaseHeld("host-1", remaining=6.2, holder="host-1"): (423, "7"),
    stateward.LeaseHeld("host-1", remaining=0.0, holder="host-1"): (423, "1"),
    stateward.EntityBusy("host-1"): (423, "2"),
    stateward.StoreUnavailable("host-1"): (503, "2"),
    stateward.StoreTooSlow("host-1"): (503, "2"),
    stateward.AccessRefused("host-1"): (503, "2"),
    stateward.DiskProblem("host-1"): (503, "2"),
    stateward.StoreClosed("host-1"): (503, "2"),
    stateward.NotYoursError("host-1"): (403, None),
    stateward.WrongReplica("host-1", owner="host-1"): (421, None),
}


def in_memory() -> stateward.Store:
    return stateward.open("memory://")


def application(**options: Any) -> FastAPI:
    app = FastAPI()
    app.add_middleware(StoreMiddleware, **({"store": in_memory} | options))
    return app


# --- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_an_error_of_the_store_has_a_status_and_tells_nothing_of_hosts(error: Exception) -> None:
    app = application()

    @app.get("/")
    async def fail() -> None:
        raise error

    with TestClient(app) as client:
        answer = client.get("/")
    assert (answer.status_code, answer.headers.get("retry-after")) == RAISED[error]
    assert answer.json()["error"] == type(error).__name__
    assert "host-1" not in answer.text


def test_what_a_client_did_wrong_is_told_in_words() -> None:
    app = application()

    @app.post("/{id}")
    async def say(id: str, size: int, store: TheStore) -> None:
        await store.thread(id).append({"role": "user", "content": "x" * size})

    with TestClient(app) as client:
        too_long = client.post("/" + "i" * 600, params={"size": 1})
        too_large = client.post("/s-1", params={"size": 20_000_000})
    assert (too_long.status_code, "512" in too_long.json()["detail"]) == (400, True)
    assert (too_large.status_code, "limit" in too_large.json()["detail"].lower()) == (413, True)


def test_an_error_that_is_nobodys_to_answer_stays_the_frameworks() -> None:
    app = application()

    @app.get("/")
    async def fail() -> None:
        raise stateward.SchemaError("of a newer release")

    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/").status_code == 500


def test_the_applications_own_handlers_of_errors_come_first() -> None:
    app = application()

    @app.exception_handler(stateward.StateConflictError)
    async def own(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"mine": True}, status_code=418)

    @app.get("/")
    async def fail() -> None:
        raise stateward.StateConflictError("somebody else was faster")

    with TestClient(app) as client:
        assert client.get("/").status_code == 418


def test_an_answer_that_has_begun_is_not_begun_again() -> None:
    async def pieces() -> AsyncIterator[str]:
        yield "so far"
        raise stateward.StoreUnavailable("gone")

    app = application()

    @app.get("/")
    async def stream() -> StreamingResponse:
        return StreamingResponse(pieces())

    with TestClient(app) as client, pytest.raises(stateward.StoreUnavailable):
        client.get("/")


# --- the store, in every kind of handler ------------------------------------------------


def test_starlette_has_the_store_in_the_state_of_a_request() -> None:
    async def put(request: Any) -> PlainTextResponse:
        store: stateward.Store = request.state.store
        await store.user("u").put({"n": 1})
        return PlainTextResponse(stateward.correlation_id() or "")

    async def socket(websocket: Any) -> None:
        await websocket.accept()
        await websocket.send_json((await websocket.state.store.user("u").get()).value)
        await websocket.close()

    app = Starlette(
        routes=[Route("/", put, methods=["POST"]), WebSocketRoute("/ws", socket)],
        middleware=[Middleware(StoreMiddleware, store=in_memory)],
    )
    with TestClient(app) as client:
        header = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        assert client.post("/", headers=header).text == TRACE
        with client.websocket_connect("/ws") as connection:
            assert connection.receive_json() == {"n": 1}


def test_a_blocking_store_serves_blocking_handlers() -> None:
    store = stateward.sync.open("memory://")
    app = application(store=store)

    @app.get("/")
    def put(store: Annotated[stateward.sync.Store, Depends(current_store)]) -> str:
        return store.thread("t").append({"role": "user", "content": "hello"}).status

    with TestClient(app) as client:
        assert client.get("/").json() == "stored"
        assert client.get("/ready?store=0").json().keys() == {"ready", "breaker", "spill_depth"}
        assert client.get("/ready?more&store=1").json()["store"] is True
    with pytest.raises(stateward.StoreClosed):  # with the application
        store.thread("t").load()


async def test_a_server_that_tells_of_no_lifespan_has_a_store_all_the_same() -> None:
    app = application(store=in_memory())

    @app.get("/")
    async def load(store: TheStore) -> int:
        return (await store.thread("t").load()).version

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        assert (await client.get("/ready")).status_code == 503  # not opened yet
        assert (await client.get("/ready?store=1")).status_code == 503
        assert (await client.get("/")).json() == 0
        assert (await client.get("/ready")).status_code == 200
        assert (await client.post("/ready")).status_code == 404  # a path of the application's own


def test_an_application_that_fails_to_start_leaves_no_store_open() -> None:
    store = in_memory()

    async def refuse(app: Any) -> AsyncIterator[None]:
        raise RuntimeError("not today")
        yield

    app = FastAPI(lifespan=refuse)  # type: ignore[arg-type]
    app.add_middleware(StoreMiddleware, store=store)
    with pytest.raises(RuntimeError, match="not today"), TestClient(app):
        pass
    assert not any(stack.is_open() for stack in store.sections.stacks)


async def test_what_is_no_store_is_refused_and_so_is_a_dependency_without_one() -> None:
    with pytest.raises(stateward.InvalidInput, match="needs store="):
        StoreMiddleware(FastAPI(), "sqlite:///agents.db")  # type: ignore[arg-type]
    with pytest.raises(stateward.StoreMisused, match="add_middleware"):
        await current_store()


def test_routes_can_be_moved_and_left_out() -> None:
    app = application(live=None, ready="/healthz", metrics=None)
    with TestClient(app) as client:
        assert client.get("/healthz").json() == {
            "ready": True,
            "breaker": "closed",
            "spill_depth": 0,
        }
        assert [client.get(path).status_code for path in ("/live", "/metrics")] == [404, 404]


def test_every_answer_is_in_the_reference() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "agent-frameworks.md"
    for error, (status, _) in ANSWERS.items():
        assert any(
            f"`{error.__name__}`" in line and str(status) in line
            for line in page.read_text().splitlines()
        ), error


# --- a real server ----------------------------------------------------------------------


@contextmanager
def uvicorn(url: str, spill: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """An application behind uvicorn, and its address."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "asgi_app:app", "--app-dir", str(ROLES)]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"],
        env=os.environ | {"ASGI_URL": url, "ASGI_SPILL": str(spill)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


async def until_answered(
    client: httpx.AsyncClient, path: str, wanted: Callable[[httpx.Response], bool]
) -> httpx.Response:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                answer = await client.get(path)
                if wanted(answer):
                    return answer
            except httpx.TransportError:
                pass  # it is not listening yet
            await asyncio.sleep(0.02)


async def test_a_service_starts_while_its_store_is_down_and_goes_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    server = RedisServer(tmp_path / "valkey")
    with uvicorn(server.url, tmp_path / "spill") as (process, address):
        try:
            async with httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
                await until_answered(client, "/live", lambda answer: answer.status_code == 200)
                assert (await client.get("/ready")).status_code == 503
                assert (await client.post("/chat", params={"text": "hello"})).json() == "spilled"
                failed = await client.get("/chat")
                assert (failed.status_code, failed.headers["retry-after"]) == (503, "2")
                await asyncio.to_thread(server.start)
                await until_answered(client, "/ready", lambda answer: answer.status_code == 200)
                history = await until_answered(client, "/chat", lambda it: it.status_code == 200)
                assert history.json() == [{"role": "user", "content": "hello"}]
                text = (await client.get("/metrics")).text
                assert "\nstateward_suppressed_writes_total 1" in text
                server.kill()
                await until_answered(client, "/chat", lambda answer: answer.status_code == 503)
                ready = await client.get("/ready")  # answers go on, so it stays in service
                assert ready.status_code == 200
                asked = await client.get("/ready?store=1")  # for those who want to know
                assert (asked.status_code, asked.json()["store"]) == (503, False)
                server.restart()
                await until_answered(client, "/chat", lambda answer: answer.status_code == 200)
                asked = await client.get("/ready?store=1")
                assert (asked.status_code, asked.json()["store"]) == (200, True)
            process.send_signal(signal.SIGTERM)
            _, said = await asyncio.to_thread(process.communicate, timeout=PATIENCE)
            assert "Traceback" not in said
        finally:
            server.stop()


def test_what_is_wrong_for_good_keeps_a_service_from_starting(tmp_path: Path) -> None:
    with uvicorn(f"sqlite:///{tmp_path}/no/agents.db", tmp_path / "spill") as (process, _):
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode != 0
        assert "InvalidInput: the folder" in said
