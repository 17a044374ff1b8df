"""LangGraph: a compiled graph whose checkpointer keeps conversations, and its Store for users."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph

from stateward.audit.targets.frameworks.memory import FrameworkMemory
from stateward.audit.targets.frameworks.sandbox import POOL
from stateward.audit.targets.memory import UNAVAILABLE, Json, NamedSteps
from stateward.audit.targets.target import AuditTarget

USERS = ("users",)


class GraphMemory(FrameworkMemory):
    """A turn is one call of a graph that adds its messages to the thread (`add_messages`).

    A message gets its id from the turn's key, by which LangGraph detects a repeat. LangGraph has
    neither locks nor tasks that run once for all replicas, no versions, and no metrics of lookups.
    """

    provides: tuple[str, ...] = ("threads", "users", "workflows", "sizes")

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        self._stack = AsyncExitStack()

    async def connect(self) -> tuple[Any, Any]:
        """The checkpointer and the store, set up."""
        raise NotImplementedError

    async def open(self) -> None:
        self._saver, self._store = await self.connect()
        self._graph = conversation().compile(checkpointer=self._saver)

    async def close(self) -> None:
        await self._stack.aclose()

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        turn = [framed(message, f"{key}/{number}") for number, message in enumerate(messages)]
        await self._graph.ainvoke({"messages": turn}, configured(thread))

    async def load(self, thread: str, last: int | None) -> list[Json]:
        state = await self._graph.aget_state(configured(thread))
        messages = state.values.get("messages", [])
        return [
            plain(message)
            for message in (messages if last is None else messages[max(0, len(messages) - last) :])
        ]

    async def get_user(self, user: str) -> Json:
        item = await self._store.aget(USERS, user)
        return {} if item is None else dict(item.value)

    async def put_user(self, user: str, value: Json) -> None:
        await self._store.aput(USERS, user, value)

    async def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        value = await self.get_user(user)
        await self.put_user(user, change(value) or value)

    async def run_workflow(self, id: str, steps: NamedSteps) -> None:
        """A graph of one node a step, each recorded before the next begins."""
        graph = workflow(steps).compile(checkpointer=self._saver)
        config = configured(f"workflow/{id}")
        state = await graph.aget_state(config)
        if state.values and not state.next:
            return
        start = None if state.next else {"done": ""}
        await graph.ainvoke(start, config, durability="sync")


class PostgresGraph(GraphMemory):
    """AsyncPostgresSaver and AsyncPostgresStore on one pool, as their documentation sets it up."""

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        from psycopg import OperationalError

        self.unavailable = (OperationalError, *UNAVAILABLE)

    async def connect(self) -> tuple[Any, Any]:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from langgraph.store.postgres import AsyncPostgresStore
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            self.sandbox.within(),
            min_size=1,
            max_size=POOL,
            open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        )
        await self._stack.enter_async_context(pool)
        saver, store = AsyncPostgresSaver(pool), AsyncPostgresStore(pool)
        await saver.setup()
        await store.setup()
        return saver, store


class SqliteGraph(GraphMemory):
    """AsyncSqliteSaver and AsyncSqliteStore on one file."""

    unavailable = (sqlite3.OperationalError, *UNAVAILABLE)

    async def connect(self) -> tuple[Any, Any]:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
        from langgraph.store.sqlite import AsyncSqliteStore

        path, enter = self.sandbox.path, self._stack.enter_async_context
        saver = await enter(AsyncSqliteSaver.from_conn_string(path))
        store = await enter(AsyncSqliteStore.from_conn_string(path))
        await saver.setup()
        await store.setup()
        return saver, store


def configured(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def conversation() -> Any:
    """The smallest graph of a chat: what it is given becomes part of the conversation."""
    graph = StateGraph(MessagesState)
    graph.add_node("reply", lambda state: {})
    graph.add_edge(START, "reply")
    graph.add_edge("reply", END)
    return graph


class WorkflowState(TypedDict):
    done: str


def workflow(steps: NamedSteps) -> Any:
    graph, before = StateGraph(WorkflowState), START
    for name, function in steps:

        async def node(
            state: WorkflowState, function: Callable[[], Any] = function
        ) -> WorkflowState:
            return {"done": str(await function())}

        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph


def framed(message: Json, id: str) -> BaseMessage:
    kind = HumanMessage if message["role"] == "user" else AIMessage
    content = message["content"]
    if isinstance(content, str):
        more = {name: value for name, value in message.items() if name != "content"}
        return kind(content=content, id=id, additional_kwargs=more)
    return kind(content="", id=id, additional_kwargs=message)


def plain(message: BaseMessage) -> Json:
    return {"content": message.content, **message.additional_kwargs}
