"""Batches drawn at random, under a fault of a real cluster drawn at random.

Whatever happens, an answer is true: what was acknowledged is stored once, of what "no" was said
nothing is, and the same batch asked for again when the fault is over is stored once in the end.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from servers.redis_cluster import RedisCluster, running_cluster

from stateward.engines.redis.client.slots import SLOTS, slot_of
from stateward.engines.redis.keys import keys_of
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import StoreUnavailable
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
    """What is done to the cluster while a batch is asked for."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._nodes = cluster.nodes[:PRIMARIES]
        self._ids = [node.ask("CLUSTER", "MYID").split()[1].decode() for node in self._nodes]

    def _setslot(self, number: int, slot: int, *words: str) -> None:
        said = self._nodes[number].ask("CLUSTER", "SETSLOT", str(slot), *words)
        assert said == b"+OK\r\n", said

    def _give(self, slot: int, owner: int, to: int) -> None:
        self._setslot(to, slot, "IMPORTING", self._ids[owner])
        for number in (to, *range(PRIMARIES)):
            self._setslot(number, slot, "NODE", self._ids[to])

    @contextmanager
    def nothing(self, _slot: int) -> Iterator[None]:
        yield

    @contextmanager
    def hanging(self, slot: int) -> Iterator[None]:
        """The node of the slot takes connections, and answers nothing."""
        yield from self._frozen(owner_of(slot))

    @contextmanager
    def moved(self, slot: int) -> Iterator[None]:
        """An empty slot is at another node."""
        owner = owner_of(slot)
        other = (owner + 1) % PRIMARIES
        self._give(slot, owner, other)
        try:
            yield
        finally:
            self._bring(slot, other, owner)

    @contextmanager
    def moved_to_one_that_hangs(self, slot: int) -> Iterator[None]:
        with self.moved(slot):
            yield from self._frozen((owner_of(slot) + 1) % PRIMARIES)

    @contextmanager
    def marked_as_moving(self, slot: int) -> Iterator[None]:
        """As a move begins; none of its keys has been moved."""
        owner = owner_of(slot)
        other = (owner + 1) % PRIMARIES
        self._setslot(other, slot, "IMPORTING", self._ids[owner])
        self._setslot(owner, slot, "MIGRATING", self._ids[other])
        try:
            yield
        finally:
            self._bring(slot, other, owner)
            for number in (owner, other):
                self._setslot(number, slot, "STABLE")

    def _frozen(self, number: int) -> Iterator[None]:
        pid = self._nodes[number].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _bring(self, slot: int, here: int, home: int) -> None:
        """The slot with all that is in it, back to where it was."""
        end = time.monotonic() + PATIENCE
        while not self._brought(slot, here, home):  # a node that hung may just have stored more
            assert time.monotonic() < end, "the slot does not come back"

    def _brought(self, slot: int, here: int, home: int) -> bool:
        source, target = self._nodes[here], self._nodes[home]
        setslot = "CLUSTER", "SETSLOT", str(slot)
        target.ask(*setslot, "IMPORTING", self._ids[here])
        source.ask(*setslot, "MIGRATING", self._ids[home])
        in_slot = "CLUSTER", "GETKEYSINSLOT", str(slot), "1000"
        keys = [word.decode() for word in source.ask(*in_slot).split(b"\r\n")[2::2]]
        if keys:
            move = "MIGRATE", "127.0.0.1", str(target.port), "", "0", "5000", "KEYS"
            if source.ask(*move, *keys) not in (b"+OK\r\n", b"+NOKEY\r\n"):
                return False
        said = [
            self._nodes[number].ask(*setslot, "NODE", self._ids[home])
            for number in (home, *range(PRIMARIES))
        ]
        return set(said) == {b"+OK\r\n"}


FAULTS: list[Callable[[Faults, int], Any]] = [
    Faults.nothing,
    Faults.hanging,
    Faults.moved,
    Faults.moved_to_one_that_hangs,
    Faults.marked_as_moving,
]


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

    async def __aenter__(self) -> Asked:
        await self._call(self._engine.open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._call(self._engine.close)

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        outcomes: list[Outcome] = await self._call(self._engine.execute, ops)
        return outcomes


class Draw:
    """One case: threads on all nodes, some of which exist, and a batch for some of them."""

    def __init__(self, seed: int, colour: str) -> None:
        self._random = random.Random(seed)
        self.entities = [Entity(f"{colour}{seed}", "thread", f"t{n}") for n in range(8)]
        self.begun = self._random.sample(self.entities, 7)
        first = self._random.choice(self.entities)
        self.struck = slot_of_entity(first)
        self.fault = self._random.choice(FAULTS)
        if self.fault in (
            Faults.moved,
            Faults.moved_to_one_that_hangs,
        ):  # which are for empty slots
            self.begun = [e for e in self.begun if slot_of_entity(e) != self.struck]
        others = self._random.sample(self.entities, self._random.randint(1, 5))
        if self.fault is Faults.moved_to_one_that_hangs:  # which hears of it from the first node
            hangs = (owner_of(self.struck) + 1) % PRIMARIES
            others = [e for e in self.begun if owner_of(slot_of_entity(e)) != hangs]
        chosen = dict.fromkeys([*others, first])
        self.batch: list[Op] = [self._op(entity) for entity in chosen]
        self.waits = self._random.random() < 0.3  # for replicas, of which there are none

    def _op(self, entity: Entity) -> Op:
        kind = self._random.choice(("append", "append", "put", "fetch"))
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
    url = f"{nodes.url}?{QUICK}" + ("&wait_replicas=1" if draw.waits else "")
    blocking = colour == "blocking"
    async with Asked(nodes.url, False) as plain, Asked(url, blocking) as engine:
        begin = [Commit(e, f"begin-{e.id}", (Append(('"begun"',)),)) for e in draw.begun]
        if begin:
            await once_more(plain, begin)
        writes = [op for op in draw.batch if isinstance(op, Commit)]
        outcomes: list[Outcome] | None = None
        applied = ""
        with draw.fault(Faults(nodes), draw.struck):
            try:
                outcomes = await engine.execute(draw.batch)
            except StoreUnavailable as error:
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
    for seed in range(16):
        await check(nodes, seed, colour)


@pytest.mark.soak
@pytest.mark.parametrize("colour", ["loop", "blocking"])
async def test_whatever_befalls_a_cluster_its_answers_are_true_for_long(
    nodes: RedisCluster, colour: str
) -> None:
    for seed in range(1000, 1500):
        await check(nodes, seed, colour)
