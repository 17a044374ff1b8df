"""A store that is not there yet: a service starts, answers, keeps what it is told, and connects."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from servers import until
from servers.postgres import PostgresServer
from servers.redis import RedisServer
from servers.redis_cluster import RedisCluster

import stateward
import stateward.sync
from stateward import AccessRefused, InvalidInput, Policy, SchemaError, StoreUnavailable

IMPATIENT = Policy(read_timeout=0.4, write_timeout=0.4, breaker_seconds=0.05)
LONG = 90.0  # seconds, far more than a server needs to start
HELLO = {"role": "user", "content": "hello"}
AGAIN = {"role": "user", "content": "again"}


class Valkey:
    """A store that is not there before `start`."""

    def __init__(self, folder: Path) -> None:
        self._server = RedisServer(folder / "valkey")
        self.url, self.start, self.remove = self._server.url, self._server.start, self._server.stop


class Cluster:
    def __init__(self, folder: Path) -> None:
        self._server = RedisCluster(folder / "cluster", replicas=0)
        self.url, self.start, self.remove = self._server.url, self._server.start, self._server.stop


class Postgres:
    def __init__(self, folder: Path) -> None:
        self._server = PostgresServer()
        self.url = self._server.url_of("s1")
        self.start, self.remove = self._server.start, self._server.remove


SERVERS = (Valkey, Cluster, Postgres)
Colour = Callable[..., Any]


@asynccontextmanager
async def in_blocking_calls(url: str, **options: Any) -> AsyncIterator[Any]:
    """A blocking store, entered and asked on other threads, as if it were the other colour."""
    store = stateward.sync.open(url, **options)
    await asyncio.to_thread(store.__enter__)
    try:
        yield store
    finally:
        await asyncio.to_thread(store.close)


async def ask(store: Any, call: Callable[[Any], Any]) -> Any:
    """The answer of a store of either colour."""
    if isinstance(store, stateward.Store):
        return await call(store)
    return await asyncio.to_thread(call, store)


async def answered(store: Any, call: Callable[[Any], Any]) -> Any:
    """The same, of one whose breaker may be open still."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                return await ask(store, call)
            except StoreUnavailable:
                await asyncio.sleep(0.01)


def is_open(store: Any) -> bool:
    return all(stack.is_open() for stack in store.sections.stacks)


