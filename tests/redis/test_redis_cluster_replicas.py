"""Batches drawn at random on a real cluster whose primaries have a replica each, and wait for it.

What is acknowledged the replica has at that moment, also when the write was sent on to another
node. One that lags makes the answer "unknown", also for whoever asks again. A primary that is
killed takes nothing with it that was acknowledged, and what was asked for again is stored once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from servers import until
from servers.redis import RedisServer
from servers.redis_cluster import PRIMARIES, RedisCluster, SlotMove, running_cluster
from test_redis_cluster_sweep import Asked, frozen, once_more, stored

import stateward
from stateward import Policy
from stateward.engines.redis.keys import keys_of
from stateward.errors import StoreUnavailable
from stateward.ops import Append, Applied, Commit, Duplicate, Entity, Fetch, Fetched, Log, Put

WAITING = "wait_replicas=1&timeout=1"  # half of which a replica has
PATIENT = Policy(read_timeout=20.0, write_timeout=20.0, threads="raise")
TALKS = 6
_ops = count()


@pytest.fixture(scope="module")
def replicated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisCluster]:
    folder = tmp_path_factory.mktemp("replicated")
    with running_cluster(folder, request.param, replicas=1) as cluster:
        yield cluster


def primary_of(cluster: RedisCluster, key: str) -> RedisServer:
    """The node that has an existing key."""
    return next(node for node in cluster.nodes if node.ask("EXISTS", key).startswith(b":1"))


def replica_of(cluster: RedisCluster, primary: RedisServer) -> RedisServer:
    follows = f"master_port:{primary.port}\r\n".encode()
    return next(node for node in cluster.nodes if follows in node.ask("INFO", "replication"))


class Replicas:
    """What the replicas of a cluster have; which they are is found out while all of them answer."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._cluster = cluster
        self._of = {id(node): replica_of(cluster, node) for node in cluster.nodes[:PRIMARIES]}

    def have(self, batch: Sequence[Commit]) -> bool:
        return all(map(self._has, batch))

    def _has(self, op: Commit) -> bool:
        keys = keys_of(op.entity).own
        (write,) = op.writes
        log = isinstance(write, Append)
        look = ("LRANGE", keys[1], "0", "-1") if log else ("HGET", keys[3], "=vars")
        replica = self._of[id(primary_of(self._cluster, keys[0]))]
        return f'"{op.op}"'.encode() in replica.ask_all([("READONLY",), look])


# --- replicas that lag ------------------------------------------------------------------


class Faults:
    """What is done to the cluster while a batch is asked for, to the slot of one key."""

    def __init__(self, cluster: RedisCluster, key: str) -> None:
        self._cluster = cluster
        self._key = key
        self._move = SlotMove(cluster, key)

    @contextmanager
    def nothing(self) -> Iterator[None]:
        yield

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """The primary takes the write, and its replica hears nothing."""
        with frozen(replica_of(self._cluster, primary_of(self._cluster, self._key))):
            yield

    @contextmanager
    def lagging_elsewhere(self) -> Iterator[None]:
        with frozen(replica_of(self._cluster, self._move.target)):
            yield

    @contextmanager
    def link_cut(self) -> Iterator[None]:
        """The replica has to find its primary again, and to catch up."""
        primary = primary_of(self._cluster, self._key)
        assert primary.ask("CLIENT", "KILL", "TYPE", "replica").startswith(b":")
        yield
        self._cluster.wait_until_ready()

    @contextmanager
    def moved(self) -> Iterator[None]:
        """The slot is at another node, of which no client knows."""
        self._go()
        try:
            yield
        finally:
            self._go()

    @contextmanager
    def moved_to_one_whose_replica_lags(self) -> Iterator[None]:
        """The replicas of the node that is asked first are in step; it is another that writes."""
        with self.moved(), self.lagging():
            yield

    def _go(self) -> None:
        self._cluster.wait_until_ready()
        self._move.begin()
        self._move.end()


