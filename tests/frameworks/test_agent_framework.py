"""`StatewardHistoryProvider` under agents of Microsoft's Agent Framework."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_framework import AgentSession, Content, Message
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from servers.redis import RedisServer

import stateward
import stateward.sync
from frameworks.agent_framework_model import ScriptedClient, agent, calls
from frameworks.conftest import Start
from stateward import InvalidInput, StateConflictError, StoreUnavailable
from stateward.integrations.agent_framework import (
    StatewardCheckpointStorage,
    StatewardHistoryProvider,
)
from stateward.integrations.langchain import StatewardChatMessageHistory

PATIENT = 60.0


def seen(waiter: Any) -> list[str]:
    """What the model was shown last, by the roles."""
    client = waiter.client
    assert isinstance(client, ScriptedClient)
    return [str(message.role) for message in client.seen[-1]]


def exchange(number: int) -> list[Message]:
    """A question, a tool call with its result, and the answer."""
    id = f"call-{number}"
    return [
        Message("user", [f"question {number}"]),
        Message("assistant", [calls("look", id)]),
        Message("tool", [Content.from_function_result(id, result="seen")]),
        Message("assistant", [f"answer {number}"]),
    ]


def plain(messages: list[Message]) -> list[Any]:
    return [message.to_dict() for message in messages]


async def texts(store: Any, session: str = "s-1") -> list[str]:
    history = StatewardHistoryProvider(store)
    return [message.text for message in await history.get_messages(session)]


@pytest.mark.parametrize("url", ["redis"], indirect=True)
async def test_a_tool_call_in_one_process_is_remembered_in_the_next(url: str, start: Start) -> None:
    first = start("agent_framework_turn", url, "s-1", "u-42", "A steak, please.", "Here it is.")
    assert first.report() == {"said": "Here it is."}
    async with stateward.open(url) as store:
        history = StatewardHistoryProvider(store)
        waiter = agent(history, "It was medium rare.")
        await waiter.run("How was it done?", session=history.session("s-1", user="u-42"))
        assert seen(waiter) == ["user", "assistant", "tool", "assistant", "user"]
        assert [thread.messages async for thread in store.threads(user="u-42")] == [6]


async def test_messages_come_back_as_they_were_given(url: str) -> None:
    messages = [
        Message("system", ["NUL \x00, emoji 🥩, quotes \" and '"], message_id="m-1"),
        *exchange(1),
        Message(
            "assistant",
            [Content.from_text_reasoning(text="hm"), Content.from_text("well")],
            author_name="waiter",
            additional_properties={"z": 1, "a": {"b": [1.5, None, True]}},
        ),
    ]
    async with stateward.open(url) as store:
        await StatewardHistoryProvider(store).save_messages("s-1", messages)
        again = await StatewardHistoryProvider(store).get_messages("s-1")
        assert plain(again) == plain(messages)


async def test_a_streamed_answer_is_stored_at_its_end(file: str) -> None:
    async with stateward.open(file) as store:
        history = StatewardHistoryProvider(store)
        stream = agent(history, "hello").run("a", stream=True, session=history.session("s-1"))
        said = [update.text async for update in stream]
        assert "".join(said) == "hello"
        assert await texts(store) == ["a", "hello"]
        await agent(history, "yes").run("b", session=history.session("s-1"))


async def test_a_window_never_separates_a_call_from_its_result(file: str) -> None:
    messages = [message for number in range(5) for message in exchange(number)]
    async with stateward.open(file) as store:
        await StatewardHistoryProvider(store).save_messages("s-1", messages)
        for size in range(4, 20):
            history = StatewardHistoryProvider(store, last=size)
            window = plain(await history.get_messages("s-1"))
            assert window == plain(messages[-(size // 4) * 4 :])
        history = StatewardHistoryProvider(store, turns=2)
        assert plain(await history.get_messages("s-1")) == plain(messages[-8:])


async def test_a_summary_stands_for_older_turns(file: str) -> None:
    compaction = stateward.Compaction(
        summarize=lambda earlier, messages: f"{len(messages)} messages", after=8, keep=4
    )
    messages = [message for number in range(5) for message in exchange(number)]
    async with stateward.open(file) as store:
        history = StatewardHistoryProvider(store, summarize=compaction)
        await history.save_messages("s-1", messages)
        await store.thread("s-1").compact(compaction)
        window = await history.get_messages("s-1")
        assert [message.text for message in window][:2] == ["16 messages", "question 4"]
        assert plain(window[1:]) == plain(exchange(4))


async def test_a_run_waits_for_another_and_sees_its_answer(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        second: asyncio.Task[Any] | None = None
        theirs = StatewardHistoryProvider(other)
        quick = agent(theirs, "from the other")

        async def look() -> str:
            """Meanwhile another replica begins to serve the same user."""
            nonlocal second
            with pytest.raises(stateward.LeaseHeld):
                impatient = StatewardHistoryProvider(other, wait=0)
                await agent(impatient).run("b", session=impatient.session("s-1"))
            second = asyncio.create_task(quick.run("b", session=theirs.session("s-1")))
            return "seen"

        history = StatewardHistoryProvider(one)
        slow = agent(history, calls("look"), "from one", tools=[look])
        await slow.run("a", session=history.session("s-1"))
        assert second is not None
        async with asyncio.timeout(PATIENT):
            await second
        assert seen(quick) == ["user", "assistant", "tool", "assistant", "user"]


async def test_a_run_from_within_a_run_of_its_session_does_not_wait_for_it(file: str) -> None:
    async with stateward.open(file) as store:
        history = StatewardHistoryProvider(store, wait=0)

        async def ask() -> str:
            """Ask another agent in the same conversation."""
            inner = await agent(history, "from inside").run("b", session=history.session("s-1"))
            return inner.text

        outer = agent(history, calls("ask"), "from outside", tools=[ask])
        await outer.run("a", session=history.session("s-1"))
        assert await texts(store) == ["b", "from inside", "a", "", "", "from outside"]
        await agent(history, "yes").run("c", session=history.session("s-1"))


async def test_a_run_that_failed_holds_up_nobody_in_its_process(file: str) -> None:
    async def fails() -> str:
        error = ValueError("no model")
        error.args = ("no model", error)  # only a collection finds that its run is over
        raise error

    policy = stateward.Policy(PATIENT, PATIENT)
    async with stateward.open(file, policy=policy) as store:
        history = StatewardHistoryProvider(store, wait=0)
        run = agent(history, fails).run("a", session=history.session("s-1"))
        with pytest.raises(ValueError, match="no model"):
            await asyncio.create_task(run)  # not around the next one
        del run
        await agent(history, "hi").run("b", session=history.session("s-1"))
        assert await texts(store) == ["b", "hi"]


async def test_a_run_that_was_overtaken_raises_and_holds_up_nobody(url: str) -> None:
    async with stateward.open(url) as store:

        async def overtaken() -> str:
            """Meanwhile somebody who takes no turns adds something."""
            await store.thread("s-1").append({"role": "user", "content": "b"})
            return "never"

        history = StatewardHistoryProvider(store, wait=0)
        with pytest.raises(StateConflictError):
            await agent(history, overtaken).run("a", session=history.session("s-1"))
        assert await texts(store) == ["b"]
        await agent(history, "hi").run("c", session=history.session("s-1"))
        append = StatewardHistoryProvider(store, conflict="append")
        await agent(append, overtaken).run("d", session=append.session("s-1"))
        assert await texts(store) == ["b", "c", "hi", "b", "d", "never"]
    with pytest.raises(InvalidInput, match="conflict="):
        StatewardHistoryProvider(store, conflict="ignore")  # type: ignore[arg-type]


async def test_a_request_that_is_repeated_adds_nothing(url: str) -> None:
    async with stateward.open(url) as store:
        history = StatewardHistoryProvider(store, wait=0)
        for answer in ("first", "second"):
            session = history.session("s-1", key="request-1")
            await agent(history, answer).run("a", session=session)
        assert await texts(store) == ["a", "first"]
        await agent(history, "third").run("b", session=session)  # its next run is another request
        assert await texts(store) == ["a", "first", "b", "third"]


async def test_a_conversation_that_is_handed_on_whole_is_not_stored_twice(file: str) -> None:
    async with stateward.open(file) as store:
        history = StatewardHistoryProvider(store)
        session = history.session("s-1")
        first = [Message("user", ["a"]), Message("assistant", ["b"])]
        await agent(history, "c").run(first, session=session)
        whole = [*first, Message("assistant", ["c"], author_name="waiter"), Message("user", ["d"])]
        await agent(history, "e").run(whole, session=session)
        assert await texts(store) == ["a", "b", "c", "d", "e"]
        await history.save_messages("s-1", [Message("user", ["d"]), Message("assistant", ["e"])])
        assert len(await texts(store)) == 5
        for _ in range(2):  # who says the same again says something new
            await history.save_messages("s-2", [Message("user", ["hello?"])])
        assert await texts(store, "s-2") == ["hello?", "hello?"]


async def test_every_call_of_the_model_can_be_stored_on_its_own(file: str) -> None:
    async with stateward.open(file) as store:
        history = StatewardHistoryProvider(store)

        def look() -> str:
            """Look."""
            return "seen"

        waiter = agent(history, calls("look"), "done", tools=[look])
        waiter.require_per_service_call_history_persistence = True
        await waiter.run("a", session=history.session("s-1"))
        window = await store.thread("s-1").load()
        assert [message["role"] for message in window.messages] == [
            *("user", "assistant"),
            *("tool", "assistant"),
        ]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_three_processes_on_one_session_double_no_question(url: str, start: Start) -> None:
    await asyncio.to_thread(start("agent_framework_runs", url, 3, 4).finish, 300.0)
    async with stateward.open(url) as store:
        said = await texts(store, "crowd")
        storage = StatewardCheckpointStorage(store, "crowd")
        ids = await storage.list_checkpoint_ids(workflow_name="crowd")
    assert said[::2] == said[1::2]
    names = sorted(f"{n}.{run}" for n in range(3) for run in range(4))
    assert sorted(said[::2]) == sorted(ids) == names


async def test_an_answer_reaches_the_user_though_the_store_dies_under_the_run(
    mortal: RedisServer, tmp_path: Path
) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:

        async def dies() -> str:
            mortal.kill()
            return "an answer"

        history = StatewardHistoryProvider(store, user="u-42")
        result = await agent(history, dies).run("a question", session=history.session("s-1"))
        assert result.text == "an answer"
        with pytest.raises(StoreUnavailable):  # never an empty history
            await agent(history, "who are you?").run("and?", session=history.session("s-1"))
        mortal.start()
        async with asyncio.timeout(PATIENT):
            while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
        assert await texts(store) == ["a question", "an answer"]


async def test_export_and_erase_find_what_a_session_keeps(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        history = StatewardHistoryProvider(store)
        session = history.session("s-1", user="u-42")
        restored = AgentSession.from_dict(session.to_dict())  # as an application may keep it
        await agent(history, "noted").run("my secret", session=restored)
        with pytest.raises(stateward.NotYoursError):
            await agent(history, "no").run("hi", session=history.session("s-1", user="u-7"))
        exported = await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert exported.messages == 2
        assert "my secret" in (tmp_path / "export.jsonl").read_text()
        assert (await store.user("u-42").erase()).removed == {"thread": 1}
        assert await history.get_messages("s-1") == []


async def test_a_conversation_of_others_goes_on(file: str) -> None:
    call = {"id": "c-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    async with stateward.open(file) as store:
        await store.thread("s-1").append(
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c-1", "content": "seen"},
            {"role": "assistant", "content": "b"},
        )
        history = StatewardHistoryProvider(store)
        waiter = agent(history, "d")
        await waiter.run("c", session=history.session("s-1"))
        assert seen(waiter) == ["user", "assistant", "tool", "assistant", "user"]
        assert (await store.thread("s-1").load()).messages[0] == {"role": "user", "content": "a"}


async def test_langchain_begins_a_conversation_and_reads_how_it_went_on(file: str) -> None:
    call = {"name": "look", "args": {"where": "here"}, "id": "c-1"}
    begun = [
        HumanMessage("a"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("seen", tool_call_id="c-1"),
        AIMessage("b"),
    ]
    async with stateward.open(file) as store:
        langchain = StatewardChatMessageHistory(store, "s-1")
        await langchain.aadd_messages(begun)
        history = StatewardHistoryProvider(store, turns=10)

        def look(where: str) -> str:
            """Look."""
            return f"nothing {where}"

        waiter = agent(history, calls("look", "c-2", where="there"), "d", tools=[look])
        await waiter.run("c", session=history.session("s-1"))
        shown = waiter.client.seen[0]
        roles = [message.role for message in shown]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        (made,) = shown[1].contents
        assert (made.call_id, made.name, made.parse_arguments()) == ("c-1", "look", call["args"])
        whole = await langchain.aget_messages()
        assert [message.type for message in whole] == ["human", "ai", "tool", "ai"] * 2
        assert whole[:4] == begun
        assert whole[5].tool_calls[0]["args"] == {"where": "there"}
        assert (whole[6].content, whole[7].content) == ("nothing there", "d")


def test_a_blocking_store_serves_any_loop(url: str) -> None:
    async def run(answer: str, question: str) -> int:
        history = StatewardHistoryProvider(store)
        await agent(history, answer).run(question, session=history.session("s-1"))
        return len(await history.get_messages("s-1"))

    with stateward.sync.open(url) as store:
        assert asyncio.run(run("one", "first")) == 2
        assert asyncio.run(run("two", "second")) == 4


async def test_a_provider_from_a_url_closes_its_own_store_and_no_other(file: str) -> None:
    history = StatewardHistoryProvider.from_url(file, user="u-42")
    await history.save_messages("s-1", [Message("user", ["hello"])])
    await history.close()
    with pytest.raises(stateward.StoreMisused):
        await history.get_messages("s-1")
    async with stateward.open(file) as store:
        await StatewardHistoryProvider(store).close()
        assert await texts(store) == ["hello"]
        with pytest.raises(InvalidInput, match="session id"):
            await StatewardHistoryProvider(store).get_messages(None)
