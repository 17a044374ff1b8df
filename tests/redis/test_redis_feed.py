"""On a cluster the index of what was touched is another node's: a feed misses nothing all the same.

A writer is stopped at every round of its plan, with any part of that round on its way: for a while,
during which the feed is read, and then for good or not. The clock is the test's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
from conformance.engines_redis import Stores
from servers.redis_cluster import running_cluster

from stateward.engine import MINUTE, OVERLAP
from stateward.engines.redis import batch
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.ops import Commit
from stateward.records import EntityChange
from stateward.sync.store import Store
from stateward.testing.clock import SteppableWorld

LONG = 3 * OVERLAP * MINUTE
PAUSES = (0.0, 2.0, OVERLAP - 3.0, OVERLAP + 5.0)  # minutes
ROUNDS, STEPS = 4, 3


class Killed(Exception):
    """The writer's process is gone."""


class Consumer:
    """Who keeps what the feed tells, and the cursor with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cursor: str | None = None
        self.known: dict[str, EntityChange] = {}

    def look(self) -> None:
        for change in self._store.changes("thread", after=self._cursor, wait=False):
            before = self.known.get(change.id)
            assert before is None or before.commits <= change.commits, "never an older one"
            self.known[change.id] = change
            self._cursor = change.cursor


class Fault:
    """What happens to a plan at one of its rounds."""

    def __init__(self, world: SteppableWorld, busy: Any, consumer: Consumer) -> None:
        self._world = world
        self._busy = busy
        self._consumer = consumer
        self.met = False

    def plan(self, inner: Any, round: int, keep: int | None, minutes: float) -> Iterator[Any]:
        """Before that round a pause; then all of it, or only the steps that `keep` has bits of."""
        steps: Sequence[PipelineStep] = next(inner)
        number = 0
        while True:
            if number == round:
                self.met = True
                steps = self._later(steps, minutes)
                if keep is not None:
                    some = [step for at, step in enumerate(steps) if keep >> at & 1]
                    if some:
                        yield some
                    raise Killed
            replies = yield steps
            number += 1
            try:
                steps = inner.send(replies)
            except StopIteration as ended:
                return ended.value

    def _later(self, steps: Sequence[PipelineStep], minutes: float) -> list[PipelineStep]:
        """The same steps, which reach servers whose clocks have gone on."""
        before = f"{self._world.now():.6f}"
        for _ in range(int(minutes)):
            self._world.advance(MINUTE)
            self._busy.append({"n": 1})  # so that the feed goes on, too
            self._consumer.look()
        after = f"{self._world.now():.6f}"
        return [
            step._replace(
                commands=tuple(
                    tuple(after if word == before else word for word in command)
                    for command in step.commands
                )
            )
            for step in steps
        ]


def stopped(original: Any, id: str, fault: Any, minutes: float, op: Commit, traits: Any) -> Any:
    """The plan of a commit, with the fault if it is that entity's."""
    plan = original(op, traits)
    return fault(plan, minutes=minutes) if op.entity.id == id else plan


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    with running_cluster(tmp_path_factory.mktemp("feed"), "valkey", replicas=0) as cluster:
        yield Stores(cluster.url, cluster.nodes, cluster.empty)


@pytest.mark.parametrize("minutes", PAUSES)
@pytest.mark.parametrize("who", ["a writer that knows the entity", "a new writer"])
def test_a_writer_that_is_stopped_anywhere_is_not_missed(
    cluster: Stores, who: str, minutes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = cluster.world()
    options: dict[str, Any] = {"world": world, "namespace": "n", "spill": False, "heartbeat": None}
    stores = [Store(cluster.blocking_engine(world), **options) for _ in range(3)]
    original, faults = batch.touching_commit, 0
    with stores[0] as writer, stores[1] as other, stores[2] as reader:
        consumer, busy = Consumer(reader), other.thread("busy")
        every = [None, *range(2**STEPS - 1)]
        for number, (round, keep) in enumerate(product(range(ROUNDS), every)):
            id = f"t-{number}"
            first = writer if who.startswith("a writer") else other
            first.thread(id).append({"n": 1})
            world.advance(LONG)
            busy.append({"n": 1})
            consumer.look()
            fault = Fault(world, busy, consumer)

            stopping = partial(stopped, original, id, partial(fault.plan, round=round, keep=keep))
            monkeypatch.setattr(batch, "touching_commit", partial(stopping, minutes))
            try:
                writer.thread(id).append({"n": 2})
            except Killed:
                pass
            finally:
                monkeypatch.setattr(batch, "touching_commit", original)
            faults += fault.met
            for _ in range(2):
                world.advance(MINUTE)
                busy.append({"n": 1})
                consumer.look()
            now = other.thread(id).load(last=1)
            assert consumer.known[id].version == now.version, (round, keep)
    assert faults >= len(every), "there was something to stop"