FAULTS: list[Callable[[Faults], Any]] = [
    Faults.nothing,
    Faults.lagging,
    Faults.moved_to_one_whose_replica_lags,
    Faults.lagging_elsewhere,
    Faults.link_cut,
    Faults.moved,
]
LAGGING = (Faults.lagging, Faults.moved_to_one_whose_replica_lags)


class Draw:
    """One case: threads on all nodes, and a batch that writes to some of them."""

    def __init__(self, seed: int, colour: str) -> None:
        draw = random.Random(seed)
        self.fault = FAULTS[seed % len(FAULTS)]
        self.entities = [Entity(f"{colour}{seed}", "thread", f"t{n}") for n in range(6)]
        self.struck = draw.choice(self.entities)
        others = [each for each in draw.sample(self.entities, 4) if each != self.struck]
        others = others[: draw.randint(0, 4)]
        self.batch = []
        for entity in (*others, self.struck):
            op = f"op-{next(_ops)}"
            append = draw.random() < 0.7
            write = Append((f'"{op}"',)) if append else Put("vars", f'"{op}"')
            self.batch.append(Commit(entity, op, (write,)))


async def check(cluster: RedisCluster, seed: int, colour: str) -> None:
    draw, blocking = Draw(seed, colour), colour == "blocking"
    url, replicas = f"{cluster.url}?{WAITING}", Replicas(cluster)
    async with Asked(cluster.url, False) as plain, Asked(url, blocking) as engine:
        begin = [Commit(e, f"begin-{e.id}", (Append(('"begun"',)),)) for e in draw.entities]
        await once_more(engine, begin)
        applied = ""
        with draw.fault(Faults(cluster, keys_of(draw.struck).head)):
            try:
                await engine.execute(draw.batch)
                assert draw.fault not in LAGGING, "acknowledged, though no replica has it"
                assert await asyncio.to_thread(replicas.have, draw.batch), "only the primary has it"
            except StoreUnavailable as error:
                applied = error.applied
                assert applied == "unknown" or draw.fault not in LAGGING
            if draw.fault in LAGGING:
                # Over a connection that has written nothing, which would have nothing to wait for.
                async with Asked(url, blocking) as other:
                    with pytest.raises(StoreUnavailable, match="not replicated") as refused:
                        await other.execute(draw.batch[-1:])
                assert refused.value.applied == "unknown"
        await once_more(plain, [Fetch(entity) for entity in draw.entities])
        found = await stored(plain, draw.batch)
        assert set(found) <= {"": {1}, "no": {0}}.get(applied, {0, 1})
        again = await once_more(engine, draw.batch)
        assert all(isinstance(outcome, Applied | Duplicate) for outcome in again)
        assert await asyncio.to_thread(replicas.have, draw.batch), "only the primary has it"
        assert await stored(plain, draw.batch) == [1] * len(draw.batch)


@pytest.mark.parametrize("replicated", ["valkey"], indirect=True)
@pytest.mark.parametrize("colour", ["loop", "blocking"])
async def test_what_is_acknowledged_the_replica_has(replicated: RedisCluster, colour: str) -> None:
    for seed in range(len(FAULTS)):
        await check(replicated, seed, colour)


@pytest.mark.soak
@pytest.mark.parametrize("replicated", ["valkey", "redis"], indirect=True)
@pytest.mark.parametrize("colour", ["loop", "blocking"])
async def test_what_is_acknowledged_the_replica_has_for_long(
    replicated: RedisCluster, colour: str
) -> None:
    for seed in range(1000, 1000 + 20 * len(FAULTS)):
        await check(replicated, seed, colour)


# --- primaries that are killed ----------------------------------------------------------


