"""`credentials=` is asked at each new connection: tokens expire, and nobody restarts for that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.redis import RedisServer, running
from servers.redis_cluster import running_sentinels

import stateward
import stateward.sync
from stateward.engines.redis.engine import RedisEngine
from stateward.errors import InvalidInput, StoreUnavailable


class Tokens:
    """What the user's own function does: gives the token of the hour."""

    def __init__(self, server: RedisServer, user: str = "agents") -> None:
        self.user = user
        self.token = "token 0"
        self.asked_on: list[int] = []
        self._server = server
        self._allow()

    def __call__(self) -> tuple[str, str]:
        self.asked_on.append(threading.get_ident())
        return self.user, self.token

    def password(self) -> str:
        return self()[1]

    def rotate(self) -> None:
        """A new token; the old one, and every connection that was made with it, ends."""
        self.token = f"token {len(self.asked_on)}"
        self._allow()
        self._server.ask("CLIENT", "KILL", "USER", self.user)

    def _allow(self) -> None:
        rules = ("on", "resetpass", f">{self.token}", "~*", "&*", "+@all")
        assert self._server.ask("ACL", "SETUSER", self.user, *rules) == b"+OK\r\n"


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path / "server", request.param, "--appendonly", "no") as server:
        yield server


async def test_a_token_that_rotates_is_asked_for_again(server: RedisServer) -> None:
    tokens = Tokens(server)
    async with stateward.open(server.url, credentials=tokens) as store:
        thread = store.thread("t")
        for number in range(1, 4):
            assert (await thread.append({"n": number})).version == number
            asked = len(tokens.asked_on)
            tokens.rotate()
            assert (await thread.load()).version == number
            assert len(tokens.asked_on) > asked
        async with store.lock("name", ttl=5):  # renewed through connections of its own
            pass
    assert threading.get_ident() not in tokens.asked_on, "the event loop waited for the function"


def test_a_token_that_rotates_is_asked_for_again_in_blocking_calls(server: RedisServer) -> None:
    tokens = Tokens(server)
    with stateward.sync.open(server.url, credentials=tokens) as store:
        for number in range(1, 4):
            assert store.thread("t").append({"n": number}).version == number
            tokens.rotate()
            assert store.thread("t").load().version == number
    assert len(tokens.asked_on) >= 4


async def test_the_url_may_name_the_user_and_the_function_the_password(server: RedisServer) -> None:
    tokens = Tokens(server)
    url = f"redis://agents:outdated@127.0.0.1:{server.port}"
    async with stateward.open(url, credentials=tokens.password) as store:
        assert (await store.thread("t").append({"n": 1})).version == 1
    default = Tokens(server, user="default")
    async with stateward.open(server.url, credentials=default.password) as store:
        assert (await store.thread("t").load()).version == 1


async def test_a_feed_listens_again_with_the_new_token(server: RedisServer) -> None:
    tokens = Tokens(server)
    async with stateward.open(server.url, credentials=tokens) as store:
        thread = store.thread("t")
        await thread.append({"n": 0})
        async with asyncio.timeout(20):
            versions = []
            async for change in thread.changes():
                versions.append(change.version)
                if len(versions) == 4:
                    break
                tokens.rotate()
                await thread.append({"n": change.version})
        assert versions == [1, 2, 3, 4]


async def test_a_function_that_fails_or_a_token_that_is_refused_says_so(
    server: RedisServer,
) -> None:
    def unreachable() -> str:
        raise ConnectionError("the vault does not answer")

    tokens = Tokens(server)
    tokens.token = "not this one"
    for credentials, error, words in (
        (unreachable, StoreUnavailable, "the vault does not answer"),
        (tokens, StoreUnavailable, "refused the user name or the password"),
        (lambda: 7, InvalidInput, "must return a password"),
    ):
        policy = stateward.Policy(read_timeout=0.3, write_timeout=0.3, threads="raise")
        store = stateward.open(server.url, credentials=credentials, policy=policy)  # type: ignore[arg-type]
        with pytest.raises(error, match=words):
            await store.thread("t").load()
        await store.close()


async def test_sentinels_are_asked_without_it(tmp_path: Path) -> None:
    """They have users of their own; only the server that they name is given the password."""
    with running_sentinels(tmp_path, "valkey") as group:
        tokens = Tokens(group.primary)
        async with stateward.open(group.url, credentials=tokens) as store:
            assert (await store.thread("t").append({"n": 1})).version == 1
            engine = store._layered.stacks[0].engine
            assert isinstance(engine, RedisEngine)
            assert len(tokens.asked_on) == len(engine._servers._pool.idle_connections())
