"""The engine by way of the service: lost replies, ended connections, cancelled callers, TLS."""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conformance.test_cancelled import cancel_many, turn
from servers import until
from servers.postgres import PostgresServer
from servers.proxy import Proxy
from servers.redis import running
from servers.service import RunningService

import stateward
from service.conftest import Served
from stateward import sync
from stateward.engines.http.answer import Answer, Garbled, Incoming
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import AccessRefused, InvalidInput, StoreUnavailable
from stateward.ops import Applied, Duplicate
from stateward.world import World

Serve = Callable[..., Served]
TLS = Path(__file__).parent.parent / "servers" / "tls"
PATIENT = stateward.Policy(read_timeout=60.0, write_timeout=60.0, breaker_failures=10_000)
WORLD = World()


def through(served: Served, port: int, scheme: str = "http") -> str:
    return served.url.replace(f"http://127.0.0.1:{served.port}", f"{scheme}://127.0.0.1:{port}")


# --- faults on the way ------------------------------------------------------------------


async def test_a_commit_whose_reply_was_lost_is_known_when_it_comes_again(serve: Serve) -> None:
    served = serve(insecure_local=True)
    async with asyncio.timeout(60), Proxy(served.port) as proxy:
        engine = create_engine(parse(through(served, proxy.port)), WORLD)
        await engine.open()
        try:
            proxy.cut_replies = True
            with pytest.raises(StoreUnavailable) as caught:
                await engine.execute([turn(1, "op-1")])
            assert caught.value.applied == "unknown"
            proxy.cut_replies = False
            (outcome,) = await engine.execute([turn(1, "op-1")])
            assert isinstance(outcome, Duplicate)
            assert outcome.own
        finally:
            await engine.close()


async def test_every_turn_is_stored_once_though_replies_get_lost(serve: Serve) -> None:
    served = serve(insecure_local=True)
    chance = random.Random(3)
    async with asyncio.timeout(120), Proxy(served.port) as proxy:
        url = through(served, proxy.port)
        async with stateward.open(url, policy=PATIENT, spill=False, heartbeat=None) as store:
            thread = store.thread("t")
            for number in range(40):
                proxy.cut_replies = lost = chance.random() < 0.3
                before = proxy.cuts
                appending = asyncio.create_task(thread.append({"n": number}))
                await until(lambda: proxy.cuts > before or not lost)  # noqa: B023
                proxy.cut_replies = False
                await appending
            assert proxy.cuts > 3, "a fault that did not happen proves nothing"
            window = await thread.load()
    assert [message["n"] for message in window.messages] == list(range(40))


async def test_a_connection_that_ended_while_idle_is_replaced_unseen(serve: Serve) -> None:
    served = serve(insecure_local=True)
    async with asyncio.timeout(60), Proxy(served.port) as proxy:
        url = parse(through(served, proxy.port))
        engine, blocking = create_engine(url, WORLD), create_sync_engine(url, WORLD)
        await engine.open()
        await asyncio.to_thread(blocking.open)
        try:
            for number in range(5):
                (outcome,) = await engine.execute([turn(number, f"op-{number}")])
                assert isinstance(outcome, Applied)
                mine = [turn(100 + number, f"op-{number}")]
                (outcome,) = await asyncio.to_thread(blocking.execute, mine)
                assert isinstance(outcome, Applied)
                proxy.cut()
        finally:
            await engine.close()
            await asyncio.to_thread(blocking.close)


@pytest.mark.parametrize("colour", ["async", "sync"])
async def test_a_service_that_is_not_there_has_applied_nothing(colour: str) -> None:
    url = parse("http://127.0.0.1:9")
    with pytest.raises(StoreUnavailable) as caught:
        if colour == "async":
            await create_engine(url, WORLD).open()
        else:
            await asyncio.to_thread(create_sync_engine(url, WORLD).open)
    assert caught.value.applied == "no"
    assert "cannot be reached" in str(caught.value)


async def test_callers_that_are_cancelled_disturb_nobody(serve: Serve) -> None:
    engine = create_engine(parse(serve(insecure_local=True).url), WORLD)
    await engine.open()
    try:
        async with asyncio.timeout(120):
            await cancel_many(engine)
    finally:
        await engine.close()


# --- waiting ----------------------------------------------------------------------------


async def test_a_waiting_feed_is_woken_by_another_replica(serve: Serve) -> None:
    served = serve(insecure_local=True)
    async with asyncio.timeout(60):
        async with stateward.open(served.url) as store, stateward.open(served.direct) as other:
            feed = store.thread("t").changes()
            for number in (1, 2, 3):
                following = asyncio.ensure_future(anext(feed))
                await other.thread("t").append({"n": number})
                assert (await following).message == {"n": number}
            await feed.aclose()


async def test_who_waits_is_let_go_when_the_engine_closes(serve: Serve) -> None:
    served = serve(insecure_local=True)
    entity = turn(1, "op").entity
    blocking = create_sync_engine(parse(served.url), WORLD)
    blocking.open()
    waiting = threading.Thread(target=blocking.wait, args=({entity: 0}, 600.0), daemon=True)
    waiting.start()
    async with asyncio.timeout(30):
        while not blocking._waiting:
            await WORLD.pause(0.001)
    await asyncio.to_thread(blocking.close)
    await asyncio.to_thread(waiting.join, 30.0)
    assert not waiting.is_alive()


