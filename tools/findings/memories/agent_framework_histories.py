"""Microsoft Agent Framework: history providers, a turn by one `save_messages`."""

from __future__ import annotations

from typing import Any

from agent_framework import FileHistoryProvider, Message
from agent_framework_redis import RedisHistoryProvider
from redis.exceptions import ConnectionError, TimeoutError
from shapes import Json, home, joined, newest, text_and_rest


def native(message: Json) -> Message:
    text, rest = text_and_rest(message)
    role = "assistant" if message.get("role") == "assistant" else "user"
    return Message(role, [text], additional_properties={"rest": rest})


class Histories:
    keys = False
    provider: Any

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        await self.provider.save_messages(thread, [native(each) for each in messages])

    async def load(self, thread: str, last: int | None) -> list[Json]:
        found = await self.provider.get_messages(thread)
        plain = [joined(each.text, each.additional_properties["rest"]) for each in found]
        return newest(plain, last)


class FileHistories(Histories):
    def __init__(self, namespace: str) -> None:
        self.provider = FileHistoryProvider(home() / "history")


class RedisHistories(Histories):
    unavailable = (ConnectionError, TimeoutError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self.provider = RedisHistoryProvider("redis_memory", redis_url=url, application_id="audit")
