"""LangGraph: a graph of one node with a checkpointer, and a store for what is known of users.

A turn is one run of the graph: the question goes in, the node answers. Users are documents of a
store. It has no compare-and-swap: an update is a get and a put.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.postgres.aio import AsyncPostgresStore
from langgraph.store.sqlite.aio import AsyncSqliteStore
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.conversations import Change, Message, Population, Turn, profile
from bench.peers.shape import Peer, conversations, text

CONNECTIONS = 20  # of a pool, as in LangGraph's documentation
PROFILE = "profile"


class Graphs(Peer):
    colour = "async"
    longest = 1_000  # a checkpoint holds the whole conversation

    async def _homes(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        """The checkpointer and the store."""
        raise NotImplementedError

    async def open(self) -> None:
        self._stack = AsyncExitStack()
        saver, self._store = await self._homes(self._stack)
        await saver.setup()
        await self._store.setup()
        graph = StateGraph(MessagesState, context_schema=str)  # type: ignore[type-var]
        graph.add_node("answer", _answer)
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        self._graph = graph.compile(checkpointer=saver, store=self._store)

    async def close(self) -> None:
        await self._stack.aclose()

    async def fill(self, population: Population) -> None:
        """Each conversation with one checkpoint: what a call costs depends on the newest alone."""
        for thread, _user, messages in conversations(population, self.longest):
            told = [_native(message) for message in messages]
            await self._graph.aupdate_state(_at(thread), {"messages": told}, as_node="answer")
        for number in range(population.users if population.profiles else 0):
            await self._store.aput(_of(population.user(number)), PROFILE, profile(number))

    async def append(self, thread: str, user: str, turn: Turn) -> None:
        question, answer = text(turn)
        said: Any = {"messages": [HumanMessage(question)]}
        await self._graph.ainvoke(said, _at(thread), context=answer)  # type: ignore[arg-type]

    async def last(self, thread: str, user: str, count: int) -> list[AnyMessage]:
        state = await self._graph.aget_state(_at(thread))
        return state.values["messages"][-count:]  # type: ignore[no-any-return]

    async def get(self, user: str) -> dict[str, Any]:
        return (await self._store.aget(_of(user), PROFILE)).value  # type: ignore[no-any-return]

    async def update(self, user: str, change: Change) -> None:
        value = dict(await self.get(user))
        change(value)
        await self._store.aput(_of(user), PROFILE, value)

    async def context(self, thread: str, user: str, count: int) -> Any:
        return await self.last(thread, user, count), await self.get(user)

    def said(self, found: Sequence[AnyMessage]) -> list[Message]:
        roles = {"human": "user", "ai": "assistant"}
        return [{"role": roles[each.type], "content": each.content} for each in found]


class SqliteGraphs(Graphs):
    name = "LangGraph AsyncSqliteSaver"

    async def _homes(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        saver = AsyncSqliteSaver.from_conn_string(self.place)
        store = AsyncSqliteStore.from_conn_string(self.place)
        return await stack.enter_async_context(saver), await stack.enter_async_context(store)


class PostgresGraphs(Graphs):
    name = "LangGraph AsyncPostgresSaver"

    async def _homes(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: Any = AsyncConnectionPool(
            self.place, max_size=CONNECTIONS, open=False, kwargs=options
        )
        await stack.enter_async_context(pool)
        store = AsyncPostgresStore.from_conn_string(
            self.place, pool_config={"min_size": 1, "max_size": CONNECTIONS}
        )
        return AsyncPostgresSaver(pool), await stack.enter_async_context(store)


def _answer(state: MessagesState, runtime: Runtime[str]) -> dict[str, Any]:
    return {"messages": [AIMessage(runtime.context)]}


def _native(message: Message) -> AnyMessage:
    kind = HumanMessage if message["role"] == "user" else AIMessage
    return kind(message["content"])


def _at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def _of(user: str) -> tuple[str, ...]:
    return ("users", user)
