"""A user is erased amid any write of the adapters of LlamaIndex: nothing comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conformance.erasures import (
    NEW,
    SECRET,
    USER,
    Prepare,
    Ready,
    at_url,
    each_of,
    erased_at_every_call,
    in_memory,
)
from llama_index.core.llms import ChatMessage

from stateward.integrations.llama_index import StatewardChatStore, StatewardMemoryStore


def of_chats(call: Callable[[StatewardChatStore], Awaitable[Any]]) -> Prepare:
    async def prepare(store: Any, other: Any) -> Ready:
        for n in range(3):
            first = StatewardChatStore(other, user=USER)
            await first.async_add_message("c", ChatMessage(f"{SECRET} {n}"))
        chats = StatewardChatStore(store, user=USER)
        return lambda: call(chats)

    return prepare


def of_memory(call: Callable[[StatewardMemoryStore], Awaitable[Any]]) -> Prepare:
    async def prepare(store: Any, other: Any) -> Ready:
        first = StatewardMemoryStore(other, user=USER)
        await first.add_messages("c", [ChatMessage(f"{SECRET} {n}") for n in range(4)])
        await first.archive_oldest_messages("c", 1)
        memory = StatewardMemoryStore(store, user=USER)
        return lambda: call(memory)

    return prepare


async def add_message(chats: StatewardChatStore) -> None:
    await chats.async_add_message("c", ChatMessage(NEW))
    await chats.async_add_message("c", ChatMessage("harmless"))


async def delete_message(chats: StatewardChatStore) -> None:
    await chats.adelete_message("c", 1)
    await chats.adelete_last_message("c")


async def set_messages(chats: StatewardChatStore) -> None:
    await chats.aset_messages("c", [ChatMessage("harmless")])


async def archive(memory: StatewardMemoryStore) -> None:
    await memory.archive_oldest_messages("c", 2)
    await memory.add_message("c", ChatMessage(NEW))
    await memory.archive_oldest_messages("c", 1)


async def delete_messages(memory: StatewardMemoryStore) -> None:
    await memory.delete_oldest_messages("c", 1)
    await memory.delete_messages("c")


CALLS: dict[str, Prepare] = {
    "add_message": of_chats(add_message),
    "delete_message": of_chats(delete_message),
    "set_messages": of_chats(set_messages),
    "archive_oldest_messages": of_memory(archive),
    "delete_messages": of_memory(delete_messages),
}


@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back(call: str, remembers: bool, anew: bool) -> None:
    await erased_at_every_call(in_memory(), call, CALLS[call], remembers=remembers, anew=anew)


@pytest.mark.soak
@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back_on_any_engine(
    url: str, call: str, remembers: bool, anew: bool
) -> None:
    await erased_at_every_call(at_url(url), call, CALLS[call], remembers=remembers, anew=anew)
