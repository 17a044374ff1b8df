"""`StatewardConversation` with agents of Pydantic AI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from servers.redis import RedisServer

import stateward
import stateward.sync
from frameworks.conftest import Start
from stateward import InvalidInput, StateConflictError, StoreUnavailable
from stateward.integrations.pydantic_ai import StatewardConversation

PATIENT = 60.0


class Scripted:
    """A model that says these things in turn, and remembers what it was sent."""

    def __init__(self, *answers: str | ToolCallPart) -> None:
        self.answers = list(answers)
        self.seen: list[list[ModelMessage]] = []

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(list(messages))
        answer = self.answers.pop(0)
        return ModelResponse([TextPart(answer) if isinstance(answer, str) else answer])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> Any:
        (part,) = self.answer(messages, info).parts
        assert isinstance(part, TextPart)
        for word in part.content.split(" "):
            yield word

    def agent(self, **options: Any) -> Agent[None, Any]:
        return Agent(FunctionModel(self.answer, stream_function=self.stream), **options)


def says(*answers: str | ToolCallPart, **options: Any) -> Agent[None, Any]:
    return Scripted(*answers).agent(**options)


def exchange(number: int) -> list[ModelMessage]:
    """A question, a tool call with its result, and the answer."""
    id = f"call-{number}"
    return [
        ModelRequest([UserPromptPart(f"question {number}")]),
        ModelResponse([ToolCallPart("look", {}, id)]),
        ModelRequest([ToolReturnPart("look", "seen", id)]),
        ModelResponse([TextPart(f"answer {number}")]),
    ]


def texts(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, TextPart | UserPromptPart)]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_tool_call_in_one_process_is_remembered_in_the_next(url: str, start: Start) -> None:
    first = start("pydantic_turn", url, "s-1", "u-42", "A steak, please.", "Here it is.")
    assert first.report() == {"said": "Here it is."}
    async with stateward.open(url) as store:
        model = Scripted("It was medium rare.")
        conversation = StatewardConversation(store, "s-1", user="u-42")
        result = await conversation.run(model.agent(), "How was it done?")
        assert result.output == "It was medium rare."
        kinds = [part.part_kind for message in model.seen[0] for part in message.parts]
        assert kinds == ["user-prompt", "tool-call", "tool-return", "text", "user-prompt"]
        assert model.seen[0][2].parts[0].content == "a medium rare steak"  # type: ignore[union-attr]
        assert {message.conversation_id for message in result.all_messages()} == {"s-1"}
        assert [thread.messages async for thread in store.threads(user="u-42")] == [6]


async def test_messages_come_back_as_they_were_given(url: str) -> None:
    given = [
        ModelRequest([UserPromptPart(["🥩 \x00", BinaryContent(b"\xff\x00", media_type="a/b")])]),
        *exchange(1),
    ]
    async with stateward.open(url) as store:
        conversation = StatewardConversation(store, "s-1")
        added = await conversation.add(given)
        assert (added.status, added.version) == ("stored", 5)
        again = await StatewardConversation(store, "s-1").history()
        assert again == given
        dumped = ModelMessagesTypeAdapter.dump_python(given, mode="json")
        assert (await store.thread("s-1").load()).messages == dumped


async def test_a_conversation_of_another_framework_is_continued(file: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    async with stateward.open(file) as store:
        await store.thread("s-1").append(
            {"role": "system", "content": "You are a waiter."},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            {"role": "assistant", "content": "b"},
        )
        model = Scripted("d")
        await StatewardConversation(store, "s-1", turns=1).run(model.agent(), "c")
        parts = [part for message in model.seen[0] for part in message.parts]
        kinds = ["system-prompt", "user-prompt", "tool-call", "tool-return", "text", "user-prompt"]
        assert [part.part_kind for part in parts] == kinds
        assert texts(await StatewardConversation(store, "s-1").history()) == ["a", "b", "c", "d"]


async def test_a_run_is_stored_once_however_often_it_is_added(url: str) -> None:
    async with stateward.open(url) as store:
        conversation = StatewardConversation(store, "s-1")
        history = await conversation.history()
        result = await says("hi").run("hello", message_history=history)
        assert (await conversation.add(result)).status == "stored"
        assert (await conversation.add(result)).status == "duplicate"
        assert (await StatewardConversation(store, "s-1").add(result)).status == "duplicate"
        assert texts(await conversation.history()) == ["hello", "hi"]
        with pytest.raises(stateward.KeyReusedError):
            await conversation.add(exchange(1), key=result.run_id)


async def test_a_window_never_separates_a_tool_call_from_its_result(file: str) -> None:
    given = [message for number in range(5) for message in exchange(number)]
    async with stateward.open(file) as store:
        await StatewardConversation(store, "s-1").add(given)
        for size in range(4, 20):
            seen = await StatewardConversation(store, "s-1", last=size).history()
            assert seen == given[-(size // 4) * 4 :]
        assert await StatewardConversation(store, "s-1", turns=2).history() == given[-8:]
        tight = StatewardConversation(store, "s-1", max_tokens=100, count=lambda message: 20)
        assert await tight.history() == given[-4:]


async def test_a_window_keeps_the_system_prompt(file: str) -> None:
    async with stateward.open(file) as store:
        for number in range(3):
            agent = says(f"answer {number}", system_prompt="You are a waiter.")
            await StatewardConversation(store, "s-1").run(agent, f"question {number}")
        model = Scripted("the last")
        agent = model.agent(system_prompt="You are a waiter.")
        await StatewardConversation(store, "s-1", turns=1).run(agent, "question 3")
        prompt, *rest = model.seen[0]
        assert [part.content for part in prompt.parts[:1]] == ["You are a waiter."]  # type: ignore[union-attr]
        assert texts(model.seen[0]) == ["question 2", "answer 2", "question 3"]
        kinds = [type(part) for message in rest for part in message.parts]
        assert SystemPromptPart not in kinds


async def test_a_summary_stands_for_older_turns(file: str) -> None:
    compaction = stateward.Compaction(
        summarize=lambda earlier, messages: f"{len(messages)} messages", after=8, keep=4
    )
    async with stateward.open(file) as store:
        given = [message for number in range(5) for message in exchange(number)]
        await StatewardConversation(store, "s-1").add(given)
        await store.thread("s-1").compact(compaction)
        told, *rest = await StatewardConversation(store, "s-1", summarize=compaction).history()
        assert [part.content for part in told.parts] == ["16 messages"]  # type: ignore[union-attr]
        assert rest == given[-4:]


async def test_a_run_waits_for_another_and_sees_its_answer(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        second: asyncio.Task[Any] | None = None
        model = Scripted("from the other")
        slow = says(ToolCallPart("look", {}), "from one")

        @slow.tool_plain
        async def look() -> str:
            """Meanwhile another replica begins to serve the same user."""
            nonlocal second
            with pytest.raises(stateward.LeaseHeld):
                await StatewardConversation(other, "s-1", wait=0).run(model.agent(), "b")
            second = asyncio.create_task(
                StatewardConversation(other, "s-1").run(model.agent(), "b")
            )
            return "seen"

        await StatewardConversation(one, "s-1").run(slow, "a")
        assert second is not None
        async with asyncio.timeout(PATIENT):
            await second
        assert texts(model.seen[0]) == ["a", "from one", "b"]
        history = await StatewardConversation(one, "s-1").history()
        assert texts(history) == ["a", "from one", "b", "from the other"]


async def test_runs_of_one_conversation_object_do_not_mix(file: str) -> None:
    async with stateward.open(file) as store:
        conversation = StatewardConversation(store, "s-1")
        runs = [conversation.run(says(f"answer {n}"), f"question {n}") for n in range(5)]
        await asyncio.gather(*runs)
        said = texts(await conversation.history())
        assert [text.replace("question", "answer") for text in said[::2]] == said[1::2]
        assert len(said) == 10


async def test_a_run_that_was_overtaken_raises_and_holds_up_nobody(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        slow = says(ToolCallPart("look", {}), "never")

        @slow.tool_plain
        async def look() -> str:
            """Meanwhile somebody who takes no turns adds something."""
            await StatewardConversation(other, "s-1", conflict="append").run(says("c"), "b")
            return "seen"

        with pytest.raises(StateConflictError):
            await StatewardConversation(one, "s-1").run(slow, "a")
        await StatewardConversation(other, "s-1", wait=0).run(says("e"), "d")
        assert texts(await StatewardConversation(one, "s-1").history()) == ["b", "c", "d", "e"]
        conversation = StatewardConversation(one, "s-1")
        await conversation.history()
        await StatewardConversation(other, "s-1").add(exchange(1))
        with pytest.raises(StateConflictError):
            await conversation.add(exchange(2))


async def test_a_run_that_failed_stores_nothing_and_holds_up_nobody(file: str) -> None:
    def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ValueError("no model")

    async with stateward.open(file) as store:
        with pytest.raises(ValueError, match="no model"):
            await StatewardConversation(store, "s-1").run(Agent(FunctionModel(fail)), "a")
        await StatewardConversation(store, "s-1", wait=0).run(says("hi"), "b")
        assert texts(await StatewardConversation(store, "s-1").history()) == ["b", "hi"]


async def test_a_run_from_within_a_run_does_not_wait_for_it(file: str) -> None:
    async with stateward.open(file) as store:
        outside = says(ToolCallPart("ask", {}), "never")

        @outside.tool_plain
        async def ask() -> str:
            """Ask another agent in the same conversation."""
            inside = StatewardConversation(store, "s-1", wait=0)
            return str((await inside.run(says("from inside"), "b")).output)

        with pytest.raises(StateConflictError):  # the inner one has added to what it had read
            await StatewardConversation(store, "s-1").run(outside, "a")
        assert texts(await StatewardConversation(store, "s-1").history()) == ["b", "from inside"]


async def test_a_streamed_run_is_added_at_its_end(file: str) -> None:
    async with stateward.open(file) as store:
        conversation = StatewardConversation(store, "s-1")
        async with conversation.turn() as turn:
            agent = says("one two three")
            async with agent.run_stream("count", message_history=turn.history) as result:
                with pytest.raises(InvalidInput, match="not at its end"):
                    await turn.add(result)
                async for _ in result.stream_text():
                    pass
            assert (await turn.add(result)).status == "stored"
            assert (await turn.add(result)).status == "duplicate"
        async with conversation.turn() as turn:
            assert len(turn.history) == 2
            async with says("four").iter("go on", message_history=turn.history) as run:
                with pytest.raises(InvalidInput, match="not at its end"):
                    await turn.add(run)
                async for _ in run:
                    pass
            await turn.add(run)
        assert len(await conversation.history()) == 4
        with pytest.raises(InvalidInput, match="message_history"):
            await conversation.run(says("five"), "?", message_history=[])


async def test_an_approval_is_given_in_another_process_days_later(url: str) -> None:
    def waiter(*answers: str | ToolCallPart) -> Agent[None, Any]:
        agent = says(*answers, output_type=[str, DeferredToolRequests])

        @agent.tool_plain(requires_approval=True)
        def charge(euros: int) -> str:
            return f"{euros} charged"

        return agent

    async with stateward.open(url) as store:
        asked = waiter(ToolCallPart("charge", {"euros": 42}, "call-1"))
        result = await StatewardConversation(store, "s-1", turns=5).run(asked, "Pay, please.")
        assert isinstance(result.output, DeferredToolRequests)
    async with stateward.open(url) as store:
        conversation = StatewardConversation(store, "s-1", turns=5)
        approved = DeferredToolResults(approvals={"call-1": True})
        ended = await conversation.run(waiter("Paid."), deferred_tool_results=approved)
        assert ended.output == "Paid."
        parts = [part for message in await conversation.history() for part in message.parts]
        returned = next(part for part in parts if isinstance(part, ToolReturnPart))
        assert returned.content == "42 charged"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_three_processes_on_one_conversation_split_no_turn(url: str, start: Start) -> None:
    await asyncio.to_thread(start("pydantic_crowd", url, 3, 4).finish, 300.0)
    async with stateward.open(url) as store:
        said = texts(await StatewardConversation(store, "crowd").history())
    assert said[::2] == said[1::2]
    assert sorted(said[::2]) == sorted(f"{n}.{run}" for n in range(3) for run in range(4))


async def test_an_answer_reaches_the_user_though_the_store_dies_under_the_run(
    mortal: RedisServer, tmp_path: Path
) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:
        agent = says(ToolCallPart("look", {}), "an answer")

        @agent.tool_plain
        def look() -> str:
            """The store dies while the tool runs."""
            mortal.kill()
            return "seen"

        conversation = StatewardConversation(store, "s-1", user="u-42")
        result = await conversation.run(agent, "a question")
        assert result.output == "an answer"
        assert (await conversation.add(result)).status in ("spilled", "duplicate")
        with pytest.raises(StoreUnavailable):  # never an empty history
            await conversation.run(says("who are you?"), "and?")
        mortal.start()
        async with asyncio.timeout(PATIENT):
            while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
        assert texts(await conversation.history()) == ["a question", "an answer"]


@pytest.fixture
def _loop() -> Iterator[None]:
    """The loop that the framework's `run_sync` makes for itself, and never closes."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.usefixtures("_loop")
