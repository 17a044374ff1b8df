"""Batches drawn at random, under a fault of a real cluster drawn at random.

Whatever happens, an answer is true: what was acknowledged is stored once, of what "no" was said
nothing is, and the same batch asked for again when the fault is over is stored once in the end.
The same for one primary that is found by a name or by sentinels, and is demoted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from servers.ports import free_port
from servers.proxy import Proxy
from servers.redis import RedisServer, running
from servers.redis_cluster import RedisCluster, SlotMove, running_cluster
from servers.redis_peer import running_peer

from stateward.engines.redis.client.slots import SLOTS, slot_of
from stateward.engines.redis.keys import keys_of
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import StoreUnavailable
from stateward.layers.confirmation import Confirmation
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    Log,
    Op,
    Outcome,
    Put,
)
from stateward.world import World

PRIMARIES = 3
QUICK = "timeout=0.25"  # seconds until a node that hangs is given up
PATIENCE = 60.0
_ops = count()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """With no replicas: a node that hangs stays the primary of its slots."""
    folder = tmp_path_factory.mktemp("sweep")
    with running_cluster(folder, "valkey", replicas=0) as cluster:
        for node in cluster.nodes:
            assert node.ask("CONFIG", "SET", "cluster-node-timeout", "120000") == b"+OK\r\n"
        yield cluster


class Faults:
    """What is done to the cluster while a batch is asked for, to the slot of one key."""

    def __init__(self, cluster: RedisCluster, key: str, draw: random.Random) -> None:
        self._move = SlotMove(cluster, key)
        self._random = draw

    @contextmanager
    def nothing(self) -> Iterator[None]:
        yield

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """The node of the slot takes connections, and answers nothing."""
        with frozen(self._move.source):
            yield

    @contextmanager
    def moved(self) -> Iterator[None]:
        """The slot is at another node, of which nobody was told."""
        self._move.begin()
        self._move.end()
        try:
            yield
        finally:
            self._go_back()

    @contextmanager
    def moved_to_one_that_hangs(self) -> Iterator[None]:
        """Nobody has a connection to it, so it cannot even be asked."""
        with self.moved():
            assert self._move.source.ask("CLIENT", "KILL", "TYPE", "normal").startswith(b":")
            with frozen(self._move.source):
                yield

    @contextmanager
    def marked_as_moving(self) -> Iterator[None]:
        """As a move begins; none of its keys has been moved."""
        self._move.begin()
        try:
            yield
        finally:
            self._move.end()
            self._go_back()

    @contextmanager
    def half_moved(self) -> Iterator[None]:
        """As a move that is stuck leaves it."""
        with self.marked_as_moving():
            self._carry_some()
            yield

    @contextmanager
    def half_moved_and_cut_off(self) -> Iterator[None]:
        """Some keys are on both sides."""
        with self.half_moved():
            self._carry_some("COPY")
            yield

    @contextmanager
    def half_moved_to_one_that_hangs(self) -> Iterator[None]:
        with self.half_moved(), frozen(self._move.target):
            yield

    @contextmanager
    def moving(self) -> Iterator[None]:
        """There and back, and it is drawn how far that has come when the batch is asked for."""
        move, some = self._move, self._carry_some
        steps = [move.begin, some, some, move.end] * 2
        first = self._random.randrange(len(steps))
        for step in steps[:first]:
            step()
        with ThreadPoolExecutor(1) as thread:
            rest = [thread.submit(step) for step in steps[first:]]
            try:
                yield
            finally:
                for step in rest:
                    step.result()

    def _carry_some(self, *options: str) -> None:
        keys = self._move.keys()
        self._move.carry(self._random.sample(keys, self._random.randint(0, len(keys))), *options)

    def _go_back(self) -> None:
        self._move.begin()
        self._move.end()


FAULTS: list[Callable[[Faults], Any]] = [
    Faults.nothing,
    Faults.hanging,
    Faults.moved,
    Faults.moved_to_one_that_hangs,
    Faults.marked_as_moving,
    Faults.half_moved,
    Faults.half_moved_and_cut_off,
    Faults.half_moved_to_one_that_hangs,
    Faults.moving,
]
HANGING = (Faults.hanging, Faults.moved_to_one_that_hangs, Faults.half_moved_to_one_that_hangs)
USABLE = (
    Faults.nothing,
    Faults.moved,
    Faults.marked_as_moving,
    Faults.half_moved,
    Faults.half_moved_and_cut_off,
)


@contextmanager
def frozen(node: RedisServer) -> Iterator[None]:
    node.pause()
    try:
        yield
    finally:
        node.resume()


def owner_of(slot: int) -> int:
    return slot * PRIMARIES // SLOTS


def slot_of_entity(entity: Entity) -> int:
    return slot_of(keys_of(entity).head)


class Asked:
    """An engine of either colour, asked from an event loop."""

    def __init__(self, url: str, blocking: bool) -> None:
        self._blocking = blocking
        self._engine: Any = (create_sync_engine if blocking else create_engine)(parse(url), World())

    async def _call(self, function: Any, *args: Any) -> Any:
        if self._blocking:
            return await asyncio.to_thread(function, *args)
        return await function(*args)

    async def _execute(self, ops: Sequence[Op], _deadline: float | None = None) -> list[Outcome]:
        outcomes: list[Outcome] = await self._call(self._engine.execute, ops)
        return outcomes

    async def __aenter__(self) -> Asked:
        await self._call(self._engine.open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._call(self._engine.close)

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        """Return the outcomes; raises, as a store does, if replicas have not confirmed one."""
        return await Confirmation(self._execute).execute(ops)


class Draw:
    """One case: threads on all nodes, some of which exist, and a batch for some of them."""

    def __init__(self, seed: int, colour: str) -> None:
        self.random = random.Random(seed)
        self.fault = FAULTS[seed % len(FAULTS)]
        self.entities = [Entity(f"{colour}{seed}", "thread", f"t{n}") for n in range(8)]
        self.begun = self.random.sample(self.entities, 7)
        self.struck = self.random.choice(self.entities)
        others = self.random.sample(self.entities, self.random.randint(1, 5))
        self.waits = self.random.random() < 0.3  # for replicas, of which there are none
        writes = False
        if self.fault is Faults.moved_to_one_that_hangs:
            # Another node stores something first; then the first node names the one that hangs.
            hangs = (owner_of(slot_of_entity(self.struck)) + 1) % PRIMARIES
            others = [e for e in self.begun if owner_of(slot_of_entity(e)) != hangs]
            self.waits, writes = False, True
        chosen = dict.fromkeys([*others, self.struck])
        self.batch: list[Op] = [self._op(entity, writes) for entity in chosen]

    def _op(self, entity: Entity, writes: bool) -> Op:
        kind = self.random.choice(("append", "append", "put", "put" if writes else "fetch"))
        if kind == "fetch":
            return Fetch(entity, log=Log())
        op = f"op-{next(_ops)}"
        write = Append((f'"{op}"',)) if kind == "append" else Put("vars", f'"{op}"')
        return Commit(entity, op, (write,))


async def stored(engine: Asked, batch: Sequence[Op]) -> list[int]:
    """How often each commit of the batch is there; a document counts once."""
    counts = []
    for op in batch:
        if not isinstance(op, Commit):
            continue
        fetch = Fetch(op.entity, log=Log(), documents=("vars",))
        (fetched,) = await engine.execute([fetch])
        assert isinstance(fetched, Fetched)
        value = fetched.documents.get("vars")
        there = value is not None and value.json == f'"{op.op}"'
        counts.append(fetched.lines.splitlines().count(f'"{op.op}"') + there)
    return counts


async def once_more(engine: Asked, batch: Sequence[Op]) -> list[Outcome]:
    """Until the nodes agree again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await engine.execute(batch)
            except StoreUnavailable:
                await asyncio.sleep(0.02)


