"""A volume for each replica: what lives elsewhere is said to, never taken for an empty history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from layered.conftest import postgres, server  # noqa: F401

import stateward
from replicas.processes import Process, lay_out, replicas, url_of
from stateward import sync
from stateward.engines.registry import create_sync_engine, parse
from stateward.engines.sqlite.loop_access import LoopAccess
from stateward.testing.clock import SteppableWorld
from stateward.transfer.rebalance import Rebalancing
from stateward.volumes.residence import SAFE, TTL

NAMES = ("agents-0", "agents-1", "agents-2")
QUICK = stateward.Policy(write_timeout=0.3, read_timeout=5.0, breaker_seconds=0.05)
HELLO = {"role": "user", "content": "hello"}
HERE = next(f"s-{n}" for n in range(99) if stateward.route(f"s-{n}", NAMES) == "agents-0")
ELSEWHERE = next(f"s-{n}" for n in range(99) if stateward.route(f"s-{n}", NAMES) == "agents-2")


@pytest.fixture(autouse=True)
def volume(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """That of agents-0, laid out."""
    url = url_of(tmp_path, "agents-0")
    if "not_laid_out" not in request.fixturenames:
        lay_out(url, "agents-0", NAMES)
    return url


@pytest.fixture
def not_laid_out() -> None:
    """The test does it, or leaves it."""


def open_here(folder: Path, **options: Any) -> stateward.Store:
    url = url_of(folder, "agents-0")
    return stateward.open(url, **{"replica": "agents-0", "replicas": NAMES} | options)


async def lead(store: stateward.Store) -> None:
    async with store.thread(ELSEWHERE).lead(wait=0):
        pass


async def locked(store: stateward.Store) -> None:
    async with store.lock("any", on=store.thread(ELSEWHERE)):
        pass


async def follow(store: stateward.Store) -> None:
    async for _ in store.thread(ELSEWHERE).changes():
        pass


async def list_documents(store: stateward.Store) -> None:
    async for _ in store.user(ELSEWHERE).list():
        pass


async def work_on(store: stateward.Store) -> None:
    async with store.workflow(ELSEWHERE, kind="refund"):
        pass


async def lock(store: stateward.Store) -> None:
    async with store.lock(ELSEWHERE):
        pass


Call = Callable[[stateward.Store], Coroutine[Any, Any, Any]]
CALLS: dict[str, Call] = {
    "append": lambda store: store.thread(ELSEWHERE).append(HELLO),
    "load": lambda store: store.thread(ELSEWHERE).load(last=20),
    "load turns": lambda store: store.thread(ELSEWHERE).load(turns=2),
    "delete": lambda store: store.thread(ELSEWHERE).delete(),
    "claim": lambda store: store.thread(ELSEWHERE).claim(user="u-42"),
    "fork from": lambda store: store.thread(ELSEWHERE).fork(to=HERE),
    "fork to": lambda store: store.thread(HERE).fork(to=ELSEWHERE),
    "variables": lambda store: store.thread(ELSEWHERE).vars.get(),
    "variables changed": lambda store: store.thread(ELSEWHERE).vars.update(lambda v: v),
    "lead": lead,
    "lock on": locked,
    "follow": follow,
    "context": lambda store: store.context(user=HERE, thread=ELSEWHERE),
    "context of a user": lambda store: store.context(user=ELSEWHERE, thread=HERE),
    "user": lambda store: store.user(ELSEWHERE).get(),
    "documents": list_documents,
    "shared": lambda store: store.shared(ELSEWHERE).put({}),
    "journal": lambda store: store.journal(ELSEWHERE).append({"it": "began"}),
    "effect": lambda store: store.thread(ELSEWHERE).effect("call/1", lambda: 1),
    "task": lambda store: store.once(ELSEWHERE, lambda: 1),
    "workflow": work_on,
    "signal": lambda store: store.workflow(ELSEWHERE).signal("approval", True, key="k"),
    "lock": lock,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_whatever_is_asked_of_what_lives_elsewhere_names_its_owner(
    call: Call, tmp_path: Path
) -> None:
    async with open_here(tmp_path) as store:
        await store.thread(HERE).append(HELLO)
        with pytest.raises(stateward.WrongReplica, match="'agents-2'") as caught:
            await call(store)
        assert caught.value.owner == "agents-2"
        assert (await store.thread(HERE).load()).version == 1
        assert [info.id async for info in store.threads()] == [HERE]


def test_three_processes_have_a_third_each_and_together_everything(
    tmp_path: Path, not_laid_out: None
) -> None:
    ids = [f"s-{number}" for number in range(30)]
    with replicas(tmp_path, *NAMES) as running:
        for id_ in ids:
            answers = {
                name: process.ask("append", thread=id_, messages=[HELLO], key="k")
                for name, process in running.items()
            }
            owner = stateward.route(id_, NAMES)
            assert answers.pop(owner) == "stored"
            assert all(answer == {"wrong": owner} for answer in answers.values())
        listed = [id_ for process in running.values() for id_ in process.ask("list")]
        assert sorted(listed) == sorted(ids)


async def test_only_what_lies_on_the_replicas_own_volume_is_divided(
    tmp_path: Path,
    volume: str,
    postgres: str,  # noqa: F811
) -> None:
    async with stateward.open(
        postgres, threads=volume, replica="agents-0", replicas=NAMES
    ) as store:
        await store.user(ELSEWHERE).put({"name": "Noor"})
        await store.once(ELSEWHERE, lambda: 1)
        await store.thread(HERE, user=ELSEWHERE).append(HELLO)
        context = await store.context(user=ELSEWHERE, thread=HERE)
        assert context.user["default"].value == {"name": "Noor"}
        with pytest.raises(stateward.WrongReplica):
            await store.thread(ELSEWHERE).load()
        exported = await store.user(ELSEWHERE).export(str(tmp_path / "u.jsonl"))
        assert (exported.entities, exported.replica) == (2, "agents-0")
        receipt = await store.user(ELSEWHERE).erase()
        assert receipt.replica == "agents-0", "the other replicas may have more"
        assert receipt.removed == {"thread": 1, "user": 1}


# --- the list changes -------------------------------------------------------------------


async def test_a_volume_laid_out_for_another_list_serves_nothing(tmp_path: Path) -> None:
    async with open_here(tmp_path) as store:
        await store.thread(HERE).append(HELLO)
    async with open_here(tmp_path, replicas=[*NAMES, "agents-3"]) as store:
        stays = next(
            id_
            for id_ in (f"s-{n}" for n in range(99))
            if stateward.route(id_, [*NAMES, "agents-3"]) == "agents-0"
        )
        with pytest.raises(stateward.StoreUnavailable, match="stateward rebalance"):
            await store.thread(stays).load()
        health = await store.health()
        assert not health.ok
        assert "stateward rebalance" in (health.error or "")
    async with open_here(tmp_path, replicas=reversed(NAMES)) as store:
        assert (await store.thread(HERE).load()).version == 1, "the order says nothing"


async def test_a_list_that_changes_while_it_runs_is_noticed(tmp_path: Path) -> None:
    names = list(NAMES)
    async with open_here(tmp_path, replicas=lambda: names) as store:
        await store.thread(HERE).append(HELLO)
        names.append("agents-3")
        with pytest.raises(stateward.StoreUnavailable, match="laid out for"):
            await store.sweep()
        names.remove("agents-3")
        assert (await store.thread(HERE).load()).version == 1


@pytest.mark.parametrize("used", [False, True])
async def test_a_volume_that_was_never_laid_out_serves_nothing(
    used: bool, tmp_path: Path, not_laid_out: None
) -> None:
    """It is new and others have the history, or it was lost, or it was one for all before."""
    if used:
        async with stateward.open(url_of(tmp_path, "agents-0")) as store:
            await store.thread(HERE).append(HELLO)
    async with open_here(tmp_path) as store:
        for call in (store.thread(HERE).load(), store.thread(HERE).append(HELLO)):
            with pytest.raises(stateward.StoreUnavailable, match="was never laid out"):
                await call


async def test_a_replica_that_may_not_serve_is_not_in_the_way_and_goes_on_afterwards(
    tmp_path: Path, volume: str
) -> None:
    names = list(NAMES)
    async with open_here(tmp_path, replicas=lambda: names) as store:
        await store.thread(HERE).append(HELLO)
        names.append("agents-3")
        stays = next(
            id_
            for id_ in (f"s-{n}" for n in range(99))
            if stateward.route(id_, names) == "agents-0"
        )
        with pytest.raises(stateward.StoreUnavailable, match="is laid out for"):
            await store.thread(stays).load()
        lay_out(volume, "agents-0", names)
        assert (await store.thread(stays).append(HELLO)).status == "stored"
        with pytest.raises(stateward.StoreUnavailable, match="is in use by agents-0"):
            lay_out(volume, "agents-0", names)


async def test_what_has_not_moved_yet_is_not_listed_but_is_exported_and_erased(
    tmp_path: Path,
) -> None:
    async with open_here(tmp_path) as store:
        await store.thread(HERE, user="u").append(HELLO)
    with sync.open(url_of(tmp_path, "agents-0")) as plain:  # somebody who does not know of replicas
        plain.thread(ELSEWHERE, user="u").append(HELLO)
    async with open_here(tmp_path) as store:
        assert [info.id async for info in store.threads()] == [HERE]
        assert (await store.user("u").export(str(tmp_path / "u.jsonl"))).entities == 2
        assert (await store.user("u").erase()).removed == {"thread": 2}


def test_several_processes_of_one_replica_share_its_volume(
    tmp_path: Path, not_laid_out: None
) -> None:
    with replicas(tmp_path, *NAMES) as running:
        worker = Process(tmp_path, "agents-0", NAMES)
        other = running["agents-0"]
        assert worker.ask("append", thread=HERE, messages=[HELLO], key="1") == "stored"
        assert other.ask("append", thread=HERE, messages=[HELLO], key="2") == "stored"
        worker.stop()
        assert other.ask("load", thread=HERE) == [2, [HELLO, HELLO]]
        with pytest.raises(stateward.StoreUnavailable, match="is in use by agents-0"):
            lay_out(url_of(tmp_path, "agents-0"), "agents-0", [*NAMES, "agents-3"])
        assert other.ask("append", thread=HERE, messages=[HELLO], key="3") == "stored"


async def test_a_replica_that_lost_its_lease_looks_again_and_goes_on(tmp_path: Path) -> None:
    world = SteppableWorld(1_700_000_000.0)
    async with open_here(tmp_path, world=world) as store:
        await store.thread(HERE).append(HELLO)
        world.advance(SAFE * TTL + 1)
        assert (await store.thread(HERE).append(HELLO)).version == 2


class Paused(SteppableWorld):
    """Both clocks go on while the process does nothing."""

    def monotonic(self) -> float:
        return super().monotonic() + self._offset

    def pause_while_laid_out(self, volume: str, names: Iterable[str]) -> None:
        """Again, if its renewals, which do not pause with it, came first on a slow machine."""
        for _ in range(20):
            self.advance(TTL + 1)
            with suppress(stateward.StoreUnavailable):
                lay_out(volume, "agents-0", names, self)
                return
        raise AssertionError("its lease was renewed each time")


async def test_a_replica_that_was_paused_while_others_rebalanced_writes_nothing(
    tmp_path: Path, volume: str
) -> None:
    world = Paused()
    four = [*NAMES, "agents-3"]
    async with open_here(tmp_path, world=world) as store:
        await store.thread(HERE).append(HELLO)
        with pytest.raises(stateward.StoreUnavailable, match="is in use"):
            lay_out(volume, "agents-0", four, world)
        world.pause_while_laid_out(volume, four)
        with pytest.raises(stateward.StoreUnavailable, match="is laid out for"):
            await store.thread(HERE).append(HELLO)


async def test_a_replica_that_was_paused_amid_a_write_writes_nothing_when_it_goes_on(
    tmp_path: Path, volume: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Paused()
    write = LoopAccess.write

    async def pause_and_write(access: LoopAccess, *args: Any) -> Any:
        monkeypatch.setattr(LoopAccess, "write", write)
        world.pause_while_laid_out(volume, [*NAMES, "agents-3"])
        return await write(access, *args)

    policy = stateward.Policy(write_timeout=120.0)
    async with open_here(tmp_path, world=world, policy=policy, spill=False) as store:
        await store.thread(HERE).append(HELLO)
        monkeypatch.setattr(LoopAccess, "write", pause_and_write)
        assert (await store.thread(HERE).append(HELLO)).status == "dropped"
    with sync.open(volume) as everything:
        assert len(everything.thread(HERE).load().messages) == 1


async def test_turns_kept_of_a_thread_that_moved_wait_until_it_is_back(
    tmp_path: Path, volume: str
) -> None:
    """Its move is no deletion, and this volume is not where anybody would look for it."""
    world = Paused()
    grown = ("agents-0", "agents-9")
    leaving = [f"s-{n}" for n in range(99) if stateward.route(f"s-{n}", grown) == "agents-9"]
    moving, new = [id for id in leaving if stateward.route(id, NAMES) == "agents-0"][:2]
    engines = {
        name: create_sync_engine(parse(url_of(tmp_path, name)), world) for name in {*NAMES, *grown}
    }

    def rebalance(names: tuple[str, ...]) -> None:
        world.advance(TTL + 1)
        for engine in engines.values():
            engine.open()
        Rebalancing(engines, names, namespace="default", world=world).run(0)
        for engine in engines.values():
            engine.close()

    options: dict[str, Any] = {"world": world, "spill": str(tmp_path / "spill"), "policy": QUICK}
    async with open_here(tmp_path, **options) as store:
        await store.thread(moving).append(HELLO)
        locked = apsw.Connection(str(tmp_path / "agents-0.db"))
        locked.execute("BEGIN IMMEDIATE")
        for id in (moving, new):
            assert (await store.thread(id).append(HELLO)).status == "spilled"
        await asyncio.wait_for(store.close(), 60)
        locked.execute("ROLLBACK")
    rebalance(grown)
    async with open_here(tmp_path, **options, replicas=grown) as store:
        assert (await store.health()).ok
    with sync.open(volume) as everything:
        assert [t.id for t in everything.threads()] == []
    rebalance(NAMES)
    async with open_here(tmp_path, **options) as store:
        assert len((await store.thread(moving).load()).messages) == 2
        assert len((await store.thread(new).load()).messages) == 1


# --- what makes no sense ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"replicas": None}, "belong together"),
        ({"replica": None}, "belong together"),
        ({"replica": "agents-7"}, "not among replicas="),
        ({"replica": ""}, "the name of a replica"),
        ({"replicas": "agents-0"}, "is a list of names"),
        ({"replicas": []}, "is empty"),
    ],
)
def test_a_wrong_replica_or_list_is_refused(
    options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(stateward.InvalidInput, match=says):
        open_here(tmp_path, **options)


def test_a_server_that_all_replicas_reach_is_not_divided() -> None:
    with pytest.raises(stateward.InvalidInput, match="a server that all replicas reach"):
        stateward.open("postgresql://localhost/agents", replica="a", replicas=["a", "b"])


def test_a_blocking_store_is_divided_too(volume: str) -> None:
    with sync.open(volume, replica="agents-0", replicas=NAMES) as store:
        store.thread(HERE).append(HELLO)
        with pytest.raises(sync.WrongReplica) as caught:
            store.context(user=HERE, thread=ELSEWHERE)
        assert caught.value.owner == "agents-2"
