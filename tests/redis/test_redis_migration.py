"""Whatever is asked for in a slot that is being moved goes through, however far it has come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from servers.redis_cluster import RedisCluster, SlotMove, running_cluster

from stateward.engine import GRACE, KEY_SECONDS, OPS_KEPT, OPS_SECONDS
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.keys import keys_of, kind_index, kinds_index
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.errors import StoreUnavailable
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Delete,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    List,
    Listed,
    Log,
    Outcome,
    Put,
    Replace,
    SetHead,
    Sweep,
    Swept,
    Trim,
    Write,
)
from stateward.testing.clock import SteppableWorld

_numbers = count()


@pytest.fixture(scope="module", params=["valkey", "redis"])
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisCluster]:
    folder = tmp_path_factory.mktemp("migration")
    with running_cluster(folder, request.param, replicas=0) as cluster:
        yield cluster


class Subject:
    """An entity, and an engine of its own to ask for it, by a clock that only the test moves."""

    def __init__(self, cluster: RedisCluster, url: str = "") -> None:
        self.world = SteppableWorld(1_700_000_000.0)
        self.engine = RedisEngine(
            parse_server(parse(url or cluster.url), self.world), self.world.now
        )
        self.entity = Entity(f"n{next(_numbers)}", "thread", "t")
        self.move = SlotMove(cluster, keys_of(self.entity).head)

    async def commit(self, *writes: Write, op: str = "", **options: Any) -> Outcome:
        name = op or f"op-{next(_numbers)}"
        (outcome,) = await self.engine.execute([Commit(self.entity, name, writes, **options)])
        return outcome

    async def fetch(self, **options: Any) -> Fetched:
        (fetched,) = await self.engine.execute([Fetch(self.entity, **options)])
        assert isinstance(fetched, Fetched)
        return fetched

    async def fill(self) -> None:
        """So that all of its nine keys exist."""
        for number in range(OPS_KEPT + 1):
            await self.commit(Append((f"{number}",), key=f"k{number}"), Put(f"d{number}", "{}"))
        self.world.advance(KEY_SECONDS)
        await self.commit(Append(('"new"',), key="new"), op="new")
        head = keys_of(self.entity).head  # a part of the index may be in the same slot
        names = self.move.keys()
        assert sum(name.startswith(head) for name in names) == 9


@asynccontextmanager
async def subject_in(cluster: RedisCluster, url: str = "") -> AsyncIterator[Subject]:
    cluster.empty()
    subject = Subject(cluster, url)
    await subject.engine.open()
    try:
        yield subject
    finally:
        await subject.engine.close()


def spread(move: SlotMove, place: str) -> None:
    """How far the move has come."""
    keys = move.keys()
    some = {
        "source": [],
        "target": keys,
        "head": keys[:1],
        "others": keys[1:],
        "every other": keys[::2],
    }
    if some[place]:
        assert move.carry(some[place]) == b"+OK\r\n"


Asks = Callable[[Subject], Awaitable[object]]


async def appends(subject: Subject) -> None:
    outcome = await subject.commit(Append(('"more"',)), op="more")
    assert isinstance(outcome, Applied)
    assert isinstance(await subject.commit(Append(('"more"',)), op="more"), Duplicate)
    assert (await subject.fetch(log=Log(last=1))).lines == '"more"'


async def repeats(subject: Subject) -> None:
    assert isinstance(await subject.commit(Append(('"new"',), key="new"), op="new"), Duplicate)
    assert isinstance(await subject.commit(Append(('"new"',), key="new")), Duplicate)


async def writes_all(subject: Subject) -> None:
    """Also what is remembered is put aside by this commit."""
    subject.world.advance(OPS_SECONDS + KEY_SECONDS)
    before = (await subject.fetch()).head.version
    for number in range(OPS_KEPT + 1):
        outcome = await subject.commit(Append(("1", "2"), key=f"more-{number}"), op=f"w{number}")
        assert isinstance(outcome, Applied), outcome
    writes = (Put("doc", "{}"), Delete("d1"), Trim(2), Replace({4: "5"}), Acquire("n", 5.0))
    assert isinstance(await subject.commit(*writes, SetHead(status="on", due_in=1.0)), Applied)
    fetched = await subject.fetch(log=Log(after=0, details=True), all_documents=True)
    assert fetched.head.version == before + 2 * (OPS_KEPT + 1)
    assert fetched.head.status == "on"
    assert "doc" in fetched.documents
    assert "d1" not in fetched.documents
    subject.world.advance(OPS_SECONDS + KEY_SECONDS)
    assert isinstance(await subject.commit(Append(("1",), key="last")), Applied)
    assert isinstance(await subject.commit(Append(("1",), key="last")), Duplicate)
    assert isinstance(await subject.commit(Append(("0",)), op=f"w{OPS_KEPT}"), Duplicate)


async def reads(subject: Subject) -> None:
    fetched = await subject.fetch(log=Log(whole=True), all_documents=True)
    assert len(fetched.documents) == OPS_KEPT + 1
    assert len(fetched.entries) == OPS_KEPT + 2
    assert (await subject.fetch(log=Log(last=2))).count == 2
    of = List(subject.entity.namespace, within=subject.entity)
    (listed,) = await subject.engine.execute([of])
    assert isinstance(listed, Listed)
    assert len(listed.documents) == OPS_KEPT + 1
    (listed,) = await subject.engine.execute([List(subject.entity.namespace, documents=("d1",))])
    assert isinstance(listed, Listed)
    assert [list(found.documents) for found in listed.entities] == [["d1"]]


async def drops(subject: Subject) -> None:
    """All of it, with the mark that it leaves: also where a node has all of its keys."""
    assert isinstance(await subject.commit(Drop(), op="drop"), Applied)
    head = (await subject.fetch(log=Log(last=9), all_documents=True)).head
    assert (head.version, head.dropped) == (0, subject.world.now())
    assert isinstance(await subject.commit(Drop(), op="drop"), Duplicate)
    assert isinstance(await subject.commit(Append(("1",)), op="again"), Applied)
    fetched = await subject.fetch(log=Log(last=9), all_documents=True)
    assert (fetched.lines, fetched.documents) == ("1", {})


async def sweeps(subject: Subject) -> None:
    await subject.commit(Drop())
    subject.world.advance(2 * GRACE)
    (swept,) = await subject.engine.execute([Sweep()])
    assert isinstance(swept, Swept)
    assert swept.entities == 1
    assert not subject.move.keys()


async def purges(subject: Subject) -> None:
    assert await subject.engine.purge(subject.entity.namespace) == 1
    assert not (await subject.fetch()).head.commits


PLACES = ["source", "target", "head", "others", "every other"]
CALLS: list[Asks] = [appends, repeats, writes_all, reads, drops, sweeps, purges]


@pytest.mark.parametrize("call", CALLS)
async def test_an_entity_can_be_used_wherever_its_keys_are(nodes: RedisCluster, call: Asks) -> None:
    for place in PLACES:
        async with subject_in(nodes) as subject:
            await subject.fill()
            subject.move.begin()
            spread(subject.move, place)
            await call(subject)


@pytest.mark.parametrize("back", [False, True], ids=["arrives", "goes back"])
async def test_nothing_is_lost_or_doubled_when_a_move_ends(nodes: RedisCluster, back: bool) -> None:
    async with subject_in(nodes) as subject, subject_in(nodes) as other:
        other.entity = subject.entity
        for number in range(9):
            assert isinstance(await subject.commit(Append((f"{number}",))), Applied)
            if number == 1:
                subject.move.begin()
                spread(subject.move, "every other")
            if number == 4:
                subject.move.end()
                if back:
                    subject.move.begin()
                    spread(subject.move, "others")
            assert isinstance(await other.commit(Append((f'"{number}"',))), Applied)
        lines = (await subject.fetch(log=Log(last=99))).lines.splitlines()
        assert lines == [body for n in range(9) for body in (f"{n}", f'"{n}"')]


async def test_what_is_new_is_made_and_listed_while_its_index_moves(nodes: RedisCluster) -> None:
    async with subject_in(nodes) as subject:
        namespace, kind, _ = subject.entity
        for key in (kinds_index(namespace), kind_index(namespace, kind)):
            SlotMove(nodes, key).begin()
        for id in ("a", "b"):
            subject.entity = Entity(namespace, kind, id)
            writes = Append(("1",)), SetHead(status="on", due_in=0.0)
            assert isinstance(await subject.commit(*writes, owner="u", retain=5.0), Applied)
        for asked in (List(namespace), List(namespace, kind, status="on", due=True)):
            (listed,) = await subject.engine.execute([asked])
            assert isinstance(listed, Listed)
            assert [found.entity.id for found in listed.entities] == ["a", "b"]


async def test_a_move_that_was_cut_off_has_left_nothing_that_counts(nodes: RedisCluster) -> None:
    """Both nodes have a key, and the new one an older state of it."""
    async with subject_in(nodes) as subject:
        await subject.commit(Append(("1",)))
        move = subject.move
        move.begin()
        assert move.carry(move.keys(), "COPY") == b"+OK\r\n"
        log = keys_of(subject.entity).own[1]
        assert move.source.ask("LSET", log, "0", "2") == b"+OK\r\n"
        assert isinstance(await subject.commit(Append(("3",))), Applied)
        assert (await subject.fetch(log=Log(last=9))).lines == "2\n3"
        assert not move.keys()


async def test_another_entity_of_the_same_name_is_not_overwritten(nodes: RedisCluster) -> None:
    """As it comes about where somebody has called a move off that had moved keys already."""
    async with subject_in(nodes) as subject:
        await subject.commit(Append(("1",)))
        move = subject.move
        move.begin()
        assert move.carry(move.keys(), "COPY") == b"+OK\r\n"
        head = keys_of(subject.entity).head
        assert move.source.ask("HSET", head, "created", "1.000000") == b":0\r\n"
        with pytest.raises(StoreUnavailable, match=r"moving this slot .* BUSYKEY") as caught:
            await subject.commit(Append(("3",)))
        assert caught.value.applied == "no"


RIGHTS = Path(__file__).parents[2] / "docs" / "reference" / "urls.md"


async def test_the_documented_rights_are_enough_and_what_lacks_is_named(
    nodes: RedisCluster,
) -> None:
    _, _, line = RIGHTS.read_text("utf-8").partition("ACL SETUSER agents ")
    rights = line.partition("```")[0].split()
    url = nodes.url.replace("//", "//agents:secret@")

    def permit(*rules: str) -> None:
        for node in nodes.nodes:
            assert node.ask("ACL", "SETUSER", "agents", *rules) == b"+OK\r\n"

    permit("reset", *rights)
    async with subject_in(nodes, url) as subject:
        await subject.commit(Append(("1",)))
        subject.move.begin()
        for lacks in ("migrate", "restore-asking"):
            permit(f"-{lacks}")
            for again in range(2):
                with pytest.raises(StoreUnavailable, match="permit it `migrate`,") as caught:
                    await subject.commit(Append(("2",)), op="two")
                assert caught.value.applied == "no", again
            permit(f"+{lacks}")
        assert isinstance(await subject.commit(Append(("2",)), op="two"), Applied)
        assert (await subject.fetch(log=Log(last=9))).lines == "1\n2"
