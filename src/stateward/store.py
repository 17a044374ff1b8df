"""A store: one namespace of one engine, or of several, with the layers between."""

from __future__ import annotations

import asyncio  # async only
import os
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stateward.codec import THIRTY_DAYS, Limits, Retention, check_count, check_span, seconds
from stateward.engine import Description, Engine
from stateward.errors import InvalidInput
from stateward.layers.cache_memory import Cache
from stateward.layers.outage.spill import Spill, chosen_spill
from stateward.layers.policy import Policy
from stateward.layers.stack import Stack
from stateward.observe.alarm import Alarm, AlarmEvent, Alarms, chosen_alarm
from stateward.observe.collector import Collector
from stateward.observe.counters import Counters
from stateward.observe.metrics import Metrics
from stateward.observe.workers import chosen_folder
from stateward.ops import Swept
from stateward.options import Options, section_urls
from stateward.records import Health, Redact, ReplicaInfo, Shaper, Signals
from stateward.state.context import read_context
from stateward.state.layered import Layered
from stateward.state.past import KEEP, Keep
from stateward.state.scope import Scope
from stateward.state.store_contents import StoreContents
from stateward.state.store_work import StoreWork
from stateward.state.thread_listener import ThreadListener
from stateward.volumes.names import Replicas, check_replicas
from stateward.world import World

# What a conversation does not need is imported by the method that does: half of all modules.
if TYPE_CHECKING:
    from stateward.engines.url import Credentials
    from stateward.state.audits import Audits
    from stateward.state.heartbeats import Heartbeats
    from stateward.state.operations_log import OperationsLog


def open(
    url: str | None = None,
    *,
    threads: str | None = None,
    users: str | None = None,
    workflows: str | None = None,
    namespace: str = "default",
    retain: Retention = THIRTY_DAYS,
    policy: Policy | None = None,
    limits: Limits | None = None,
    credentials: Credentials | Mapping[str, Credentials] | None = None,
    replica: str | None = None,
    replicas: Replicas | None = None,
    cache: Cache | None = None,
    alarm: Alarm | Callable[[AlarmEvent], Any] | str | None = None,
    spill: Spill | str | os.PathLike[str] | bool | None = True,
    redact: Redact | None = None,
    listener: ThreadListener | None = None,
    shape: Shaper | None = None,
    keep: Keep | int = KEEP,
    metrics: bool | str | os.PathLike[str] = True,
    heartbeat: float | None = 10.0,
    world: World | None = None,
) -> Store:
    """Return a store for agents' state. Does no I/O: the store connects at its first use.

    `async with` connects. If the store is down, it continues without it and connects as soon as it
    can; it raises errors that waiting does not fix: `SchemaError`, `AccessRefused`, `InvalidInput`.

    `url` is e.g. `sqlite:///agents.db`, by default `STATEWARD_URL` from the environment. `threads`,
    `users` and `workflows` name other stores for these sections; what is neither a thread nor a
    user's lives with the workflows. Namespaces are isolated from each other. `retain` is how long a
    conversation is kept after its last message (None: for ever). `credentials` is a function that
    returns a password, or user and password, for each new connection (for tokens that expire), or
    such functions by section.

    With `replica` and `replicas` (names, or a function that returns them), state on the replicas'
    volumes is divided among them, and access to what another replica has raises `WrongReplica`.
    `cache` makes repeated reads of the same threads and users cheaper. `policy` says what happens
    when the store fails, `spill` where messages are spilled until it is back (a directory, a
    `Spill`, False: nowhere), `alarm` what to notify (a function, a URL, an `Alarm`).

    `redact` is a function that every message passes through before it is stored, spilled or logged.
    `listener` is notified of changes to conversations, e.g. a `RepeatDetector`. `shape` is a
    function that describes messages in your own format (`MessageShape`), so that windows keep tool
    calls and results together. `keep` is how much history of users' and shared documents is kept: a
    `Keep`, or a number of versions; 0: none. `metrics=False` disables counting; a directory lets
    all workers of this host be scraped as one (by default `STATEWARD_METRICS`). `heartbeat` is how
    often, in seconds, this process records in the store that it is alive, for `Store.replicas`
    (None: never).

    Raises `InvalidInput` for a wrong URL or option.
    """
    return _open(**locals())


