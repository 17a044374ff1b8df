"""A store: one namespace of one engine, or of several, with the layers between."""

from __future__ import annotations

import asyncio  # async only
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, TypeVarTuple, overload

from stateward.codec import (
    Limits,
    Retention,
    check_count,
    check_id,
    check_span,
    check_ttl,
    seconds,
)
from stateward.context.compaction import Compaction
from stateward.context.tokens import Count
from stateward.context.window import Bounds, Oversized
from stateward.engine import Description, Engine
from stateward.errors import InvalidInput
from stateward.kinds import LEADER, LOCK, THREAD, WORKFLOW
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
from stateward.options import (
    THIRTY_DAYS,
    UNSAID,
    Options,
    Unsaid,
    Whose,
    owner_of,
    section_urls,
)
from stateward.records import (
    Context,
    Cursor,
    EffectInfo,
    EntityChange,
    Health,
    Knowledge,
    OpenQuestion,
    Redact,
    ReplicaInfo,
    ScheduleInfo,
    Shaper,
    Signals,
    TaskInfo,
    ThreadInfo,
    ThreadListener,
    WorkflowInfo,
)
from stateward.state.about import Labels
from stateward.state.context import read_context
from stateward.state.handle import Handle
from stateward.state.layered import Layered
from stateward.state.locks import RETAIN, Lock
from stateward.state.past import KEEP, Keep
from stateward.state.scope import Scope
from stateward.state.task_record import TaskOptions
from stateward.state.task_run import TaskRun
from stateward.state.threads import Thread, list_threads
from stateward.state.users import Shared, User
from stateward.volumes.names import Replicas, check_replicas
from stateward.world import World

# What a conversation does not need is imported by the method that does: half of all modules.
if TYPE_CHECKING:
    from stateward.engines.url import Credentials
    from stateward.state.audits import Audits
    from stateward.state.effects import Effect
    from stateward.state.heartbeats import Heartbeats
    from stateward.state.journals import Journal
    from stateward.state.operations_log import OperationsLog
    from stateward.state.recent import Order
    from stateward.state.run_record import Machine
    from stateward.state.schedules import Schedule
    from stateward.state.tasks import Task
    from stateward.state.workflows import Workflow

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


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
        namespace=namespace,
        retain=retain,
        policy=policy,
        limits=limits,
        replica=replica,
        replicas=replicas,
        cache=cache,
        alarm=alarm,
        spill=spill,
        redact=redact,
        listener=listener,
        shape=shape,
        keep=keep,
        metrics=metrics,
        heartbeat=heartbeat,
    )


