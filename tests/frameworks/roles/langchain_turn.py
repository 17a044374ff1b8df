"""A turn with a tool, in a process of its own: url, session, user, question, answer."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from stateward.integrations.langchain import StatewardChatMessageHistory

warnings.simplefilter("ignore")
url, session, user, question, answer = sys.argv[1:]


def wait_on(messages: list[BaseMessage]) -> list[BaseMessage]:
    call = {"name": "grill", "args": {"doneness": "medium rare"}, "id": "call-1"}
    return [
        AIMessage("", tool_calls=[call]),
        ToolMessage("a medium rare steak", tool_call_id="call-1"),
        AIMessage(answer),
    ]


history = StatewardChatMessageHistory.from_url(url, session, user=user)
waiter: Any = RunnableLambda(wait_on)
chain = RunnableWithMessageHistory(waiter, lambda session_id: history)
said = chain.invoke(question, {"configurable": {"session_id": session}})
history.close()
print(json.dumps({"said": said[-1].content}))
