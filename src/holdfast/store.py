"""A store: one namespace of one engine, with the layers between."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Self

from holdfast.alarm import Alarm, AlarmEvent, chosen_alarm
from holdfast.codec import Limits, check_count, check_id, decode_lines, shown
from holdfast.counters import Counters
from holdfast.engine import Description, Engine
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.layers.policy import Policy
from holdfast.layers.spill import Spill, chosen_spill
from holdfast.layers.stack import Stack
from holdfast.measures import Measures
from holdfast.metrics import Metrics
from holdfast.ops import Fetch, Fetched, Found, List, Listed, Log, Sweep, Swept
from holdfast.records import (
    Context,
    Cursor,
    Health,
    TaskInfo,
    ThreadInfo,
    Window,
    WorkflowInfo,
    moment,
)
from holdfast.registry import Credentials, create_engine, parse
from holdfast.state.documents import document
from holdfast.state.journals import Journal
from holdfast.state.locks import Lock
from holdfast.state.scope import OnAppend, Redact, Scope, refuse
from holdfast.state.tasks import Task, TaskOptions, list_tasks
from holdfast.state.threads import Thread
from holdfast.state.users import Shared, User
from holdfast.state.work import Worker
from holdfast.state.workflows import READING, Machine, Workflow, list_workflows, workflow_info
from holdfast.world import World

THIRTY_DAYS = timedelta(days=30)

Retention = timedelta | float | None


def open(
    url: str | None = None,
    *,
    namespace: str = "default",
    retain: Retention = THIRTY_DAYS,
    policy: Policy | None = None,
    limits: Limits | None = None,
    credentials: Credentials | None = None,
    alarm: Alarm | Callable[[AlarmEvent], Any] | str | None = None,
    spill: Spill | str | os.PathLike[str] | bool | None = True,
    redact: Redact | None = None,
    on_append: OnAppend | None = None,
    metrics: bool = True,
    world: World | None = None,
) -> Store:
    """A store for agents' state. Does no I/O: the store connects at its first use.

    `url` is e.g. `sqlite:///agents.db`; without one, the environment's `HOLDFAST_URL`. Stores
    of different namespaces do not see each other. `retain` is how long a conversation is kept
    after its last message (None: for ever). `credentials` is a function that is asked at each new
    connection for a password, or for user and password: for tokens that expire. `policy` says what
    happens when the store fails, `spill` where messages are kept meanwhile (a directory, a `Spill`,
    False: nowhere), `alarm` whom to tell (a function, a URL, an `Alarm`). `redact` is a function
    that every message passes through before it is stored, kept or logged. `on_append`
    is a function that is called with the thread's id, its user and the messages after each append
    that was stored, e.g. a `RepeatDetector`'s; what it raises is logged. `metrics=False` counts
    nothing. Raises `InvalidInput` for a wrong URL or option.
    """
    world = world or World()
    parsed = parse(url, credentials)
    store = Store(
        create_engine(parsed, world),
        namespace=namespace,
        retain=retain,
        policy=policy,
        limits=limits,
        alarm=alarm,
        spill=spill,
        redact=redact,
        place=parsed.place,
        metrics=metrics,
        world=world,
    )
    hook: object = on_append
    if hook is not None and (not callable(hook) or iscoroutinefunction(hook)):
        raise InvalidInput(f"on_append= is a function that is not async, not {shown(hook)}")
    store._scope.on_append = on_append
    return store


class Store:
    """Conversations, users and what agents share, over one engine."""

    def __init__(
        self,
        engine: Engine,
        *,
        namespace: str = "default",
        retain: Retention = THIRTY_DAYS,
        policy: Policy | None = None,
        limits: Limits | None = None,
        alarm: Alarm | Callable[[AlarmEvent], Any] | str | None = None,
        spill: Spill | str | os.PathLike[str] | bool | None = True,
        redact: Redact | None = None,
        metrics: bool = True,
        place: str | None = None,
        world: World | None = None,
    ) -> None:
        world = world or World()
        if redact is not None and not callable(redact):
            raise InvalidInput(f"redact is a function of a message, not {redact!r}")
        check_id(namespace, "a namespace")
        self._retain = seconds(retain)
        self._measures = Measures(world)
        self._stack = Stack(
            engine,
            policy or Policy(),
            world,
            namespace=namespace,
            place=place,
            spill=chosen_spill(spill),
            alarm=chosen_alarm(alarm),
            measures=self._measures if metrics else None,
        )
        self._scope = Scope(
            namespace, self._stack, world=world, limits=limits or Limits(), redact=redact
        )

    async def __aenter__(self) -> Self:
        await self._stack.ready()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is under way, give back every lease, then let go of everything.

        What was kept locally during an outage is brought to the store for up to 5 s; what is left
        then stays in its file for the next process.
        """
        if self._stack.is_open():
            await self._scope.release_all()
        await self._stack.close()

    # --- state ----------------------------------------------------------------------

    def thread(self, id: str, user: str | None = None, *, retain: Retention = None) -> Thread:
        """A conversation. With `user`, it is created as theirs, and another's raises.

        `retain` is how long it is kept after its last message, if this call is what creates it;
        by default as the store was told.
        """
        kept = self._retain if retain is None else seconds(retain)
        return Thread(self._scope, id, user, kept)

    async def threads(
        self, user: str | None = None, *, prefix: str = "", reverse: bool = False
    ) -> AsyncIterator[ThreadInfo]:
        """The conversations of a user (or of all), ordered by id."""
        after: str | None = None
        while True:
            page = List(
                self._scope.namespace,
                kind="thread",
                owner=None if user is None else check_id(user, "a user"),
                prefix=prefix,
                reverse=reverse,
                limit=self._scope.capabilities.page,
                after=after,
            )
            listed = (await self._scope.execute((page,)))[0]
            assert isinstance(listed, Listed)
            for found in listed.entities:
                yield _thread_info(found)
            if listed.next is None:
                return
            after = listed.next

    def user(self, id: str) -> User:
        """A user's permanent state."""
        return User(self._scope, id)

    def shared(self, id: str) -> Shared:
        """Permanent state that belongs to no user."""
        return Shared(self._scope, id)

    # --- coordination ---------------------------------------------------------------

    def lock(
        self, name: str, *, ttl: float = 30.0, wait: float | None = None, on: Thread | None = None
    ) -> Lock:
        """A lock across replicas: `async with store.lock("inventory") as lease`.

        Waits up to `wait` seconds (None: as long as it takes; 0: not at all), then raises
        `LeaseHeld`. The lease is renewed while the block runs; if it is lost, the block is
        cancelled and `LeaseLost` raised. With `on=thread` it is that thread's own lease, whatever
        the name (as with `thread.lead`), and `thread.append(..., fence=lease)` is checked
        together with the write.
        """
        if on is not None:
            check_id(name, "the name of a lock")
            return on.lead(ttl=ttl, wait=wait)
        return Lock(self._scope, self._scope.entity("lock", name), ttl=ttl, wait=wait)

    def elect(self, name: str, *, ttl: float = 30.0, wait: float | None = None) -> Lock:
        """Lead a name: the block runs in one replica at a time, the others wait to succeed it."""
        return Lock(self._scope, self._scope.entity("leader", name), ttl=ttl, wait=wait)

    async def once(
        self,
        id: str,
        function: Callable[..., Any],
        *args: Any,
        user: str | None = None,
        ttl: float = 30.0,
        wait: float | None = None,
        attempts: int = 3,
        at: datetime | float | None = None,
        fingerprint: str | None = None,
        retain: Retention = THIRTY_DAYS,
        **kwargs: Any,
    ) -> Any:
        """The result of `function(*args, **kwargs)`, computed once across replicas.

        A task that has completed gives its stored result. One that runs elsewhere is waited for,
        up to `wait` seconds, then `LeaseHeld` is raised. One that failed is tried again by the
        next delivery, up to `attempts` times, then raises `TaskFailed`; `Permanent` ends it at
        once. The same id with other arguments raises `KeyReusedError`; `fingerprint` says
        instead what makes two calls the same. With `at` in the future it is only recorded, for
        `work` to run when it is due, and None is returned; if it fails then, `work` tries it
        again after a while, up to `attempts` times in all.
        """
        options = TaskOptions(user, ttl, wait, attempts, at, fingerprint, seconds(retain))
        return await Task(self._scope, id, function, args, kwargs, options).run()

    async def tasks(
        self, status: str | None = None, *, user: str | None = None
    ) -> AsyncIterator[TaskInfo]:
        """Tasks by id: all, or those pending, running, completed or failed."""
        async for info in list_tasks(self._scope, status, user):
            yield info

    def workflow(
        self,
        id: str,
        *,
        kind: str | None = None,
        user: str | None = None,
        input: Any = None,
        machine: Machine | None = None,
        ttl: float = 30.0,
        wait: float | None = None,
    ) -> Workflow:
        """A durable workflow: `async with` begins it, or goes on where it stopped.

        Leaving the block normally completes it. `StoreUnavailable`, `LeaseLost` and cancellation
        leave it active for another replica; any other exception fails it. Entering one that
        another replica drives waits up to `wait` seconds, then raises `LeaseHeld`.
        """
        return Workflow(
            self._scope,
            id,
            kind=kind,
            user=user,
            input=input,
            machine=machine,
            ttl=ttl,
            wait=wait,
        )

    async def workflows(
        self, *, kind: str | None = None, user: str | None = None, status: str | None = None
    ) -> AsyncIterator[WorkflowInfo]:
        """Workflows by id: all, or those active, completed or failed."""
        async for info in list_workflows(self._scope, kind=kind, user=user, status=status):
            yield info

    async def work(
        self,
        handlers: Mapping[str, Callable[..., Any]],
        *,
        tasks: Mapping[str, Callable[..., Any]] | None = None,
        poll: float = 1.0,
        ttl: float = 30.0,
        until: Callable[[], bool] | None = None,
    ) -> None:
        """Drive workflows that are abandoned, signalled or due, until cancelled.

        `handlers` maps a kind to a function of the run; `tasks` maps a function's name to the
        function, for tasks scheduled with `once(..., at=...)`. Survives a failing store: what
        could not be finished stays active for whoever comes next.
        """
        worker = Worker(self._scope, handlers, tasks or {}, ttl=ttl, poll=poll)
        await worker.run(until or (lambda: False))

    def journal(self, id: str, user: str | None = None, *, retain: Retention = None) -> Journal:
        """An event-sourced log, and a channel on which agents publish what they did."""
        return Journal(self._scope, id, user, seconds(retain))

    # --- reading together -----------------------------------------------------------

    async def context(self, *, user: str, thread: str, last: int = 20) -> Context:
        """The thread's last messages, the user's documents and unfinished workflows.

        One round trip, whatever the length of the history. Of the workflows it shows the first
        hundred by id; `workflows` lists all.
        """
        check_id(user, "a user")
        last = check_count(last, "last")
        entity = self._scope.entity("thread", thread)
        outcomes = await self._scope.execute(
            (
                Fetch(entity, user, Log(last=last)),
                Fetch(self._scope.entity("user", user), user, all_documents=True),
                List(
                    self._scope.namespace,
                    kind="workflow",
                    owner=user,
                    status="active",
                    documents=READING,
                ),
            )
        )
        messages, kept, work = outcomes
        if not isinstance(messages, Fetched):
            refuse(messages, entity)
        assert isinstance(kept, Fetched)
        assert isinstance(work, Listed)
        head = messages.head
        window = Window(
            decode_lines(messages.lines) if messages.count else [],
            head.version,
            head.exists,
            head.live - messages.count,
            Cursor(head.version, head.stamp or None),
            head.created,
            head.updated,
        )
        documents = {name: document(value) for name, value in kept.documents.items()}
        return Context(window, documents, [workflow_info(found) for found in work.entities])

    # --- the store itself -----------------------------------------------------------

    async def health(self) -> Health:
        """Whether the store answers, and how it is set up. Never raises for a failing store."""
        world = self._scope.world
        start = world.monotonic()
        try:
            await self._stack.ready()
            probe = Fetch(self._scope.entity("health", "probe"))
            await self._scope.execute((probe,))
            latency = world.monotonic() - start
            said = await self._stack.describe()
        except HoldfastError as error:
            return self._health(ok=False, error=f"{type(error).__name__}: {error}")
        return self._health(
            ok=True,
            engine=said.engine,
            version=said.version,
            schema=said.schema,
            durability=said.durability,
            bytes=said.bytes,
            latency=latency,
        )

    def _health(self, **said: Any) -> Health:
        backlog = self._stack.backlog
        return Health(
            **said,
            breaker=self._stack.breaker,
            spill_depth=backlog.depth,
            spill_bytes=backlog.bytes,
            spill_problem=backlog.problem,
            alarms=self._stack.alarms.raised,
        )

    @property
    def breaker(self) -> str:
        """ "closed", or "open" while calls fail at once because the store is down."""
        return self._stack.breaker

    @property
    def counters(self) -> Counters:
        """What happened since this store was made, as numbers."""
        return self._stack.counters

    async def describe(self) -> Description:
        """Versions, durability, settings and sizes, read from the store itself."""
        return await self._stack.describe()

    def metrics(self) -> Metrics:
        """What was counted since the store was made: plain data. Asks the store nothing."""
        return self._measures.snapshot()

    async def sweep(self, limit: int = 1000) -> Swept:
        """Physically remove at most about `limit` rows of what has expired or was deleted.

        Expired state is never returned, swept or not; sweeping gives its space back.
        """
        sweep = Sweep(check_count(limit, "limit"))
        swept = (await self._scope.execute((sweep,)))[0]
        assert isinstance(swept, Swept)
        return swept


def seconds(retain: Retention) -> float | None:
    """A retention in seconds; None: for ever."""
    if retain is None:
        return None
    value = retain.total_seconds() if isinstance(retain, timedelta) else retain
    if type(value) not in (int, float) or not 0 < value < 1e11:
        raise InvalidInput(
            f"retain is a timedelta or seconds above 0, or None for ever, not {retain!r}"
        )
    return float(value)


def _thread_info(found: Found) -> ThreadInfo:
    head = found.head
    return ThreadInfo(
        found.entity.id,
        head.owner or None,
        head.version,
        head.live,
        moment(head.created),
        moment(head.updated),
        None if head.expires is None else moment(head.expires),
    )
