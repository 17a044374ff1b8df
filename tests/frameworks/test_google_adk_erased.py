"""A user is erased amid any write of ADK's session service: nothing comes back."""

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
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from stateward.integrations.google_adk import StatewardSessionService

REFUSED = (SessionNotFoundError, StaleSessionError)
OURS = {"app_name": "app", "user_id": USER}


def an_event(text: str, author: str = "user", **state: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author=author, content=content, actions=EventActions(state_delta=state))


class Dies(Exception):
    """The process is gone."""


class Mortal(StatewardSessionService):
    """One whose process dies when it has stored an event, before it brings state to the user."""

    async def _merge(self, *_: Any) -> None:
        raise Dies


def of_service(
    call: Callable[[StatewardSessionService, Any], Awaitable[Any]],
    *,
    undone: bool = False,
    known: bool = True,
) -> Prepare:
    """`undone`: a process has died; `known`: something is stored of the user beside sessions."""

    async def prepare(store: Any, other: Any) -> Ready:
        service = StatewardSessionService(store)
        first = service if other is store else StatewardSessionService(other)
        state = {"own": SECRET} | ({"user:said": SECRET} if known else {})
        session = await first.create_session(**OURS, session_id="s", state=state)
        await first.append_event(session, an_event(SECRET, own=SECRET))
        read = await service.get_session(**OURS, session_id="s")
        if undone:
            try:
                event = an_event(SECRET, **{"user:undone": SECRET})
                await Mortal(store).append_event(session, event)
            except Dies:
                pass
        return lambda: call(service, read)

    return prepare


async def append_event(service: StatewardSessionService, session: Any) -> None:
    await service.append_event(session, an_event(NEW, "agent", own=NEW, **{"user:new": NEW}))
    await service.append_event(session, an_event("harmless", "agent"))


async def create_session(service: StatewardSessionService, session: Any) -> None:
    state = {"user:new": NEW, "own": NEW}
    await service.create_session(**OURS, session_id="s2", state=state)


async def get_session(service: StatewardSessionService, session: Any) -> None:
    """What was left undone is done by the next reader, who then adds something."""
    read = await service.get_session(**OURS, session_id="s")
    if read is not None:
        await service.append_event(read, an_event("harmless", "agent", **{"user:n": 1}))


CALLS: dict[str, Prepare] = {
    "append_event": of_service(append_event),
    "append_event, of who is not known": of_service(append_event, known=False),
    "create_session": of_service(create_session),
    "create_session, of who is not known": of_service(create_session, known=False),
    "get_session": of_service(get_session, undone=True),
    "get_session, of who is not known": of_service(get_session, undone=True, known=False),
}


@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back(call: str, remembers: bool, anew: bool) -> None:
    await erased_at_every_call(
        in_memory(), call, CALLS[call], remembers=remembers, anew=anew, refused=REFUSED
    )


@pytest.mark.soak
@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back_on_any_engine(
    url: str, call: str, remembers: bool, anew: bool
) -> None:
    await erased_at_every_call(
        at_url(url), call, CALLS[call], remembers=remembers, anew=anew, refused=REFUSED
    )
