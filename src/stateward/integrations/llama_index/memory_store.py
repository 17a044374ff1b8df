"""The storage of LlamaIndex's `Memory`: active and archived messages."""

from __future__ import annotations

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from stateward.integrations.llama_index.chats import OnChats, as_given


class StatewardMemoryStore(OnChats, AsyncDBChatStore):
    """The storage of LlamaIndex's `Memory`: `Memory.from_defaults(chat_store=…)`.

    Archived messages stay in the thread, which has a document that lists them. For the blocking
    methods `Memory.put` and `Memory.get`, pass a store of `stateward.sync.open`. In an outage the
    same holds as for `StatewardChatStore`.
    """

    @classmethod
    def class_name(cls) -> str:
        """Return the class name for LlamaIndex."""
        return "StatewardMemoryStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return messages of a status, oldest first, from index `offset`, at most `limit`."""
        entries = (await self._chats.of_status(key, status))[offset or 0 :]
        return as_given(entries if limit is None else entries[:limit])

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        """Return the number of messages of a status."""
        return len(await self._chats.of_status(key, status))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add a message to the end."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages to the end, adjacent, all or none."""
        if status == MessageStatus.ARCHIVED:
            await self._chats.append_archived(key, messages)
        elif messages:
            await self._chats.append(key, messages)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace all messages."""
        end = await self._chats.replace(key, messages)
        if status == MessageStatus.ARCHIVED and messages:
            await self._chats.archive_all(key, end)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message of this number in its thread, from 1; None if there is none."""
        removed = await self._chats.remove(key, [idx]) if idx > 0 else []
        return next(iter(as_given(removed)), None)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Remove the messages of a status, or the conversation."""
        if status is None:
            await self._chats.delete(key)
            return
        entries = await self._chats.of_status(key, status)
        await self._chats.remove(key, [each.version for each in entries])

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Remove the oldest active messages, and return them."""
        entries = await self._chats.of_status(key, MessageStatus.ACTIVE)
        oldest = [each.version for each in entries[: max(n, 0)]]
        return as_given(await self._chats.remove(key, oldest))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages, and return them."""
        return as_given(await self._chats.archive(key, max(n, 0)))

    async def get_keys(self) -> list[str]:
        """Return the keys of the user, or all of the namespace, sorted."""
        return await self._chats.keys()