def test_a_blocking_store_serves_run_sync(url: str) -> None:
    with stateward.sync.open(url) as store:
        conversation = StatewardConversation(store, "s-1")
        assert conversation.run_sync(says("one"), "first").output == "one"
        result = says("two").run_sync("second", message_history=conversation.history_sync())
        assert conversation.add_sync(result).status == "stored"
        assert conversation.add_sync(result).status == "duplicate"
        history = asyncio.get_event_loop().run_until_complete(conversation.history())
        assert texts(history) == ["first", "one", "second", "two"]
    open_ = stateward.open(url)
    with pytest.raises(InvalidInput, match=r"stateward\.sync\.open"):
        StatewardConversation(open_, "s-1").history_sync()


async def test_export_and_erase_find_what_a_conversation_keeps(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        await StatewardConversation(store, "s-1", user="u-42").run(says("hush"), "my secret")
        with pytest.raises(stateward.NotYoursError):
            await StatewardConversation(store, "s-1", user="u-7").history()
        with pytest.raises(stateward.NotYoursError):
            await StatewardConversation(store, "s-1", user="u-7").run(says("hush"), "whose?")
        exported = await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert exported.messages == 2
        assert "my secret" in (tmp_path / "export.jsonl").read_text()
        assert (await store.user("u-42").erase()).removed == {"thread": 1}
        assert await StatewardConversation(store, "s-1", user="u-42").history() == []


async def test_a_conversation_from_a_url_closes_its_own_store_and_no_other(file: str) -> None:
    conversation = StatewardConversation.from_url(file, "s-1", user="u-42", retain=3600)
    await conversation.add(exchange(1))
    await conversation.close()
    with pytest.raises(stateward.StoreMisused):
        await conversation.history()
    async with stateward.open(file) as store:
        await StatewardConversation(store, "s-1").close()
        assert len(await StatewardConversation(store, "s-1").history()) == 4
    with pytest.raises(InvalidInput, match="conflict="):
        StatewardConversation(stateward.open(file), "s-1", conflict="ignore")  # type: ignore[arg-type]
