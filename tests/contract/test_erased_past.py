"""Erasing a user leaves no byte of their documents' past, nor of what their agents were given."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running

import stateward
from stateward.engine import Traces
from stateward.engines.registry import create_engine, parse
from stateward.testing.clock import SteppableWorld
from stateward.testing.faults import FaultyStore, open_faulty
from stateward.transfer.backup import backup
from stateward.world import World

CANARY = "canary-6f1d"
PATIENCE = 30.0


class Place:
    """A store, the folder of its files, and how the files come to hold only what it holds."""

    def __init__(self, url: str, folder: Path, rewrite: Callable[[], Any] = lambda: None) -> None:
        self.url = url
        self.folder = folder
        self.rewrite = rewrite

    def files(self) -> list[str]:
        return found_in(self.folder)

    async def is_clean(self) -> bool:
        return not self.files()

    async def traces(self) -> list[str]:
        """What the server shows; SQLite has nothing but its files."""
        engine = create_engine(parse(self.url), World())
        return list(await engine.traces(CANARY)) if isinstance(engine, Traces) else self.files()


def found_in(folder: Path) -> list[str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return [str(file.relative_to(folder)) for file in files if CANARY.encode() in file.read_bytes()]


@pytest.fixture(params=["sqlite", "valkey", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "store"
    folder.mkdir()
    with ExitStack() as servers:
        if request.param == "sqlite":
            yield Place(f"sqlite:///{folder}/agents.db", folder)
        elif request.param == "valkey":
            server = servers.enter_context(running(folder, "valkey"))
            yield Place(server.url, folder, lambda: rewrite_aof(server))
        else:
            postgres = PostgresServer(fsync="off").start()
            servers.callback(postgres.remove)
            tables = Path(postgres.run_sql("SHOW data_directory")[0][0]) / "base"
            yield Place(postgres.url_of("agents"), tables, lambda: rewrite_tables(postgres))


def rewrite_aof(server: RedisServer) -> None:
    """What an operator does, or the server by itself as its file grows."""
    assert b"rewriting" in server.ask("BGREWRITEAOF")


def rewrite_tables(server: PostgresServer) -> None:
    with server.connect() as connection:
        connection.autocommit = True
        connection.execute("VACUUM FULL")
        connection.execute("CHECKPOINT")


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(int(PATIENCE / 0.01)):
        if await happened():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


async def talk(store: FaultyStore, user: str, secret: str) -> int:
    """All that leaves something behind; the number of a turn that has a receipt."""

    def summarize(previous: str | None, messages: list[Any]) -> str:
        return f"{previous} {secret}"

    documents = store.user(user)
    for number in range(40):  # some are removed for good
        await documents.put({"likes": f"{secret} {number}"}, f"{secret}-name")
    await documents.put({"once": secret}, "gone")
    await documents.delete("gone")
    thread = store.thread(f"of-{user}", user=user)
    compaction = stateward.Compaction(summarize, after=6, keep=2)
    for number in range(6):
        context = await store.context(user=user, thread=f"of-{user}", summarize=compaction)
        said = {"role": "user", "content": f"{secret} {number}"}
        await thread.append(said, {"role": "assistant", "content": "ok"}, saw=context)
    await thread.edit({3: None, 5: {"role": "user", "content": f"edited {secret}"}})
    await thread.fork(to=f"fork-of-{user}", at=8)
    context = await store.context(user=user, thread=f"of-{user}")
    return (await thread.append({"role": "user", "content": secret}, saw=context)).version


async def talk_in_an_outage(store: FaultyStore, spill: Path) -> None:
    async def is_well() -> bool:
        health = await store.health()
        return health.ok and not health.spill_depth

    context = await store.context(user="u", thread="of-u")
    with store.faults.unavailable():
        said = {"role": "user", "content": "Hello?"}
        kept = await store.thread("of-u", user="u").append(said, saw=context)
        assert kept.status == "spilled"
        assert found_in(spill), "the receipt names a document"
    await until(is_well)


async def test_erasing_a_user_leaves_no_byte_of_their_past(place: Place, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    policy = stateward.Policy(read_timeout=10, write_timeout=10, breaker_seconds=0.1)
    kept = {"spill": spill, "identity": "agents", "policy": policy, "keep": 8}
    async with open_faulty(place.url, **kept) as store:
        await talk(store, "v", "plain")
        last = await talk(store, "u", CANARY)
        await talk_in_an_outage(store, spill)
        knew = await store.knew("of-u", last, user="u")
        assert knew is not None
        assert list(knew.user) == [f"{CANARY}-name"]
        assert await place.traces()
        await store.user("u").erase()
        assert await place.traces() == []
        await asyncio.to_thread(place.rewrite)
        await until(place.is_clean)
        assert await store.knew("of-v", last, user="v") is not None
        assert len([version async for version in store.user("v").history("plain-name")]) == 8
    path = tmp_path / "store.backup"
    await asyncio.to_thread(backup, place.url, str(path))
    assert CANARY.encode() not in gzip.decompress(path.read_bytes())
    assert (found_in(tmp_path), place.files()) == ([], [])


async def test_ids_are_left_for_a_day_and_a_digest_of_the_user_for_good(tmp_path: Path) -> None:
    """What how-to/export-and-erase.md says of them, and no more than that."""
    ids = {kind: f"{CANARY}-{kind}" for kind in ("user", "thread", "workflow", "task")}
    document, world = f"{CANARY}-document", SteppableWorld()
    place = Place(f"sqlite:///{tmp_path}/agents.db", tmp_path)
    mark = sha256(ids["user"].encode()).hexdigest().encode()

    def stored(text: bytes) -> bool:
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        return any(text in file.read_bytes() for file in files)

    async with open_faulty(place.url, world=world, heartbeat=None) as store:
        user = store.user(ids["user"])
        await user.put({"likes": "green"}, document)
        thread = store.thread(ids["thread"], user=user.id)
        await thread.append({"role": "user", "content": "hello"})
        await store.workflow(ids["workflow"], kind="k", user=user.id, input=1).start()
        await store.once(ids["task"], str, 1, user=user.id)
        receipt = await user.erase()
        assert not stored(document.encode())
        assert {kind for kind, id in ids.items() if stored(id.encode())} == set(ids)
        day = receipt.remembered_until.timestamp() - world.now()
        assert day == pytest.approx(86_400, abs=60)
        world.advance(day + 60.0)
        await store.sweep()
        assert await place.is_clean(), "no id is left"
        assert stored(mark), "the mark that a restore needs"
