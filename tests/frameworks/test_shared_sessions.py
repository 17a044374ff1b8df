"""A conversation becomes a session of each framework that opens it, in whatever order they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import permutations

import pytest
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai.types import Content, Part
from strands.types.exceptions import SessionException
from strands.types.session import Session as StrandsSession
from strands.types.session import SessionAgent, SessionMessage, SessionType

import stateward
import stateward.sync
from stateward.integrations.claude_agent_sdk import StatewardSessionStore
from stateward.integrations.google_adk import StatewardSessionService
from stateward.integrations.kept import kept_state
from stateward.integrations.strands import StatewardSessionRepository

ID = "shop/u-42/a"
OF_ADK = {"app_name": "shop", "user_id": "u-42"}


async def adk(url: str, words: str) -> list[str]:
    """Open the session as ADK does, add an event, and return what all of its events say."""
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session: Session | None = await service.get_session(**OF_ADK, session_id="a")
        if session is None:
            session = await service.create_session(**OF_ADK, session_id="a")
        content = Content(role="user", parts=[Part(text=words)])
        event = Event(author="user", invocation_id=words, content=content)
        await service.append_event(session, event)
        (listed,) = (await service.list_sessions(**OF_ADK)).sessions
        assert listed.id == "a"
        parts = [part for each in session.events for part in each.content.parts]  # type: ignore[union-attr]
        return [part.text for part in parts]


def strands_turn(url: str, words: str) -> list[str]:
    with stateward.sync.open(url) as store:
        repository = StatewardSessionRepository(store, user="u-42")
        if repository.read_session(ID) is None:
            session = StrandsSession(session_id=ID, session_type=SessionType.AGENT)
            repository.create_session(session)
            agent = SessionAgent("waiter", {}, {})
            repository.create_agent(ID, agent)
        with pytest.raises(SessionException, match="exists"):
            repository.create_session(StrandsSession(ID, SessionType.AGENT))
        index = 1 + max((m.message_id for m in repository.list_messages(ID, "waiter")), default=-1)
        message = SessionMessage({"role": "user", "content": [{"text": words}]}, index)
        repository.create_message(ID, "waiter", message)
        read = repository.list_messages(ID, "waiter")
        return [block["text"] for each in read for block in each.message["content"]]


async def strands(url: str, words: str) -> list[str]:
    return await asyncio.to_thread(strands_turn, url, words)


async def claude(url: str, words: str) -> list[str]:
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store, user="u-42")
        key = {"project_key": "shop", "session_id": "u-42", "subpath": "a"}
        message = {"role": "user", "content": words}
        await sessions.append(key, [{"type": "user", "uuid": words, "message": message}])  # type: ignore[arg-type,list-item]
        entries = await sessions.load(key) or []  # type: ignore[arg-type]
        return [str(entry["message"]["content"]) for entry in entries]  # type: ignore[typeddict-item]


OPENS: dict[str, Callable[[str, str], Awaitable[list[str]]]] = {
    "adk": adk,
    "claude": claude,
    "strands": strands,
}


@pytest.mark.parametrize("order", [*permutations(OPENS)], ids="-".join)
async def test_each_framework_goes_on_with_what_the_others_have_begun(
    file: str, order: tuple[str, ...]
) -> None:
    words: list[str] = []
    for number, framework in enumerate((*order, order[0]), 1):
        words.append(f"words {number}")
        read = await OPENS[framework](file, words[-1])
        assert [word for word in words if any(word in text for text in read)] == words
    async with stateward.open(file) as store:
        handle = store.thread(ID, user="u-42").handle
        head = (await handle.fetch()).head
        state = kept_state(handle.entity, head)
        assert state is not None
        named = state.entity(handle.entity, head)
        assert "Strands" in named
        assert "ADK" in named
