"""A run of a framework whose conversation is deleted while it runs does not bring it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from agent_framework import Message
from claude_agent_sdk.types import SessionKey, SessionStoreEntry
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.events.event import Event
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from llama_index.core.llms import ChatMessage
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

import stateward
from frameworks.agent_framework_model import agent
from stateward import ConversationDeletedError
from stateward.integrations.agent_framework import StatewardHistoryProvider
from stateward.integrations.claude_agent_sdk import StatewardSessionStore
from stateward.integrations.google_adk import StatewardSessionService
from stateward.integrations.langchain import StatewardChatMessageHistory
from stateward.integrations.llama_index import StatewardChatStore, StatewardMemoryStore
from stateward.integrations.openai_agents import StatewardSession
from stateward.integrations.pydantic_ai import StatewardConversation
from stateward.testing.clock import SteppableWorld

Happens = Callable[[], Awaitable[None]]
Run = Callable[[stateward.Store, Happens], Awaitable[Any]]


def of_openai(**options: Any) -> Run:
    async def run(store: stateward.Store, happens: Happens) -> None:
        session = StatewardSession(store, "s", user="u", **options)
        await session.get_items()
        await happens()
        await session.add_items([{"role": "user", "content": "what was it?"}])

    return run


async def of_langchain(store: stateward.Store, happens: Happens) -> None:
    history = StatewardChatMessageHistory(store, "s", user="u")
    await history.aget_messages()
    await happens()
    await history.aadd_messages([HumanMessage("what was it?"), AIMessage("DE00")])


def of_pydantic(**options: Any) -> Run:
    async def run(store: stateward.Store, happens: Happens) -> None:
        conversation = StatewardConversation(store, "s", user="u", **options)
        await conversation.history()
        await happens()
        question = ModelRequest([UserPromptPart("what was it?")])
        await conversation.add([question, ModelResponse([TextPart("DE00")])])

    return run


def of_agent_framework(**options: Any) -> Run:
    async def run(store: stateward.Store, happens: Happens) -> None:
        async def answer() -> str:
            await happens()
            return "DE00"

        history = StatewardHistoryProvider(store, user="u", **options)
        await agent(history, answer).run("what was it?", session=history.session("s", user="u"))

    return run


async def of_claude(store: stateward.Store, happens: Happens) -> None:
    sessions, key = StatewardSessionStore(store, user="u"), cast(SessionKey, CLAUDE)
    await sessions.load(key)
    await happens()
    await sessions.append(key, [cast(SessionStoreEntry, {"type": "user", "uuid": "2"})])


async def of_llama_index(store: stateward.Store, happens: Happens) -> None:
    chats = StatewardChatStore(store, user="u")
    await chats.async_add_message("s", ChatMessage(role="user", content="what was it?"))
    await chats.aget_messages("s")
    await happens()
    await chats.async_add_message("s", ChatMessage(role="assistant", content="DE00"))


async def of_llama_index_set(store: stateward.Store, happens: Happens) -> None:
    chats = StatewardChatStore(store, user="u")
    messages = await chats.aget_messages("s")
    await happens()
    await chats.aset_messages("s", [*messages, ChatMessage(role="assistant", content="DE00")])


async def of_llama_index_memory(store: stateward.Store, happens: Happens) -> None:
    chats = StatewardMemoryStore(store, user="u")
    await chats.get_messages("s")
    await happens()
    await chats.add_messages("s", [ChatMessage(role="assistant", content="DE00")])


def of_adk(*, asks: bool) -> Run:
    async def run(store: stateward.Store, happens: Happens) -> None:
        sessions = StatewardSessionService(store)
        session = await sessions.get_session(app_name="a", user_id="u", session_id="s")
        assert session is not None
        content = types.Content(role="user", parts=[types.Part(text="what was it?")])
        question = Event(author="user", invocation_id="i", content=content)
        answer = Event(author="model", invocation_id="i", content=content)
        if not asks:
            await sessions.append_event(session, question)
        await happens()
        await sessions.append_event(session, question if asks else answer)

    return run


RUNS: dict[str, Run] = {
    "openai": of_openai(),
    "openai appending": of_openai(conflict="append"),
    "langchain": of_langchain,
    "pydantic": of_pydantic(),
    "pydantic appending": of_pydantic(conflict="append"),
    "agent framework": of_agent_framework(),
    "agent framework appending": of_agent_framework(conflict="append"),
    "claude": of_claude,
    "llama-index": of_llama_index,
    "llama-index set": of_llama_index_set,
    "llama-index memory": of_llama_index_memory,
    "adk asking": of_adk(asks=True),
    "adk answering": of_adk(asks=False),
}
CLAUDE = {"project_key": "p", "session_id": "s"}


async def begin(store: stateward.Store, name: str) -> stateward.Thread:
    """Begin a conversation as the framework does that a run belongs to."""
    if name == "claude":
        sessions, key = StatewardSessionStore(store, user="u"), cast(SessionKey, CLAUDE)
        await sessions.append(key, [cast(SessionStoreEntry, {"type": "user", "uuid": "1"})])
        return cast(stateward.Thread, sessions.thread(key))
    if name.startswith("adk"):
        services = StatewardSessionService(store)
        await services.create_session(app_name="a", user_id="u", session_id="s")
        thread = cast(stateward.Thread, services.thread("a", "u", "s"))
        await thread.append(Message("user", ["DE00"]).to_dict())
        return thread
    thread = store.thread("s", user="u")
    shaped = {"role": "user", "blocks": [{"block_type": "text", "text": "DE00"}]}
    await thread.append(shaped if name.startswith("llama") else Message("user", ["DE00"]).to_dict())
    return thread


@pytest.mark.parametrize("name", RUNS)
async def test_a_deleted_conversation_is_not_begun_again_by_the_run(url: str, name: str) -> None:
    async with stateward.open(url) as store:
        thread = await begin(store, name)
        for end in (thread.delete, store.user("u").erase):
            with pytest.raises(ConversationDeletedError):
                await RUNS[name](store, end)
            assert not (await thread.load()).exists
            assert [info.id async for info in store.threads(user="u")] == []
            await begin(store, name)


@pytest.mark.parametrize("name", RUNS)
async def test_an_expired_conversation_is_not_begun_again_by_the_run(name: str) -> None:
    world = SteppableWorld(1_800_000_000.0)
    async with stateward.open("memory://", world=world, spill=False) as store:
        thread = await begin(store, name)

        async def expire() -> None:
            world.advance(days=31)

        with pytest.raises(ConversationDeletedError):
            await RUNS[name](store, expire)
        assert not (await thread.load()).exists


SETS_ALL = "llama-index set"  # what it is given takes the place of whatever is there


@pytest.mark.parametrize("name", sorted({*RUNS} - {SETS_ALL}))
async def test_a_run_does_not_bring_back_what_was_truncated(url: str, name: str) -> None:
    async with stateward.open(url) as store:
        thread = await begin(store, name)

        async def truncate() -> None:
            await thread.truncate(after=0)

        with suppress(stateward.StatewardError, StaleSessionError):
            await RUNS[name](store, truncate)
        first = [each.version for each in (await thread.load(entries=True)).entries]
        assert 1 not in first