class Talk:
    """One conversation: each message is asked for until it is acknowledged, as one and the same."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity
        self.said: list[str] = []
        self.refusals: list[str] = []

    async def go_on(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            word = f"op-{next(_ops)}"
            while True:
                try:
                    await self.say(word)
                    break
                except StoreUnavailable as error:
                    self.refusals.append(f"{error}")
                    await asyncio.sleep(0.02)
            self.said.append(word)
            await asyncio.sleep(0.002)

    async def say(self, word: str) -> None:
        raise NotImplementedError


class TalkWithEngine(Talk):
    def __init__(self, entity: Entity, engine: Asked) -> None:
        super().__init__(entity)
        self._engine = engine

    async def say(self, word: str) -> None:
        commit = Commit(self.entity, word, (Append((f'"{word}"',)),))
        (outcome,) = await self._engine.execute([commit])
        assert isinstance(outcome, Applied | Duplicate)


class TalkWithStore(Talk):
    """Through everything that a store puts on top: retries, the breaker, batches."""

    def __init__(self, entity: Entity, store: stateward.Store) -> None:
        super().__init__(entity)
        self._store = store

    async def say(self, word: str) -> None:
        await self._store.thread(self.entity.id).append({"word": word}, key=word)


async def check_failover(cluster: RedisCluster, seed: int) -> None:
    """A node is killed; its replica takes over, and has none of its own until the node is back."""
    draw, space = random.Random(seed), f"killed{seed}"
    url = f"{cluster.url}?{WAITING}"
    async with (
        Asked(cluster.url, False) as plain,
        Asked(url, False) as loop,
        Asked(url, True) as blocking,
        stateward.open(url, namespace=space, policy=PATIENT, spill=False) as store,
    ):
        entities = [Entity(space, "thread", f"t{n}") for n in range(TALKS)]
        talks: list[Talk] = [
            *(TalkWithEngine(entity, loop) for entity in entities[0::3]),
            *(TalkWithEngine(entity, blocking) for entity in entities[1::3]),
            *(TalkWithStore(entity, store) for entity in entities[2::3]),
        ]
        struck = talks[draw.randrange(TALKS)]

        async def more(number: int) -> None:
            wanted = [len(talk.said) + number for talk in talks]
            await until(lambda: all(len(t.said) >= n for t, n in zip(talks, wanted, strict=True)))

        ended = asyncio.Event()
        talking = [asyncio.ensure_future(talk.go_on(ended)) for talk in talks]
        try:
            await more(draw.randint(2, 10))
            victim = await asyncio.to_thread(primary_of, cluster, keys_of(struck.entity).head)
            heir = await asyncio.to_thread(replica_of, cluster, victim)
            victim.kill()
            await until(lambda: cluster.is_primary(heir))
            if not isinstance(struck, TalkWithStore):  # which asks again itself
                before = len(struck.refusals)
                await until(lambda: "not replicated" in " ".join(struck.refusals[before:]))
            await asyncio.to_thread(victim.start)  # from now on the replica that is waited for
            await more(3)
        finally:
            ended.set()
            await asyncio.gather(*talking)
        for talk in talks:
            (fetched,) = await once_more(plain, [Fetch(talk.entity, log=Log())])
            assert isinstance(fetched, Fetched)
            with_store = isinstance(talk, TalkWithStore)
            wanted = [f'{{"word":"{w}"}}' if with_store else f'"{w}"' for w in talk.said]
            assert fetched.lines.splitlines() == wanted, "lost, doubled or out of order"
    await asyncio.to_thread(cluster.wait_until_ready)
    assert victim.ask("CLUSTER", "FAILOVER") == b"+OK\r\n"
    await until(lambda: cluster.is_primary(victim) and not cluster.is_primary(heir))
    await asyncio.to_thread(cluster.wait_until_ready)
    assert sum(map(cluster.is_primary, cluster.nodes[:PRIMARIES])) == PRIMARIES


@pytest.mark.parametrize("replicated", ["valkey"], indirect=True)
async def test_a_primary_that_is_killed_takes_nothing_with_it(replicated: RedisCluster) -> None:
    await check_failover(replicated, 0)


@pytest.mark.soak
@pytest.mark.parametrize("replicated", ["valkey", "redis"], indirect=True)
async def test_a_primary_that_is_killed_takes_nothing_with_it_for_long(
    replicated: RedisCluster,
) -> None:
    for seed in range(1000, 1030):
        await check_failover(replicated, seed)
