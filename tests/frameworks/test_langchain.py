"""`StatewardChatMessageHistory` under LangChain's `RunnableWithMessageHistory`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import ConfigurableFieldSpec, RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from servers.redis import RedisServer

import stateward
import stateward.sync
from frameworks.conftest import Start
from stateward import InvalidInput, StoreUnavailable
from stateward.integrations.langchain import StatewardChatMessageHistory

PATIENT = 60.0
CONFIG: Any = {"configurable": {"session_id": "s-1"}}

pytestmark = pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")


def echo(messages: list[BaseMessage]) -> str:
    return " | ".join(str(message.content) for message in messages)


def remembering(runnable: Any, store: Any, **options: Any) -> Any:
    return RunnableWithMessageHistory(
        runnable, lambda session_id: StatewardChatMessageHistory(store, session_id, **options)
    )


def calls(number: int) -> list[BaseMessage]:
    """A question, a tool call with its result, and the answer."""
    call = {"name": "look", "args": {}, "id": f"call-{number}"}
    return [
        HumanMessage(f"question {number}"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("seen", tool_call_id=f"call-{number}"),
        AIMessage(f"answer {number}"),
    ]


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_a_tool_call_in_one_process_is_remembered_in_the_next(url: str, start: Start) -> None:
    first = start("langchain_turn", url, "s-1", "u-42", "A steak, please.", "Here it is.")
    assert first.report() == {"said": "Here it is."}
    seen: list[BaseMessage] = []

    def answers(messages: list[BaseMessage]) -> str:
        seen.extend(messages)
        return "Medium rare."

    with stateward.sync.open(url) as store:
        chain = remembering(RunnableLambda(answers), store, user="u-42")
        assert chain.invoke("How was it done?", CONFIG) == "Medium rare."
        assert [message.type for message in seen] == ["human", "ai", "tool", "ai", "human"]
        assert seen[2].content == "a medium rare steak"
        assert [thread.messages for thread in store.threads(user="u-42")] == [6]


async def test_messages_come_back_as_they_were_given(url: str) -> None:
    messages = [
        SystemMessage("NUL \x00, emoji 🥩, quotes \" and '", id="m-1"),
        HumanMessage([{"type": "text", "text": "hello"}], name="ann"),
        AIMessage(
            "",
            tool_calls=[{"name": "f", "args": {"lc": 1, "type": "constructor"}, "id": "c-1"}],
            invalid_tool_calls=[{"name": "g", "args": "{", "id": "c-2", "error": "no JSON"}],
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
            response_metadata={"model": "fake", "scores": [1.5, None, True]},
            additional_kwargs={"refusal": None},
        ),
        ToolMessage("found", tool_call_id="c-1", artifact=[Document("text", metadata={"n": 1})]),
        ToolMessage("failed", tool_call_id="c-2", artifact={"lc": 1, "a": 2}, status="error"),
        AIMessageChunk("streamed", id="m-2"),
    ]
    async with stateward.open(url) as store:
        await StatewardChatMessageHistory(store, "s-1").aadd_messages(messages)
        again = StatewardChatMessageHistory(store, "s-1")
        assert await again.aget_messages() == messages
        assert [type(each) for each in await again.aget_messages()] == list(map(type, messages))
        await again.aclear()
        assert await again.aget_messages() == []
        odd = ToolMessage("kept", tool_call_id="c-1", artifact=object())
        await again.aadd_messages([odd])
        (kept,) = await again.aget_messages()
        assert kept.content == "kept"
        assert "object" in str(kept.artifact)


@pytest.mark.parametrize("options", [{}, {"last": 3}])
async def test_every_way_to_call_a_chain_remembers(file: str, options: Any) -> None:
    with stateward.sync.open(file) as store:
        chain = remembering(RunnableLambda(echo), store, **options)
        assert chain.invoke("a", CONFIG) == "a"
        assert "".join(chain.stream("b", CONFIG)) == "a | a | b"
        (answer,) = chain.batch(["c"], [CONFIG])
        seen = "b | a | a | b | c" if options else "a | a | b | a | a | b | c"
        assert answer == seen
        await chain.ainvoke("d", CONFIG)  # on threads: the store is a blocking one
    async with stateward.open(file) as store:
        chain = remembering(RunnableLambda(echo), store, **options)
        await chain.ainvoke("e", CONFIG)
        async for _ in chain.astream("f", CONFIG):
            pass
        stored = await StatewardChatMessageHistory(store, "s-1").aget_messages()
        assert [each.content for each in stored[::2]] == ["a", "b", "c", "d", "e", "f"]
        assert {each.type for each in stored[1::2]} == {"ai"}


async def test_a_users_conversation_by_the_chains_own_configuration(file: str) -> None:
    def history(user_id: str, conversation_id: str) -> StatewardChatMessageHistory:
        return StatewardChatMessageHistory(store, conversation_id, user=user_id, turns=10)

    fields = [
        ConfigurableFieldSpec(id=name, annotation=str) for name in ("user_id", "conversation_id")
    ]
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    model = FakeListChatModel(responses=["one", "two"])
    with stateward.sync.open(file) as store:
        chain: Any = RunnableWithMessageHistory(
            prompt | model,
            history,
            input_messages_key="input",
            history_messages_key="history",
            history_factory_config=fields,
        )
        mine: Any = {"configurable": {"user_id": "u-42", "conversation_id": "c-1"}}
        assert chain.invoke({"input": "a"}, mine).content == "one"
        assert (await chain.ainvoke({"input": "b"}, mine)).content == "two"
        kept = history("u-42", "c-1").messages
        assert [each.content for each in kept] == ["a", "one", "b", "two"]
        theirs: Any = {"configurable": {"user_id": "u-7", "conversation_id": "c-1"}}
        with pytest.raises(stateward.NotYoursError):
            chain.invoke({"input": "c"}, theirs)


def test_a_window_never_separates_a_tool_call_from_its_result(file: str) -> None:
    messages = [message for number in range(5) for message in calls(number)]
    with stateward.sync.open(file) as store:
        StatewardChatMessageHistory(store, "s-1").add_messages(messages)
        for size in range(4, 20):
            seen = StatewardChatMessageHistory(store, "s-1", last=size).messages
            assert seen == messages[-(size // 4) * 4 :]
        assert StatewardChatMessageHistory(store, "s-1", turns=2).messages == messages[-8:]
        tight = StatewardChatMessageHistory(store, "s-1", max_tokens=100, count=lambda _: 20)
        assert tight.messages == messages[-4:]


def test_a_summary_stands_for_older_turns(file: str) -> None:
    compaction = stateward.Compaction(
        summarize=lambda earlier, messages: f"{len(messages)} messages", after=8, keep=4
    )
    messages = [message for number in range(5) for message in calls(number)]
    with stateward.sync.open(file) as store:
        StatewardChatMessageHistory(store, "s-1").add_messages(messages)
        store.thread("s-1").compact(compaction)
        seen = StatewardChatMessageHistory(store, "s-1", summarize=compaction).messages
        assert seen == [SystemMessage("16 messages"), *calls(4)]


async def test_a_run_that_was_overtaken_keeps_its_question(file: str) -> None:
    """At its end LangChain counts the history again, to tell its own messages from it."""
    with stateward.sync.open(file) as store:
        other = StatewardChatMessageHistory(store, "s-1")

        def slow(messages: list[BaseMessage]) -> str:
            other.add_messages([HumanMessage("meanwhile"), AIMessage("yes?")])
            return "an answer"

        chain = remembering(RunnableLambda(slow), store)
        chain.invoke("a", CONFIG)
        await chain.ainvoke("b", CONFIG)
        said = [message.content for message in other.messages]
        pair = ["meanwhile", "yes?"]
        assert said == [*pair, "a", "an answer", *pair, "b", "an answer"]


def test_a_history_that_is_used_for_many_runs_sees_what_others_add(file: str) -> None:
    with stateward.sync.open(file) as store:
        history = StatewardChatMessageHistory(store, "s-1")
        runnable: Any = RunnableLambda(echo)
        chain = RunnableWithMessageHistory(runnable, lambda session_id: history)
        assert chain.invoke("a", CONFIG) == "a"
        StatewardChatMessageHistory(store, "s-1").add_messages([HumanMessage("from another")])
        assert chain.invoke("b", CONFIG) == "a | a | from another | b"
        assert len(history.messages) == 5


async def test_a_request_that_is_repeated_adds_nothing(url: str) -> None:
    async with stateward.open(url) as store:
        model = FakeListChatModel(responses=["first", "second"])
        for _ in range(2):
            chain = remembering(model, store, key="request-1")
            await chain.ainvoke("a", CONFIG)
        history = StatewardChatMessageHistory(store, "s-1", key="request-2")
        assert [each.content for each in await history.aget_messages()] == ["a", "first"]
        for text in ("b", "c"):  # each of them is one
            await history.aadd_messages([HumanMessage(text)])
        assert len(await history.aget_messages()) == 4


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_three_processes_on_one_session_split_no_turn(url: str, start: Start) -> None:
    start("langchain_runs", url, 3, 4).finish(120.0)
    with stateward.sync.open(url) as store:
        messages = StatewardChatMessageHistory(store, "crowd").messages
    questions = [str(message.content) for message in messages[::2]]
    assert [f"answer to {each}" for each in questions] == [each.content for each in messages[1::2]]
    assert sorted(questions) == sorted(f"{n}.{run}" for n in range(3) for run in range(4))


async def test_an_answer_is_kept_though_the_store_dies_under_the_run(
    mortal: RedisServer, tmp_path: Path
) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:

        def dies(messages: list[BaseMessage]) -> str:
            mortal.kill()
            return "an answer"

        chain = remembering(RunnableLambda(dies), store, user="u-42")
        assert await chain.ainvoke("a question", CONFIG) == "an answer"
        with pytest.raises(StoreUnavailable):  # never an empty history
            await chain.ainvoke("and?", CONFIG)
        mortal.start()
        async with asyncio.timeout(PATIENT):
            while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
        history = StatewardChatMessageHistory(store, "s-1", user="u-42")
        assert [each.content for each in await history.aget_messages()] == [
            "a question",
            "an answer",
        ]


async def test_export_and_erase_find_what_a_history_keeps(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        history = StatewardChatMessageHistory(store, "s-1", user="u-42")
        await history.aadd_messages([HumanMessage("my secret")])
        exported = await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert exported.messages == 1
        assert "my secret" in (tmp_path / "export.jsonl").read_text()
        assert (await store.user("u-42").erase()).removed == {"thread": 1}
        assert await history.aget_messages() == []


def test_messages_of_others_are_read_as_langchains(file: str) -> None:
    call = {"id": "c-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    with stateward.sync.open(file) as store:
        store.thread("s-1").append(
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c-1", "content": "seen"},
        )
        history = StatewardChatMessageHistory(store, "s-1")
        history.add_messages([AIMessage("b")])
        seen = history.messages
        assert [each.type for each in seen] == ["human", "ai", "tool", "ai"]
        assert isinstance(seen[1], AIMessage)
        assert seen[1].tool_calls[0]["id"] == "c-1"


async def test_a_history_from_a_url_closes_its_own_store_and_no_other(file: str) -> None:
    history = StatewardChatMessageHistory.from_url(file, "s-1", user="u-42")
    history.add_messages([HumanMessage("hello")])
    assert str(history) == "Human: hello"
    history.close()
    with pytest.raises(stateward.StoreMisused):
        _ = history.messages
    async with stateward.open(file) as store:
        asynchronous = StatewardChatMessageHistory(store, "s-1")
        asynchronous.close()
        assert await asynchronous.aget_messages() == [HumanMessage("hello")]
        blocked: list[Callable[[], Any]] = [
            lambda: asynchronous.messages,
            lambda: asynchronous.add_messages([HumanMessage("b")]),
            asynchronous.clear,
        ]
        for call in blocked:
            with pytest.raises(InvalidInput, match=r"stateward\.sync\.open"):
                call()
        with pytest.raises(InvalidInput):
            StatewardChatMessageHistory(store, "s-1", last=0)
