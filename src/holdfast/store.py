"""A store: one namespace of one engine, with the layers between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Self

from holdfast.codec import Limits, check_count, check_id, decode, decode_lines
from holdfast.engine import Description, Engine
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.layers.guard import Guard
from holdfast.layers.policy import Deadlines, Policy
from holdfast.ops import Entity, Fetch, Fetched, Found, List, Listed, Log, Sweep, Swept
from holdfast.records import Context, Cursor, Health, ThreadInfo, Window, WorkflowInfo, moment
from holdfast.registry import create_engine, parse
from holdfast.state.documents import document
from holdfast.state.scope import Scope, refuse
from holdfast.state.threads import Thread
from holdfast.state.users import Shared, User
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
    world: World | None = None,
) -> Store:
    """A store for agents' state. Does no I/O: the store connects at its first use.

    `url` is e.g. `sqlite:///agents.db`; without one, the environment's `HOLDFAST_URL`. Stores
    of different namespaces do not see each other. `retain` is how long a conversation is kept
    after its last message (None: for ever). Raises `InvalidInput` for a wrong URL or option.
    """
    world = world or World()
    engine = create_engine(parse(url), world)
    return Store(
        engine, namespace=namespace, retain=retain, policy=policy, limits=limits, world=world
    )


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
        world: World | None = None,
    ) -> None:
        world = world or World()
        self._engine = engine
        self._guard = Guard(engine)
        self._retain = seconds(retain)
        deadlines = Deadlines(self._guard, policy or Policy(), world)
        self._scope = Scope(
            namespace,
            deadlines.execute,
            self._wait,
            capabilities=engine.capabilities,
            world=world,
            limits=limits or Limits(),
        )

    async def __aenter__(self) -> Self:
        await self._guard.ready()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is under way, then let go of every thread, file and connection."""
        await self._guard.close()

    async def _wait(self, cursors: Mapping[Entity, int], timeout: float) -> None:
        await self._guard.ready()
        await self._engine.wait(cursors, timeout)

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

    async def context(self, *, user: str, thread: str, last: int = 20) -> Context:
        """The thread's last messages, the user's documents and unfinished workflows.

        One round trip, whatever the length of the history.
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
                    documents=("state",),
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
        return Context(window, documents, [_workflow_info(found) for found in work.entities])

    # --- the store itself -----------------------------------------------------------

    async def health(self) -> Health:
        """Whether the store answers, and how it is set up. Never raises for a failing store."""
        world = self._scope.world
        start = world.monotonic()
        try:
            await self._guard.ready()
            probe = Fetch(self._scope.entity("health", "probe"))
            await self._scope.execute((probe,))
            latency = world.monotonic() - start
            said = await self._engine.describe()
        except HoldfastError as error:
            return Health(ok=False, error=f"{type(error).__name__}: {error}")
        return Health(
            ok=True,
            engine=said.engine,
            version=said.version,
            schema=said.schema,
            durability=said.durability,
            bytes=said.bytes,
            latency=latency,
        )

    async def describe(self) -> Description:
        """Versions, durability, settings and sizes, read from the store itself."""
        await self._guard.ready()
        return await self._engine.describe()

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


def _workflow_info(found: Found) -> WorkflowInfo:
    head = found.head
    state = found.documents.get("state")
    return WorkflowInfo(
        found.entity.id,
        head.owner or None,
        head.status,
        {} if state is None else decode(state.json),
        moment(head.updated),
    )
