"""A LangGraph agent that remembers its conversation, wherever and however often it is started.

python agent.py "Where is my order?"
"""

import asyncio
import sys

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph

from stateward.integrations.langgraph import StatewardSaver

URL = "sqlite:///agents.db"


def scripted(messages: list[AnyMessage]) -> AIMessage:
    """Stands for a model, without a network."""
    return AIMessage(f"I remember {len(messages) - 1} earlier messages.")


# Your model goes here: any chat model of LangChain.
model = RunnableLambda(scripted)


def think(state: MessagesState) -> dict[str, list[AIMessage]]:
    return {"messages": [model.invoke(state["messages"])]}


async def main(text: str = "Where is my order?") -> None:
    async with StatewardSaver.from_url(URL) as saver:
        graph = StateGraph(MessagesState).add_node("think", think).add_edge(START, "think")
        agent = graph.compile(checkpointer=saver)
        config: RunnableConfig = {"configurable": {"thread_id": "s-1", "user_id": "u-42"}}
        state = await agent.ainvoke({"messages": [HumanMessage(text)]}, config)
        print(state["messages"][-1].content)


asyncio.run(main(*sys.argv[1:]))
