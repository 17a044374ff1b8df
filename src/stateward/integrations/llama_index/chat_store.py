"""A chat store: what LlamaIndex's buffers keep their messages in."""

from __future__ import annotations

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore

from stateward.integrations.llama_index.chats import OnChats, as_given


class StatewardChatStore(OnChats, BaseChatStore):
    """A chat store of LlamaIndex, e.g. for `ChatMemoryBuffer.from_defaults(chat_store=…)`.

    Over a store of `stateward.sync.open` it is called from blocking code and from any event loop;
    over one of `stateward.open` from its event loop alone. A message that is added while the store
    does not answer is kept locally as the store's policy says; everything else raises
    `StoreUnavailable` then, and gives no empty history.
    """

    @classmethod
    def class_name(cls) -> str:
        """The name that LlamaIndex knows it by."""
        return "StatewardChatStore"

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        """The messages of a key, oldest first; none if there is no such key."""
        return as_given(await self._chats.entries(key))

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Put messages in the place of all that there are, in one commit."""
        await self._chats.replace(key, messages)

    async def async_add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message to the end."""
        await self._chats.append(key, [message])

    async def adelete_messages(self, key: str) -> list[ChatMessage] | None:
        """Remove a conversation, and return what it held; None if there was none."""
        found = await self._chats.entries(key)
        if not found and not await self._chats.exists(key):
            return None
        await self._chats.delete(key)
        return as_given(found)

    async def adelete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message that stands there, counted from 0; None if there is none."""
        while True:
            found = await self._chats.entries(key)
            if not -len(found) <= idx < len(found):
                return None
            if removed := await self._chats.remove(key, [found[idx].version]):
                return next(iter(as_given(removed)), None)

    async def adelete_last_message(self, key: str) -> ChatMessage | None:
        """Remove the newest message and return it. Concurrent callers get different ones."""
        while newest := await self._chats.newest(key):
            if removed := await self._chats.remove(key, [newest[0].version]):
                return next(iter(as_given(removed)), None)
        return None

    async def aget_keys(self) -> list[str]:
        """The keys of the user, or all of the namespace, sorted."""
        return await self._chats.keys()

    def get_messages(self, key: str) -> list[ChatMessage]:
        """`aget_messages` from blocking code."""
        return self._chats.run(self.aget_messages(key))

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """`aset_messages` from blocking code."""
        self._chats.run(self.aset_messages(key, messages))

    def add_message(self, key: str, message: ChatMessage) -> None:
        """`async_add_message` from blocking code."""
        self._chats.run(self.async_add_message(key, message))

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """`adelete_messages` from blocking code."""
        return self._chats.run(self.adelete_messages(key))

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """`adelete_message` from blocking code."""
        return self._chats.run(self.adelete_message(key, idx))

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """`adelete_last_message` from blocking code."""
        return self._chats.run(self.adelete_last_message(key))

    def get_keys(self) -> list[str]:
        """`aget_keys` from blocking code."""
        return self._chats.run(self.aget_keys())
