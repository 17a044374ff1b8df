"""Graphs with an offline model, and checkpoints made by hand."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def order_status(order: str) -> str:
    """Where an order is."""
    return f"order {order} is on its way"


def support_agent(checkpointer: Any, answers: list[AIMessage], **options: Any) -> Any:
    """A model that asks a tool and then answers."""
    model = GenericFakeChatModel(messages=iter(answers))

    def think(state: MessagesState) -> dict[str, list[BaseMessage]]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("think", think)
    builder.add_node("tools", ToolNode([order_status]))
    builder.add_edge(START, "think")
    builder.add_conditional_edges("think", tools_condition)
    builder.add_edge("tools", "think")
    return builder.compile(checkpointer=checkpointer, **options)


def tool_call(order: str) -> AIMessage:
    call = {"name": "order_status", "args": {"order": order}, "id": f"call-{order}"}
    return AIMessage(content="", tool_calls=[call])


def echo(checkpointer: Any, **options: Any) -> Any:
    """A graph that answers each message with its own words."""

    def answer(state: MessagesState) -> dict[str, list[AnyMessage]]:
        return {"messages": [AIMessage(content=f"you said: {state['messages'][-1].content}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=checkpointer, **options)


def at(thread: str, id: str | None = None, ns: str = "", **more: Any) -> Any:
    """A config."""
    given: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": ns, **more}
    return {"configurable": given if id is None else given | {"checkpoint_id": id}}


def checkpoint(step: int, values: dict[str, Any], versions: dict[str, Any]) -> Any:
    """A checkpoint as LangGraph makes them."""
    return {
        "v": 4,
        "id": str(uuid6(clock_seq=step)),
        "ts": "2026-11-15T12:00:00+00:00",
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": {"answer": {"branch:to:answer": versions.get("messages")}},
        "updated_channels": ["messages"],
    }


def said(state: Any) -> list[str]:
    return [message.content for message in state["messages"]]