def _open(
    url: str | None,
    threads: str | None,
    users: str | None,
    workflows: str | None,
    credentials: Credentials | Mapping[str, Credentials] | None,
    world: World | None,
    **options: Any,
) -> Store:
    """Make the engines that the URLs name, one for equal URLs, and a store over them."""
    from stateward.engines.registry import create_engine

    world = world or World()
    named = {"threads": threads, "users": users, "workflows": workflows}
    engines: dict[str, Engine] = {}
    sections: dict[str, Engine] = {}
    identities: dict[Engine, str] = {}
    for section, of in section_urls(url, named, credentials).items():
        if of.text not in engines:
            engine = engines[of.text] = create_engine(of, world)
            identities[engine] = of.identity
        sections[section] = engines[of.text]
    return Store(
        sections["workflows"],
        threads=sections["threads"],
        users=sections["users"],
        identity=identities,
        world=world,
        **options,
    )


class Store(StoreContents, StoreWork):
    """Conversations, users, shared documents and work, over one engine or several."""

    def __init__(
        self,
        engine: Engine,
        *,
        threads: Engine | None = None,
        users: Engine | None = None,
        identity: str | Mapping[Engine, str] | None = None,
        world: World | None = None,
        **options: Any,
    ) -> None:
        """Make a store over engines of one's own. `options` are those of `open`.

        `identity` names the store an engine stands for, so that what an earlier process spilled
        locally for it is read again.
        """
        chosen = Options(**options)
        world = world or World()
        self._retain = seconds(chosen.retain)
        self.collector = Collector(world, chosen_folder(chosen.metrics))
        self._counters = Counters()
        sections = {
            "threads": engine if threads is None else threads,
            "users": engine if users is None else users,
            "workflows": engine,
        }
        scopes = self._scopes_over(dict.fromkeys(sections.values()), identity, chosen, world)
        if chosen.listener is not None and chosen.listener.shape is None:
            chosen.listener.shape = chosen.shape
        self._lay_out(Layered({name: scopes[each] for name, each in sections.items()}))
        self._home = self._scope  # of the store itself, in whatever namespace it is used
        self._heartbeats: Heartbeats | None = None
        if chosen.heartbeat:
            from stateward.state.heartbeats import Heartbeats

            self._heartbeats = Heartbeats(
                self._home, self._layered.stacks, chosen.heartbeat, self.collector
            )
        self._is_within = False
        self._closing: asyncio.Task[None] | None = None  # async only

    def _scopes_over(
        self,
        engines: Iterable[Engine],
        identity: str | Mapping[Engine, str] | None,
        chosen: Options,
        world: World,
    ) -> dict[Engine, Scope]:
        """Make the layers over each engine, and the scope over these."""
        replicas = check_replicas(chosen.replica, chosen.replicas)
        spill = chosen_spill(chosen.spill)
        alarms = Alarms(chosen_alarm(chosen.alarm), self._counters)
        scopes: dict[Engine, Scope] = {}
        for engine in engines:
            stack = Stack(
                engine,
                chosen.policy or Policy(),
                world,
                namespace=chosen.namespace,
                identity=identity.get(engine) if isinstance(identity, Mapping) else identity,
                replica=chosen.replica,
                replicas=replicas,
                spill=spill,
                alarms=alarms,
                counters=self._counters,
                cache=chosen.cache,
                collector=self.collector if chosen.metrics else None,
            )
            scopes[engine] = Scope(
                chosen.namespace,
                stack,
                world=world,
                limits=chosen.limits or Limits(),
                redact=chosen.redact,
                listener=chosen.listener,
                shaper=chosen.shape,
                keep=Keep.of(chosen.keep),
            )
        if chosen.replica is not None and all(s.stack.replica is None for s in scopes.values()):
            raise InvalidInput(
                "replica= divides what lies on each replica's own volume, but every URL here names "
                "a server that all replicas reach: leave replica= and replicas= out"
            )
        return scopes

    def _lay_out(self, layered: Layered) -> None:
        self._layered = layered
        self._threads, self._users = layered["threads"], layered["users"]
        self._scope = layered["workflows"]  # everything else
        parts = (self._threads, self._users, self._scope)
        self._threads.context = partial(read_context, layered, parts)

    def within(self, namespace: str) -> Self:
        """Return the same store in another namespace, e.g. a tenant's. Costs nothing.

        Connections, threads, caches, metrics and spilled turns are shared, and closing this store
        closes all of them. Neither namespace sees the other. Closing the returned store does
        nothing.
        """
        if any(scope.stack.replica is not None for scope in self._layered.scopes):
            raise InvalidInput(
                "what lives on a replica's own volume is laid out for one namespace: open a store "
                "for each, with namespace="
            )
        self.collector.tenants.active = True
        other = copy(self)
        other._is_within = True
        other._lay_out(self._layered.within(namespace))
        return other

    def __repr__(self) -> str:
        return f"<Store {self._scope.namespace!r}: {self._layered!r}>"

    async def __aenter__(self) -> Self:
        await self._layered.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # async only: begin
    def __enter__(self) -> None:
        raise InvalidInput(
            "this store is async: write `async with stateward.open(...)`; in blocking code, `with "
            "stateward.sync.open(...)`"
        )

    def __exit__(self, *error: object) -> None:
        """Do nothing. Without it, Python would not call `__enter__`."""

    # async only: end
    async def close(self) -> None:
        """Finish calls in flight, release every lease, then release all resources.

        Spilled turns are replayed for up to 5 s; the rest stays on disk for the next process.
        Closing a store that was made by `within` does nothing.
        """
        if self._is_within:
            return
        # async only: begin
        # In its own task: who closes it from within a block that holds a lease is cancelled
        # by that very act, and must not leave it half closed.
        closing = self._closing
        if closing is None or closing.done() or closing.get_loop() != asyncio.get_running_loop():
            closing = self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(closing)

    async def _close(self) -> None:
        # async only: end
        if self._heartbeats is not None:
            await self._heartbeats.close()
        await self._layered.close()
        if self.collector.workers is not None:
            await self._scope.world.offload(self.collector.workers.close)

    @property
    def sections(self) -> Layered:
        """Where threads, users and workflows live, for adapters that build operations."""
        return self._layered

    @property
    def retention(self) -> float | None:
        """How long a conversation is kept by default, in seconds; None: for ever."""
        return self._retain

    # --- the store itself -----------------------------------------------------------

    async def ready(self, timeout: float | None = None) -> None:
        """Wait until the store has been reached, up to `timeout` seconds (None: for ever).

        Later calls return immediately; `health` says whether the store answers now. Raises
        `StoreUnavailable` on timeout, and immediately any error that waiting does not fix: see
        `async with`.
        """
        await self._layered.reach(None if timeout is None else check_span(timeout, "timeout"))

    async def health(self) -> Health:
        """Check whether the store answers, and how it is set up. A failing store never raises."""
        return await self._layered.health()

    @property
    def breaker(self) -> str:
        """ "closed", or "open" while calls fail immediately because the store is down.

        In a layered store: because any of its engines is.
        """
        return self._layered.breaker

    @property
    def counters(self) -> Counters:
        """The counters of this store since it was created."""
        return self._counters

    async def describe(self) -> Description:
        """Return versions, durability, settings and sizes, read from the store itself."""
        return await self._layered.describe()

    def metrics(self) -> Metrics:
        """Return what was counted since the store was created, as plain data. Does no I/O."""
        return self.collector.snapshot()

    async def replicas(self) -> list[ReplicaInfo]:
        """List the processes that have the store open, and those that had it in the last hour.

        Live ones first, judged by the store's clock, in one round trip. A process is listed after
        its first heartbeat; one that stopped without closing the store is "gone" after three missed
        heartbeats. In a layered store they are kept in the workflows' engine.
        """
        from stateward.state.replica_record import listings, replicas_in

        home = self._home
        outcomes = await home.execute_here(listings(home.namespace))
        return replicas_in(outcomes, home.world.now())

    async def signals(
        self,
        since: float | timedelta = 3600.0,
        step: float | None = None,
        *,
        replica: str | None = None,
    ) -> Signals:
        """Return what the processes that have the store open measured over time, combined.

        Starts `since` ago, at most a day, in points of `step` seconds: at least 10, by default such
        that there are at most 360 points. `replica` selects one process by its id. Two round trips.
        A process measures with each heartbeat; what it measured while the store was down is added
        when the store is back. In a store from `within`, the numbers include all namespaces of
        these processes, and only entities of this namespace are listed as concerned.
        """
        from stateward.state.signal_record import SignalSpan
        from stateward.state.signals import signals_of

        namespaces = dict.fromkeys((self._home.namespace, self._scope.namespace))
        span = SignalSpan.of(since, step)
        return await signals_of(self._home, tuple(namespaces), self._scope.namespace, span, replica)

    async def sweep(self, limit: int = 1000) -> Swept:
        """Physically remove at most about `limit` rows of what has expired or was deleted.

        Expired state is never returned, swept or not; sweeping frees its space.
        """
        return await self._layered.sweep(check_count(limit, "limit"))

    @property
    def operations(self) -> OperationsLog:
        """The log of manual changes in this namespace: who, what, when, and how it ended."""
        from stateward.state.operations_log import OperationsLog

        return OperationsLog(self._scope)

    @property
    def audits(self) -> Audits:
        """The audit reports stored in this namespace."""
        from stateward.state.audits import Audits

        return Audits(self._scope)
