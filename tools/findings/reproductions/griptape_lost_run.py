"""Griptape: of two replicas that answer in one conversation, one's run is lost.

A conversation is stored whole, by whoever stores last, and nothing compares versions.
"""

import os
import sys
import uuid
from urllib.parse import urlsplit

from griptape.artifacts import TextArtifact
from griptape.drivers.memory.conversation.redis import RedisConversationMemoryDriver
from griptape.memory.structure import ConversationMemory, Run

server, conversation = urlsplit(os.environ["REDIS_URL"]), uuid.uuid4().hex


def replica() -> ConversationMemory:
    driver = RedisConversationMemoryDriver(
        host=server.hostname, port=server.port, index="chats", conversation_id=conversation
    )
    return ConversationMemory(conversation_memory_driver=driver)


one, two = replica(), replica()  # two requests, both begun
one.add_run(Run(input=TextArtifact("first"), output=TextArtifact("ok")))
two.add_run(Run(input=TextArtifact("second"), output=TextArtifact("ok")))

found = [run.input.value for run in replica().runs]
print("expected: two runs, or an error for the second")
print("found:", found)
sys.exit(len(found) != 2)
