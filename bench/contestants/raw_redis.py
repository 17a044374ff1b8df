"""redis-py: lists of JSON and plain keys; and the same with what Stateward cannot do without.

Both colours use a connection for each call at the same time, as redis-py's pools do it.
"""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio
from redis.exceptions import WatchError

from bench.contestants.raw import decode, documents, encode, work
from bench.contestants.shape import Awaited, Blocking
from bench.conversations import Change, Message, Population, Turn, turn

POOL = 32  # connections of an event loop: fewer and more were slower on 2 cores
RETAIN = 30 * 86_400
KEY_RETAIN = 7 * 86_400

# The least that makes an append safe to repeat and lets a conversation expire, in one round trip.
SAFE_APPEND = """
if not redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[1]) then return 0 end
local length = redis.call('RPUSH', KEYS[1], unpack(ARGV, 3))
redis.call('EXPIRE', KEYS[1], ARGV[2])
return length
"""


def log(thread: str) -> str:
    return f"thread:{thread}"


def document(user: str) -> str:
    return f"user:{user}"


def ask_context(pipe: Any, thread: str, user: str, count: int) -> None:
    """One transaction, and so one round trip and one moment."""
    pipe.lrange(log(thread), -count, -1)
    pipe.mget(document(user), document(f"{user}/settings"))
    pipe.hgetall(f"work:{user}")


def read_context(found: Any) -> Any:
    messages, documents, working = found
    return (
        [decode(body) for body in messages],
        [decode(value) for value in documents],
        {id_: decode(state) for id_, state in working.items()},
    )


class RawRedis(Blocking):
    """Each thread has a connection of its own while it calls."""

    name = "redis-py"
    layout = "raw"
    colour = "sync"

    def __init__(self, path: str) -> None:
        self._client = redis.Redis.from_url(path, max_connections=200)

    def open(self) -> None:
        self._client.ping()

    def close(self) -> None:
        self._client.close()

    def append(self, thread: str, user: str, turn: Turn) -> None:
        self._client.rpush(log(thread), *map(encode, turn))

    def last(self, thread: str, user: str, count: int) -> list[Message]:
        found: Any = self._client.lrange(log(thread), -count, -1)
        return [decode(body) for body in found]

    def get(self, user: str) -> dict[str, Any]:
        found: Any = self._client.get(document(user))
        return decode(found)  # type: ignore[no-any-return]

    def update(self, user: str, change: Change) -> None:
        with self._client.pipeline() as pipe:
            while True:
                pipe.watch(document(user))
                found: Any = pipe.get(document(user))
                value = decode(found)
                change(value)
                pipe.multi()
                pipe.set(document(user), encode(value))
                try:
                    pipe.execute()
                    return
                except WatchError:
                    continue

    def context(self, thread: str, user: str, count: int) -> Any:
        with self._client.pipeline() as pipe:
            ask_context(pipe, thread, user, count)
            return read_context(pipe.execute())


class SafeRedis(RawRedis):
    """With a key and an expiry."""

    name = "redis-py, key and expiry"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._append = self._client.register_script(SAFE_APPEND)
        self._calls = 0

    def append(self, thread: str, user: str, turn: Turn) -> None:
        self._calls += 1
        keys = [log(thread), f"key:{thread}:{self._calls}"]
        self._append(keys, [KEY_RETAIN, RETAIN, *map(encode, turn)])


class RawRedisAsync(Awaited):
    """A pool of connections; whoever finds none waits for one."""

    name = "redis-py"
    layout = "raw"
    colour = "async"

    def __init__(self, path: str) -> None:
        pool = redis.asyncio.BlockingConnectionPool.from_url(path, max_connections=POOL)
        self._client = redis.asyncio.Redis(connection_pool=pool)

    async def open(self) -> None:
        await self._client.ping()

    async def close(self) -> None:
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._client.rpush(log(thread), *map(encode, turn))

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        found: Any = await self._client.lrange(log(thread), -count, -1)
        return [decode(body) for body in found]

    async def get(self, user: str) -> dict[str, Any]:
        found: Any = await self._client.get(document(user))
        return decode(found)  # type: ignore[no-any-return]

    async def update(self, user: str, change: Change) -> None:
        async with self._client.pipeline() as pipe:
            while True:
                await pipe.watch(document(user))
                found: Any = await pipe.get(document(user))
                value = decode(found)
                change(value)
                pipe.multi()
                pipe.set(document(user), encode(value))
                try:
                    await pipe.execute()
                    return
                except WatchError:
                    continue

    async def context(self, thread: str, user: str, count: int) -> Any:
        async with self._client.pipeline() as pipe:
            ask_context(pipe, thread, user, count)
            return read_context(await pipe.execute())


class SafeRedisAsync(RawRedisAsync):
    """With a key and an expiry."""

    name = "redis-py, key and expiry"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._append = self._client.register_script(SAFE_APPEND)
        self._calls = 0

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        self._calls += 1
        keys = [log(thread), f"key:{thread}:{self._calls}"]
        await self._append(keys, [KEY_RETAIN, RETAIN, *map(encode, turn)])


def fill(url: str, population: Population) -> None:
    """A server with these conversations and a document a user."""
    client = redis.Redis.from_url(url)
    for thread, _user, history in population.owners():
        bodies = [encode(message) for n in range(history // 2) for message in turn(n)]
        client.rpush(log(thread), *bodies)
    for id_, value in documents(population):
        client.set(document(id_), value)
    for user, id_, state in work(population):
        client.hset(f"work:{user}", id_, state)
    client.close()
