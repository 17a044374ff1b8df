"""The index of a cluster after a failover that has lost entries of entities that are intact."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from servers.redis_cluster import RedisCluster
from test_redis_cluster_sweep import Asked, once_more

import stateward
from stateward.engines.redis import reindex
from stateward.errors import AccessRefused, EntityBusy, StoreUnavailable
from stateward.ops import Append, Commit, Entity, List, Listed, Op, SetHead
from stateward.sync.engines.redis import reindex as reindex_sync

OWNERS = ("u1", "u2", "")
INDEX = ("stateward:part:", "stateward:owner:", "stateward:sweep:")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    folder, settings = tmp_path_factory.mktemp("index"), ("--enable-debug-command", "yes")
    cluster = RedisCluster(folder, "valkey", "--appendonly", "no", *settings, replicas=0)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture(params=["loop", "blocking"])
def blocking(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "blocking")


@pytest.fixture
def space(request: pytest.FixtureRequest, nodes: RedisCluster) -> str:
    nodes.empty()
    return request.node.name


def commits(space: str) -> list[Op]:
    """Threads and workflows of several owners, with statuses, due times and a retention."""
    made: list[Op] = []
    for number in range(24):
        owner = OWNERS[number % len(OWNERS)]
        thread = Entity(space, "thread", f"t{number}")
        retain = 3600.0 if number % 2 else None
        made.append(Commit(thread, f"t{number}", (Append(("1",)),), (), owner, retain))
        workflow = Entity(space, "workflow", f"w{number}")
        head = SetHead(status=("running", "failed")[number % 2], due=1.0 + number)
        made.append(Commit(workflow, f"w{number}", (head,), (), owner))
    return made


def listings(space: str) -> list[List]:
    """One listing for every index there is."""
    kinds = [
        List(space, kind, recent=recent)
        for kind in ("thread", "workflow")
        for recent in (False, True)
    ]
    owned = [List(space, "thread", "u1", recent=recent) for recent in (False, True)]
    by_status = [List(space, "workflow", owner, status="failed") for owner in (None, "u1")]
    due = [List(space, "workflow", due=True), List(space, owner="u2", due=True)]
    tallies = [List(space, tally="kind"), List(space, tally="owner")]
    return [List(space), List(space, owner="u1"), *kinds, *owned, *by_status, *due, *tallies]


async def listed(engine: Asked, space: str) -> list[Any]:
    pages = await once_more(engine, listings(space))
    answers: list[Any] = []
    for page in pages:
        assert isinstance(page, Listed)
        answers.append(page.tally or [found.entity for found in page.entities])
    return answers


def lose_index(nodes: RedisCluster) -> None:
    """Every node is another one now, as after failovers to replicas that knew nothing of it."""
    for node in nodes.nodes:
        names = node.ask_all([("KEYS", "stateward:*")]).decode().split("\r\n")[2::2]
        lost = [("DEL", name) for name in names if name.startswith(INDEX)]
        assert node.ask_all([*lost, ("DEBUG", "CHANGE-REPL-ID")]).endswith(b"+OK\r\n")
        assert node.ask("CLIENT", "KILL", "TYPE", "normal").startswith(b":")


async def test_what_is_intact_is_listed_whatever_the_index_has_lost(
    nodes: RedisCluster, blocking: bool, space: str
) -> None:
    async with Asked(nodes.url, blocking) as before:
        await once_more(before, commits(space))
        expected = await listed(before, space)
        assert all(expected)
        await asyncio.to_thread(lose_index, nodes)
        async with Asked(nodes.url, blocking) as fresh:
            assert await listed(fresh, space) == expected
        await asyncio.to_thread(lose_index, nodes)
        assert await listed(before, space) == expected, "a process that was there before"


async def test_nothing_is_walked_unless_a_node_was_replaced(
    nodes: RedisCluster, blocking: bool, space: str
) -> None:
    def scans() -> int:
        calls = [node.ask("INFO", "commandstats") for node in nodes.nodes]
        return sum(int(c.split(b"cmdstat_scan:calls=")[1].split(b",")[0]) for c in calls)

    for _ in range(2):
        async with Asked(nodes.url, blocking) as engine:
            await once_more(engine, commits(space))
            await listed(engine, space)
            before = scans()
            await listed(engine, space)
        async with Asked(nodes.url, blocking) as engine:
            await listed(engine, space)
        assert scans() == before


async def test_an_erasure_finds_all_or_has_no_answer_yet(
    nodes: RedisCluster, blocking: bool, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store so large that a call can only look at a small part of it."""
    for module in (reindex, reindex_sync):
        monkeypatch.setattr(module, "SOME_SECONDS", 0.0)
        monkeypatch.setattr(module, "ALL_SECONDS", 0.0)
        monkeypatch.setattr(module, "PAGE", 5)
    everything, some = List(space, owner="u1"), List(space, "thread", "u1")
    async with Asked(nodes.url, blocking) as engine:
        await once_more(engine, commits(space))
        await asyncio.to_thread(lose_index, nodes)
    async with Asked(nodes.url, blocking) as engine:
        refusals, page = 0, None
        await engine.execute([some])  # others are answered with what there is
        while page is None:
            try:
                (page,) = await engine.execute([everything])
            except EntityBusy:
                refusals += 1
        assert refusals > 1
        assert isinstance(page, Listed)
        assert len(page.entities) == 16
        (page,) = await engine.execute([some])
        assert isinstance(page, Listed)
        assert len(page.entities) == 8


async def test_a_user_that_may_not_walk_is_told_what_to_permit(
    nodes: RedisCluster, blocking: bool, space: str
) -> None:
    for node in nodes.nodes:
        rules = ["on", ">secret", "~stateward:*", "&stateward:*", "+@all", "-scan"]
        assert node.ask("ACL", "SETUSER", "agents", *rules) == b"+OK\r\n"
    url = nodes.url.replace("://", "://agents:secret@")
    async with Asked(url, blocking) as engine:
        await once_more(engine, commits(space))
        (page,) = await once_more(engine, [List(space, "thread", "u1")])
        assert isinstance(page, Listed)
        with pytest.raises(AccessRefused, match=r"\+scan on all nodes"):
            await engine.execute([List(space, owner="u1")])


async def test_a_user_is_erased_whose_list_is_lost(nodes: RedisCluster, space: str) -> None:
    async with stateward.open(nodes.url, namespace=space) as store:
        thread = store.thread("t", user="u")
        await thread.append({"role": "user", "content": "personal data"})
        await asyncio.to_thread(lose_index, nodes)
        removed: dict[str, int] = {}
        while not removed:
            try:
                removed = (await store.user("u").erase()).removed
            except StoreUnavailable:
                pass  # its connections were ended
        assert removed == {"thread": 1}
        assert not (await thread.load()).exists
