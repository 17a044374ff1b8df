"""CAMEL: a chat history on RedisStorage remembers its last write alone.

`save` sets the key to the new records. JsonStorage and the in-memory storage add them.
"""

import asyncio
import os
import sys
import uuid

from camel.memories.blocks.chat_history_block import ChatHistoryBlock
from camel.memories.records import MemoryRecord
from camel.messages import BaseMessage
from camel.storages.key_value_storages import RedisStorage
from camel.types import OpenAIBackendRole

storage = RedisStorage(
    f"chat-{uuid.uuid4()}", os.environ["REDIS_URL"], loop=asyncio.new_event_loop()
)
memory = ChatHistoryBlock(storage)
for text in ("My name is Anna.", "I live in Bern.", "What is my name?"):
    message = BaseMessage.make_user_message("user", text)
    memory.write_records([MemoryRecord(message=message, role_at_backend=OpenAIBackendRole.USER)])

found = [record.memory_record.message.content for record in memory.retrieve()]
print("expected:", ["My name is Anna.", "I live in Bern.", "What is my name?"])
print("found:", found)
sys.exit(len(found) != 3)
