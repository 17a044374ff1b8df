"""What is particular to Redis and Valkey: the key space, the index, access rules."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from servers import until
from servers.proxy import Proxy, client_tls, server_tls
from servers.redis import RedisServer, running, system_binary

import stateward
import stateward.sync
from stateward.engine import GRACE
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.keys import entity_of, keys_of, sortable, split_member
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import AccessRefused, InvalidInput, SchemaError, StoreUnavailable
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Drop,
    Entity,
    Fetch,
    Fetched,
    List,
    Listed,
    Log,
    Op,
    Outcome,
    Put,
    SetHead,
    Sweep,
)
from stateward.testing.clock import SteppableWorld
from stateward.world import World

WORLD = World()
PARTS = ("log", "marks", "docs", "names", "ops", "keys")
HOSTILE = (
    "}",
    "}{",
    "{a}",
    ":",
    "a:b",
    "*",
    "?[a]",
    "%",
    "%3A",
    "\x00",
    "a\x00b",
    "\r\n",
    "..",
    " ",
    "é",
    "e\u0301",
    "😀",
    "\U0010ffff",
)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisEngine]:
    engine = RedisEngine(parse_server(parse(url), WORLD))
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


async def only(engine: RedisEngine, op: Op) -> Outcome:
    return (await engine.execute((op,)))[0]


async def listed(engine: RedisEngine, namespace: str, **options: object) -> list[str]:
    page = await only(engine, List(namespace, **options))  # type: ignore[arg-type]
    assert isinstance(page, Listed)
    return [found.entity.id for found in page.entities]


async def ask(engine: RedisEngine, *words: str | bytes) -> object:
    connection = await engine._servers._pool.borrow()
    try:
        return (await connection.ask(words))[0]
    finally:
        engine._servers._pool.give_back(connection)


# --- the key space ----------------------------------------------------------------------


def test_any_address_makes_a_tag_of_its_own_and_comes_back() -> None:
    entities = [Entity(a, b, c) for a in HOSTILE for b in HOSTILE[:6] for c in HOSTILE]
    tags = {keys_of(entity).tag for entity in entities}
    assert len(tags) == len(entities)
    for entity in entities:
        where = keys_of(entity)
        assert entity_of(where.tag) == entity
        assert not set("{}") & set(where.tag)
        assert len({key[key.index("{") : key.index("}")] for key in where.own}) == 1


def test_members_of_the_index_sort_by_their_words() -> None:
    words = sorted({*HOSTILE, "a", "a\x00", "a\x00\x00", "aa", "\x00\x00"})
    pairs = [(first, second) for first in words for second in words]
    members = [sortable(first) + second.encode() for first, second in pairs]
    assert members == sorted(members)
    for (first, second), member in zip(pairs, members, strict=True):
        assert split_member(member) == (first, second.encode())


async def test_an_entity_lives_in_the_keys_that_are_documented(tmp_path: Path) -> None:
    with running(tmp_path / "empty", "valkey", "--appendonly", "no") as server:
        async with opened(server.url) as engine:
            entity = Entity("my app", "thread", "a:b")
            writes = (
                Append(('{"n":1}', '{"n":2}'), key="k"),
                Put("vars", '{"topic":"x"}'),
                SetHead(status="on", due=5.0),
            )
            await only(engine, Commit(entity, "op 1", writes, owner="u", retain=100.0))
            keys = await ask(engine, "KEYS", "*")
            assert isinstance(keys, list)
            head = "stateward:{my%20app:thread:a%3Ab}"
            assert sorted(key.decode() for key in keys) == sorted(
                [
                    head,
                    *(f"{head}:{part}" for part in PARTS),
                    "stateward:kinds:{my%20app}",
                    "stateward:kind:{my%20app:thread}",
                    "stateward:kind:{my%20app:thread}:status",
                    "stateward:kind:{my%20app:thread}:due",
                    "stateward:owner:{my%20app:u}",
                    "stateward:owner:{my%20app:u}:status",
                    "stateward:kind:{my%20app:thread}:touched",
                    "stateward:owner:{my%20app:u}:touched:thread",
                    "stateward:owners:{my%20app}",
                    keys_of(entity).sweep,
                ]
            )
            assert await ask(engine, "LRANGE", f"{head}:log", "0", "-1") == [b'{"n":1}', b'{"n":2}']
            assert await ask(engine, "HGET", f"{head}:docs", "=vars") == b'{"topic":"x"}'
            await only(engine, Commit(entity, "op 2", (Drop(),), owner="u"))
            keys = await ask(engine, "KEYS", "*")
            assert isinstance(keys, list)
            assert sorted(key.decode() for key in keys) == sorted(
                [head, f"{head}:ops", "stateward:kinds:{my%20app}", keys_of(entity).sweep]
            ), "a tombstone keeps the ops and its place in the sweep index, and nothing else"


# --- time to live -----------------------------------------------------------------------


async def times_to_live(engine: RedisEngine, entity: Entity) -> list[float | None]:
    """Seconds for each key that there is; None: for ever."""
    found: list[float | None] = []
    for key in keys_of(entity).own:
        left = await ask(engine, "PTTL", key)
        assert isinstance(left, int)
        if left != -2:
            found.append(None if left == -1 else left / 1000)
    return found


async def test_no_key_has_a_time_to_live_in_any_life(valkey: RedisServer) -> None:
    async with opened(valkey.url) as engine:
        it = Entity("ttl", "thread", WORLD.new_id())
        for number in range(3):
            for writes in (
                (Append(("1",), key=f"{number}"), Put(f"{number}", "1"), Acquire("n", 1.0)),
                (Append(("2",)),),
                (SetHead(retain=10 * GRACE),),
                (Drop(),),
            ):
                await only(engine, Commit(it, WORLD.new_op(), writes, retain=1000.0))
                assert set(await times_to_live(engine, it)) == {None}


async def test_a_server_that_begins_to_evict_what_has_a_time_to_live_keeps_what_is_alive(
    tmp_path: Path,
) -> None:
    """The policy is changed after conversations were stored, and then memory gets short."""
    with running(tmp_path / "evicting", "valkey", "--appendonly", "no") as server:
        async with opened(server.url) as engine:
            old = [Entity("ttl", "thread", f"old {n}") for n in range(50)]
            body = f'"{"x" * 2000}"'
            for entity in old:
                await only(engine, Commit(entity, WORLD.new_op(), (Append((body,)),), retain=1e6))
        used = int(server.ask("INFO", "memory").split(b"used_memory:")[1].split()[0])
        server.ask("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        server.ask("CONFIG", "SET", "maxmemory", str(used + 500_000))
        async with opened(server.url) as engine:
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                for number in range(2000):
                    new = Entity("ttl", "thread", f"new {number}")
                    await only(engine, Commit(new, WORLD.new_op(), (Append((body,)),), retain=1e6))
            server.ask("CONFIG", "SET", "maxmemory", "0")
            for entity in old:
                found = await only(engine, Fetch(entity, log=Log(last=1)))
                assert isinstance(found, Fetched)
                assert found.lines == body


async def test_entries_that_were_evicted_are_an_error_and_no_short_history(
    valkey: RedisServer,
) -> None:
    async with opened(valkey.url) as engine:
        entity = Entity("evicted", "thread", WORLD.new_id())
        await only(engine, Commit(entity, WORLD.new_op(), (Append(("1", "2")),)))
        await ask(engine, "DEL", keys_of(entity).own[1])
        for log in (Log(last=20), Log(), Log(last=1, details=True)):
            with pytest.raises(SchemaError, match="evicted"):
                await only(engine, Fetch(entity, log=log))


# --- the index --------------------------------------------------------------------------


async def test_a_listing_repairs_what_an_index_says_too_much(valkey: RedisServer) -> None:
    async with opened(valkey.url) as engine:
        namespace = WORLD.new_id()
        entity = Entity(namespace, "thread", "real")
        await only(engine, Commit(entity, WORLD.new_op(), (SetHead(status="on"),), owner="u"))
        wrong = (
            (f"stateward:kind:{{{namespace}:thread}}", b"ghost", {"kind": "thread"}),
            (f"stateward:owner:{{{namespace}:v}}", b"thread\x00real", {"owner": "v"}),
            (
                f"stateward:kind:{{{namespace}:thread}}:status",
                b"off\x00real",
                {"kind": "thread", "status": "off"},
            ),
            (
                f"stateward:owner:{{{namespace}:u}}:status",
                b"thread\x00off\x00real",
                {"kind": "thread", "owner": "u", "status": "off"},
            ),
            (
                f"stateward:kind:{{{namespace}:thread}}:due",
                b"real\x005.0",
                {"kind": "thread", "due": True},
            ),
        )
        for key, member, options in wrong:
            await ask(engine, "ZADD", key, "0", member)
            right = ["real"] if options == {"kind": "thread"} else []
            assert await listed(engine, namespace, **options) == right
            assert await ask(engine, "ZSCORE", key, member) is None
        assert await listed(engine, namespace, kind="thread", owner="u", status="on") == ["real"]


async def test_a_commit_that_names_no_owner_still_keeps_the_owners_index(
    valkey: RedisServer,
) -> None:
    async with opened(valkey.url) as engine:
        namespace = WORLD.new_id()
        entity = Entity(namespace, "workflow", "w")
        await only(engine, Commit(entity, WORLD.new_op(), (SetHead(status="active"),), owner="u"))
        await only(engine, Commit(entity, WORLD.new_op(), (SetHead(status="done"),)))
        assert await listed(engine, namespace, kind="workflow", owner="u", status="active") == []
        assert await listed(engine, namespace, kind="workflow", owner="u", status="done") == ["w"]
        await only(engine, Commit(entity, WORLD.new_op(), (SetHead(owner="v"),)))
        assert await listed(engine, namespace, owner="u") == []
        assert await listed(engine, namespace, owner="v") == ["w"]
        await only(engine, Commit(entity, WORLD.new_op(), (Drop(),)))
        assert await listed(engine, namespace, owner="v") == []
        keys = await ask(engine, "EXISTS", f"stateward:owner:{{{namespace}:v}}")
        assert keys == 0


# --- the server -------------------------------------------------------------------------

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "urls.md"


def documented_rights() -> list[str]:
    """The rules of the ACL line in the reference."""
    _, _, line = REFERENCE.read_text("utf-8").partition("ACL SETUSER agents ")
    return line.partition("```")[0].split()


VERSIONS = ["valkey", "redis", *(["system"] if system_binary() is not None else [])]


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", request.param, "--appendonly", "no") as server:
        yield server


async def test_a_user_with_the_documented_rights_can_do_everything(server: RedisServer) -> None:
    assert server.ask("ACL", "SETUSER", "agent", *documented_rights()) == b"+OK\r\n"
    server.ask("SCRIPT", "FLUSH")
    server.ask("ACL", "LOG", "RESET")
    url = f"redis://agent:secret@127.0.0.1:{server.port}"
    namespace = WORLD.new_id()
    async with stateward.open(url, namespace=namespace, retain=100.0) as store:
        thread = store.thread("t", user="u")
        for number in range(3):
            await thread.append({"n": number}, key=f"{number}")
        await thread.vars.update(lambda value: {"topic": "x"})
        assert len((await thread.load(last=2)).messages) == 2
        await store.context(user="u", thread="t")
        await store.user("u").put({"name": "x"})
        assert [info.id async for info in store.threads("u")] == ["t"]
        recent = [info async for info in store.threads("u", order="recent")]
        later = store.threads("u", order="recent", before=recent[0].cursor)
        assert [info.id async for info in later] == []
        assert [user async for user in store.users()] == ["u"]
        assert await store.counts(user="u") == {"thread": 1, "user": 1}
        async with thread.turn(key="request") as turn:
            await turn.store({"role": "user"}, {"role": "assistant"})
        changes = [change.message async for change in thread.changes(follow=False)]
        assert [message["n"] for message in changes[:3]] == [0, 1, 2]
        engine = store._layered.stacks[0].engine
        await engine.wait({Entity(namespace, "thread", "t"): 5}, 0.05)
        assert isinstance(engine, RedisEngine)
        assert engine._notifications._subscription is not None
        assert not engine._notifications._subscription.broken, "it may listen"
        async with store.lock("name"):
            assert await store.once("task", lambda: 1) == 1
        async with store.workflow("w", kind="refund", user="u") as run:
            await run.step("s", lambda: 1)
        await thread.delete()
        await store.user("u").erase()
        await store.sweep()
        assert server.ask("ACL", "LOG") == b"*0\r\n", "something was tried that is not permitted"
        assert (await store.describe()).settings["appendfsync"] == "unknown", "CONFIG is blocked"


@pytest.mark.timing
async def test_a_wait_is_woken_by_the_server(valkey: RedisServer) -> None:
    async with opened(valkey.url) as one, opened(valkey.url) as two:
        entity = Entity("wait", "thread", WORLD.new_id())
        await only(one, Commit(entity, WORLD.new_op(), (Append(("1",)),)))
        for version in range(1, 6):
            waiting = asyncio.create_task(two.wait({entity: version}, 30.0))
            await until(lambda: is_heard(two, entity))
            start = WORLD.monotonic()
            await only(one, Commit(entity, WORLD.new_op(), (Append(("1",)),)))
            await waiting
            assert WORLD.monotonic() - start < 0.9, "less than a look without a message would take"


def is_heard(engine: RedisEngine, entity: Entity) -> bool:
    subscription = engine._notifications._subscription
    channel = keys_of(entity).head.encode()
    return (
        subscription is not None
        and channel in subscription.channels
        and subscription.channels[channel].done()
    )


async def test_a_wait_goes_on_when_its_connection_is_lost(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "restarted").start()
    try:
        async with opened(server.url) as engine:
            entity = Entity("wait", "thread", "it")
            await only(engine, Commit(entity, WORLD.new_op(), (Append(("1",)),)))
            waiting = asyncio.create_task(engine.wait({entity: 1}, 30.0))
            await until(lambda: is_heard(engine, entity))
            assert server.ask("CLIENT", "KILL", "TYPE", "pubsub").startswith(b":1")
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await only(engine, Commit(entity, WORLD.new_op(), (Append(("1",)),)))
            await waiting
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("--appendonly", "yes", "--appendfsync", "always"), "on the server's disk"),
        (("--appendonly", "yes", "--appendfsync", "everysec"), "last second"),
        (("--appendonly", "no"), "since its last snapshot"),
        (("--appendonly", "no", "--maxmemory-policy", "allkeys-lru"), "DELETES"),
    ],
)
async def test_the_server_says_honestly_what_it_may_lose(
    tmp_path: Path, settings: tuple[str, ...], words: str
) -> None:
    with running(tmp_path / "server", "redis", *settings) as server:
        async with opened(server.url) as engine:
            said = await engine.describe()
            assert words in said.durability
            assert said.engine == "redis"
            assert said.version.startswith("8.")
            assert said.bytes is not None
            assert said.settings["appendonly"] == settings[1]


async def test_sweeping_removes_every_trace(tmp_path: Path) -> None:
    """A month passes: nothing is left but the list of kinds."""
    with running(tmp_path / "swept", "valkey", "--appendonly", "no") as server:
        world = SteppableWorld(WORLD.now())
        engine = RedisEngine(parse_server(parse(server.url), world), world.now)
        await engine.open()
        try:
            for number in range(40):
                entity = Entity("swept", "thread", f"{number}")
                writes = (Append(("1", "2"), key="k"), Put("d", "1"), SetHead(status="s", due=1.0))
                owner = f"u{number % 3}"
                await only(
                    engine, Commit(entity, WORLD.new_op(), writes, owner=owner, retain=100.0)
                )
                if number % 2:
                    await only(engine, Commit(entity, WORLD.new_op(), (Drop(),)))
            world.advance(days=31)
            for _ in range(100):
                swept = await only(engine, Sweep(50))
                if not swept.more:  # type: ignore[union-attr]
                    break
            assert await ask(engine, "KEYS", "*") == [b"stateward:kinds:{swept}"]
        finally:
            await engine.close()


# --- opening ----------------------------------------------------------------------------


def test_a_unix_socket_serves_both_colours(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with running(tmp_path / "socket", "valkey", "--unixsocket", str(path)) as _:
        with stateward.sync.open(f"unix://{path}") as store:
            store.thread("t").append({"n": 1})

        async def load() -> int:
            async with stateward.open(f"unix://{path}") as store:
                return (await store.thread("t").load()).version

        assert asyncio.run(load()) == 1


async def test_tls_with_an_authority_and_a_certificate_of_ones_own(valkey: RedisServer) -> None:
    files = client_tls()
    namespace = WORLD.new_id()
    async with Proxy(valkey.port, server_tls()) as proxy:
        there = f"rediss://127.0.0.1:{proxy.port}"
        url = f"{there}?{urlencode(files)}"
        async with stateward.open(url, namespace=namespace) as store:
            for number in range(1, 4):
                assert (await store.thread("t").append({"n": number})).version == number
            large = {"text": "x" * 1_000_000}
            await store.thread("t").append(large)
            assert (await store.thread("t").load(last=1)).messages == [large]

        def blocking() -> int:
            with stateward.sync.open(url, namespace=namespace) as store:
                return store.thread("t").load().version

        assert await asyncio.to_thread(blocking) == 4


@pytest.mark.parametrize(
    ("host", "options", "said"),
    [
        ("127.0.0.1", {}, "certificate is not accepted .*authority"),
        ("127.1", client_tls(), "certificate is not accepted .*127.1.* made for the host"),
    ],
    ids=["an authority that nobody here trusts", "another host"],
)
async def test_a_certificate_that_is_not_accepted_is_not_waited_for(
    valkey: RedisServer, host: str, options: dict[str, str], said: str
) -> None:
    """No outage: it is wrong until somebody mends it."""
    async with Proxy(valkey.port, server_tls()) as proxy:
        url = f"rediss://{host}:{proxy.port}?{urlencode(options)}"
        store = stateward.open(url)
        with pytest.raises(AccessRefused, match=said) as caught:
            await store.ready(timeout=60)
        assert caught.value.applied == "no"
        await store.close()

        def blocking() -> None:
            with stateward.sync.open(url) as store:
                store.thread("t").load()

        with pytest.raises(AccessRefused, match=said):
            await asyncio.to_thread(blocking)


async def test_a_client_without_a_certificate_is_told_to_name_one() -> None:
    """By a server as servers are: it says why, and only then ends the connection."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return  # the test is over
            with connection, suppress(OSError):
                connection.settimeout(30)
                held = os.dup(connection.fileno())  # a failed handshake closes the other
                try:
                    tls.wrap_socket(connection, server_side=True)
                except ssl.SSLError:
                    with socket.socket(fileno=held) as rest:
                        while rest.recv(4096):
                            pass

    tls = server_tls()
    listening = socket.create_server(("127.0.0.1", 0))
    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    url = f"rediss://127.0.0.1:{listening.getsockname()[1]}?ca={client_tls()['ca']}"
    try:
        store = stateward.open(url)
        with pytest.raises(AccessRefused, match=r"does not accept this client's .*cert=FILE"):
            await store.ready(timeout=60)
        await store.close()
        with (
            pytest.raises(AccessRefused, match=r"does not accept this client's .*cert=FILE"),
            stateward.sync.open(url) as blocking,
        ):
            await asyncio.to_thread(blocking.ready, timeout=60)
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        serving.join(30)


