"""Each layer of state in the store that suits it, and all of it one store."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from servers.ports import free_port
from servers.postgres import PostgresServer

import stateward
from stateward import sync
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.ops import Op, Outcome
from stateward.options import section_urls
from stateward.state.personal_data import erased_at
from stateward.store import Store
from stateward.sync.engines.passthrough import Passthrough as BlockingPassthrough
from stateward.sync.store import Store as BlockingStore
from stateward.sync.testing.faults import FaultyEngine as BlockingFaulty
from stateward.testing.fault_plan import Faults
from stateward.world import World

HELLO = {"role": "user", "content": "hello"}


def kinds(url: str) -> set[str]:
    """What of one user lies in a store, seen by itself."""
    with sync.open(url) as store:
        path = Path(url.removeprefix("sqlite:///")).with_suffix(".jsonl")
        store.user("u-42").export(str(path))
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {line["kind"] for line in lines if line.get("is") == "entity"}


async def begin_everything(store: stateward.Store) -> None:
    await store.thread("s-1", user="u-42").append(HELLO)
    await store.thread("s-1", user="u-42").vars.put({"topic": "greeting"})
    await store.user("u-42").put({"name": "Noor"})
    await store.journal("j-1", user="u-42").append({"it": "began"})
    await store.once("charge-1", lambda: {"paid": True}, user="u-42")
    await store.shared("plan").put({"step": 1})
    try:
        async with store.workflow("w-1", kind="refund", user="u-42") as run:
            await run.step("look", lambda: {"order": 991})
            raise stateward.StoreUnavailable("left for another replica")
    except stateward.StoreUnavailable:
        pass


async def test_each_kind_of_state_lives_where_it_was_told_to(tmp_path: Path) -> None:
    threads, users, work = (f"sqlite:///{tmp_path}/{name}.db" for name in "tuw")
    async with stateward.open(threads=threads, users=users, workflows=work) as store:
        await begin_everything(store)
        context = await store.context(user="u-42", thread="s-1")
        assert context.thread.messages == [HELLO]
        assert context.user["default"].value == {"name": "Noor"}
        assert [info.id for info in context.workflows] == ["w-1"]
        assert [info.id async for info in store.threads()] == ["s-1"]
        assert [info.id async for info in store.workflows()] == ["w-1"]
        assert [info.id async for info in store.tasks()] == ["charge-1"]
    assert kinds(threads) == {"thread"}
    assert kinds(users) == {"user"}
    assert kinds(work) == {"journal", "task", "workflow"}
    with sync.open(work) as alone:
        assert alone.shared("plan").get().value == {"step": 1}


async def test_what_is_not_named_lives_at_the_url(tmp_path: Path) -> None:
    default, threads = f"sqlite:///{tmp_path}/d.db", f"sqlite:///{tmp_path}/t.db"
    async with stateward.open(default, threads=threads) as store:
        await begin_everything(store)
    assert kinds(threads) == {"thread"}
    assert kinds(default) == {"journal", "task", "user", "workflow"}


async def test_the_same_url_twice_is_one_engine(tmp_path: Path) -> None:
    one, two = f"sqlite:///{tmp_path}/1.db", f"sqlite:///{tmp_path}/2.db"
    async with stateward.open(threads=one, users=one, workflows=two) as store:
        assert (await store.health()).parts.keys() == {"threads and users", "workflows"}
    async with stateward.open(threads=one, users=one, workflows=one) as store:
        assert (await store.health()).parts == {}
        assert (await store.health()).engine == "sqlite"


@pytest.mark.verify
async def test_conversations_on_a_volume_and_the_rest_on_a_server(
    tmp_path: Path, postgres: str
) -> None:
    volume = f"sqlite:///{tmp_path}/t.db"
    async with stateward.open(postgres, threads=volume) as store:
        await begin_everything(store)
        async with store.thread("s-1").lead() as lease:
            await store.thread("s-1", user="u-42").append(HELLO, fence=lease)
        exported = await store.user("u-42").export(str(tmp_path / "all.jsonl"))
        assert (exported.entities, exported.messages) == (5, 4)
        receipt = await store.user("u-42").erase()
        assert receipt.removed == {"thread": 1, "user": 1, "journal": 1, "task": 1, "workflow": 1}
        assert (await store.user("u-42").erase()).removed == {}
    for url in (volume, postgres):  # either may be restored alone: each has its own mark
        async with stateward.open(url) as alone:
            assert await erased_at(alone._scope, "u-42") is not None


# --- at once ----------------------------------------------------------------------------


class Meeting(Passthrough):
    """Answers a batch only when both other engines are being asked too."""

    def __init__(self, all_here: asyncio.Barrier) -> None:
        super().__init__(create_engine(parse("memory://"), World()))
        self.capabilities = replace(self.capabilities, inline_reads=False)
        self._all_here = all_here

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        await self._all_here.wait()  # for ever, if they are asked in turn
        return await super().execute(ops, deadline=deadline)


class BlockingMeeting(BlockingPassthrough):
    """The same for blocking callers."""

    def __init__(self, all_here: threading.Barrier) -> None:
        super().__init__(create_sync_engine(parse("memory://"), World()))
        self.capabilities = replace(self.capabilities, inline_reads=False)
        self._all_here = all_here

    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self._all_here.wait(10)
        return super().execute(ops, deadline=deadline)


async def test_context_asks_all_engines_at_once() -> None:
    all_here = asyncio.Barrier(3)
    engine, threads, users = (Meeting(all_here) for _ in range(3))
    async with Store(engine, threads=threads, users=users) as store:
        context = await store.context(user="u-42", thread="s-1")
        assert not context.thread.exists


def test_blocking_context_asks_all_engines_at_once() -> None:
    all_here = threading.Barrier(3)
    engine, threads, users = (BlockingMeeting(all_here) for _ in range(3))
    with BlockingStore(engine, threads=threads, users=users) as store:
        context = store.context(user="u-42", thread="s-1")
        assert not context.thread.exists


def test_a_blocking_block_whose_lease_is_lost_is_told_on_every_engine() -> None:
    with (
        sync.open(threads="memory://t", users="memory://u", workflows="memory://w") as store,
        pytest.raises(stateward.LeaseLost),
        store.lock("inventory") as lease,
    ):
        lease.lost()
        store.context(user="u-42", thread="s-1")


# --- one of them fails ------------------------------------------------------------------


@pytest.mark.verify
async def test_health_names_the_one_that_fails(tmp_path: Path, server: PostgresServer) -> None:
    gone = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing?connect_timeout=1"
    store = stateward.open(gone, threads=f"sqlite:///{tmp_path}/t.db")
    health = await store.health()
    assert not health.ok
    assert (health.error or "").startswith("users and workflows: StoreUnavailable")
    assert health.parts["threads"].ok
    await store.thread("s-1").append(HELLO)  # a layer that is well goes on
    with pytest.raises(stateward.StoreUnavailable):
        await store.context(user="u-42", thread="s-1")
    with pytest.raises(stateward.StoreUnavailable):
        await store.user("u-42").erase()
    await store.close()


async def test_a_store_that_cannot_be_opened_leaves_none_of_its_engines_open(
    tmp_path: Path,
) -> None:
    wrong = f"sqlite:///{tmp_path}/no/agents.db"  # one that is down is waited for
    before = set(threading.enumerate())  # tests that interrupt a store anywhere may leave some
    with pytest.raises(stateward.InvalidInput):
        async with stateward.open(wrong, threads=f"sqlite:///{tmp_path}/t.db"):
            pass
    names = [thread.name for thread in threading.enumerate() if thread not in before]
    assert not [name for name in names if name.startswith("stateward")]


def test_an_erasure_that_failed_on_one_engine_goes_on_where_it_was(tmp_path: Path) -> None:
    faults = Faults()
    world = World()
    failing = BlockingFaulty(create_sync_engine(parse("memory://"), world), world, faults)
    threads = create_sync_engine(parse("memory://"), world)
    policy = stateward.Policy(write_timeout=0.2, threads="raise")
    with BlockingStore(failing, threads=threads, policy=policy, world=world) as store:
        store.thread("s-1", user="u-42").append(HELLO)
        store.journal("j-1", user="u-42").append({"it": "began"})
        with faults.unavailable() as outage, pytest.raises(stateward.StoreUnavailable):
            store.user("u-42").erase()
        assert outage.fired
        receipt = store.user("u-42").erase()
        assert receipt.removed.get("journal") == 1
        assert not store.thread("s-1").load().exists


@pytest.mark.verify
async def test_sweeping_and_describing_cover_every_engine(tmp_path: Path, postgres: str) -> None:
    async with stateward.open(postgres, threads=f"sqlite:///{tmp_path}/t.db") as store:
        said = await store.describe()
        assert said.engine == "sqlite + postgresql"
        assert said.parts["threads"].settings["journal_mode"] == "wal"
        assert said.bytes == sum(part.bytes or 0 for part in said.parts.values())
        swept = await store.sweep()
        assert (swept.entities, swept.more) == (0, False)


# --- what cannot be ---------------------------------------------------------------------


async def test_a_lease_of_another_engine_guards_no_thread() -> None:
    async with stateward.open("memory://", threads="memory://threads") as store:
        thread = store.thread("s-1")
        async with store.lock("inventory") as lease:
            with pytest.raises(stateward.InvalidInput, match="only a thread's own lease"):
                await thread.append(HELLO, fence=lease)
        async with store.lock("inventory", on=thread) as lease:
            assert (await thread.append(HELLO, fence=lease)).version == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"url": "memory://a", **dict.fromkeys(("threads", "users", "workflows"), "memory://b")},
            "nothing is left for url",
        ),
        ({"threads": "memory://b"}, "no store was named"),
        ({"url": "memory://", "credentials": {"journals": lambda: "x"}}, "its keys are among"),
    ],
)
def test_layers_that_make_no_sense_are_refused(
    options: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATEWARD_URL", raising=False)
    with pytest.raises(stateward.InvalidInput, match=says):
        stateward.open(**options)


def test_credentials_may_be_given_by_layer() -> None:
    def token() -> str:
        return "t"

    def other() -> str:
        return "o"

    named = {"threads": "postgresql://a/x", "users": "postgresql://b/x", "workflows": None}
    urls = section_urls("postgresql://b/x", named, {"threads": token, "workflows": other})
    assert (urls["threads"].credentials, urls["users"].credentials) == (token, other)
    assert urls["users"] == urls["workflows"]
    with pytest.raises(stateward.InvalidInput, match="two functions for one URL"):
        section_urls("postgresql://b/x", named, {"users": token, "workflows": other})
    for url in section_urls("postgresql://b/x", named, token).values():
        assert url.credentials is token