@pytest.mark.parametrize("make", SERVERS, ids=lambda make: make.__name__.lower())
async def test_a_store_that_is_not_there_yet_is_reached_when_it_is(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    server = await asyncio.to_thread(make, tmp_path)
    options: dict[str, Any] = {"policy": IMPATIENT}
    try:
        async with (
            stateward.open(server.url, spill=tmp_path / "a", **options) as store,
            in_blocking_calls(server.url, spill=tmp_path / "b", **options) as blocking,
            stateward.open(server.url, spill=False, **options) as idle,
        ):
            for thread, each in (("t-1", store), ("t-2", blocking)):
                with pytest.raises(StoreUnavailable):
                    await ask(each, lambda of, id=thread: of.thread(id).load())
                said = await ask(each, lambda of, id=thread: of.thread(id).append(HELLO, key="k"))
                assert said.status == "spilled"
                assert not (await ask(each, lambda of: of.health())).ok
                with pytest.raises(StoreUnavailable):
                    await ask(each, lambda of: of.ready(timeout=0.1))
            assert not any(map(is_open, (store, blocking, idle)))
            await asyncio.to_thread(server.start)
            for thread, each in (("t-1", store), ("t-2", blocking)):
                await ask(each, lambda of: of.ready(timeout=LONG))
                await until(lambda each=each: each.counters.replayed == 1)  # nobody asked for it
                await ask(each, lambda of, id=thread: of.thread(id).append(AGAIN))
                window = await answered(each, lambda of, id=thread: of.thread(id).load())
                assert window.messages == [HELLO, AGAIN]
            await until(lambda: is_open(idle))  # nobody has asked it anything
    finally:
        await asyncio.to_thread(server.remove)


async def test_one_half_of_a_layered_store_may_come_later(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "valkey")
    try:
        async with stateward.open(
            f"sqlite:///{tmp_path}/agents.db", threads=server.url, policy=IMPATIENT, spill=False
        ) as store:
            await answered(store, lambda of: of.user("u").put({"n": 1}))  # the other half is there
            with pytest.raises(StoreUnavailable):
                await store.thread("t").load()
            await asyncio.to_thread(server.start)
            await store.ready(timeout=LONG)
            found = await answered(store, lambda of: of.user("u").get())
            assert found.value == {"n": 1}
    finally:
        server.stop()


@pytest.mark.parametrize("url", ["redis://{}?timeout=1", "postgresql://{}?connect_timeout=1"])
async def test_a_server_that_says_nothing_keeps_nobody_from_starting(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        url = url.format(f"127.0.0.1:{listening.getsockname()[1]}")
        async with stateward.open(url, policy=IMPATIENT, spill=False) as store:
            assert not is_open(store)
            assert (await store.thread("t").append(HELLO)).status == "dropped"


async def test_the_log_says_that_the_store_was_not_reached_and_that_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path / "valkey")
    try:
        async with stateward.open(server.url, policy=IMPATIENT, spill=False) as store:
            await asyncio.to_thread(server.start)
            await store.ready(timeout=LONG)
    finally:
        server.stop()
    said = [record for record in caplog.records if record.message.startswith("store_")]
    assert [record.message for record in said] == ["store_not_reached", "store_reached"]
    assert str(server.port) in said[0].reason  # type: ignore[attr-defined]


# --- what is wrong for good -------------------------------------------------------------


def entered(url: str) -> list[AbstractContextManager[Any] | Any]:
    return [stateward.open(url, spill=False), stateward.sync.open(url, spill=False)]


async def refused_at_once(url: str, expected: type[Exception], match: str) -> None:
    """In both colours, and by `ready` too."""
    for store in entered(url):
        for enter in ("__aenter__", "ready"):
            if isinstance(store, stateward.sync.Store):
                enter = enter.replace("aenter", "enter")
            with pytest.raises(expected, match=match):
                await ask(store, lambda of, enter=enter: getattr(of, enter)())
        await ask(store, lambda of: of.close())


async def test_a_folder_that_is_missing_is_raised_at_once(tmp_path: Path) -> None:
    await refused_at_once(f"sqlite:///{tmp_path}/no/agents.db", InvalidInput, "create it first")


async def test_a_file_that_cannot_be_opened_is_raised_at_once(tmp_path: Path) -> None:
    await refused_at_once(f"sqlite:///{tmp_path}", AccessRefused, "cannot be opened")


async def test_a_file_of_a_newer_release_is_raised_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    async with stateward.open(url):
        pass
    with apsw.Connection(f"{tmp_path}/agents.db") as file:
        file.execute("UPDATE stateward SET value = '999.0.0' WHERE name = 'oldest_release'")
    await refused_at_once(url, SchemaError, "999.0.0")


async def test_a_wrong_password_of_a_server_of_redis_is_raised_at_once(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "valkey", "valkey", "--requirepass", "right")
    try:
        await asyncio.to_thread(server.start)
        await refused_at_once(server.url, AccessRefused, "wants a password")
        wrong = server.url.replace("//", "//:wrong@")
        await refused_at_once(wrong, AccessRefused, "refused the user name or the password")
    finally:
        server.stop()


async def test_whom_postgresql_does_not_let_in_is_told_at_once() -> None:
    server = await asyncio.to_thread(PostgresServer)
    try:
        server.admit("host all guarded 127.0.0.1/32 scram-sha-256")
        await asyncio.to_thread(server.start)
        server.run_sql("CREATE ROLE guarded LOGIN PASSWORD 'right'")
        for login, database, match in (
            ("guarded:wrong", "postgres", "password authentication failed"),
            ("guarded", "postgres", "no password supplied"),
            ("stranger", "postgres", "pg_hba.conf"),
            ("postgres", "nowhere", 'database "nowhere" does not exist'),
        ):
            url = f"postgresql://{login}@127.0.0.1:{server.port}/{database}"
            await refused_at_once(url, AccessRefused, match)
    finally:
        await asyncio.to_thread(server.remove)


async def test_what_is_wrong_for_good_is_raised_at_the_first_contact(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = RedisServer(tmp_path / "valkey", "valkey", "--requirepass", "right")
    wrong = server.url.replace("//", "//:wrong@")
    patient = Policy(read_timeout=0.4, write_timeout=0.4, breaker_failures=1_000_000)
    monkeypatch.setattr("stateward.layers.outage.suppression.CLOSING_SECONDS", 0.0)
    try:
        async with stateward.open(wrong, policy=patient, spill=tmp_path / "spill") as store:
            await asyncio.to_thread(server.start)
            with pytest.raises(AccessRefused):
                await store.ready(timeout=LONG)
            with pytest.raises(AccessRefused):
                await store.thread("t").load()
            await until(lambda: "store_cannot_be_used" in caplog.messages)
            said = await store.thread("t").append(HELLO)
            assert said.status == "spilled"  # it waits for whoever mends the password
        right = server.url.replace("//", "//:right@")
        async with stateward.open(right, spill=tmp_path / "spill") as store:
            await until(lambda: store.counters.replayed == 1)
            assert (await store.thread("t").load()).messages == [HELLO]
    finally:
        server.stop()
    (record,) = [r for r in caplog.records if r.message == "store_cannot_be_used"]
    assert record.levelno == logging.ERROR
    assert "wrong" not in str(record.reason).lower().replace("wrongpass", "")  # type: ignore[attr-defined]
