"""One engine with all the layers over it: what a store executes its operations through.

A store has one stack, or several (a layered store). Whatever belongs between state and an engine
is put together here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.engine import Capabilities, Description, Engine
from stateward.errors import AccessRefused, StoreUnavailable
from stateward.kinds import HEALTH
from stateward.layers.cache import Caching
from stateward.layers.cache_memory import Cache
from stateward.layers.coalescer import Coalescer
from stateward.layers.confirmation import Confirmation
from stateward.layers.instruments import Instruments
from stateward.layers.layer import Execute, Layer, Way
from stateward.layers.leases.renewal import Renewals
from stateward.layers.opener import Opener
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.replay import Replayer
from stateward.layers.outage.spill import Spill
from stateward.layers.outage.suppression import Suppression
from stateward.layers.parts import coalescer_of, deadlines_of
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarms
from stateward.observe.catalogue import BREAKER, SPILL_AGE, SPILL_DEPTH, Metric
from stateward.observe.collector import Collector
from stateward.observe.concerned import Concerned
from stateward.observe.counters import Counters
from stateward.observe.sizes import Sizes
from stateward.observe.tenants import Tenants
from stateward.ops import Entity, Op, Outcome
from stateward.volumes.names import Replicas
from stateward.volumes.residence import Residence
from stateward.world import World

REACH_PAUSE = 0.1  # seconds between two attempts to reach the store


class Stack:
    """The layers over one engine, in order, and the entrances to them.

    Every entrance reaches the engine in one round trip, within the time a call may take. `way` is
    the one of callers; `here` also reaches entities that another replica has a right to. Leases are
    renewed beside the layers. `when_open` is called at every opening.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        world: World,
        *,
        namespace: str,
        identity: str | None,
        replica: str | None,
        replicas: Replicas | None,
        spill: Spill | None,
        alarms: Alarms,
        counters: Counters,
        cache: Cache | None,
        collector: Collector | None,
    ) -> None:
        if spill is not None and (identity is None or not engine.capabilities.durable):
            spill = replace(spill, path=None)  # nothing says where an earlier process left off
        self.engine = engine
        self.policy = policy
        self.renewals = Renewals(engine.sibling(), world, counters)
        self.counters = counters
        self.alarms = alarms
        self.backlog = Backlog(spill, identity or "", namespace, world, counters)
        self.when_open: Callable[[], None] = lambda: None
        self._world = world
        self._workers = None if collector is None else collector.workers
        self.tenants = Tenants() if collector is None else collector.tenants
        self.concerned = Concerned() if collector is None else collector.concerned
        self._probe = Entity(namespace, HEALTH, "probe")
        self._sizes = Sizes(engine.sibling(), world)
        system = self.capabilities.system or "other"
        self._recorder = None if collector is None else collector.recorder(system)
        self._opener = Opener(engine, world, coalescer_of, self._opened, self._recorder)
        self._caching = None if cache is None else Caching(self._opener, cache, world, counters)
        below: Layer = self._caching or self._opener
        self._deadlines = deadlines_of(engine, below, policy, world, counters, alarms.alarm.slow)
        self._replayer = Replayer(
            self._deadlines, self.backlog, engine.capabilities, world, counters, self.concerned
        )
        self._suppression = Suppression(
            self._deadlines, self.backlog, self._replayer, alarms, policy, world, counters
        )
        self._residence: Residence | None = None
        self._build_ways(namespace, replica, replicas)
        if collector is not None:  # last: the gauges may be read from now on
            collector.include(system, counters, self._sizes, self._gauges)

    def _build_ways(self, namespace: str, replica: str | None, replicas: Replicas | None) -> None:
        """Build the entrances, from the suppression up."""
        suppression = self._suppression
        execute: Execute = suppression.execute
        if self.capabilities.replicates:
            execute = Confirmation(execute).execute
        append = suppression.append if self.policy.threads == "suppress" else execute
        way = Way(execute, append)  # type: ignore[arg-type]
        past_breaker: Execute = self._deadlines.execute_past_breaker
        if self._recorder is not None:
            way = Way(self._measured(way.execute), self._measured(way.append))
            past_breaker = self._measured(past_breaker)
        self.here = way
        if replica is not None and replicas is not None and not self.capabilities.networked:
            residence = Residence(way, self.renewals, namespace, replica, replicas, self._world)
            way = Way(residence.execute, residence.append)
            self._residence = residence
            self._replayer.admit = residence.admit
        self.way = way
        self._past_breaker = past_breaker

    def _measured(self, below: Execute) -> Execute:
        assert self._recorder is not None
        return Instruments(below, self._recorder, self._world).execute

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute operations by the way of callers."""
        return self.way.execute(ops, deadline)

    def execute_past_breaker(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute, even while the breaker is open, what no caller will repeat: e.g. releases."""
        return self._past_breaker(ops, deadline)

    def execute_uncounted(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]:
        """Execute without measuring what no caller asked for: e.g. heartbeats."""
        return self._deadlines.execute(ops, deadline)

    def __repr__(self) -> str:
        layers = (
            self._residence,
            None if self._recorder is None else Instruments,
            self._suppression,
            self._deadlines,
            self._caching,
            self._opener,
            Coalescer,
            self.engine,
        )
        return " → ".join(_name(layer) for layer in layers if layer is not None)

    @property
    def replica(self) -> str | None:
        """The replica whose own volume this is; None if all replicas share the store."""
        return None if self._residence is None else self._residence.replica

    def _gauges(self) -> dict[Metric, float]:
        """Return the gauges as they stand now, for `Collector`."""
        return {
            SPILL_DEPTH: self.backlog.depth,
            SPILL_AGE: self.backlog.age,
            BREAKER: float(self.breaker != "closed"),
        }

    @property
    def breaker(self) -> str:
        """ "closed", or "open" while calls fail immediately."""
        return self._deadlines.breaker

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of the engine, as data."""
        return self.engine.capabilities

    async def start(self) -> None:
        """Open the engine; while it cannot be reached, try again beside everything else.

        Raises errors that waiting does not fix: a schema of a newer release, refused credentials.
        """
        try:
            await self._opener.ready()
        except AccessRefused:
            raise
        except StoreUnavailable as error:
            self._begin_metrics()
            self._suppression.seek(self._probe, error)

    async def reach(self, deadline: float | None) -> None:
        """Wait until the engine is open, trying again; raises what keeps it from opening then."""
        world = self._world
        while True:
            try:
                if deadline is None:
                    await self._opener.ready()
                else:
                    await self._opener.ready_by(deadline)
                return
            except AccessRefused:
                raise
            except StoreUnavailable:
                if deadline is not None and world.monotonic() + REACH_PAUSE >= deadline:
                    raise
            await world.pause(REACH_PAUSE)

    async def _opened(self) -> None:
        self._begin_metrics()
        await self._suppression.begin()
        self.when_open()

    def _begin_metrics(self) -> None:
        if self._workers is not None:
            self._workers.begin()

    async def wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        """Wait until a log may be past its cursor, at most `timeout` seconds."""
        await self._opener.ready()
        await self.engine.wait(cursors, timeout)

    async def ready(self) -> None:
        """Make sure the engine is open here; raises what keeps it from opening."""
        await self._opener.ready()

    def is_open(self) -> bool:
        """Return whether the engine is open here and now."""
        return self._opener.is_open()

    async def describe(self) -> Description:
        """Versions, durability, settings and sizes, read from the store itself."""
        await self._opener.ready()
        description = await self.engine.describe()
        self._sizes.note(description)
        return description

    async def close(self) -> None:
        """Finish what is under way, stop renewals and close the engine."""
        if not self._opener.is_ours_to_close():
            return
        if self._residence is not None and self.is_open():
            await self._residence.leave()
        await self._suppression.close()
        await self._world.offload(self.renewals.close)
        await self._opener.close()


def _name(layer: object) -> str:
    return layer.__name__ if isinstance(layer, type) else type(layer).__name__
