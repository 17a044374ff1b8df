"""A user is erased amid any write of Claude's session store: nothing comes back."""

from __future__ import annotations

from typing import Any

import pytest
from claude_agent_sdk.types import SessionKey
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

from stateward.integrations.claude_agent_sdk import StatewardSessionStore

KEY: SessionKey = {"project_key": "p", "session_id": "s"}


def line(number: int, text: str) -> Any:
    uuid = f"00000000-0000-4000-8000-{number:012}"
    said = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "sessionId": "s", "message": said}


async def of_transcript(store: Any, other: Any) -> Ready:
    sessions = StatewardSessionStore(store, user=USER)
    first = sessions if other is store else StatewardSessionStore(other, user=USER)
    await first.append(KEY, [line(1, SECRET), line(2, SECRET)])
    await first.append(KEY, [line(3, SECRET)])

    async def call() -> None:
        await sessions.append(KEY, [line(4, NEW)])
        await sessions.append(KEY, [line(5, "harmless")])
        await sessions.load(KEY)

    return call


CALLS: dict[str, Prepare] = {"append": of_transcript}


@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back(call: str, remembers: bool, anew: bool) -> None:
    await erased_at_every_call(in_memory(), call, CALLS[call], remembers=remembers, anew=anew)


@pytest.mark.soak
@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back_on_any_engine(
    url: str, call: str, remembers: bool, anew: bool
) -> None:
    await erased_at_every_call(at_url(url), call, CALLS[call], remembers=remembers, anew=anew)