class Store:
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
        """Over engines of one's own. `options` are those of `open`.

        `identity` names the store an engine stands for, so that what an earlier process kept
        locally for it is found again.
        """
        given = Options(**options)
        world = world or World()
        self._retain = seconds(given.retain)
        self.collector = Collector(world, chosen_folder(given.metrics))
        self._counters = Counters()
        replicas = check_replicas(given.replica, given.replicas)
        spill = chosen_spill(given.spill)
        alarms = Alarms(chosen_alarm(given.alarm), self._counters)

        def scope_over(each: Engine) -> Scope:
            stack = Stack(
                each,
                given.policy or Policy(),
                world,
                namespace=given.namespace,
                identity=identity.get(each) if isinstance(identity, Mapping) else identity,
                replica=given.replica,
                replicas=replicas,
                spill=spill,
                alarms=alarms,
                counters=self._counters,
                cache=given.cache,
                collector=self.collector if given.metrics else None,
            )
            return Scope(
                given.namespace,
                stack,
                world=world,
                limits=given.limits or Limits(),
                redact=given.redact,
                listener=given.listener,
                shaper=given.shape,
                keep=Keep.of(given.keep),
            )

        sections = {
            "threads": engine if threads is None else threads,
            "users": engine if users is None else users,
            "workflows": engine,
        }
        if given.listener is not None and given.listener.shape is None:
            given.listener.shape = given.shape
        scopes = {each: scope_over(each) for each in dict.fromkeys(sections.values())}
        self._lay_out(Layered({name: scopes[each] for name, each in sections.items()}))
        self._home = self._scope  # of the store itself, whatever the tenant
        self._heartbeats: Heartbeats | None = None
        if given.heartbeat:
            from stateward.state.heartbeats import Heartbeats

            self._heartbeats = Heartbeats(
                self._home, self._layered.stacks, given.heartbeat, self.collector
            )
        self._is_within = False
        self._closing: asyncio.Task[None] | None = None  # async only
        if given.replica is not None and all(s.stack.replica is None for s in scopes.values()):
            raise InvalidInput(
                "replica= divides what lies on each replica's own volume, but every URL here names "
                "a server that all replicas reach: leave replica= and replicas= out"
            )

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

    # --- state ----------------------------------------------------------------------

    def thread(
        self, id: str, user: Whose = UNSAID, *, retain: Retention | Unsaid = UNSAID
    ) -> Thread:
        """Return a handle on a conversation.

        With `user`, it is created with that owner, and access to another user's raises
        `NotYoursError`. With `user=None`, it is created without an owner, and access to a user's
        raises. If `user` is left out, the owner is not checked, for code that serves no user. The
        same holds for every method with `user`.

        `retain` is how long it is kept after its last message (None: for ever). The next append
        sets it, even on an existing thread, unless it is pinned. By default the store's setting
        applies.
        """
        if retain is UNSAID:
            return Thread(self._threads, id, owner_of(user), self._retain)
        return Thread(self._threads, id, owner_of(user), seconds(retain), sets_retain=True)

    async def threads(
        self,
        user: Whose = UNSAID,
        *,
        prefix: str = "",
        reverse: bool = False,
        labels: Labels | None = None,
        archived: bool | None = False,
        order: Order = "id",
        before: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ThreadInfo]:
        """List the conversations of a user, those without an owner (None), or by default all.

        Ordered by id, or with `order="recent"` most recently changed first: exact on each page of
        `limit`, and to the minute across pages. A page is one round trip, however many there are.
        `before` is the `cursor` of the last one shown, and continues after it. `labels` selects
        those with all of these labels; others are read and skipped. Archived ones are left out,
        unless `archived` is True (only those) or None (all).
        """
        async for info in list_threads(
            self._threads, owner_of(user), prefix, reverse, labels, archived, order, before, limit
        ):
            yield info

    def user(self, id: str) -> User:
        """Return a handle on a user's documents."""
        return User(self._users, id, self._layered.scopes)

    async def users(self) -> AsyncIterator[str]:
        """List the ids of all users who own anything here: documents, conversations, tasks …"""
        from stateward.state.tallies import list_owners

        async for user in list_owners(self._layered.scopes):
            yield user

    async def counts(self, user: Whose = UNSAID) -> dict[str, int]:
        """Count threads, workflows, tasks … by kind: of a user, without an owner (None), or all.

        What has expired counts until it is swept.
        """
        from stateward.state.tallies import count_kinds

        return await count_kinds(self._layered.scopes, owner_of(user))

    def shared(self, id: str, user: Whose = UNSAID) -> Shared:
        """Return a handle on documents that agents share.

        With `user` they are created with that owner, and exported and erased with the user.
        """
        return Shared(self._scope, id, owner_of(user))

    # --- coordination ---------------------------------------------------------------

    def lock(
        self, name: str, *, ttl: float = 30.0, wait: float | None = None, on: Thread | None = None
    ) -> Lock:
        """Return a lock across replicas: `async with store.lock("inventory") as lease`.

        Waits up to `wait` seconds (None: as long as it takes; 0: not at all), then raises
        `LeaseHeld`. The lease is renewed while the block runs; if it is lost, the block is
        cancelled and `LeaseLost` is raised. With `on=thread` it is that thread's own lease,
        whatever the name (as with `thread.lead`), and `thread.append(..., fence=lease)` is checked
        together with the write.
        """
        if on is not None:
            check_id(name, "the name of a lock")
            return on.lead(ttl=ttl, wait=wait)
        return self._lock(LOCK, name, ttl, wait)

    def elect(self, name: str, *, ttl: float = 30.0, wait: float | None = None) -> Lock:
        """Lead a name: the block runs in one replica at a time, the others wait to take over."""
        return self._lock(LEADER, name, ttl, wait)

    def _lock(self, kind: str, name: str, ttl: float, wait: float | None) -> Lock:
        handle = Handle(self._scope, self._scope.entity(kind, name), retain=RETAIN)
        return Lock(handle, ttl=ttl, wait=wait)

    # Options beside the arguments of a function: no type says that of keyword arguments, so with
    # options only positional ones are accepted by type checkers.
    # async only: begin
    @overload
    async def once(
        self,
        id: str,
        function: Callable[P, Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...

    @overload
    async def once(
        self,
        id: str,
        function: Callable[[*Ts], Awaitable[R]],
        *args: *Ts,
        user: Whose = UNSAID,
        ttl: float = 30.0,
        wait: float | None = None,
        attempts: int = 3,
        at: datetime | float | None = None,
        fingerprint: str | None = None,
        retain: Retention = THIRTY_DAYS,
    ) -> R: ...

    # async only: end
    @overload
    async def once(
        self,
        id: str,
        function: Callable[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...

    @overload
    async def once(
        self,
        id: str,
        function: Callable[[*Ts], R],
        *args: *Ts,
        user: Whose = UNSAID,
        ttl: float = 30.0,
        wait: float | None = None,
        attempts: int = 3,
        at: datetime | float | None = None,
        fingerprint: str | None = None,
        retain: Retention = THIRTY_DAYS,
    ) -> R: ...

    async def once(  # type: ignore[misc]  # a function may have arguments of these names
        self,
        id: str,
        function: Callable[..., Any],
        *args: Any,
        user: Whose = UNSAID,
        ttl: float = 30.0,
        wait: float | None = None,
        attempts: int = 3,
        at: datetime | float | None = None,
        fingerprint: str | None = None,
        retain: Retention = THIRTY_DAYS,
        **kwargs: Any,
    ) -> Any:
        """Return the result of `function(*args, **kwargs)`, computed once across replicas.

        A completed task returns its stored result. If it runs elsewhere, this waits up to `wait`
        seconds, then raises `LeaseHeld`. A failed task is retried by the next delivery, up to
        `attempts` times, then raises `TaskFailed`; `Permanent` makes a failure final. The same id
        with other arguments raises `KeyReusedError`; `fingerprint` replaces the arguments in that
        comparison. With `at` in the future the task is only recorded, for `work` to run when it is
        due, and None is returned; if it fails then, `work` retries it, up to `attempts` times in
        total.
        """
        owner = owner_of(user)
        options = TaskOptions(owner, ttl, wait, attempts, at, fingerprint, seconds(retain))
        return await TaskRun(self._scope, id, function, args, kwargs, options).run()

    def task(self, id: str, user: Whose = UNSAID) -> Task:
        """Return a handle on a recorded task, to inspect, retry or cancel it."""
        from stateward.state.tasks import Task

        return Task(self._scope, id, owner_of(user))

    async def tasks(
        self,
        status: str | None = None,
        *,
        user: Whose = UNSAID,
        order: Order = "id",
        before: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[TaskInfo]:
        """List tasks: all, or those pending, running, completed, failed or cancelled.

        Ordered by id, or newest first; `order`, `before` and `limit` are those of `threads`.
        """
        from stateward.state.tasks import list_tasks

        owner = owner_of(user)
        async for info in list_tasks(self._scope, status, owner, order, before, limit):
            yield info

    def schedule(self, id: str, user: Whose = UNSAID) -> Schedule:
        """Return a handle on recurring work: `declare` says when, and `work` runs each tick once.

        With `user` its tasks and workflows belong to that user too.
        """
        from stateward.state.schedules import Schedule

        return Schedule(self._scope, id, owner_of(user))

    async def schedules(self, user: Whose = UNSAID) -> AsyncIterator[ScheduleInfo]:
        """List schedules by id, with their next tick and the outcome of the last one."""
        from stateward.state.schedules import list_schedules

        async for info in list_schedules(self._scope, owner_of(user)):
            yield info

    def effect(self, id: str) -> Effect:
        """Return a handle on an effect by its id, as `effects` and `EffectUnknown` give it.

        Use it to resolve an effect whose outcome is unknown. Effects are carried out by
        `Thread.effect` and `Run.effect`.
        """
        from stateward.state.effects import Effect

        if str(id).startswith(f"{THREAD}/"):
            return Effect(self._threads, id, self._retain)
        return Effect(self._scope, id, None)

    async def effects(
        self,
        status: str | None = None,
        *,
        user: Whose = UNSAID,
        thread: str | None = None,
        workflow: str | None = None,
        name: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[EffectInfo]:
        """List effects: all, or those intended, done, failed or unknown.

        Ordered by id; unknown ones oldest first. `thread` and `workflow` select those of one,
        `name` those of one function. `after` is the `cursor` of the last one shown.
        """
        from stateward.state.effects import list_effects

        scopes = list(dict.fromkeys((self._threads, self._scope)))
        whose = None
        if thread is not None and workflow is not None:
            raise InvalidInput("effects belong to a thread or to a workflow: name one of them")
        if thread is not None:
            scopes, whose = [self._threads], self._threads.entity(THREAD, thread)
        elif workflow is not None:
            scopes, whose = [self._scope], self._scope.entity(WORKFLOW, workflow)
        async for info in list_effects(scopes, status, owner_of(user), whose, name, after, limit):
            yield info

    def workflow(
        self,
        id: str,
        *,
        kind: str | None = None,
        user: Whose = UNSAID,
        input: Any = None,
        machine: Machine | None = None,
        ttl: float = 30.0,
        wait: float | None = None,
        retain: Retention = None,
    ) -> Workflow:
        """Return a durable workflow: `async with` starts it, or continues where it stopped.

        Leaving the block normally completes it. `StoreUnavailable`, `LeaseLost` and cancellation
        leave it active for another replica; any other exception fails it. If another replica drives
        it, entering waits up to `wait` seconds, then raises `LeaseHeld`. `retain`, set when it is
        started, is how long it is kept after its end (None: for ever).
        """
        from stateward.state.workflows import Workflow

        return Workflow(
            self._scope,
            id,
            kind=kind,
            owner=owner_of(user),
            input=input,
            machine=machine,
            ttl=ttl,
            wait=wait,
            retain=seconds(retain),
        )

    async def workflows(
        self,
        *,
        kind: str | None = None,
        user: Whose = UNSAID,
        status: str | None = None,
        order: Order = "id",
        before: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[WorkflowInfo]:
        """List workflows: all, or those active, completed, failed or cancelled.

        Ordered by id, or newest first; `order`, `before` and `limit` are those of `threads`.
        """
        from stateward.state.workflows import list_workflows

        async for info in list_workflows(
            self._scope,
            kind=kind,
            owner=owner_of(user),
            status=status,
            order=order,
            before=before,
            limit=limit,
        ):
            yield info

    async def waiting(
        self,
        signal: str | None = None,
        *,
        for_: str | None = None,
        user: Whose = UNSAID,
        after: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[OpenQuestion]:
        """List the open questions of workflows, oldest first: `run.wait(…, ask=…, for_=…)`.

        All, or by signal, by addressee, or of one user's workflows. A page is one round trip,
        however many workflows there are; `after` is the id of the last question shown.
        """
        from stateward.state.questions import open_questions

        async for question in open_questions(
            self._scope, signal, for_, owner_of(user), after, limit
        ):
            yield question

    async def answer(self, question: OpenQuestion | str, value: Any = None) -> bool:
        """Answer a question, or the one with that id: `run.wait` returns the value.

        The first answer counts. Returns False if the question is no longer open: it was answered,
        it timed out, or it was withdrawn.
        """
        from stateward.state.questions import answer

        id_ = question.id if isinstance(question, OpenQuestion) else question
        return await answer(self._scope, id_, value)

    async def pause(self, kind: str) -> None:
        """Stop workers from taking workflows of this kind, in all replicas.

        Workflows that are being driven continue until they park or end.
        """
        from stateward.state.pauses import pause

        await pause(self._scope, kind)

    async def resume(self, kind: str) -> None:
        """Let workers take workflows of this kind again. Does nothing if it is not paused."""
        from stateward.state.pauses import resume

        await resume(self._scope, kind)

    async def paused(self) -> list[str]:
        """List the kinds of workflows that are paused."""
        from stateward.state.pauses import paused

        return await paused(self._scope)

    async def work(
        self,
        handlers: Mapping[str, Callable[..., Any]],
        *,
        tasks: Mapping[str, Callable[..., Any]] | None = None,
        poll: float = 1.0,
        ttl: float = 30.0,
        until: Callable[[], bool] | None = None,
        concurrency: int = 1,
    ) -> None:
        """Drive workflows that are abandoned, signalled or due, and schedules, until cancelled.

        `handlers` maps a kind to a function of the run; `tasks` maps a function's name to the
        function, for tasks scheduled with `once(..., at=...)`. Up to `concurrency` of them are
        driven concurrently, and none twice. If the store fails, the worker waits for it; what could
        not be finished stays active for the next worker.
        """
        from stateward.state.worker import Worker, work_side_by_side

        ttl, poll = check_ttl(ttl), check_span(poll, "poll")
        await work_side_by_side(
            lambda taken: Worker(
                self._scope, handlers, tasks or {}, ttl=ttl, poll=poll, taken=taken
            ),
            concurrency,
            until or (lambda: False),
        )

    def journal(
        self, id: str, user: Whose = UNSAID, *, retain: Retention | Unsaid = UNSAID
    ) -> Journal:
        """Return an event-sourced log, which agents can also use to publish what they did.

        Kept for ever, or for `retain` after its last event, set by the next append.
        """
        from stateward.state.journals import Journal

        if retain is UNSAID:
            return Journal(self._scope, id, owner_of(user), None)
        return Journal(self._scope, id, owner_of(user), seconds(retain), sets_retain=True)

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

    # --- reading together -----------------------------------------------------------

    async def context(
        self,
        *,
        user: str,
        thread: str,
        last: int | None = None,
        turns: int | None = None,
        max_tokens: int | None = None,
        count: Count | None = None,
        oversized: Oversized = "raise",
        summarize: Compaction | None = None,
        exact: bool = False,
        entries: bool = False,
    ) -> Context:
        """Read a window of the thread, the user's documents and unfinished workflows together.

        One round trip, whatever the length of the history (a window limited by turns or tokens may
        take more); in a layered store one to each engine, concurrently. The window is that of
        `Thread.load`: by default the last 20 messages. Only the first hundred workflows by id are
        returned; `workflows` lists all.
        """
        if last is None and turns is None and max_tokens is None and summarize is None:
            last = 20
        bounds = Bounds.of(last, turns, max_tokens, count, oversized, exact)
        assert self._threads.context is not None
        return await self._threads.context(user, thread, bounds, summarize, entries)

    async def knew(
        self, thread: str, version: int | str | Cursor, *, user: Whose = UNSAID
    ) -> Knowledge | None:
        """Return what an agent was given when it wrote the turn with this message.

        `version` is that of any message of the turn, e.g. `appended.version`. Everything returned
        is what was given then, byte for byte; what was changed or removed since, or is no longer
        kept, is listed in `gone`. None: the turn was stored without a receipt, see `saw=` of
        `Thread.append`. A message that does not exist raises `InvalidInput`. The receipts of turns
        that a fork shares are stored with its origin: `NotKept` if that is gone.
        """
        from stateward.state.knowledge import knew

        handle = Thread(self._threads, thread, owner_of(user), self._retain).handle
        return await knew(handle, self._users, self._scope, Cursor.of(version))

    async def changes(
        self,
        kinds: str | Iterable[str] | None = None,
        *,
        after: str | None = None,
        wait: bool = True,
        poll: float = 1.0,
    ) -> AsyncIterator[EntityChange]:
        """Yield entities that have changed: each at least once after its last change.

        `kinds` are kinds such as "thread", "user" or "workflow"; None: all. `after` is the `cursor`
        of a change: every entity that changed since is yielded, and some again; without it,
        everything is. A change has the current state of the entity, not each of its changes; for
        one entity, never an older state after a newer one. At the end it polls every `poll`
        seconds; with `wait=False` it ends. Deletions are not reported.
        """
        from stateward.state.changes import changes_after

        poll = check_span(poll, "poll")
        async for change in changes_after(self._layered, kinds, after, wait=wait, poll=poll):
            yield change

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
        """What has happened since this store was created, as counters."""
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
