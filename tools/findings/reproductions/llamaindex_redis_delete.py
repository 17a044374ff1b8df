"""LlamaIndex: deleting one message of a RedisChatStore turns the conversation round.

It writes what is left with LPUSH, which puts each message before the one written last.
"""

import os
import sys
import uuid

from llama_index.core.llms import ChatMessage
from llama_index.storage.chat_store.redis import RedisChatStore

store = RedisChatStore(redis_url=os.environ["REDIS_URL"])
key = f"user-{uuid.uuid4()}"
for text in ("one", "two", "a typing mistake", "three", "four"):
    store.add_message(key, ChatMessage(role="user", content=text))

store.delete_message(key, 2)

found = [message.content for message in store.get_messages(key)]
print("expected:", ["one", "two", "three", "four"])
print("found:", found)
sys.exit(found != ["one", "two", "three", "four"])
