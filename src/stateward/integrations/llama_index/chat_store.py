"""A chat store: the storage of LlamaIndex's chat buffers."""

from __future__ import annotations

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store import BaseChatStore

from stateward.integrations.llama_index.chats import OnChats, as_given, in_blocking_code


class StatewardChatStore(OnChats, BaseChatStore):
    """A chat store of LlamaIndex, e.g. for `ChatMemoryBuffer.from_defaults(chat_store=…)`.

    Over a store of `stateward.sync.open` it is called from blocking code and from any event loop;
    over one of `stateward.open` from its event loop alone. A message that is added while the store
    does not answer is kept locally as the store's policy says; everything else raises
    `StoreUnavailable` then, and gives no empty history.
    """

    @classmethod
    def class_name(cls) -> str:
        """Return the class name for LlamaIndex."""
        return "StatewardChatStore"

    async def aget_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages of a key, oldest first; none for an unknown key."""
        return as_given(await self._chats.entries(key))

    async def aset_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Replace all messages in one commit."""
        await self._chats.replace(key, messages)

    async def async_add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message to the end."""
        await self._chats.append(key, [message])

    async def adelete_messages(self, key: str) -> list[ChatMessage] | None:
        """Remove a conversation, and return its messages; None if there was none."""
        entries = await self._chats.entries(key)
        if not entries and not await self._chats.exists(key):
            return None
        await self._chats.delete(key)
        return as_given(entries)

    async def adelete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Remove the message at an index, counted from 0; None if there is none."""
        while True:
            entries = await self._chats.entries(key)
            if not -len(entries) <= idx < len(entries):
                return None
            if removed := await self._chats.remove(key, [entries[idx].version]):
                return next(iter(as_given(removed)), None)

    async def adelete_last_message(self, key: str) -> ChatMessage | None:
        """Remove the newest message and return it. Concurrent callers get different ones."""
        while newest := await self._chats.newest(key):
            if removed := await self._chats.remove(key, [newest[0].version]):
                return next(iter(as_given(removed)), None)
        return None

    async def aget_keys(self) -> list[str]:
        """Return the keys of the user, or all of the namespace, sorted."""
        return await self._chats.keys()

    get_messages = in_blocking_code(aget_messages)
    set_messages = in_blocking_code(aset_messages)
    add_message = in_blocking_code(async_add_message)
    delete_messages = in_blocking_code(adelete_messages)
    delete_message = in_blocking_code(adelete_message)
    delete_last_message = in_blocking_code(adelete_last_message)
    get_keys = in_blocking_code(aget_keys)
