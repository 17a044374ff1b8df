"""Answers requests: one it has stored, and one that it is still answering when it is stopped.

facts: url, effects, who, colour, ttl
orders: {"go": true}: go on with the second one
"""

from __future__ import annotations

import asyncio
from typing import Any

from talk import effect, facts, hear, say
from witness import open_store

who, ttl = facts["who"], facts["ttl"]
store = open_store(facts["colour"])
QUESTION = {"role": "user", "content": "?"}
ANSWER = {"role": "assistant", "content": who}


def asked(key: str, turn: Any) -> None:
    assert (turn.answer, turn.known) == (None, True)
    effect(asked=key, by=who)
    say(asked=key)


def run() -> None:
    with store.thread(who).turn(key="stored", ttl=ttl) as turn:
        asked("stored", turn)
        turn.store(QUESTION, ANSWER)
    with store.thread(who).turn(key="open", ttl=ttl) as turn:
        asked("open", turn)
        hear()
        said = turn.store(QUESTION, ANSWER)
    say(status=said.status, answer=turn.answer["content"])
    store.close()


async def run_async() -> None:
    async with store.thread(who).turn(key="stored", ttl=ttl) as turn:
        asked("stored", turn)
        await turn.store(QUESTION, ANSWER)
    async with store.thread(who).turn(key="open", ttl=ttl) as turn:
        asked("open", turn)
        await asyncio.to_thread(hear)
        said = await turn.store(QUESTION, ANSWER)
    say(status=said.status, answer=turn.answer["content"])
    await store.close()


if facts["colour"] == "sync":
    run()
else:
    asyncio.run(run_async())
