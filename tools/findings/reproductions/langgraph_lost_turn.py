"""LangGraph: of two requests in one thread, one's turn is lost.

Both go on from the checkpoint that they loaded, and the last one written is the one that counts.
"""

import sys
import threading
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

both_have_loaded = threading.Barrier(2)


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]


def reply(state: Chat) -> dict[str, Any]:
    both_have_loaded.wait(60)
    return {"messages": [("ai", "answer to " + state["messages"][-1].content)]}


graph = StateGraph(Chat).add_node(reply).add_edge(START, "reply")
config: Any = {"configurable": {"thread_id": "chat-1"}}
with SqliteSaver.from_conn_string("chat.db") as saver:
    chat: Any = graph.compile(checkpointer=saver)
    turns = [{"messages": [("user", text)]} for text in ("first", "second")]
    requests = [threading.Thread(target=chat.invoke, args=(turn, config)) for turn in turns]
    for request in requests:
        request.start()
    for request in requests:
        request.join()
    found = [message.content for message in chat.get_state(config).values["messages"]]
print("expected: four messages, of two turns, or an error for one")
print("found:", found)
sys.exit(len(found) != 4)
