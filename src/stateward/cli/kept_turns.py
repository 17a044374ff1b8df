"""Turns that replicas kept locally, brought to wherever their threads live after a rebalancing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from stateward.engine import SyncEngine
from stateward.errors import StoreUnavailable
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.spill import Spill
from stateward.layers.policy import Policy
from stateward.observe.counters import Counters
from stateward.ops import Entity, Fetch, Fetched
from stateward.sync.layers.coalescer import Coalescer
from stateward.sync.layers.deadlines import Deadlines
from stateward.sync.layers.outage.replay import Replayer
from stateward.world import World


class KeptTurns:
    """The spill files in some folders: turns that the stores of all replicas could not take.

    A replica replays only what lives with it. What it kept of a thread that moves would wait for
    the thread to come back.
    """

    def __init__(self, files: Iterable[tuple[str, str]], namespace: str, world: World) -> None:
        """`files` says what the stores are called there, and in which folder."""
        self._world = world
        self._counters = Counters()
        self._backlogs = [
            (store, Backlog(Spill(folder), store, namespace, world, self._counters))
            for store, folder in files
        ]

    def take(self) -> None:
        """Take over the files; raises if one of them cannot be had."""
        for store, backlog in self._backlogs:
            backlog.adopt()
            for path in backlog.left_by_others():
                raise StoreUnavailable(
                    f"{path} has turns of {store} and is in use, or belongs to another account: "
                    "stop the replica that uses it, and run this as the account of the replicas"
                )

    def replay(
        self,
        volumes: Mapping[str, SyncEngine],
        home: Callable[[Entity], str],
        keep: Callable[[], float],
    ) -> int:
        """Replay everything; `keep` says until when that may continue. How many turns were stored.

        Killed at any moment, it can be done again.
        """
        for _, backlog in self._backlogs:
            for entity in list(backlog.waiting):
                self._forget_deleted(backlog, entity, volumes.values())
                engine = volumes[home(entity)]
                below = Coalescer(engine, None, self._world.monotonic)
                deadlines = Deadlines(below, Policy(), self._world, self._counters)
                replayer = Replayer(
                    deadlines, backlog, engine.capabilities, self._world, self._counters
                )
                replayer.replay(entity, keep())
        return self._counters.replayed

    def _forget_deleted(
        self, backlog: Backlog, entity: Entity, volumes: Iterable[SyncEngine]
    ) -> None:
        """Drop turns of what was deleted on its old volume: the new one has no record of that."""
        heads = [engine.execute((Fetch(entity),))[0] for engine in volumes]
        dropped = max(head.head.dropped for head in heads if isinstance(head, Fetched))
        gone = [record for record in backlog.waiting[entity] if record.at <= dropped]
        for record in gone:
            backlog.forget(record)
        backlog.settle(record.op for record in gone)

    def close(self) -> None:
        """Leave what is left to whoever comes next."""
        for _, backlog in self._backlogs:
            backlog.close()
