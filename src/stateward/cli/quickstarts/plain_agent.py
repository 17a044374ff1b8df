"""An agent that remembers its conversation, wherever and however often it is started.

python agent.py "Where is my order?"
"""

import asyncio
import sys
import uuid
from typing import Any

import stateward

URL = "sqlite:///agents.db"


async def ask_the_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands for a model, without a network."""
    return {"role": "assistant", "content": f"I remember {len(messages) - 1} earlier messages."}


async def main(text: str = "Where is my order?") -> None:
    # The id of the request: a client sends the same one when it retries, and is answered once.
    request = str(uuid.uuid4())
    async with stateward.open(URL) as store:
        thread = store.thread("s-1", user="u-42")
        question = {"role": "user", "content": text}
        async with thread.turn(key=request, question=question, last=20) as turn:
            if turn.answer is None:  # this request has not been answered yet
                # Your model goes here: it gets the last 20 messages, and the question.
                await turn.store(await ask_the_model(turn.messages))
        print(turn.reply["content"])


asyncio.run(main(*sys.argv[1:]))
