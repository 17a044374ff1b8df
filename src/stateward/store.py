"""A store: one namespace of one engine, or of several, with the layers between."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Self

from stateward.codec import Limits, check_count, check_id, shown
from stateward.context.compaction import Compaction, check_compaction
from stateward.context.tokens import Count
from stateward.context.window import Bounds, Oversized
from stateward.engine import Description, Engine
from stateward.engines.registry import Credentials, create_engine
from stateward.errors import InvalidInput
from stateward.layering import Replicas, check_replicas, layer_urls
from stateward.layers.cache_memory import Cache
from stateward.layers.deadlines import Policy
from stateward.layers.outage.spill import Spill, chosen_spill
from stateward.layers.stack import Stack
from stateward.observe.alarm import Alarm, AlarmEvent, chosen_alarm
from stateward.observe.collector import Collector
from stateward.observe.counters import Counters
from stateward.observe.metrics import Metrics
from stateward.ops import Fetch, Fetched, Found, List, Listed, Swept
from stateward.records import (
    Context,
    Health,
    TaskInfo,
    ThreadInfo,
    WorkflowInfo,
    moment,
)
from stateward.state.documents import document
from stateward.state.journals import Journal
from stateward.state.layered import Layered
from stateward.state.locks import Lock
from stateward.state.scope import OnAppend, Redact, Scope
from stateward.state.tasks import Task, TaskOptions, list_tasks
from stateward.state.threads import Thread
from stateward.state.users import Shared, User
from stateward.state.windows import Changed, WindowRequest, answer, questions, read_window
from stateward.state.worker import Worker
from stateward.state.workflows import READING, Machine, Workflow, list_workflows, workflow_info
from stateward.volumes.residence import Residence
from stateward.world import World

THIRTY_DAYS = timedelta(days=30)

Retention = timedelta | float | None


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
    on_append: OnAppend | None = None,
    metrics: bool = True,
    world: World | None = None,
) -> Store:
    """A store for agents' state. Does no I/O: the store connects at its first use.

    `url` is e.g. `sqlite:///agents.db`; without one, the environment's `STATEWARD_URL`. `threads`,
    `users` and `workflows` name other stores for these layers: whatever is neither a thread nor
    a user's lives with the workflows. Stores of different namespaces do not see each other.
    `retain` is how long a conversation is kept after its last message (None: for ever).
    `credentials` is a function that is asked at each new connection for a password, or for user
    and password (for tokens that expire), or such functions by layer. With `replica` and
    `replicas` (names, or a function that gives them) what lives on this replica's own volume
    is divided among the replicas, and what another one has raises `WrongReplica`. `cache` makes
    repeated reads of the same threads and users cheaper. `policy` says what happens when the
    store fails, `spill` where messages are kept meanwhile (a directory, a `Spill`, False:
    nowhere), `alarm` whom to tell (a function, a URL, an `Alarm`). `redact` is a function that
    every message passes through before it is stored, kept or logged; `on_append` one that is
    called with the thread's id, its user and the messages after each append that was stored, e.g.
    a `RepeatDetector`'s (what it raises is logged). `metrics=False` counts nothing. Raises
    `InvalidInput` for a wrong URL or option.
    """
    world = world or World()
    named = {"threads": threads, "users": users, "workflows": workflows}
    engines: dict[str, Engine] = {}
    layers: dict[str, Engine] = {}
    places: dict[Engine, str] = {}
    for layer, of in layer_urls(url, named, credentials).items():
        if of.text not in engines:
            engine = engines[of.text] = create_engine(of, world)
            places[engine] = of.place
        layers[layer] = engines[of.text]
    return Store(
        layers["workflows"],
        threads=layers["threads"],
        users=layers["users"],
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
        place=places,
        on_append=on_append,
        metrics=metrics,
        world=world,
    )


class Store:
    """Conversations, users and what agents share, over one engine or several."""

    def __init__(
        self,
        engine: Engine,
        *,
        threads: Engine | None = None,
        users: Engine | None = None,
        namespace: str = "default",
        retain: Retention = THIRTY_DAYS,
        policy: Policy | None = None,
        limits: Limits | None = None,
        replica: str | None = None,
        replicas: Replicas | None = None,
        cache: Cache | None = None,
        alarm: Alarm | Callable[[AlarmEvent], Any] | str | None = None,
        spill: Spill | str | os.PathLike[str] | bool | None = True,
        redact: Redact | None = None,
        metrics: bool = True,
        place: str | Mapping[Engine, str] | None = None,
        on_append: OnAppend | None = None,
        world: World | None = None,
    ) -> None:
        world = world or World()
        if redact is not None and not callable(redact):
            raise InvalidInput(f"redact is a function of a message, not {redact!r}")
        check_id(namespace, "a namespace")
        self._retain = seconds(retain)
        hook: object = on_append
        if hook is not None and (not callable(hook) or iscoroutinefunction(hook)):
            raise InvalidInput(f"on_append= is a function that is not async, not {shown(hook)}")
        self._measures = Collector(world)
        replicas = check_replicas(replica, replicas)
        kept_in, told = chosen_spill(spill), chosen_alarm(alarm)
        self._counters = Counters()

        def scope_over(each: Engine) -> Scope:
            stack = Stack(
                each,
                policy or Policy(),
                world,
                namespace=namespace,
                place=place.get(each) if isinstance(place, Mapping) else place,
                spill=kept_in,
                alarm=told,
                counters=self._counters,
                cache=cache,
                measures=self._measures if metrics else None,
            )
            home = None
            if replica is not None and replicas is not None and not each.capabilities.networked:
                home = Residence(stack, namespace, replica, replicas, world)
            return Scope(
                namespace,
                stack,
                world=world,
                limits=limits or Limits(),
                residence=home,
                redact=redact,
                on_append=on_append,
            )

        layers = {
            "threads": engine if threads is None else threads,
            "users": engine if users is None else users,
            "workflows": engine,
        }
        scopes = {each: scope_over(each) for each in dict.fromkeys(layers.values())}
        self._threads, self._users = scopes[layers["threads"]], scopes[layers["users"]]
        self._scope = scopes[engine]  # everything else
        self._places = Layered({layer: scopes[each] for layer, each in layers.items()})
        if replica is not None and all(scope.residence is None for scope in scopes.values()):
            raise InvalidInput(
                "replica= divides what lies on each replica's own volume, but every URL here names "
                "a server that all replicas reach: leave replica= and replicas= out"
            )

    async def __aenter__(self) -> Self:
        await self._places.ready()
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
        await self._places.close()

    # --- state ----------------------------------------------------------------------

    def thread(self, id: str, user: str | None = None, *, retain: Retention = None) -> Thread:
        """A conversation. With `user`, it is created as theirs, and another's raises.

        `retain` is how long it is kept after its last message, if this call is what creates it;
        by default as the store was told.
        """
        kept = self._retain if retain is None else seconds(retain)
        return Thread(self._threads, id, user, kept)

    async def threads(
        self, user: str | None = None, *, prefix: str = "", reverse: bool = False
    ) -> AsyncIterator[ThreadInfo]:
        """The conversations of a user (or of all), ordered by id."""
        after: str | None = None
        while True:
            page = List(
                self._threads.namespace,
                kind="thread",
                owner=None if user is None else check_id(user, "a user"),
                prefix=prefix,
                reverse=reverse,
                limit=self._threads.capabilities.page,
                after=after,
            )
            listed = (await self._threads.execute((page,)))[0]
            assert isinstance(listed, Listed)
            for found in listed.entities:
                yield _thread_info(found)
            if listed.next is None:
                return
            after = listed.next

    def user(self, id: str) -> User:
        """A user's permanent state."""
        return User(self._users, id, self._places.scopes)

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
    ) -> Context:
        """A window of the thread, the user's documents and unfinished workflows.

        One round trip, whatever the length of the history (a window that is bounded in turns or
        tokens may take more); in a layered store one to each engine, all at once. The window is
        that of `Thread.load`: by default the last 20 messages. Of the workflows it shows the first
        hundred by id; `workflows` lists all.
        """
        check_id(user, "a user")
        if last is None and turns is None and max_tokens is None and summarize is None:
            last = 20
        wanted = WindowRequest(
            self._threads.entity("thread", thread),
            user,
            Bounds.of(last, turns, max_tokens, count, oversized),
            compaction=check_compaction(summarize, None, None),
        )
        active = List(
            self._scope.namespace, kind="workflow", owner=user, status="active", documents=READING
        )
        kept_for = self._users.entity("user", user)
        asked = questions(self._threads, wanted, at_once=True)
        outcomes = await self._places.execute(
            (
                *((self._threads, fetch) for fetch in asked),
                (self._users, Fetch(kept_for, user, all_documents=True)),
                (self._scope, active),
            )
        )
        kept, work = outcomes[len(asked) :]
        assert isinstance(work, Listed)
        try:
            window = await answer(self._threads, wanted, outcomes[: len(asked)])
        except Changed:
            window = await read_window(self._threads, wanted)
        assert isinstance(kept, Fetched)
        documents = {name: document(value) for name, value in kept.documents.items()}
        return Context(window, documents, [workflow_info(found) for found in work.entities])

    # --- the store itself -----------------------------------------------------------

    async def health(self) -> Health:
        """Whether the store answers, and how it is set up. Never raises for a failing store."""
        return await self._places.health()

    @property
    def breaker(self) -> str:
        """ "closed", or "open" while calls fail at once because the store is down.

        In a layered store: because any of its engines is.
        """
        return self._places.breaker

    @property
    def counters(self) -> Counters:
        """What happened since this store was made, as numbers."""
        return self._counters

    async def describe(self) -> Description:
        """Versions, durability, settings and sizes, read from the store itself."""
        return await self._places.describe()

    def metrics(self) -> Metrics:
        """What was counted since the store was made: plain data. Asks the store nothing."""
        return self._measures.snapshot()

    async def sweep(self, limit: int = 1000) -> Swept:
        """Physically remove at most about `limit` rows of what has expired or was deleted.

        Expired state is never returned, swept or not; sweeping gives its space back.
        """
        return await self._places.sweep(check_count(limit, "limit"))


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
