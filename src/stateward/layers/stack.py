"""One engine with all the layers over it: what a store executes its operations through.

A store has one stack, or several (a layered store). Whatever belongs between state and an engine
is put together here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from stateward.engine import Capabilities, Description, Engine
from stateward.errors import AccessRefused, StoreUnavailable
from stateward.kinds import HEALTH
from stateward.layers.cache import Caching
from stateward.layers.cache_memory import Cache
from stateward.layers.coalescer import Coalescer
from stateward.layers.instruments import Instruments
from stateward.layers.layer import Execute, Layer
from stateward.layers.leases.renewal import Renewals
from stateward.layers.opener import Opener
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.replay import Replayer
from stateward.layers.outage.spill import Spill
from stateward.layers.outage.suppression import Suppression
from stateward.layers.parts import coalescer_of, deadlines_of
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarm, Alarms
from stateward.observe.catalogue import BREAKER, SPILL_AGE, SPILL_DEPTH, Metric
from stateward.observe.collector import Collector
from stateward.observe.concerned import Concerned
from stateward.observe.counters import Counters
from stateward.observe.sizes import Sizes
from stateward.observe.tenants import Tenants
from stateward.ops import Entity
from stateward.volumes.names import Replicas
from stateward.volumes.residence import Residence
from stateward.world import World

REACH_PAUSE = 0.1  # seconds between two attempts of somebody who waits for the store


class Stack:
    """The layers over one engine, in order.

    `execute` goes down to the engine in one round trip, within the time a call may take; `append`
    does so for an append whose messages may be kept locally while the store is down.
    `execute_here` also reaches what another replica has a right to, `execute_past_breaker` is for
    what nobody will ask again, such as releases, and `execute_uncounted` for what nobody asked for,
    such as heartbeats. Leases are renewed beside them. `when_open` is told of every opening.
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        world: World,
        *,
        namespace: str = "default",
        identity: str | None = None,
        replica: str | None = None,
        replicas: Replicas | None = None,
        spill: Spill | None = None,
        alarms: Alarms | None = None,
        counters: Counters | None = None,
        cache: Cache | None = None,
        collector: Collector | None = None,
    ) -> None:
        counters = counters or Counters()
        alarms = alarms or Alarms(Alarm(), counters)
        if spill is not None and (identity is None or not engine.capabilities.durable):
            spill = replace(spill, path=None)  # nothing says where an earlier process left off
        self.engine = engine
        self.policy = policy
        self.renewals = Renewals(engine.sibling(), world, counters)
        self.counters = counters
        self.alarms = alarms
        self.backlog = Backlog(spill, identity or "", namespace, world, counters)
        self._world = world
        self._workers = None if collector is None else collector.workers
        self.tenants = Tenants() if collector is None else collector.tenants
        self.concerned = Concerned() if collector is None else collector.concerned
        self._probe = Entity(namespace, HEALTH, "probe")
        self._sizes = Sizes(engine.sibling(), world)
        system = self.capabilities.system or "other"
        recorder = None if collector is None else collector.recorder(system)
        self._opener = Opener(engine, world, self._opened, recorder, coalescer_of)
        below: Layer = self._opener
        self.layers: list[object] = [engine, Coalescer, below]  # from the engine up
        if cache is not None:
            below = Caching(below, cache, world, counters)
            self.layers.append(below)
        self._deadlines = deadlines_of(engine, below, policy, world, counters, alarms.alarm.slow)
        replayer = Replayer(
            self._deadlines, self.backlog, engine.capabilities, world, counters, self.concerned
        )
        self._suppression = Suppression(
            self._deadlines, self.backlog, replayer, alarms, policy, world, counters
        )
        self.layers += [self._deadlines, self._suppression]
        self.execute: Execute = self._suppression.execute
        self.append: Execute = self.execute
        if policy.threads == "suppress":
            self.append = self._suppression.append  # type: ignore[assignment]
        self.execute_past_breaker: Execute = self._deadlines.execute_past_breaker
        self.execute_uncounted: Execute = self._deadlines.execute
        self.when_open: Callable[[], None] = lambda: None
        if collector is not None and recorder is not None:
            over = Instruments(self.execute, recorder, world)
            self.layers.append(over)
            self.execute = over.execute
            self.append = Instruments(self.append, recorder, world).execute
            past = self.execute_past_breaker
            self.execute_past_breaker = Instruments(past, recorder, world).execute
            collector.include(system, counters, self._sizes, self._gauges)
        self.execute_here = self.execute
        self._residence: Residence | None = None
        if replica is not None and replicas is not None and not engine.capabilities.networked:
            self._residence = Residence(
                self.execute, self.append, self.renewals, namespace, replica, replicas, world
            )
            self.layers.append(self._residence)
            replayer.admit = self._residence.admit
            self.execute, self.append = self._residence.execute, self._residence.append

    def __repr__(self) -> str:
        return " → ".join(_name(layer) for layer in reversed(self.layers))

    @property
    def replica(self) -> str | None:
        """Whose own volume this is; None if all replicas share the store."""
        return None if self._residence is None else self._residence.replica

    def _gauges(self) -> dict[Metric, float]:
        """How things stand now, for `Collector`."""
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
        """What the engine can do, as data."""
        return self.engine.capabilities

    async def start(self) -> None:
        """Open the engine; one that cannot be reached now is asked again until it can.

        Raises what waiting does not mend: a schema of a newer release, refused credentials.
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
        """Until a log may be past its cursor, at most `timeout` seconds."""
        await self._opener.ready()
        await self.engine.wait(cursors, timeout)

    async def ready(self) -> None:
        """Make sure the engine is open here; raises what keeps it from opening."""
        await self._opener.ready()

    def is_open(self) -> bool:
        """Whether the engine is open here and now."""
        return self._opener.is_open()

    async def describe(self) -> Description:
        """Versions, durability, settings and sizes, read from the store itself."""
        await self._opener.ready()
        said = await self.engine.describe()
        self._sizes.note(said)
        return said

    async def close(self) -> None:
        """Finish what is under way, renew nothing any more, let go of everything."""
        if not self._opener.is_ours_to_close():
            return
        if self._residence is not None and self.is_open():
            await self._residence.leave()
        await self._suppression.close()
        await self._world.offload(self.renewals.close)
        await self._opener.close()


def _name(layer: object) -> str:
    return layer.__name__ if isinstance(layer, type) else type(layer).__name__