async def check(nodes: RedisCluster, seed: int, colour: str) -> None:
    draw = Draw(seed, colour)
    options = [QUICK] * (draw.fault in HANGING) + ["wait_replicas=1"] * draw.waits
    url = "?".join([nodes.url, *filter(None, ["&".join(options)])])
    blocking = colour == "blocking"
    async with Asked(nodes.url, False) as plain, Asked(url, blocking) as engine:
        begin = [Commit(e, f"begin-{e.id}", (Append(('"begun"',)),)) for e in draw.begun]
        if begin:
            await once_more(plain, begin)
        writes = [op for op in draw.batch if isinstance(op, Commit)]
        outcomes: list[Outcome] | None = None
        applied = ""
        with draw.fault(Faults(nodes, keys_of(draw.struck).head, draw.random)):
            try:
                outcomes = await engine.execute(draw.batch)
            except StoreUnavailable as error:
                if draw.fault in USABLE and not draw.waits:
                    raise
                applied = error.applied
        await once_more(plain, [Fetch(entity) for entity in draw.entities])
        found = await stored(plain, draw.batch)
        if outcomes is not None:
            assert not (draw.waits and writes), "acknowledged, though no replica has it"
            results = [o for o in outcomes if not isinstance(o, Fetched)]
            assert all(isinstance(outcome, Applied) for outcome in results)
            assert found == [1] * len(writes)
        elif applied == "no":
            assert found == [0] * len(writes)
        else:
            assert applied == "unknown"
            assert set(found) <= {0, 1}
        again = [o for o in await once_more(plain, draw.batch) if not isinstance(o, Fetched)]
        assert all(isinstance(outcome, Applied | Duplicate) for outcome in again)
        assert await stored(plain, draw.batch) == [1] * len(writes)


