"""Passwords that are asked for at each new connection, as managed servers want it; and TLS."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from servers.postgres import PostgresServer, system_binaries
from servers.proxy import TlsProxy, client_tls, server_tls

import stateward
import stateward.sync
from stateward.errors import AccessRefused, InvalidInput, StoreUnavailable

ROLE = "agent"
IMPATIENT = stateward.Policy(
    read_timeout=0.5,
    write_timeout=0.5,
    threads="raise",
    breaker_failures=1000,  # a slow machine would see it open, which is no matter of these tests
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that asks its role for a password."""
    server = PostgresServer()
    server.admit(f"host all {ROLE} 127.0.0.1/32 scram-sha-256")
    server.start()
    server.run_sql(f"CREATE ROLE {ROLE} LOGIN")
    server.run_sql(f"GRANT CREATE ON DATABASE postgres TO {ROLE}")
    yield server
    server.remove()


class Tokens:
    """Gives out the token of the day; the server knows no other."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.asked = 0
        self.token = ""
        self.rotate()

    def rotate(self) -> None:
        self.token = f"token-{self.asked}-{id(self)}"
        self._server.run_sql(f"ALTER ROLE {ROLE} PASSWORD '{self.token}'")

    def __call__(self) -> str:
        self.asked += 1
        return self.token

    def end_connections(self) -> None:
        query = (
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename='{ROLE}'"
        )
        self._server.run_sql(query)


def url_for(server: PostgresServer, user: str, schema: str) -> str:
    return server.url_of(schema).replace("postgres@", f"{user}@")


class SlowTokens(Tokens):
    """Gives out nothing until it may."""

    def __init__(self, server: PostgresServer) -> None:
        self.may = threading.Event()
        self.may.set()
        super().__init__(server)

    def __call__(self) -> str:
        token = super().__call__()
        assert self.may.wait(30.0)
        return token


def test_a_connection_that_takes_longer_than_a_blocking_call_is_there_for_the_next(
    guarded: PostgresServer, schema: str
) -> None:
    tokens = SlowTokens(guarded)
    policy = stateward.Policy(read_timeout=0.2, breaker_failures=1000)
    options: dict[str, Any] = {"credentials": tokens, "policy": policy, "heartbeat": None}
    with stateward.sync.open(url_for(guarded, ROLE, schema), **options) as store:
        store.user("u").put({"n": 1})
        before = tokens.asked
        tokens.may.clear()
        tokens.end_connections()
        try:
            for _ in range(3):
                with pytest.raises(StoreUnavailable):
                    store.user("u").get()
            assert tokens.asked == before + 1, "they wait for one and the same"
        finally:
            tokens.may.set()
        end = time.monotonic() + 30.0
        while True:
            try:
                assert store.user("u").get().value == {"n": 1}
                break
            except StoreUnavailable:
                assert time.monotonic() < end
        assert tokens.asked == before + 1


async def test_a_token_is_asked_for_at_each_new_connection_and_may_rotate(
    guarded: PostgresServer, schema: str
) -> None:
    tokens = Tokens(guarded)
    async with stateward.open(url_for(guarded, ROLE, schema), credentials=tokens) as store:
        await store.user("u").put({"n": 1})
        first = tokens.asked
        assert first >= 1
        tokens.rotate()
        await store.user("u").put({"n": 2})  # a connection that there is asks nobody
        assert tokens.asked == first
        tokens.end_connections()
        await store.user("u").put({"n": 3})
        assert tokens.asked > first
        assert (await store.user("u").get()).value == {"n": 3}


def test_a_pair_of_user_and_token_is_used_instead_of_the_urls(
    guarded: PostgresServer, schema: str
) -> None:
    tokens = Tokens(guarded)
    url = url_for(guarded, "nobody:forgotten", schema)
    with stateward.sync.open(url, credentials=lambda: (ROLE, tokens())) as store:
        store.user("u").put({"n": 1})
        assert store.user("u").get().value == {"n": 1}


async def test_a_wrong_password_is_the_stores_failure_and_is_not_shown(
    guarded: PostgresServer, schema: str
) -> None:
    Tokens(guarded)
    url = url_for(guarded, ROLE, schema)
    for store in (
        stateward.open(url, credentials=lambda: "hunter2", policy=IMPATIENT),
        stateward.open(url_for(guarded, f"{ROLE}:hunter2", schema), policy=IMPATIENT),
    ):
        with pytest.raises(StoreUnavailable, match="password authentication failed") as caught:
            await store.user("u").put({"n": 1})
        assert caught.value.applied == "no"
        seen: BaseException | None = caught.value
        while seen is not None:
            assert "hunter2" not in str(seen)
            seen = seen.__cause__ or seen.__context__
        await store.close()


async def test_credentials_that_fail_are_the_stores_failure_until_they_work_again(
    guarded: PostgresServer, schema: str
) -> None:
    tokens = Tokens(guarded)
    broken = True

    def credentials() -> str:
        if broken:
            raise ConnectionError("the token service does not answer")
        return tokens()

    url = url_for(guarded, ROLE, schema)
    store = stateward.open(url, credentials=credentials, policy=IMPATIENT)
    with pytest.raises(StoreUnavailable, match="token service") as caught:
        await store.user("u").put({"n": 1})
    assert caught.value.applied == "no"
    broken = False
    await store.ready(timeout=60)
    await store.user("u").put({"n": 2})
    assert (await store.user("u").get()).value == {"n": 2}
    await store.close()


def test_credentials_of_the_wrong_shape_are_refused(guarded: PostgresServer, schema: str) -> None:
    wrong = {"password": "hunter2"}
    url = url_for(guarded, ROLE, schema)
    store = stateward.sync.open(url, credentials=lambda: wrong)  # type: ignore[arg-type,return-value]
    with pytest.raises(InvalidInput, match="not dict") as caught:
        store.user("u").put({"n": 1})
    assert "hunter2" not in str(caught.value)
    store.close()


async def test_slow_credentials_hold_up_no_other_task(guarded: PostgresServer, schema: str) -> None:
    tokens = Tokens(guarded)
    asked, answer = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def credentials() -> str:
        loop.call_soon_threadsafe(asked.set)
        asyncio.run_coroutine_threadsafe(answer.wait(), loop).result(20)
        return tokens()

    store = stateward.open(url_for(guarded, ROLE, schema), credentials=credentials)
    writing = asyncio.create_task(store.user("u").put({"n": 1}))
    await asked.wait()  # the loop goes on while the function waits for it
    answer.set()
    await writing
    await store.close()


# --- TLS --------------------------------------------------------------------------------


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, str]:
    """As options of a URL. The driver refuses a key that others can read."""
    files = client_tls()
    key = tmp_path / "client.key"
    shutil.copy(files["key"], key)
    key.chmod(0o600)
    return {"sslrootcert": files["ca"], "sslcert": files["cert"], "sslkey": str(key)}


def tls_url(port: int, schema: str, host: str = "127.0.0.1", **options: str) -> str:
    query = urlencode({"schema": schema, "sslmode": "verify-full", **options})
    return f"postgresql://postgres@{host}:{port}/postgres?{query}"


async def test_tls_with_an_authority_of_ones_own_and_a_client_certificate(
    server: PostgresServer, schema: str, certificates: dict[str, str]
) -> None:
    async with TlsProxy(server.port, server_tls()) as proxy:
        for host in ("127.0.0.1", "localhost"):
            url = tls_url(proxy.port, schema, host, hostaddr="127.0.0.1", **certificates)
            async with stateward.open(url) as store:
                await store.thread("t").append({"n": 1})
                assert (await store.thread("t").load(last=1)).messages == [{"n": 1}]


async def test_a_server_that_cannot_prove_who_it_is_gets_no_password(
    server: PostgresServer, schema: str, certificates: dict[str, str], tmp_path: Path
) -> None:
    async with TlsProxy(server.port, server_tls()) as proxy:
        strange = certificates | {
            "sslrootcert": str(shutil.copy(certificates["sslcert"], tmp_path))
        }
        for url, said in (
            (tls_url(proxy.port, schema, **strange), "certificate"),
            (
                tls_url(proxy.port, schema, "elsewhere", hostaddr="127.0.0.1", **certificates),
                "match",
            ),
        ):
            store = stateward.open(url, policy=IMPATIENT)
            with pytest.raises(AccessRefused, match=f"{said}.*sslrootcert="):
                await store.ready(timeout=60)  # no outage: waiting does not help
            await store.close()
            blocking = stateward.sync.open(url, policy=IMPATIENT)
            with pytest.raises(AccessRefused, match=said):
                await asyncio.to_thread(blocking.ready, timeout=60)
            blocking.close()
    store = stateward.open(tls_url(server.port, schema, **certificates), policy=IMPATIENT)
    with pytest.raises(AccessRefused, match="SSL"):  # never plainly instead
        await store.ready(timeout=60)
    await store.close()


if system_binaries() is not None:

    async def test_a_server_with_tls_of_its_own_knows_a_role_by_its_certificate(
        schema: str, certificates: dict[str, str]
    ) -> None:
        """Without any password: the name in the certificate is the role."""
        here = Path(client_tls()["ca"]).parent
        server = PostgresServer(system_binaries())
        try:
            server.configure(
                ssl="on",
                ssl_ca_file=server.keep(here / "ca.pem"),
                ssl_cert_file=server.keep(here / "server.pem"),
                ssl_key_file=server.keep(here / "server.key"),
            )
            server.admit("hostssl all client 127.0.0.1/32 cert")
            server.start()
            server.run_sql("CREATE ROLE client LOGIN")
            server.run_sql("GRANT CREATE ON DATABASE postgres TO client")
            url = tls_url(server.port, schema, **certificates).replace("postgres@", "client@")
            async with stateward.open(url) as store:
                await store.thread("t").append({"n": 1})
                assert (await store.thread("t").load()).messages == [{"n": 1}]
            plain = stateward.open(url.replace("verify-full", "disable"), policy=IMPATIENT)
            with pytest.raises(StoreUnavailable, match="no encryption"):
                await plain.thread("t").load()
            await plain.close()
        finally:
            server.remove()
