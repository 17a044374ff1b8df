"""`StatewardSession` under the runner of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner, SessionSettings, function_tool, set_tracing_disabled
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call
from servers.redis import RedisServer

import stateward
import stateward.sync
from frameworks.conftest import Start
from stateward import InvalidInput, StateConflictError, StoreUnavailable
from stateward.integrations.openai_agents import StatewardSession

PATIENT = 60.0


@pytest.fixture(autouse=True)
def _offline() -> None:
    set_tracing_disabled(True)


def says(*texts: str) -> Agent[Any]:
    return Agent(name="echo", model=ScriptedModel([[assistant_message(text)] for text in texts]))


def user_says(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def calls(number: int) -> list[dict[str, Any]]:
    """A question, a tool call with its result, and the answer."""
    id = f"call-{number}"
    return [
        user_says(f"question {number}"),
        {"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": id, "output": "seen"},
        {"role": "assistant", "content": f"answer {number}"},
    ]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_tool_call_in_one_process_is_remembered_in_the_next(url: str, start: Start) -> None:
    first = start("openai_turns", url, "s-1", "u-42", "A steak, please.", "Here it is.")
    assert first.report() == {"said": "Here it is."}
    async with stateward.open(url) as store:
        agent = says("It was medium rare.")
        session = StatewardSession(store, "s-1", user="u-42")
        await Runner.run(agent, "How was it done?", session=session)
        model = agent.model
        assert isinstance(model, ScriptedModel)
        seen = model.calls[-1].input
        kinds = [item.get("type") or item["role"] for item in seen]
        assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
        assert seen[2]["output"] == "a medium rare steak"
        assert [thread.messages async for thread in store.threads(user="u-42")] == [6]


async def test_items_come_back_as_they_were_given(url: str) -> None:
    items = [
        user_says("NUL \x00, emoji 🥩, quotes \" and '"),
        {"type": "reasoning", "id": "r1", "summary": [], "z": 1, "a": {"b": [1.5, None, True]}},
        *calls(1),
    ]
    async with stateward.open(url) as store:
        session = StatewardSession(store, "s-1")
        assert isinstance(session, Session)
        await session.add_items(items)
        again = await StatewardSession(store, "s-1").get_items()
        assert json.dumps(again) == json.dumps(items)  # also in the order of the keys
        assert await session.get_items(limit=2) == items[-2:]
        assert await session.get_items(limit=0) == []
        assert await session.pop_item() == items[-1]
        assert await session.get_items() == items[:-1]
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None


async def test_two_who_pop_at_once_get_different_items(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        items = [user_says(str(n)) for n in range(20)]
        await StatewardSession(one, "s-1").add_items(items)
        sessions = [StatewardSession(store, "s-1") for store in (one, other) * 10]
        popped = await asyncio.gather(*(session.pop_item() for session in sessions))
        assert Counter(item["content"] for item in popped if item) == Counter(map(str, range(20)))
        assert await StatewardSession(one, "s-1").get_items() == []


async def test_a_window_never_separates_a_tool_call_from_its_result(file: str) -> None:
    items = [item for number in range(5) for item in calls(number)]
    async with stateward.open(file) as store:
        await StatewardSession(store, "s-1").add_items(items)
        for size in range(4, 20):
            seen = await StatewardSession(store, "s-1", last=size).get_items()
            assert seen == items[-(size // 4) * 4 :]
        assert await StatewardSession(store, "s-1", turns=2).get_items() == items[-8:]
        tight = StatewardSession(store, "s-1", max_tokens=100, count=lambda message: 20)
        assert await tight.get_items() == items[-4:]
        settings = SessionSettings(limit=3)  # the SDK's own: exactly so many
        session = StatewardSession(store, "s-1", session_settings=settings)
        assert await session.get_items() == items[-3:]


async def test_a_summary_stands_for_older_turns(file: str) -> None:
    compaction = stateward.Compaction(
        summarize=lambda earlier, messages: f"{len(messages)} messages", after=8, keep=4
    )
    async with stateward.open(file) as store:
        await StatewardSession(store, "s-1").add_items(
            [item for number in range(5) for item in calls(number)]
        )
        await store.thread("s-1").compact(compaction)
        seen = await StatewardSession(store, "s-1", summarize=compaction).get_items()
        assert seen == [{"role": "system", "content": "16 messages"}, *calls(4)]


async def test_the_sdks_compaction_replaces_a_tail_at_once_or_not_at_all(url: str) -> None:
    async with stateward.open(url) as store:
        session = StatewardSession(store, "s-1")
        items = [user_says(str(n)) for n in range(6)]
        await session.add_items(items)
        snapshot = await session._get_compaction_snapshot(4)
        assert (snapshot.items, snapshot.complete) == (items[2:], False)
        assert await snapshot.replace_suffix(1, [user_says("3 to 5")])
        assert await session.get_items() == [*items[:3], user_says("3 to 5")]
        assert not await snapshot.replace_suffix(1, [user_says("again")])
        old = ("0", "1")
        snapshot = await session._get_compaction_snapshot(
            1, prune_prefix=lambda item: item["content"] in old
        )
        assert await snapshot.replace_suffix(0, [user_says("3 to 5, in short")])
        assert await session.get_items() == [items[2], user_says("3 to 5, in short")]
        assert (await session._get_compaction_snapshot(9)).complete


async def test_a_run_that_was_overtaken_raises_and_loses_nothing(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:

        @function_tool
        async def look() -> str:
            """Meanwhile another replica, which takes no turns, serves the same user."""
            session = StatewardSession(other, "s-1", conflict="append")
            await Runner.run(says("from the other"), "b", session=session)
            return "seen"

        model = ScriptedModel(
            [[function_call("look", {}, call_id="call-1")], [assistant_message("from one")]]
        )
        agent = Agent(name="slow", model=model, tools=[look])
        with pytest.raises(StateConflictError):
            await Runner.run(agent, "a", session=StatewardSession(one, "s-1"))
        texts = [item.get("content") for item in await StatewardSession(one, "s-1").get_items()]
        assert texts[0] == "a"
        assert texts[-2] == "b"
        assert "from the other" in str(texts[-1])


async def test_a_conversation_of_another_framework_is_continued(file: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    others = [
        {"role": "system", "content": "You are a waiter."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"type": "ai", "data": {"content": "b", "type": "ai"}},
    ]
    async with stateward.open(file) as store:
        await store.thread("s-1").append(*others)
        agent = says("d")
        await Runner.run(agent, "c", session=StatewardSession(store, "s-1"))
        assert isinstance(agent.model, ScriptedModel)
        seen = agent.model.calls[-1].input
        kinds = [item.get("type") or item["role"] for item in seen]
        assert kinds == [
            *("system", "user", "function_call", "function_call_output", "assistant", "user")
        ]
        assert [item["call_id"] for item in seen[2:4]] == ["c1", "c1"]
        session = StatewardSession(store, "s-1")
        assert [item["role"] for item in await session.get_items(limit=3)] == [
            *("assistant", "user", "assistant")
        ]
        assert (await store.thread("s-1").load()).messages[:5] == others


async def test_a_run_waits_for_another_and_sees_its_answer(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        second: asyncio.Task[Any] | None = None
        model = ScriptedModel([[assistant_message("from the other")]])
        agent = Agent(name="quick", model=model)

        @function_tool
        async def look() -> str:
            """Meanwhile another replica begins to serve the same user."""
            nonlocal second
            with pytest.raises(stateward.LeaseHeld):
                session = StatewardSession(other, "s-1", wait=0)
                await Runner.run(agent, "b", session=session)
            session = StatewardSession(other, "s-1")
            second = asyncio.create_task(Runner.run(agent, "b", session=session))
            return "seen"

        steps = [[function_call("look", {}, call_id="call-1")], [assistant_message("from one")]]
        slow = Agent(name="slow", model=ScriptedModel(steps), tools=[look])
        await Runner.run(slow, "a", session=StatewardSession(one, "s-1"))
        assert second is not None
        await second
        assert len(model.calls[-1].input) == 5


async def test_a_run_from_within_a_run_of_its_session_does_not_wait_for_it(file: str) -> None:
    async with stateward.open(file) as store:

        @function_tool
        async def ask() -> str:
            """Ask another agent in the same conversation."""
            session = StatewardSession(store, "s-1", wait=0)
            result = await Runner.run(says("from inside"), "b", session=session)
            return str(result.final_output)

        steps = [[function_call("ask", {}, call_id="call-1")], [assistant_message("never")]]
        agent = Agent(name="outside", model=ScriptedModel(steps), tools=[ask])
        with pytest.raises(StateConflictError):  # the inner one has added to what it had read
            await Runner.run(agent, "a", session=StatewardSession(store, "s-1"))
        items = await StatewardSession(store, "s-1").get_items()
        assert [item["content"] for item in items[:2]] == ["a", "b"]
        assert "from inside" in str(items[2])


async def test_a_run_that_was_overtaken_holds_up_nobody(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:

        @function_tool
        async def look() -> str:
            """Meanwhile somebody who takes no turns adds something."""
            await StatewardSession(other, "s-1").add_items([user_says("b")])
            return "seen"

        steps = [[function_call("look", {}, call_id="call-1")], [assistant_message("never")]]
        agent = Agent(name="slow", model=ScriptedModel(steps), tools=[look])
        overtaken = StatewardSession(one, "s-1")
        with pytest.raises(StateConflictError):
            await Runner.run(agent, "a", session=overtaken)
        await Runner.run(says("hi"), "c", session=StatewardSession(other, "s-1", wait=0))


async def test_a_run_that_failed_holds_up_nobody_in_its_process(file: str) -> None:
    async with stateward.open(file) as store:
        failing = Agent(name="failing", model=ScriptedModel([ValueError("no model")]))
        with contextlib.suppress(ValueError):
            await Runner.run(failing, "a", session=StatewardSession(store, "s-1"))
        await Runner.run(says("hi"), "b", session=StatewardSession(store, "s-1", wait=0))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_three_processes_on_one_session_double_no_question(url: str, start: Start) -> None:
    await three_processes(url, start, 4)


@pytest.mark.soak
async def test_three_processes_on_one_session_double_no_question_for_long(
    url: str, start: Start
) -> None:
    await three_processes(url, start, 30)


async def three_processes(url: str, start: Start, runs: int) -> None:
    await asyncio.to_thread(start("openai_plain", url, 3, runs).finish, 300.0)
    async with stateward.open(url) as store:
        items = await StatewardSession(store, "crowd").get_items()
    questions = [item["content"] for item in items[::2]]
    assert questions == [item["content"][0]["text"] for item in items[1::2]]
    assert sorted(questions) == sorted(f"{n}.{run}" for n in range(3) for run in range(runs))


async def test_with_conflict_append_nobody_is_refused(file: str) -> None:
    async with stateward.open(file) as store:
        one = StatewardSession(store, "s-1", conflict="append")
        assert await one.get_items() == []
        await StatewardSession(store, "s-1").add_items([user_says("from another")])
        await one.add_items([user_says("behind it")])
        assert await one.get_items() == [user_says("from another"), user_says("behind it")]
    with pytest.raises(InvalidInput, match="conflict="):
        StatewardSession(stateward.open(file), "s-1", conflict="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["redis"], indirect=True)
async def test_eight_processes_on_one_conversation_split_no_turn(url: str, start: Start) -> None:
    start("openai_crowd", url, 8).finish(120.0)
    async with stateward.open(url) as store:
        items = await StatewardSession(store, "crowd").get_items()
    assert len(items) == 8 * 3 * 2
    runs = [item["content"] for item in items[::2]]
    answers = [item["content"][0]["text"] for item in items[1::2]]
    assert runs == answers
    assert sorted(runs) == sorted(f"{n}.{run}" for n in range(8) for run in range(3))


async def test_a_turn_that_another_has_is_waited_for(file: str) -> None:
    async with stateward.open(file) as one, stateward.open(file) as other:
        async with StatewardSession(one, "s-1").turn():
            with pytest.raises(stateward.LeaseHeld):
                async with StatewardSession(other, "s-1").turn(wait=0):
                    pytest.fail("two runs at once")
        async with StatewardSession(other, "s-1").turn(wait=0) as session:
            await session.add_items([user_says("my turn")])
        blocking = StatewardSession(stateward.sync.open(file), "s-1")
        with pytest.raises(InvalidInput, match=r"stateward\.open"):
            async with blocking.turn():
                pytest.fail("no blocking turn")


async def test_an_answer_reaches_the_user_though_the_store_dies_under_the_run(
    mortal: RedisServer, tmp_path: Path
) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:

        @function_tool
        def look() -> str:
            """The store dies while the tool runs."""
            mortal.kill()
            return "seen"

        model = ScriptedModel(
            [[function_call("look", {}, call_id="call-1")], [assistant_message("an answer")]]
        )
        agent = Agent(name="waiter", model=model, tools=[look])
        session = StatewardSession(store, "s-1", user="u-42")
        result = await Runner.run(agent, "a question", session=session)
        assert result.final_output == "an answer"
        with pytest.raises(StoreUnavailable):  # never an empty history
            await Runner.run(says("who are you?"), "and?", session=session)
        mortal.start()
        async with asyncio.timeout(PATIENT):
            while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
        items = await StatewardSession(store, "s-1", user="u-42").get_items()
        kinds = [item.get("type") or item["role"] for item in items]
        assert kinds == ["user", "function_call", "function_call_output", "message"]


def test_a_blocking_store_serves_run_sync_in_any_loop(url: str) -> None:
    def in_a_loop_of_its_own(answer: str, question: str) -> int:
        async def run() -> int:
            session = StatewardSession(store, "s-1")
            await Runner.run(says(answer), question, session=session)
            await session.add_items([user_says("dropped again")])
            assert await session.pop_item() == user_says("dropped again")
            return len(await session.get_items())

        return asyncio.run(run())

    with stateward.sync.open(url) as store:
        assert in_a_loop_of_its_own("one", "first") == 2
        assert in_a_loop_of_its_own("two", "second") == 4


async def test_export_and_erase_find_what_a_session_keeps(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        await StatewardSession(store, "s-1", user="u-42").add_items([user_says("my secret")])
        with pytest.raises(stateward.NotYoursError):
            await StatewardSession(store, "s-1", user="u-7").get_items()
        exported = await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert exported.messages == 1
        assert "my secret" in (tmp_path / "export.jsonl").read_text()
        assert (await store.user("u-42").erase()).removed == {"thread": 1}
        assert await StatewardSession(store, "s-1", user="u-42").get_items() == []


async def test_a_session_from_a_url_closes_its_own_store_and_no_other(file: str) -> None:
    session = StatewardSession.from_url(file, "s-1", user="u-42")
    await session.add_items([user_says("hello")])
    await session.close()
    with pytest.raises(stateward.StoreMisused):
        await session.get_items()
    async with stateward.open(file) as store:
        await StatewardSession(store, "s-1").close()
        assert await StatewardSession(store, "s-1").get_items() == [user_says("hello")]
        with pytest.raises(InvalidInput, match="limit"):
            await StatewardSession(store, "s-1").get_items(limit=-1)