@pytest.mark.parametrize("colour", ["loop", "blocking"])
async def test_whatever_befalls_a_cluster_its_answers_are_true(
    nodes: RedisCluster, colour: str
) -> None:
    for seed in range(2 * len(FAULTS)):
        await check(nodes, seed, colour)


@pytest.mark.soak
@pytest.mark.parametrize("colour", ["loop", "blocking"])
async def test_whatever_befalls_a_cluster_its_answers_are_true_for_long(
    nodes: RedisCluster, colour: str
) -> None:
    for seed in range(1000, 1500):
        await check(nodes, seed, colour)


# --- one primary, which is demoted ------------------------------------------------------


class Pair:
    """A primary and its replica, which change places in every case."""

    def __init__(self, primary: RedisServer, replica: RedisServer) -> None:
        self.primary = primary
        self.replica = replica

    async def mend(self) -> None:
        assert self.primary.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        self._follow(self.primary.port)
        await until(lambda: b"link_status:up" in self.replica.ask("INFO", "replication"))

    def fail_over(self, lags: bool) -> None:
        """The old primary keeps its clients; one that lags hears of nothing from now on."""
        self.primary, self.replica = self.replica, self.primary
        assert self.primary.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        self._follow(free_port() if lags else self.primary.port)

    def _follow(self, port: int) -> None:
        assert self.replica.ask("REPLICAOF", "127.0.0.1", str(port)) in (
            b"+OK\r\n",
            b"+OK Already connected to specified master\r\n",
        )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder, settings = tmp_path_factory.mktemp("pair"), ("--appendonly", "no")
    with (
        running(folder / "one", "valkey", *settings) as one,
        running(folder / "two", "valkey", *settings) as two,
    ):
        yield Pair(one, two)


def naming(port: int) -> Callable[[Sequence[bytes]], bytes | None]:
    """A sentinel's answer."""
    name = b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port)
    return lambda command: name if command[0] == b"SENTINEL" else None


async def sees(engine: Asked, thread: Entity, version: int) -> None:
    """Returns when what is read is no longer of before."""
    async with asyncio.timeout(PATIENCE):
        while True:
            (fetched,) = await once_more(engine, [Fetch(thread)])
            assert isinstance(fetched, Fetched)
            if fetched.head.version == version:
                return
            await asyncio.sleep(0.02)


async def check_demotion(pair: Pair, seed: int, colour: str) -> None:
    draw = random.Random(seed)
    by_name, lags, reads_first = seed % 2 == 0, draw.random() < 0.5, draw.random() < 0.5
    thread = Entity(f"{colour}{seed}", "thread", "t")

    def commit(body: str) -> list[Op]:
        return [Commit(thread, f"op-{body}", (Append((body,)),))]

    await pair.mend()
    old = pair.primary.port
    async with Proxy(old) as name:
        with running_peer(naming(old)) as stale, running_peer(naming(old)) as right:
            sentinels = [stale, right]
            draw.shuffle(sentinels)
            hosts = ",".join(f"127.0.0.1:{sentinel.address.port}" for sentinel in sentinels)
            url = name.url if by_name else f"redis+sentinel://{hosts}/state"
            async with Asked(f"{url}?{QUICK}", colour == "blocking") as engine:
                await once_more(engine, commit("0"))
                log = keys_of(thread).own[1]
                replica = pair.replica
                await until(lambda: log.encode() in replica.ask("KEYS", log))
                pair.fail_over(lags)
                name.lead_to(pair.primary.port)
                right.answer = naming(pair.primary.port)
                async with Asked(pair.primary.url, False) as plain:
                    await once_more(plain, commit("1"))
                    if reads_first:  # and is told by nobody that it asks a replica
                        await sees(engine, thread, 2)
                    await once_more(engine, commit("2"))
                    await sees(engine, thread, 3)
                    (fetched,) = await once_more(plain, [Fetch(thread, log=Log())])
                    assert isinstance(fetched, Fetched)
                    assert fetched.lines.split() == ["0", "1", "2"]


@pytest.mark.parametrize("colour", ["loop", "blocking"])
async def test_a_primary_that_was_demoted_is_left(pair: Pair, colour: str) -> None:
    for seed in range(6):
        await check_demotion(pair, seed, colour)


@pytest.mark.soak
@pytest.mark.parametrize("colour", ["loop", "blocking"])
async def test_a_primary_that_was_demoted_is_left_for_long(pair: Pair, colour: str) -> None:
    for seed in range(1000, 1100):
        await check_demotion(pair, seed, colour)
