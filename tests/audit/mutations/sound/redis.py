"""A sound memory in Redis, with redis-py: what must not be torn apart is a script."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import TimeoutError as TimedOut
from redis.exceptions import WatchError

from audit.mutations.sound.common import (
    LEASE,
    LOOK,
    WAIT,
    Json,
    LookupTimes,
    act_key,
    acted,
    dumped,
    fitted,
    kept_alive,
    read_file,
    write_file,
)
from stateward.audit.targets.memory import Refused, VersionConflict

# KEYS: messages, keys, lock. ARGV: key, fence or "", messages.
APPEND = """
if ARGV[2] ~= "" and redis.call("GET", KEYS[3]) ~= ARGV[2] then return -1 end
if redis.call("SADD", KEYS[2], ARGV[1]) == 0 then return 0 end
for i = 3, #ARGV do redis.call("RPUSH", KEYS[1], ARGV[i]) end
return 1
"""
# KEYS: user. ARGV: body, expected version or "".
PUT = """
local version = tonumber(redis.call("HGET", KEYS[1], "version") or "0")
if ARGV[2] ~= "" and tonumber(ARGV[2]) ~= version then return {0, version} end
redis.call("HSET", KEYS[1], "body", ARGV[1], "version", version + 1)
return {1, version + 1}
"""
# KEYS: result, claim. ARGV: me, ms.
CLAIM = """
local result = redis.call("GET", KEYS[1])
if result then return {result, 0} end
if redis.call("SET", KEYS[2], ARGV[1], "NX", "PX", ARGV[2]) then return {false, 1} end
return {false, 0}
"""
# KEYS: claim. ARGV: me, ms.
RENEW = """
if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("PEXPIRE", KEYS[1], ARGV[2]) end
"""
# KEYS: claim or lock. ARGV: me.
LET_GO = """
if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("DEL", KEYS[1]) end
"""
# KEYS: result, claim. ARGV: me, result.
FINISH = """
if redis.call("GET", KEYS[2]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[1], ARGV[2])
redis.call("DEL", KEYS[2])
return 1
"""
# KEYS: steps, claim. ARGV: me, name, result.
FINISH_STEP = """
if redis.call("GET", KEYS[2]) ~= ARGV[1] then return 0 end
redis.call("HSET", KEYS[1], ARGV[2], ARGV[3])
return 1
"""
# KEYS: lock, tokens. ARGV: ms.
ACQUIRE = """
if redis.call("EXISTS", KEYS[1]) == 1 then return 0 end
local token = redis.call("INCR", KEYS[2])
redis.call("SET", KEYS[1], token, "PX", ARGV[1])
return token
"""

COPY = "memory.jsonl"
READ: dict[str, Callable[[str], tuple[Any, ...]]] = {
    "string": lambda key: ("GET", key),
    "list": lambda key: ("LRANGE", key, 0, -1),
    "set": lambda key: ("SMEMBERS", key),
    "hash": lambda key: ("HGETALL", key),
}
WRITTEN = {"string": "SET", "list": "RPUSH", "set": "SADD", "hash": "HSET"}


class RedisMemory:
    """One key a conversation, user, task, workflow and lock; every call ends within 3 seconds."""

    provides = ("threads", "users", "versions", "tasks", "workflows", "locks", "metrics", "sizes")
    unavailable = (OSError, TimeoutError, Disconnected, TimedOut)

    def __init__(self, namespace: str, url: str) -> None:
        self.namespace = namespace
        self.lookups = LookupTimes()
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=16,
            timeout=1.0,
            socket_timeout=1.0,
            socket_connect_timeout=1.0,
            retry=Retry(ConstantBackoff(0.05), 1),  # every command can be repeated
            decode_responses=True,
        )
        self.client: Any = Redis(connection_pool=pool)
        self._scripts: dict[str, Any] = {}

    async def open(self) -> None:
        await self.client.ping()

    async def close(self) -> None:
        await self.client.aclose()
        await self.client.connection_pool.disconnect()

    async def clean(self) -> None:
        async for key in self.client.scan_iter(match=f"{self.namespace}:*", count=500):
            await self.client.unlink(key)

    async def backup(self, folder: str) -> None:
        """Each key as of one moment."""
        lines = [json.dumps(each) async for each in self._all()]
        write_file(folder, COPY, "\n".join(lines).encode())

    async def _all(self) -> AsyncIterator[tuple[str, str, Any]]:
        """Each key without the namespace, its kind, and its value."""
        async for key in self.client.scan_iter(match=f"{self.namespace}:*", count=500):
            kind = await self.client.type(key)
            if kind in READ:  # it may have expired meanwhile
                value = await self.client.execute_command(*READ[kind](key))
                value = sorted(value) if isinstance(value, set) else value
                yield key.removeprefix(self.namespace), kind, value

    async def restore(self, folder: str) -> None:
        for line in read_file(folder, COPY).splitlines():
            key, kind, value = json.loads(line)
            if isinstance(value, dict):
                value = [word for pair in value.items() for word in pair]
            words = value if isinstance(value, list) else [value]
            await self.client.execute_command(WRITTEN[kind], self.namespace + key, *words)

    def _key(self, kind: str, id: str) -> str:
        return f"{self.namespace}:{kind}:{id}"

    async def _run(self, script: str, keys: list[str], *values: Any) -> Any:
        if script not in self._scripts:
            self._scripts[script] = self.client.register_script(script)
        return await self._scripts[script](keys=keys, args=list(values))

    # --- threads --------------------------------------------------------------------

    async def append(self, thread: str, messages: list[Json], key: str, fence: Any = None) -> None:
        keys = [self._key(kind, thread) for kind in ("messages", "keys", "lock")]
        token = "" if fence is None else str(fence)
        if await self._run(APPEND, keys, key, token, *map(dumped, messages)) == -1:
            raise Refused(f"the lock of {thread!r} is not held with token {fence}")

    async def load(self, thread: str, last: int | None) -> list[Json]:
        start = time.monotonic()
        if last == 0:
            return []
        first = 0 if last is None else -last
        found = await self.client.lrange(self._key("messages", thread), first, -1)
        self.lookups.add(time.monotonic() - start)
        return [json.loads(each) for each in found]

    # --- users ----------------------------------------------------------------------

    async def get_user(self, user: str) -> tuple[Json, int]:
        body, version = await self.client.hmget(self._key("user", user), "body", "version")
        return ({}, 0) if body is None else (json.loads(body), int(version))

    async def put_user(self, user: str, value: Json, expect: int | None = None) -> int:
        wanted = "" if expect is None else expect
        written, version = await self._run(PUT, [self._key("user", user)], dumped(value), wanted)
        if not written:
            said = f"user {user!r} is at version {version}, not {expect}"
            raise VersionConflict(said, expect, version)
        return int(version)

    async def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        key, end = self._key("user", user), time.monotonic() + WAIT
        async with self.client.pipeline() as pipe:
            while time.monotonic() < end:
                await pipe.watch(key)
                body, version = await pipe.hmget(key, "body", "version")
                value = {} if body is None else json.loads(body)
                changed = change(value)
                text = dumped(value if changed is None else changed)
                pipe.multi()
                pipe.hset(key, mapping={"body": text, "version": int(version or 0) + 1})
                try:
                    await pipe.execute()
                    return
                except WatchError:
                    continue  # somebody was faster: change what is there now
        raise TimeoutError(f"user {user!r} is changed all the time")

    # --- tasks ----------------------------------------------------------------------

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        me, keys = uuid.uuid4().hex, [self._key("result", task), self._key("task", task)]
        while True:
            done, mine = await self._run(CLAIM, keys, me, int(LEASE * 1000))
            if done is not None:
                return json.loads(done)
            if mine:
                break
            await asyncio.sleep(LOOK)
        try:
            async with kept_alive(lambda: self._renew(keys[1], me)):
                result = await acted(("task", task), function)
        except BaseException:  # whoever is next may try again
            await self._run(LET_GO, keys[1:], me)
            raise
        await self._run(FINISH, keys, me, dumped(result))
        return result

    async def _renew(self, claim: str, me: str) -> None:
        await self._run(RENEW, [claim], me, int(LEASE * 1000))

    # --- workflows ------------------------------------------------------------------

    async def run_workflow(self, id: str, steps: Any) -> Json:
        me, keys = uuid.uuid4().hex, [self._key("steps", id), self._key("workflow", id)]
        claim = [self._key("nothing", id), keys[1]]
        while not (await self._run(CLAIM, claim, me, int(LEASE * 1000)))[1]:  # noqa: ASYNC110 (it is another process that is waited for)
            await asyncio.sleep(LOOK)
        results: Json = {}
        try:
            async with kept_alive(lambda: self._renew(keys[1], me)):
                done = await self.client.hgetall(keys[0])
                for name, function in steps:
                    if name not in done:
                        done[name] = dumped(await acted(("step", id, name), function))
                        if not await self._run(FINISH_STEP, keys, me, name, done[name]):
                            raise Refused(f"workflow {id!r} is driven by another replica")
                    results[name] = json.loads(done[name])
        finally:
            await self._run(LET_GO, keys[1:], me)
        return results

    # --- locks ----------------------------------------------------------------------

    @asynccontextmanager
    async def lock(self, thread: str, ttl: float) -> AsyncIterator[int]:
        keys, end = (
            [self._key("lock", thread), self._key("tokens", thread)],
            time.monotonic() + WAIT,
        )
        while not (token := await self._run(ACQUIRE, keys, int(ttl * 1000))):
            if time.monotonic() > end:
                raise TimeoutError(f"the lock of {thread!r} is held by another")
            await asyncio.sleep(LOOK)
        try:
            yield int(token)
        finally:
            await self._run(LET_GO, keys[:1], token)

    # --- for agents, and against them ----------------------------------------------

    def effect_key(self) -> str:
        return act_key()

    async def context(self, thread: str, last: int) -> list[Json]:
        return fitted(await self.load(thread, None), last)

    async def erase(self, user: str, threads: list[str]) -> None:
        keys = [self._key(kind, thread) for thread in threads for kind in ("messages", "keys")]
        await self.client.delete(self._key("user", user), *keys)

    async def traces(self, text: str) -> list[str]:
        return [key async for key, _, value in self._all() if text in json.dumps(value)]

    # --- figures --------------------------------------------------------------------

    async def metrics(self) -> Json:
        return self.lookups.told()

    async def describe(self) -> Json:
        info = await self.client.info()
        settings = await self.client.config_get("append*", "maxmemory*")
        return {
            "engine": "redis",
            "version": info["redis_version"],
            "durability": "as the server's appendonly and appendfsync say",
            "bytes": info["used_memory"],
            "capacity": None,
            "settings": {
                "appendonly": settings["appendonly"],
                "appendfsync": settings["appendfsync"],
                "maxmemory_policy": settings["maxmemory-policy"],
            },
        }
