"""Responses that read a live turn: refused early, resumed, and harmed by no closed tab."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from starlette.responses import StreamingResponse

import stateward
from stateward.engines.registry import create_engine, parse
from stateward.integrations.starlette import live_response, resumed_response
from stateward.testing.faults import FaultyEngine, FaultyStore
from stateward.world import World

QUESTION = {"role": "user", "content": "Tell me."}
PATIENCE = 20.0


@pytest.fixture
async def store() -> AsyncIterator[FaultyStore]:
    world = World()
    engine = FaultyEngine(create_engine(parse("memory://"), world), world)
    policy = stateward.Policy(read_timeout=1.0, write_timeout=1.0, breaker_seconds=0.05)
    async with FaultyStore(engine, world=world, policy=policy, heartbeat=None) as store:
        yield store


class Model:
    """A model that says a word whenever it is told to."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[str] = asyncio.Queue()
        self.asked = 0

    async def answer(self, turn: stateward.Turn) -> None:
        self.asked += 1
        while word := await self.words.get():
            await turn.write(word)
        await turn.store({"role": "assistant", "content": turn.text})

    def say(self, *words: str) -> None:
        for word in (*words, ""):
            self.words.put_nowait(word)


async def events(
    response: StreamingResponse, leave: Callable[[str], bool] = lambda text: False
) -> list[dict[str, Any]]:
    """Send a response to a client that may leave; return the events that it got."""
    got: list[bytes] = []
    left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200
            return
        got.append(message.get("body", b""))
        if leave(b"".join(got).decode()):
            left.set()

    await response({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
    read = []
    for block in b"".join(got).decode().split("\n\n")[:-1]:
        id, kind, data = (line.partition(": ")[2] for line in block.split("\n"))
        read.append({"id": id, "event": kind, **json.loads(data)})
    return read


def text_of(read: list[dict[str, Any]]) -> str:
    return "".join(event.get("text", "") for event in read)


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await happened():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_the_answer_is_sent_while_it_is_written_and_again_when_it_is_stored(
    store: FaultyStore,
) -> None:
    model, thread = Model(), store.thread("t", user="u")
    model.say("one ", "two")
    for _ in range(2):
        response = await live_response(thread, model.answer, key="r", question=QUESTION, last=9)
        read = await events(response)
        assert text_of(read) == "one two"
        assert read[-1]["status"] == "done"
        assert read[-1]["message"] == {"role": "assistant", "content": "one two"}
    assert model.asked == 1
    read = await events(await resumed_response(thread, "r"))
    assert text_of(read) == "one two"


async def test_a_refusal_comes_before_the_response(store: FaultyStore) -> None:
    model = Model()
    await store.thread("t", user="u").append(QUESTION)
    theirs = store.thread("t", user="v")
    with pytest.raises(stateward.NotYoursError):
        await live_response(theirs, model.answer, key="r", question=QUESTION)
    with pytest.raises(stateward.NotYoursError):
        await resumed_response(theirs, "r")
    async with store.thread("t", user="u").turn(key="held") as turn:
        with pytest.raises(stateward.LeaseHeld):
            thread = store.thread("t", user="u")
            await live_response(thread, model.answer, key="held", wait=0)
        turn.give_up()
    assert model.asked == 0


async def test_a_closed_tab_harms_nothing_and_the_next_one_reads_the_rest(
    store: FaultyStore,
) -> None:
    model, thread = Model(), store.thread("t", user="u")
    response = await live_response(thread, model.answer, key="r", question=QUESTION)
    model.words.put_nowait("one ")
    before = await events(response, leave=lambda text: "one" in text)
    assert text_of(before) == "one "
    model.say("two ", "three")
    after = await resumed_response(store.thread("t", user="u"), "r", after=before[-1]["id"])
    assert text_of(before + await events(after)) == "one two three"
    window = await thread.load()
    assert window.messages == [QUESTION, {"role": "assistant", "content": "one two three"}]


async def test_a_closed_tab_stops_the_answer_where_that_is_asked_for(store: FaultyStore) -> None:
    model, thread = Model(), store.thread("t", user="u")
    response = await live_response(
        thread, model.answer, key="r", question=QUESTION, stop_on_disconnect=True
    )
    model.words.put_nowait("one ")
    await events(response, leave=lambda text: "one" in text)

    async def is_stopped() -> bool:
        return [live.status async for live in thread.lives()] == ["stopped"]

    await until(is_stopped)
    model.words.put_nowait("two ")
    read = await events(await resumed_response(thread, "r"))
    assert (text_of(read), read[-1]["status"]) == ("one ", "stopped")
    assert [each.key for each in (await thread.load()).unanswered] == ["r"]


async def test_without_the_store_the_client_gets_its_answer_all_the_same(
    store: FaultyStore,
) -> None:
    model, thread = Model(), store.thread("t", user="u")
    await thread.append(QUESTION)
    with store.faults.unavailable():
        model.say("one ", "two")
        response = await live_response(thread, model.answer, key="r", question=QUESTION)
        read = await events(response)
        assert text_of(read) == "one two"
        assert read[-1]["message"] == {"role": "assistant", "content": "one two"}


async def test_a_model_that_fails_ends_the_response(store: FaultyStore) -> None:
    async def fail(turn: stateward.Turn) -> None:
        await turn.write("half ")
        raise ZeroDivisionError("the model is down")

    thread = store.thread("t", user="u")
    read = await events(await live_response(thread, fail, key="r", question=QUESTION))
    assert (text_of(read), read[-1]["status"]) == ("half ", "interrupted")
