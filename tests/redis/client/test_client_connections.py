"""What a connection of the Redis client says, and what becomes of it when its server fails."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from servers import until
from servers.redis import RedisServer, running
from servers.redis_peer import Hang, running_peer

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.server import Address, Server
from stateward.engines.redis.client.topology import OneServer
from stateward.errors import StoreUnavailable
from stateward.world import World

NAME = [b"CLIENT", b"SETNAME", b"stateward"]


def address_of(server: RedisServer) -> Address:
    return Address("127.0.0.1", server.port)


# --- the greeting -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "login"),
    [
        ({}, []),
        ({"password": "p w"}, [[b"AUTH", b"p w"]]),
        ({"username": "u", "password": "p"}, [[b"AUTH", b"u", b"p"]]),
        (
            {"username": "u", "password": "old", "login": lambda: (None, "new")},
            [[b"AUTH", b"u", b"new"]],
        ),
        ({"login": lambda: ("v", "token")}, [[b"AUTH", b"v", b"token"]]),
    ],
)
async def test_a_connection_logs_in_asks_and_gives_its_name_at_once(
    client: Any, settings: dict[str, Any], login: list[list[bytes]]
) -> None:
    """And says no HELLO: RESP2 is what every server speaks that was not asked for more."""
    with running_peer() as peer:
        async with client.opened(peer.address, **settings) as servers:
            assert await client.ask(servers, "SET", "{k}", "v") == b"OK"
        assert peer.greetings == [[*login, [b"PING"], NAME]]
        assert peer.commands == [[b"SET", b"{k}", b"v"]]


@pytest.mark.parametrize("name", ["valkey", "redis8"])
async def test_a_server_lists_our_connections_by_name_and_protocol(
    client: Any, name: str, request: pytest.FixtureRequest
) -> None:
    server: RedisServer = request.getfixturevalue(name)
    async with client.opened(address_of(server)) as servers:
        assert await client.ask(servers, "EXISTS", "{nothing}") == 0
        (listed,) = await client.call(servers.ask, ("CLIENT", "LIST"))
        mine = [line for line in listed.splitlines() if b" cmd=client|list " in line]
        assert len(mine) == 1
        assert b" name=stateward " in mine[0]
        assert b" resp=2" in mine[0]


async def test_a_user_that_may_not_give_a_name_is_served_all_the_same(
    client: Any, tmp_path: Path
) -> None:
    with running(tmp_path / "server", "valkey", "--appendonly", "no") as server:
        rules = ("on", ">p", "~*", "-@all", "+ping", "+get")
        assert server.ask("ACL", "SETUSER", "u", *rules) == b"+OK\r\n"
        async with client.opened(address_of(server), username="u", password="p") as servers:
            assert await client.ask(servers, "GET", "{k}") is None


async def test_a_refusal_that_ends_the_connection_is_told_in_its_words(client: Any) -> None:
    """A server with too many clients says so once, whatever was asked, and is gone."""

    def full(_: list[bytes]) -> bytes:
        raise Hang(b"-ERR max number of clients reached\r\n")

    for settings in ({}, {"password": "p"}):
        with running_peer(full) as peer:
            async with client.opened(peer.address, **settings) as servers:
                with pytest.raises(StoreUnavailable, match="maxclients") as caught:
                    await client.ask(servers, "SET", "{k}", "v", writes=True)
                assert caught.value.applied == "no"


async def test_a_peer_that_never_greets_cannot_be_reached(client: Any) -> None:
    with running_peer(lambda command: b"" if command[0] == b"PING" else None) as peer:
        async with client.opened(peer.address, timeout=0.2) as servers:
            with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
                await client.ask(servers, "SET", "{k}", "v", writes=True)
            assert caught.value.applied == "no"
            assert peer.commands == []


# --- passwords that change --------------------------------------------------------------


async def test_a_new_connection_asks_for_the_password_again_and_old_ones_go_on(
    client: Any, tmp_path: Path
) -> None:
    with running(tmp_path / "server", "valkey", "--appendonly", "no") as server:
        asked_on: list[int] = []
        token = "first"

        def login() -> tuple[str, str]:
            asked_on.append(threading.get_ident())
            return "u", token

        def allow() -> None:
            rules = ("on", "resetpass", f">{token}", "~*", "&*", "+@all")
            assert server.ask("ACL", "SETUSER", "u", *rules) == b"+OK\r\n"

        allow()
        async with client.opened(address_of(server), login=login) as servers:
            pool = servers._pool
            old = await client.call(pool.borrow)
            token = "second"
            allow()
            new = await client.call(pool.borrow)
            assert len(asked_on) == 2
            assert threading.get_ident() not in asked_on, "the event loop waited for the function"
            for connection in (old, new):
                assert await client.call(connection.ask, ("ACL", "WHOAMI")) == [b"u"]
                pool.give_back(connection)
            token = "of nobody"
            lent = [await client.call(pool.borrow) for _ in range(2)]
            with pytest.raises(StoreUnavailable, match="refused the user name or the password"):
                await client.call(pool.borrow)
            for connection in lent:
                pool.give_back(connection)


# --- peers that are gone ----------------------------------------------------------------


@pytest.mark.timing
async def test_a_peer_gone_without_a_word_costs_one_timeout_and_its_connection(client: Any) -> None:
    """A half-open connection: what is sent arrives nowhere, and nothing says so."""
    with running_peer() as peer:
        async with client.opened(peer.address, timeout=0.3) as servers:
            await client.ask(servers, "SET", "{k}", "v")
            peer.answer = lambda command: None if len(peer.greetings) == 1 else b"+OK\r\n"
            begun = time.monotonic()
            with pytest.raises(StoreUnavailable, match="did not answer in time") as caught:
                await client.ask(servers, "SET", "{k}", "v", writes=True)
            assert 0.25 < time.monotonic() - begun < 3.0
            assert caught.value.applied == "unknown"
            assert servers._pool.idle_connections() == []
            assert await client.ask(servers, "SET", "{k}", "v") == b"OK"
            assert len(peer.greetings) == 2


@pytest.mark.timing
async def test_a_blocking_caller_waits_no_longer_than_its_deadline(client: Any) -> None:
    """On an event loop a timer wakes the caller, and the connection goes on reading."""
    with running_peer(lambda _: None) as peer:
        async with client.opened(peer.address, timeout=1.0) as servers:
            begun = time.monotonic()
            with pytest.raises(StoreUnavailable, match="did not answer in time"):
                await client.ask(servers, "SET", "{k}", "v", deadline=begun + 0.1)
            took = time.monotonic() - begun
            assert took < 0.8 if client.blocking else 0.9 < took < 5.0


@pytest.mark.parametrize("client", ["blocking"], indirect=True)
async def test_a_reply_that_comes_in_drips_is_waited_for_until_the_deadline(client: Any) -> None:
    over = threading.Event()

    def drip(command: list[bytes]) -> None:
        if command[0] == b"GET":
            peer.say(b"$1000000\r\n")
            while not over.wait(0.01):
                peer.say(b"x")

    with running_peer(drip) as peer:
        async with client.opened(peer.address, timeout=60.0) as servers:
            asking = client.ask(servers, "GET", "{k}", deadline=time.monotonic() + 0.2)
            call = asyncio.create_task(asking)
            try:
                done, _ = await asyncio.wait([call], timeout=10.0)
            finally:
                over.set()
            with pytest.raises(StoreUnavailable):
                await call
            assert done, "each drip was given as much time as all of them"


async def test_a_reply_that_comes_too_late_is_nobody_elses(client: Any) -> None:
    with running_peer() as peer:
        async with client.opened(peer.address, timeout=0.2) as servers:
            peer.answer = lambda _: None
            with pytest.raises(StoreUnavailable):
                await client.ask(servers, "GET", "{k}")
            peer.answer = lambda _: b"+mine\r\n"
            pool = servers._pool
            connection = await client.call(pool.borrow)
            pool.give_back(connection)
            assert await client.ask(servers, "GET", "{k}") == b"mine"


async def test_a_connection_on_which_something_was_said_unasked_is_not_used_again(
    client: Any,
) -> None:
    """With the answer, or while it was idle."""
    with running_peer() as peer:
        async with client.opened(peer.address) as servers:
            peer.answer = lambda command: b"+one\r\n+two\r\n" if command[0] == b"GET" else None
            assert await client.ask(servers, "GET", "{k}") == b"one"
            assert servers._pool.idle_connections() == []
            peer.answer = lambda _: b"+OK\r\n"
            assert await client.ask(servers, "GET", "{k}") == b"OK"
            (connection,) = servers._pool.idle_connections()
            peer.say(b">2\r\n+invalidate\r\n+k\r\n")
            await until(connection.is_stale)
            assert await client.ask(servers, "GET", "{k}") == b"OK"
            assert len(peer.greetings) == 3


async def test_a_connection_that_comes_back_before_its_replies_is_ended(client: Any) -> None:
    """Its caller was cancelled or interrupted: the next one must not get what is to come."""
    with running_peer(lambda command: None if command[0] == b"GET" else b"+OK\r\n") as peer:
        async with client.opened(peer.address) as servers:
            pool = servers._pool
            connection = await client.call(pool.borrow)
            sent = connection.send(b"*1\r\n$3\r\nGET\r\n", 1)
            assert connection.busy
            if sent is not None:
                sent.cancel()
            pool.give_back(connection)
            assert connection.broken
            assert pool.idle_connections() == []
            assert await client.ask(servers, "SET", "{k}", "v") == b"OK"


async def test_a_cancelled_question_leaves_no_connection_in_doubt() -> None:
    with running_peer(lambda command: None if command[0] == b"INFO" else b"+OK\r\n") as peer:
        servers = OneServer(Server((peer.address,)), ())
        asking = asyncio.create_task(servers.ask(("INFO",)))
        await until(lambda: peer.heard(b"INFO") > 0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert servers._pool.idle_connections() == []
        assert await servers.ask(("TIME",)) == [b"OK"]
        await servers.close()


# --- servers that say no ----------------------------------------------------------------


async def test_a_server_that_is_loading_has_applied_nothing_and_is_asked_again(client: Any) -> None:
    """At the greeting, and on a connection that was there before it was restarted."""
    loading = b"-LOADING Redis is loading the dataset in memory\r\n"
    for word, heard in ((b"PING", 0), (b"SET", 1)):
        with running_peer() as peer:
            async with client.opened(peer.address) as servers:
                peer.answer = lambda command: loading if command[0] == word else None  # noqa: B023
                with pytest.raises(StoreUnavailable, match="still loading") as caught:
                    await client.ask(servers, "SET", "{k}", "v", writes=True)
                assert caught.value.applied == "no"
                assert peer.heard(b"SET") == heard, "who asked decides whether to ask again"
                peer.answer = lambda _: b"+OK\r\n"
                assert await client.ask(servers, "SET", "{k}", "v", writes=True) == b"OK"


async def test_a_step_that_ran_beside_one_that_did_not_makes_it_unknown(client: Any) -> None:
    oom = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    with running_peer(lambda command: oom if command[1:2] == [b"{b}"] else b"+OK\r\n") as peer:
        async with client.opened(peer.address) as servers:
            steps = [PipelineStep(key, (("SET", key, "v"),), True) for key in ("{a}", "{b}")]
            for asked, applied in ((steps, "unknown"), (steps[1:], "no")):
                with pytest.raises(StoreUnavailable, match="maxmemory") as caught:
                    await client.call(servers.trip, asked)
                assert caught.value.applied == applied


async def test_a_server_gets_the_scripts_it_does_not_know_and_only_those_steps_again(
    client: Any,
) -> None:
    known: set[bytes] = set()

    def answer(command: list[bytes]) -> bytes | None:
        if command[0] == b"SCRIPT":
            known.add(command[2])
            return b"+sha\r\n"
        if command[0] == b"EVALSHA" and len(known) < 2:
            return b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
        return b"+OK\r\n"

    with running_peer(answer) as peer:
        async with client.opened(peer.address) as servers:
            steps = [
                PipelineStep("{a}", (("EVALSHA", "1", 1, "{a}"),), True),
                PipelineStep("{b}", (("SET", "{b}", "v"),), True),
            ]
            assert (await client.trip(servers, steps)).replies == [[b"OK"], [b"OK"]]
        words = [command[0] for command in peer.commands]
        assert words == [b"EVALSHA", b"SET", b"SCRIPT", b"SCRIPT", b"EVALSHA"]


async def test_a_server_that_takes_no_script_is_given_up(client: Any) -> None:
    def answer(command: list[bytes]) -> bytes | None:
        return b"-NOSCRIPT No matching script.\r\n" if command[0] == b"EVALSHA" else b"+OK\r\n"

    with running_peer(answer) as peer:
        async with client.opened(peer.address) as servers:
            with pytest.raises(StoreUnavailable, match="forgotten a script") as caught:
                await client.ask(servers, "EVALSHA", "{a}", writes=True)
            assert caught.value.applied == "no"
            assert peer.heard(b"EVALSHA") == 6


async def test_a_full_server_that_queues_nothing_is_read_all_the_same(client: Any) -> None:
    """As Redis 7.0 is: above its limit it refuses to queue, but answers what only reads."""
    queueing = False
    changes = iter([b"*-1\r\n", b"*0\r\n"])  # once somebody writes meanwhile

    def answer(command: list[bytes]) -> bytes | None:
        nonlocal queueing
        if command[0] in (b"PING", b"CLIENT"):
            return None
        if command[0] == b"EXEC":
            was_queued, queueing = queueing, False
            return b"-EXECABORT Transaction discarded.\r\n" if was_queued else next(changes)
        if command[0] == b"SET" or queueing:
            return b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
        if command[0] == b"MULTI":
            queueing = peer.commands[-2][0] not in (b"GET", b"TIME")
            return b"+OK\r\n"
        return b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n" if command[0] == b"TIME" else b"$1\r\na\r\n"

    with running_peer(answer) as peer:
        peer.commands.append([b"nothing yet"])
        async with client.opened(peer.address) as servers:
            steps = [
                PipelineStep(key, (("GET", key), ("GET", key)), together=True, timed=True)
                for key in ("{k}", "{l}")
            ]
            answers = (await client.trip(servers, steps)).replies
            assert answers == [[[b"1", b"2"], b"a", b"a"]] * 2
            assert peer.heard(b"WATCH") == 2
            assert [b"WATCH", b"{k}", b"{l}"] in peer.commands
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await client.ask(servers, "SET", "{k}", "v", writes=True)


async def test_connections_that_were_dropped_on_their_way_cost_one_short_try(client: Any) -> None:
    """Idle ones as old are not tried, and the call succeeds on a new connection."""
    silent = b"ROLE"
    with running_peer(lambda command: b"" if command[0] == silent else b"+OK\r\n") as peer:
        async with client.opened(peer.address, timeout=0.4) as servers:
            pool = servers._pool
            old = [await client.call(pool.borrow) for _ in range(4)]
            for connection in old:
                pool.give_back(connection)
            await until(lambda: all(connection.due for connection in old))
            soon = World().monotonic() + 5.0
            assert await client.ask(servers, "SET", "{k}", "v", deadline=soon) == b"OK"
            assert peer.heard(b"ROLE") == 1
            assert all(connection.broken for connection in old)
            assert len(pool.idle_connections()) == 1


async def test_the_system_keeps_idle_connections_alive(client: Any, valkey: RedisServer) -> None:
    async with client.opened(address_of(valkey)) as servers:
        connection = await client.call(servers._pool.borrow)
        transport = connection._socket if client.blocking else connection._transport
        there = transport if client.blocking else transport.get_extra_info("socket")
        assert there.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert there.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 60
        servers._pool.give_back(connection)
