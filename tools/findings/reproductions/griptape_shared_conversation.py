"""Griptape: drivers without a conversation_id share one, so users read each other's runs.

The default is drawn once, when the class is made, and not once for each driver.
"""

import os
import sys
from urllib.parse import urlsplit

from griptape.artifacts import TextArtifact
from griptape.drivers.memory.conversation.redis import RedisConversationMemoryDriver
from griptape.memory.structure import ConversationMemory, Run

server = urlsplit(os.environ["REDIS_URL"])


def memory_of_a_new_user() -> ConversationMemory:
    driver = RedisConversationMemoryDriver(host=server.hostname, port=server.port, index="chats")
    return ConversationMemory(conversation_memory_driver=driver)


anna = memory_of_a_new_user()
anna.add_run(Run(input=TextArtifact("My PIN is 1234."), output=TextArtifact("Noted.")))

ben = memory_of_a_new_user()
found = [run.input.value for run in ben.runs]
print("expected: a new user's conversation is empty")
print("found:", found)
sys.exit(bool(found))
