"""LangGraph: of two requests in one thread, one's turn is lost.

Both go on from the checkpoint that they loaded, and the last one written is the one that counts.
"""

import asyncio
import sys
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

both_have_loaded = asyncio.Barrier(2)


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]


async def reply(state: Chat) -> dict[str, Any]:
    await both_have_loaded.wait()
    return {"messages": [("ai", "answer to " + state["messages"][-1].content)]}


async def conversation() -> list[str]:
    graph = StateGraph(Chat).add_node(reply).add_edge(START, "reply")
    config: Any = {"configurable": {"thread_id": "chat-1"}}
    async with AsyncSqliteSaver.from_conn_string("chat.db") as saver:
        chat: Any = graph.compile(checkpointer=saver)
        turns = [{"messages": [("user", text)]} for text in ("first", "second")]
        await asyncio.gather(*(chat.ainvoke(turn, config) for turn in turns))
        return [message.content for message in (await chat.aget_state(config)).values["messages"]]


found = asyncio.run(conversation())
print("expected: four messages, of two turns, or an error for one")
print("found:", found)
sys.exit(len(found) != 4)
