"""A user is erased amid any write of a session of the OpenAI Agents SDK: nothing comes back."""

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

from stateward.integrations.openai_agents import StatewardSession


def item(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def of_session(call: Callable[[StatewardSession], Awaitable[Any]], **options: Any) -> Prepare:
    async def prepare(store: Any, other: Any) -> Ready:
        session = StatewardSession(store, "s", user=USER, **options)
        first = session if other is store else StatewardSession(other, "s", user=USER)
        for n in range(3):
            await first.add_items([item(f"{SECRET} {n}"), item(SECRET, "assistant")])
        await session.get_items()
        return lambda: call(session)

    return prepare


async def add_items(session: StatewardSession) -> None:
    run: Any = object()
    await session.add_items([item(NEW)], wrapper=run)
    await session.add_items([item("harmless", "assistant")], wrapper=run)


async def pop_item(session: StatewardSession) -> None:
    await session.add_items([item(NEW)])
    await session.pop_item()
    await session.pop_item()


async def compact(session: StatewardSession) -> None:
    """What the SDK makes of the newest items, it made of what it has read."""
    snapshot = await session._get_compaction_snapshot(4)
    assert snapshot.items or not await session.get_items()
    of_items = [item(f"{SECRET}, in short")] if snapshot.items else []
    await snapshot.replace_suffix(1, of_items)


CALLS: dict[str, Prepare] = {
    "add_items": of_session(add_items),
    "add_items, whatever others do": of_session(add_items, conflict="append"),
    "pop_item": of_session(pop_item),
    "compaction": of_session(compact),
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