def test_one_store_serves_several_event_loops_one_after_the_other(valkey: RedisServer) -> None:
    store = stateward.open(valkey.url, namespace=WORLD.new_id())
    for number in range(1, 4):
        appended = asyncio.run(store.thread("t").append({"n": number}))
        assert appended.version == number
    asyncio.run(store.close())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://localhost/1", "only database 0"),
        ("redis://localhost:port", "not a usable URL"),
        ("redis://localhost?wait_replica=1", "did you mean 'wait_replicas'"),
        ("redis://localhost?wait_replicas=x", "makes sense"),
        ("redis://localhost?timeout=0", "makes sense"),
        ("redis://localhost?ca=ca.pem", "needs TLS"),
        ("rediss://localhost?ca=/none/ca.pem", "certificates"),
        ("unix://", "names no socket"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, words: str) -> None:
    for create in (create_engine, create_sync_engine):
        with pytest.raises(InvalidInput, match=words):
            create(parse(url), WORLD)


def test_a_missing_driver_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['hiredis'] = None\n"
        "import stateward\n"
        "stateward.open('redis://localhost')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'stateward[redis]'" in ran.stderr


async def test_a_large_commit_and_a_large_history_pass(valkey: RedisServer) -> None:
    async with opened(valkey.url) as engine:
        entity = Entity("large", "thread", WORLD.new_id())
        big = '"' + "x" * 4_000_000 + '"'
        applied = await only(engine, Commit(entity, WORLD.new_op(), (Append((big, big)),)))
        assert isinstance(applied, Applied)
        await only(engine, Commit(entity, WORLD.new_op(), (Append(("1",) * 20_000),)))
        fetched = await only(engine, Fetch(entity, log=Log()))
        assert isinstance(fetched, Fetched)
        assert fetched.count == 20_002
        assert fetched.lines.startswith(big)
