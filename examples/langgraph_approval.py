"""A LangGraph agent that asks a person before it pays money back, and may be killed while it waits.

    pip install 'stateward[langgraph]'
    python langgraph_approval.py ask "My kettle came broken."    # stops at the question
    python langgraph_approval.py approve                        # any time later, anywhere

Without arguments it does both. `approve` may be repeated: the money is paid back once.
"""

import asyncio
import os
import sys

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

import stateward
from stateward.integrations.langgraph import StatewardSaver, effect_tool

URL = os.environ.get("STATEWARD_URL", "sqlite:///approval.db")
CONFIG = {"configurable": {"thread_id": "s-1", "user_id": "u-42"}}


@tool
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    # Your payment service goes here; pass it stateward.idempotency_key().
    print(f"  paying {amount} back for {order}")
    return f"{amount} paid back for {order}"


def scripted_model(state: MessagesState) -> AIMessage:
    """Replace it with your model: it asks for a refund, and then reports the result."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return AIMessage(f"I am sorry about that. {last.content}.")
    call = {"name": "refund", "args": {"order": "o-991", "amount": 40}, "id": "call-1"}
    return AIMessage("", tool_calls=[call])


def think(state: MessagesState) -> dict:
    return {"messages": [scripted_model(state)]}


def approve(state: MessagesState) -> Command:
    """Ask a person about each call. The run ends here, and resumes when there is an answer."""
    (call,) = state["messages"][-1].tool_calls
    if interrupt({"allow": call["name"], **call["args"]}):
        return Command(goto="tools")
    refused = ToolMessage("The refund was refused", tool_call_id=call["id"])
    return Command(goto="think", update={"messages": [refused]})


def build(saver: StatewardSaver) -> CompiledStateGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("approve", approve, destinations=("tools", "think"))
    # Carried out once, also if the process dies before that is recorded.
    graph.add_node("tools", ToolNode([effect_tool(saver, refund)]))
    graph.add_edge(START, "think")
    after = {"tools": "approve", END: END}
    graph.add_conditional_edges("think", tools_condition, after)
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=saver)


async def ask(text: str = "My kettle came broken.") -> None:
    async with stateward.open(URL) as store:
        agent = build(StatewardSaver(store))
        await agent.ainvoke({"messages": [("user", text)]}, CONFIG)
        state = await agent.aget_state(CONFIG)
        print("waits for a person:", [waiting.value for waiting in state.interrupts])


async def answer(granted: bool) -> None:
    async with stateward.open(URL) as store:
        agent = build(StatewardSaver(store))
        state = await agent.aget_state(CONFIG)
        if not state.interrupts:
            print("nothing waits; the last message:", state.values["messages"][-1].content)
            return
        done = await agent.ainvoke(Command(resume=granted), CONFIG)
        print("agent:", done["messages"][-1].content)


def main(verb: str = "", *words: str) -> None:
    if verb in ("", "ask"):
        asyncio.run(ask(*words))
    if verb in ("", "approve", "refuse"):
        asyncio.run(answer(verb != "refuse"))


if __name__ == "__main__":
    main(*sys.argv[1:])
