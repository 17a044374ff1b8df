"""`StatewardChatStore` and `StatewardMemoryStore` beside the stores that LlamaIndex brings."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.llms.llm import LLM
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import BaseChatStore, SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from servers.redis import RedisServer
from sqlalchemy.ext.asyncio import create_async_engine

import stateward
import stateward.sync
from frameworks.conftest import Start
from stateward import InvalidInput, StoreUnavailable
from stateward.integrations.llama_index import StatewardChatStore, StatewardMemoryStore

PATIENT = 60.0
ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


def says(text: str, role: str = "user") -> ChatMessage:
    return ChatMessage(role=role, content=text)


def texts(messages: list[ChatMessage] | None) -> list[str | None]:
    return [message.content for message in messages or ()]


def words(text: str) -> list[str]:
    return text.split()


def exchange(number: int) -> list[ChatMessage]:
    """A question, a tool call with its result, and the answer."""
    call = ToolCallBlock(tool_call_id=f"call-{number}", tool_name="look", tool_kwargs={"at": "it"})
    return [
        says(f"question {number}"),
        ChatMessage(role="assistant", blocks=[call]),
        ChatMessage(
            role="tool", content="seen", additional_kwargs={"tool_call_id": f"call-{number}"}
        ),
        says(f"answer {number}", "assistant"),
    ]


def chat(buffer: Any, question: str) -> str:
    llm: LLM = MockLLM()
    return str(SimpleChatEngine.from_defaults(llm=llm, memory=buffer).chat(question))


# --- chat stores --------------------------------------------------------------------------------


def test_a_chat_in_one_process_is_remembered_in_the_next(file: str, start: Start) -> None:
    first = start("llama_turn", file, "s-1", "u-42", "A steak, please.")
    assert first.report() == {"messages": 2}
    with stateward.sync.open(file) as store:
        kept = StatewardChatStore(store, user="u-42")
        buffer = ChatMemoryBuffer.from_defaults(
            chat_store=kept, chat_store_key="s-1", tokenizer_fn=words
        )
        answer = chat(buffer, "How was it done?")
        assert "A steak, please." in answer  # the model echoes all it was sent
        assert len(kept.get_messages("s-1")) == 4
        assert [thread.messages for thread in store.threads(user="u-42")] == [4]


async def test_messages_come_back_as_they_were_given(url: str) -> None:
    given = [
        ChatMessage(role="user", blocks=[TextBlock(text="🥩 \x00"), ImageBlock(image=b"\xff\x00")]),
        *exchange(1),
    ]
    async with stateward.open(url) as store:
        kept = StatewardChatStore(store)
        await kept.aset_messages("s-1", given)
        assert await kept.aget_messages("s-1") == given
        stored = (await store.thread("s-1").load()).messages
        assert stored == [message.model_dump(mode="json") for message in given]
        with pytest.raises(InvalidInput, match=r"stateward\.sync\.open"):
            kept.get_messages("s-1")


async def test_a_conversation_of_another_framework_is_continued(file: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    async with stateward.open(file) as store:
        await store.thread("s-1").append(
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            {"role": "assistant", "content": "b"},
        )
        kept = StatewardChatStore(store)
        await kept.async_add_message("s-1", says("c"))
        messages = await kept.aget_messages("s-1")
        assert [str(message.role.value) for message in messages] == [
            *("user", "assistant", "tool", "assistant", "user")
        ]
        last = await kept.adelete_last_message("s-1")
        assert last == says("c")
        removed = await kept.adelete_message("s-1", 3)
        assert removed is not None
        assert removed.content == "b"


async def test_a_window_never_separates_a_tool_call_from_its_result(file: str) -> None:
    given = [message for number in range(5) for message in exchange(number)]
    async with stateward.open(file) as store:
        await StatewardMemoryStore(store).add_messages("s-1", given)
        for size in range(4, 20):
            window = await store.thread("s-1").load(last=size)
            assert len(window.messages) == size // 4 * 4


Ask = Callable[[BaseChatStore, str], Any]

ASKED: list[Ask] = [
    lambda chats, key: chats.add_message(key, says("one")),
    lambda chats, key: chats.add_message(key, says("two", "assistant")),
    lambda chats, key: chats.set_messages(key, [says("three"), says("four")]),
    lambda chats, key: chats.get_messages(key),
    lambda chats, key: chats.delete_message(key, 0),
    lambda chats, key: chats.delete_message(key, 2),
    lambda chats, key: chats.delete_message(key, 99),
    lambda chats, key: chats.delete_last_message(key) if chats.get_messages(key) else None,
    lambda chats, key: chats.delete_messages(key),
    lambda chats, key: sorted(chats.get_keys()),
]


@pytest.mark.parametrize("seed", range(2))
def test_a_chat_store_answers_as_llama_indexs_own(file: str, seed: int) -> None:
    drawn = random.Random(seed)
    with stateward.sync.open(file) as store:
        ours, theirs = StatewardChatStore(store), SimpleChatStore()
        for _ in range(80):
            ask, key = drawn.choice(ASKED), drawn.choice(("a", "b"))
            assert ask(ours, key) == ask(theirs, key)
            assert ours.get_messages(key) == theirs.get_messages(key)


async def test_two_who_delete_the_last_message_at_once_get_different_ones(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        numbers = [str(n) for n in range(20)]
        await StatewardMemoryStore(one).add_messages("s-1", [says(n) for n in numbers])
        stores = [StatewardChatStore(store) for store in (one, other) * 10]
        removed = await asyncio.gather(*(each.adelete_last_message("s-1") for each in stores))
        assert Counter(message.content for message in removed if message) == Counter(numbers)
        assert await stores[0].aget_messages("s-1") == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_four_processes_on_one_conversation_lose_no_message(url: str, start: Start) -> None:
    start("llama_crowd", url, 4, 25).finish(300.0)
    with stateward.sync.open(url) as store:
        said = texts(StatewardChatStore(store).get_messages("crowd"))
    assert sorted(map(str, said)) == sorted(f"{n}.{m}" for n in range(4) for m in range(25))
    for number in range(4):
        own = [text for text in said if str(text).startswith(f"{number}.")]
        assert own == [f"{number}.{m}" for m in range(25)]


async def test_a_message_is_kept_though_the_store_dies(mortal: RedisServer, tmp_path: Path) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:
        kept, memory = StatewardChatStore(store, user="u-42"), StatewardMemoryStore(store)
        await kept.async_add_message("s-1", says("a question"))
        mortal.kill()
        await kept.async_add_message("s-1", says("an answer", "assistant"))
        for reading in (kept.aget_messages("s-1"), memory.get_messages("s-1"), kept.aget_keys()):
            with pytest.raises(StoreUnavailable):  # never an empty history
                await reading
        with pytest.raises(StoreUnavailable):
            await kept.aset_messages("s-1", [])
        mortal.start()
        async with asyncio.timeout(PATIENT):
            while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
        assert texts(await kept.aget_messages("s-1")) == ["a question", "an answer"]


async def test_export_and_erase_find_what_a_chat_store_keeps(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        await StatewardChatStore(store, user="u-42").async_add_message("s-1", says("my secret"))
        memory = StatewardMemoryStore(store, user="u-42")
        await memory.add_messages("s-2", [says("another"), says("and one")])
        await memory.archive_oldest_messages("s-2", 1)
        theirs = StatewardChatStore(store, user="u-7")
        with pytest.raises(stateward.NotYoursError):
            await theirs.aget_messages("s-1")
        with pytest.raises(stateward.NotYoursError):
            await theirs.async_add_message("s-1", says("whose?"))
        assert await theirs.aget_keys() == []
        assert await memory.get_keys() == ["s-1", "s-2"]
        exported = await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert exported.messages == 3
        assert (await store.user("u-42").erase()).removed == {"thread": 2}
        assert await memory.get_messages("s-2", None) == []


def test_a_chat_store_from_a_url_closes_its_own_store_and_no_other(file: str) -> None:
    kept = StatewardChatStore.from_url(file, user="u-42", retain=3600)
    kept.add_message("s-1", says("hello"))
    kept.close()
    with pytest.raises(stateward.StoreMisused):
        kept.get_messages("s-1")
    with stateward.sync.open(file) as store:
        StatewardChatStore(store).close()
        assert texts(StatewardChatStore(store).get_messages("s-1")) == ["hello"]


# --- LlamaIndex's Memory ------------------------------------------------------------------------


async def test_memory_archives_what_no_longer_fits_and_hands_it_on(url: str) -> None:
    async with stateward.open(url) as store:
        kept = StatewardMemoryStore(store, user="u-42")

        def remembered() -> Memory:
            return Memory.from_defaults(
                "s-1",
                token_limit=30,
                token_flush_size=10,
                chat_history_token_ratio=0.7,
                tokenizer_fn=words,
                chat_store=kept,
            )

        for number in range(10):
            await remembered().aput(says(f"question {number} of ten, and some words"))
            await remembered().aput(says(f"answer {number}", "assistant"))
        active = await kept.get_messages("s-1")
        archived = await kept.get_messages("s-1", ARCHIVED)
        everything = await remembered().aget_all()
        assert archived
        assert archived + active == everything
        assert texts(everything)[1::2] == [f"answer {number}" for number in range(10)]
        assert await kept.count_messages("s-1") == len(active)
        assert len((await store.thread("s-1").load()).messages) == 20
        assert texts(await remembered().aget())[-1] == "answer 9"


def test_memory_is_called_from_blocking_code(url: str) -> None:
    with stateward.sync.open(url) as store:
        kept = StatewardMemoryStore(store)
        memory = Memory.from_defaults("s-1", chat_store=kept, tokenizer_fn=words)
        memory.put(says("hello"))
        memory.put_messages([says("hi", "assistant"), says("bye")])
        assert texts(memory.get_all()) == ["hello", "hi", "bye"]
        memory.set([says("anew")])
        assert texts(memory.get()) == ["anew"]
        memory.reset()
        assert memory.get_all() == []


async def test_archiving_is_whole_and_for_all_to_see(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        ours, theirs = StatewardMemoryStore(one), StatewardMemoryStore(other)
        await ours.add_messages("s-1", [says(str(n)) for n in range(10)])
        halves = await asyncio.gather(
            *(each.archive_oldest_messages("s-1", 1) for each in (ours, theirs) * 3)
        )
        first = Counter(message.content for half in halves for message in half)
        assert first == Counter(map(str, range(6)))  # none was handed on twice
        assert texts(await ours.get_messages("s-1", limit=2, offset=1)) == ["7", "8"]
        await ours.add_message("s-1", says("late"), ARCHIVED)
        await ours.add_message("s-1", says("newest"))
        assert texts(await theirs.get_messages("s-1", ARCHIVED))[-1] == "late"
        assert texts(await theirs.get_messages("s-1")) == ["6", "7", "8", "9", "newest"]
        assert texts(await theirs.delete_oldest_messages("s-1", 2)) == ["6", "7"]
        assert texts(await ours.archive_oldest_messages("s-1", 99)) == ["8", "9", "newest"]
        assert await ours.archive_oldest_messages("s-1", 1) == []
        assert await ours.count_messages("s-1", None) == 10
        removed = await ours.delete_message("s-1", 1)
        assert removed is not None
        assert removed.content == "0"
        assert await ours.delete_message("s-1", 1) is None
        await ours.delete_messages("s-1", ACTIVE)
        await ours.delete_messages("s-1", ARCHIVED)
        assert await ours.get_messages("s-1", None) == []
        await ours.set_messages("s-1", [says("again")], ARCHIVED)
        assert await ours.get_messages("s-1") == []
        await ours.set_messages("s-1", [says("anew")])
        assert texts(await ours.get_messages("s-1")) == ["anew"]
        assert await ours.get_messages("s-1", ARCHIVED) == []


AskMemory = Callable[[AsyncDBChatStore], Awaitable[Any]]

ASKED_OF_MEMORY: list[AskMemory] = [
    lambda kept: kept.add_message("a", says("one")),
    lambda kept: kept.add_message("a", says("two", "assistant"), ARCHIVED),
    lambda kept: kept.add_messages("a", [says("three"), says("four"), says("five")]),
    lambda kept: kept.set_messages("a", [says("six"), says("seven")]),
    lambda kept: kept.set_messages("a", [says("eight")], ARCHIVED),
    lambda kept: kept.archive_oldest_messages("a", 1),
    lambda kept: kept.archive_oldest_messages("a", 3),
    lambda kept: kept.delete_oldest_messages("a", 2),
    lambda kept: kept.get_messages("a", limit=2, offset=1),
    lambda kept: kept.delete_messages("a", ACTIVE),
    lambda kept: kept.delete_messages("a", ARCHIVED),
    lambda kept: kept.delete_messages("a"),
]


@pytest.mark.parametrize("seed", range(2))
async def test_a_memory_store_answers_as_llama_indexs_own(file: str, seed: int) -> None:
    drawn = random.Random(seed)
    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    async with stateward.open(file) as store:
        ours = StatewardMemoryStore(store)
        theirs = SQLAlchemyChatStore("messages", async_engine=engine)
        for _ in range(80):
            ask = drawn.choice(ASKED_OF_MEMORY)
            assert await ask(ours) == await ask(theirs)
            for status in (None, ACTIVE, ARCHIVED):
                assert await ours.get_messages("a", status) == await theirs.get_messages(
                    "a", status
                )
                assert await ours.count_messages("a", status) == await theirs.count_messages(
                    "a", status
                )
    await engine.dispose()
