"""Stateward itself, in both colours, through its public surface."""

from __future__ import annotations

import asyncio
from typing import Any

import stateward
import stateward.sync
from bench.contestants.raw import encode
from bench.contestants.shape import Awaited, Blocking
from bench.conversations import WORK, Change, Message, Population, Turn, profile, turn
from stateward.engines.registry import create_engine, parse
from stateward.ops import Commit, Entity, Put, SetHead
from stateward.world import World

DOCUMENTS = ("default", "settings")  # of each user


class Stateward(Awaited):
    name = "stateward"
    layout = "stateward"
    colour = "async"

    def __init__(self, path: str) -> None:
        self._store = stateward.open(_url(path))

    async def open(self) -> None:
        await self._store.__aenter__()

    async def close(self) -> None:
        await self._store.close()

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        await self._store.thread(thread, user).append(*turn)

    async def last(self, thread: str, user: str, count: int) -> list[Message]:
        return (await self._store.thread(thread, user).load(last=count)).messages

    async def get(self, user: str) -> dict[str, Any]:
        return (await self._store.user(user).get()).value

    async def update(self, user: str, change: Change) -> None:
        await self._store.user(user).update(change)

    async def context(self, thread: str, user: str, count: int) -> stateward.Context:
        return await self._store.context(user=user, thread=thread, last=count)


class StatewardSync(Blocking):
    name = "stateward.sync"
    layout = "stateward"
    colour = "sync"

    def __init__(self, path: str) -> None:
        self._store = stateward.sync.open(_url(path))

    def open(self) -> None:
        self._store.__enter__()

    def close(self) -> None:
        self._store.close()

    def append(self, thread: str, user: str, turn: Turn) -> None:
        self._store.thread(thread, user).append(*turn)

    def last(self, thread: str, user: str, count: int) -> list[Message]:
        return self._store.thread(thread, user).load(last=count).messages

    def get(self, user: str) -> dict[str, Any]:
        return self._store.user(user).get().value

    def update(self, user: str, change: Change) -> None:
        self._store.user(user).update(change)

    def context(self, thread: str, user: str, count: int) -> Any:
        return self._store.context(user=user, thread=thread, last=count)


class StatewardRedis(Stateward):
    name = "stateward (redis)"

    def __init__(self, path: str) -> None:
        self._store = stateward.open(path)


class StatewardSyncRedis(StatewardSync):
    name = "stateward.sync (redis)"

    def __init__(self, path: str) -> None:
        self._store = stateward.sync.open(path)


def fill_server(url: str, population: Population) -> None:
    """As `fill`, where a URL says all."""
    asyncio.run(_fill(url, population))


def fill(path: str, population: Population) -> None:
    """A store with these conversations, two documents and an active workflow a user."""
    url = _url(path)
    asyncio.run(_fill(f"{url}?durability=relaxed" if url.startswith("sqlite") else url, population))


def _url(path: str) -> str:
    return path if "://" in path else f"sqlite:///{path}"


async def _fill(url: str, population: Population) -> None:
    async with stateward.open(url) as store:
        await asyncio.gather(
            *(_converse(store, thread, user, n) for thread, user, n in population.owners())
        )
        if not population.profiles:
            return
        await asyncio.gather(
            *(
                store.user(population.user(n)).put(profile(n), name)
                for n in range(population.users)
                for name in DOCUMENTS
            )
        )
    engine = create_engine(parse(url), World())
    await engine.open()
    await engine.execute([_workflow(population.user(n), n) for n in range(population.users)])
    await engine.close()


async def _converse(store: stateward.Store, thread: str, user: str, history: int) -> None:
    for number in range(history // 2):
        await store.thread(thread, user).append(*turn(number))


def _workflow(user: str, number: int) -> Commit:
    """What `context` finds as unfinished work."""
    return Commit(
        Entity("default", "workflow", f"refund-{number}"),
        f"fill-{number}",
        (SetHead(status="active"), Put("state", encode(WORK))),
        owner=user,
    )
