"""Griptape: a conversation memory a request, which loads its runs; a turn is one `add_run`."""

from __future__ import annotations

import json
from typing import Any

from griptape.artifacts import TextArtifact
from griptape.drivers.memory.conversation.local import LocalConversationMemoryDriver
from griptape.drivers.memory.conversation.redis import RedisConversationMemoryDriver
from griptape.memory.structure import ConversationMemory, Run
from redis.exceptions import ConnectionError, TimeoutError
from shapes import Json, file_of, newest, server


class Memories:
    keys = False

    def driver(self, thread: str) -> Any:
        raise NotImplementedError

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        memory = ConversationMemory(conversation_memory_driver=self.driver(thread))
        said = TextArtifact(json.dumps(messages))
        memory.add_run(Run(input=said, output=TextArtifact("done")))

    def load(self, thread: str, last: int | None) -> list[Json]:
        memory = ConversationMemory(conversation_memory_driver=self.driver(thread))
        return newest([each for run in memory.runs for each in json.loads(run.input.value)], last)


class LocalMemories(Memories):
    def __init__(self, namespace: str) -> None: ...

    def driver(self, thread: str) -> Any:
        return LocalConversationMemoryDriver(persist_file=str(file_of(thread, ".json")))


class RedisMemories(Memories):
    unavailable = (ConnectionError, TimeoutError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self._server = server(url)

    def driver(self, thread: str) -> Any:
        return RedisConversationMemoryDriver(
            host=self._server.hostname,
            port=self._server.port,
            password=self._server.password,
            index="audit",
            conversation_id=thread,
        )