# --- TLS and URLs -----------------------------------------------------------------------


async def test_https_verifies_who_answers(serve: Serve) -> None:
    served = serve(insecure_local=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    async with asyncio.timeout(60), Proxy(served.port, context) as proxy:
        url = through(served, proxy.port, "https")
        async with stateward.open(f"{url}?ca={TLS / 'ca.pem'}", heartbeat=None) as store:
            await store.thread("t").append({"n": 1})
        with pytest.raises(AccessRefused, match="certificate is not accepted"):
            await create_engine(parse(url), WORLD).open()

        def blocking() -> int:
            with sync.open(f"{url}?ca={TLS / 'ca.pem'}", heartbeat=None) as store:
                return store.thread("t").load().version

        assert await asyncio.to_thread(blocking) == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com", "unencrypted"),
        ("https://", "one host"),
        ("https://a,b", "one host"),
        ("https://host:0", "port"),
        ("https://host?nope=1", "'nope'"),
        ("https://host?timeout=x", "timeout"),
        ("https://host?ca=/nowhere/ca.pem", "certificates"),
        ("https://host?cert=/nowhere/me.pem", "certificates"),
        ("https://k%0D%0Ax@host", "no key has"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, words: str) -> None:
    for create in (create_engine, create_sync_engine):
        with pytest.raises(InvalidInput, match=words):
            create(parse(url), WORLD)


def test_a_key_can_come_from_a_function_and_is_never_shown(serve: Serve) -> None:
    served = serve()
    key = served.key()
    with sync.open(served.url, credentials=lambda: key, heartbeat=None) as store:
        store.thread("t").append({"n": 1})
        assert key not in repr(store) + repr(vars(store.sections.stacks[0].engine))
    engine = create_sync_engine(parse(served.url_with(key)), WORLD)
    assert key not in repr(vars(engine))


# --- answers ----------------------------------------------------------------------------

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: x\r\n\r\n"
)
ANNOUNCED = b"HTTP/1.1 102 Processing\r\n\r\n" + PLAIN
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (PLAIN, Answer(200, b"hello", False)),
        (CHUNKED, Answer(200, b"hello", False)),
        (ANNOUNCED, Answer(200, b"hello", False)),
        (EMPTY, Answer(204, b"", False)),
        (PLAIN.replace(b"X: y", b"Connection: close"), Answer(200, b"hello", True)),
        (PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"), Answer(200, b"hello", True)),
    ],
)
def test_an_answer_may_come_in_any_pieces(said: bytes, answer: Answer) -> None:
    for size in (1, 2, 7, len(said)):
        incoming = Incoming()
        found = [incoming.take(said[at : at + size]) for at in range(0, len(said), size)]
        assert found == [None] * (len(found) - 1) + [answer]


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    incoming = Incoming()
    assert incoming.take(b"HTTP/1.1 200 OK\r\n\r\nhel") is None
    assert incoming.take(b"lo") is None
    assert incoming.take(b"") == Answer(200, b"hello", True)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/2 200\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 101,
    ],
)
def test_what_is_no_http_is_said_to_be_none(said: bytes) -> None:
    with pytest.raises(Garbled):
        Incoming().take(said)


def test_half_an_answer_is_none() -> None:
    for cut in range(1, len(PLAIN)):
        incoming = Incoming()
        assert incoming.take(PLAIN[:cut]) is None
        with pytest.raises(ConnectionError):
            incoming.take(b"")


async def test_an_answer_that_is_not_the_services_is_said_so(service: RunningService) -> None:
    async def page(scope: object, receive: object, send: Callable[..., Awaitable[None]]) -> None:
        kind = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": b"<h1>Welcome</h1>"})

    url = service.mount("page", lambda: page)
    with pytest.raises(StoreUnavailable, match="is it a Stateward service"):
        await create_engine(parse(url), WORLD).open()


# --- names of hosts ---------------------------------------------------------------------


@pytest.fixture(params=["http", "redis", "postgres"])
def address(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> Iterator[str]:
    """The URL of a store on every kind of server."""
    if request.param == "http":
        yield serve(insecure_local=True).url
    elif request.param == "redis":
        with running(tmp_path, "redis", "--appendonly", "no") as server:
            yield server.url
    else:
        postgres = PostgresServer().start()
        yield postgres.url_of("named")
        postgres.remove()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_full_default_executor_keeps_no_store_from_opening(address: str, host: str) -> None:
    """The threads of the application may all be busy: names are looked up on our own."""
    url = address
    assert "127.0.0.1" in url
    free, policy = threading.Event(), stateward.Policy(read_timeout=15.0, write_timeout=15.0)
    with ThreadPoolExecutor(1) as pool:
        asyncio.get_running_loop().set_default_executor(pool)
        busy = asyncio.create_task(asyncio.to_thread(free.wait))
        try:
            url = url.replace("127.0.0.1", host)
            async with (
                asyncio.timeout(30),
                stateward.open(url, policy=policy, spill=False) as store,
            ):
                stored = await store.thread("named").append({"n": 1})
                assert stored.status == "stored"
        finally:
            free.set()
            await busy
