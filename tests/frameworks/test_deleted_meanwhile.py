"""A run of a framework whose conversation is deleted while it runs does not bring it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_framework import Message
from langchain_core.messages import AIMessage, HumanMessage
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

import stateward
from frameworks.agent_framework_model import agent
from stateward import ConversationDeletedError
from stateward.integrations.agent_framework import StatewardHistoryProvider
from stateward.integrations.langchain import StatewardChatMessageHistory
from stateward.integrations.openai_agents import StatewardSession
from stateward.integrations.pydantic_ai import StatewardConversation

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


RUNS: dict[str, Run] = {
    "openai": of_openai(),
    "openai appending": of_openai(conflict="append"),
    "langchain": of_langchain,
    "pydantic": of_pydantic(),
    "pydantic appending": of_pydantic(conflict="append"),
    "agent framework": of_agent_framework(),
    "agent framework appending": of_agent_framework(conflict="append"),
}


@pytest.mark.parametrize("name", RUNS)
async def test_a_deleted_conversation_is_not_begun_again_by_the_run(url: str, name: str) -> None:
    async with stateward.open(url) as store:
        thread = store.thread("s", user="u")
        for end in (thread.delete, store.user("u").erase):
            await thread.append(Message("user", ["DE00"]).to_dict())
            with pytest.raises(ConversationDeletedError):
                await RUNS[name](store, end)
            assert not (await thread.load()).exists
            assert [info.id async for info in store.threads(user="u")] == []
