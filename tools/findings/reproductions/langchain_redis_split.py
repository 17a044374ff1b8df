"""langchain-community: a turn added to RedisChatMessageHistory by one call is not kept together.

`add_messages` is a call to Redis for each message, so that another replica's come between.
"""

import os
import sys
import threading
import uuid
from itertools import pairwise

from langchain_community.chat_message_histories import RedisChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage

TURNS = 200
session, at_once = f"chat-{uuid.uuid4()}", threading.Barrier(2)


def replica(name: str) -> None:
    history = RedisChatMessageHistory(session, url=os.environ["REDIS_URL"])
    for number in range(TURNS):
        at_once.wait()
        turn = f"{name} {number}"
        history.add_messages([HumanMessage(turn), AIMessage(turn)])


replicas = [threading.Thread(target=replica, args=(name,)) for name in ("one", "two")]
for each in replicas:
    each.start()
for each in replicas:
    each.join()
said = RedisChatMessageHistory(session, url=os.environ["REDIS_URL"]).messages
after = {one.content: two.content for one, two in pairwise(said) if one.type == "human"}
split = sum(question != answer for question, answer in after.items())
print(f"expected: each of {2 * TURNS} questions is followed by its answer")
print(f"found: {split} are followed by another replica's message")
sys.exit(split > 0)
