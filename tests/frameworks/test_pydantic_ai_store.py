"""`StatewardConversationStore` beside the store that Pydantic AI brings."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, Conversation, DeferredToolRequests
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from servers.redis import RedisServer

import stateward
import stateward.sync
from stateward.integrations.pydantic_ai import StatewardConversation, StatewardConversationStore


def says(*answers: str | ToolCallPart, **options: Any) -> Agent[None, Any]:
    said = iter(answers)

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        part = next(said)
        return ModelResponse([TextPart(part) if isinstance(part, str) else part])

    return Agent(FunctionModel(answer), **options)


def texts(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, TextPart | UserPromptPart)]


async def turn(kept: ConversationStore, id: str, question: str, **options: Any) -> Conversation:
    """As Pydantic AI documents it: load, run, save."""
    conversation = await kept.load(id, **options) or Conversation(conversation_id=id)
    result = await says(f"to {question}").run(question, conversation=conversation)
    options.pop("limit", None)
    await kept.save(result, **options)
    return result.conversation


async def test_a_conversation_is_carried_whole(url: str) -> None:
    async with stateward.open(url) as store:
        kept = StatewardConversationStore(store)
        await turn(kept, "s-1", "a", scope="u-42")
        asked = says(ToolCallPart("charge", {}, "c1"), output_type=[str, DeferredToolRequests])
        asked.tool_plain(requires_approval=True)(charge)
        loaded = await kept.load("s-1")
        assert loaded is not None
        saved = await kept.save(await asked.run("pay", conversation=loaded))
        assert len(saved) == 2
    async with stateward.open(url) as store:
        kept = StatewardConversationStore(store)
        again = await kept.load("s-1", scope="u-42")
        assert again is not None
        assert texts(again.messages) == ["a", "to a", "pay"]
        assert again.usage.requests == 2
        assert again.deferred_tool_requests is not None
        assert [call.tool_call_id for call in again.deferred_tool_requests.approvals] == ["c1"]
        assert await kept.load("s-1", scope="u-7") is None
        assert await kept.load("s-2") is None
        (record,) = await kept.list_conversations(scope="u-42")
        assert (record.conversation_id, record.scope) == ("s-1", "u-42")
        entries = await kept.load_entries("s-1")
        assert entries is not None
        fresh = StatewardConversationStore(store)  # one that has read nothing yet
        assert await fresh.read_entry(entries[1].id) == entries[1]
        with pytest.raises(LookupError):
            await fresh.read_entry("no such")


def charge() -> str:
    return "charged"


async def test_both_ways_to_a_conversation_see_the_same(url: str) -> None:
    async with stateward.open(url) as store:
        kept, conversation = StatewardConversationStore(store), StatewardConversation(store, "s-1")
        await conversation.run(says("b"), "a")
        await turn(kept, "s-1", "c")
        loaded = await kept.load("s-1")
        await conversation.run(says("e"), "d")
        assert loaded is not None
        with pytest.raises(ConversationConflict):  # it does not have what was added since
            await kept.save(loaded)
        await turn(kept, "s-1", "f", limit=2)
        said = ["a", "b", "c", "to c", "d", "e", "f", "to f"]
        assert texts(await conversation.history()) == said
        again = await kept.load("s-1")
        assert again is not None
        assert texts(again.messages) == said
        await store.thread("s-2").append({"role": "user", "content": "from elsewhere"})
        await turn(kept, "s-2", "go on")
        elsewhere = await kept.load("s-2")
        assert elsewhere is not None
        assert texts(elsewhere.messages) == ["from elsewhere", "go on", "to go on"]


async def test_a_branch_takes_the_place_of_the_history_and_can_be_taken_back(url: str) -> None:
    async with stateward.open(url) as store:
        kept = StatewardConversationStore(store)
        for question in ("a", "b", "c"):
            await turn(kept, "s-1", question)
        loaded = await kept.load("s-1")
        assert loaded is not None
        await kept.branch("s-1", at=2, expected_revision=loaded.revision)
        await turn(kept, "s-1", "instead")
        stored = (await store.thread("s-1").load()).messages
        assert len(stored) == 4  # windows, transcripts and other frameworks see this branch alone
        (record,) = await kept.list_conversations()
        back = await kept.branch(
            "s-1", from_entry=record.branches[0], expected_revision=record.revision
        )
        assert texts(back.messages) == ["a", "to a", "b", "to b", "c", "to c"]
        assert len((await store.thread("s-1").load()).messages) == 6


class Walk:
    """The same drawn calls on a store; what each of them gave, but for ids that are drawn too."""

    def __init__(self, kept: ConversationStore, seed: int) -> None:
        self.kept = kept
        self.random = random.Random(seed)

    async def step(self) -> Any:
        ask = self.random.choice(
            [
                *(self.save, self.save, self.save, self.window, self.rewrite, self.branch),
                *(self.back, self.fork, self.stale, self.delete, self.list),
            ]
        )
        id = self.random.choice("abc")
        try:
            return ask.__name__, await ask(id)
        except (UserError, ConversationConflict) as error:
            return ask.__name__, type(error).__name__

    async def shown(self, id: str) -> Any:
        loaded = await self.kept.load(id)
        entries = await self.kept.load_entries(id) or []
        assert all(a.id == b.parent_id for a, b in pairwise(entries))
        return None if loaded is None else texts(loaded.messages)

    def said(self) -> list[ModelMessage]:
        number = self.random.randrange(10**6)
        return [
            ModelRequest([UserPromptPart(f"question {number}")]),
            ModelResponse([TextPart(f"answer {number}")]),
        ]

    async def save(self, id: str) -> Any:
        loaded = await self.kept.load(id) or Conversation(conversation_id=id)
        loaded.messages += self.said()
        loaded.usage.requests += 1
        return len(await self.kept.save(loaded, scope=f"u-{id}"))

    async def window(self, id: str) -> Any:
        size, said = self.random.randrange(4), self.said()
        loaded = await self.kept.load(id, limit=size)
        if loaded is None:
            return None
        seen = texts(loaded.messages)
        loaded.messages += said
        return seen, len(await self.kept.save(loaded))

    async def rewrite(self, id: str) -> Any:
        """As a compaction does it that also rewrites what is stored."""
        at, said = self.random.random(), self.said()
        loaded = await self.kept.load(id)
        if loaded is None:
            return None
        shorter = loaded.messages[: int(at * len(loaded.messages))] + said
        new = Conversation(conversation_id=id, messages=shorter, revision=loaded.revision)
        return len(await self.kept.save(new))

    async def branch(self, id: str) -> Any:
        at = self.random.randrange(8)
        loaded = await self.kept.load(id)
        revision = None if loaded is None else loaded.revision
        return texts((await self.kept.branch(id, at=at, expected_revision=revision)).messages)

    async def back(self, id: str) -> Any:
        drawn = self.random.random()
        record = await self.kept.read_record(id)
        if record is None or not record.branches:
            return None
        entry = record.branches[int(drawn * len(record.branches))]
        branched = await self.kept.branch(id, from_entry=entry, expected_revision=record.revision)
        return texts(branched.messages)

    async def fork(self, id: str) -> Any:
        at = self.random.choice((None, 1, 2, 5))
        to = self.random.choice("abcde")
        forked = await self.kept.fork(id, at=at, new_conversation_id=to, scope=f"u-{to}")
        return texts(forked.messages), forked.usage.requests

    async def stale(self, id: str) -> Any:
        loaded = await self.kept.load(id) or Conversation(conversation_id=id)
        await self.save(id)
        loaded.messages += self.said()
        return len(await self.kept.save(loaded))

    async def delete(self, id: str) -> Any:
        if self.random.random() < 0.5:
            await self.kept.delete(id, scope=f"u-{id}")

    async def list(self, id: str) -> Any:
        records = await self.kept.list_conversations(scope=f"u-{id}")
        return [(each.scope, each.forked_from, len(each.branches)) for each in records]


@pytest.mark.parametrize("seed", range(4))
async def test_a_conversation_store_answers_as_pydantic_ais_own(file: str, seed: int) -> None:
    async with stateward.open("memory://" if seed else file) as store:
        ours = Walk(StatewardConversationStore(store), seed)
        theirs = Walk(InMemoryConversationStore(), seed)
        for _ in range(60):
            assert await ours.step() == await theirs.step()
            for id in "abcde":
                assert await ours.shown(id) == await theirs.shown(id)


async def test_of_those_who_save_at_once_one_wins_and_nothing_is_mixed(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:

        async def talk(kept: ConversationStore, name: str) -> None:
            for number in range(3):
                while True:
                    try:
                        await turn(kept, "s-1", f"{name} {number}")
                        break
                    except ConversationConflict:
                        continue

        stores = [StatewardConversationStore(store) for store in (one, other, one, other)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(talk(kept, f"n{n}") for n, kept in enumerate(stores)))
        loaded = await stores[0].load("s-1")
        assert loaded is not None
        said = texts(loaded.messages)
        assert [f"to {text}" for text in said[::2]] == said[1::2]
        assert sorted(said[::2]) == sorted(
            f"n{n} {number}" for n in range(4) for number in range(3)
        )


async def test_erase_finds_a_conversation_with_its_branches(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        kept = StatewardConversationStore(store)
        await turn(kept, "s-1", "my secret", scope="u-42")
        loaded = await kept.load("s-1")
        assert loaded is not None
        await kept.branch("s-1", at=0, expected_revision=loaded.revision)
        await turn(kept, "s-1", "another", scope="u-42")
        await kept.fork("s-1", new_conversation_id="s-2")
        await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert "my secret" in (tmp_path / "export.jsonl").read_text()
        with pytest.raises(ConversationConflict):  # somebody else's
            await turn(kept, "s-1", "mine?", scope="u-7")
        assert (await store.user("u-42").erase()).removed == {"thread": 2}
        assert await kept.list_conversations() == []
        assert await kept.load("s-2") is None


async def test_a_fork_of_a_user_who_is_erased_meanwhile_brings_nothing_back(file: str) -> None:
    class Slow(StatewardConversationStore):
        reads = 0

        async def read_history(self, *args: Any, **options: Any) -> list[ConversationEntry]:
            found = await super().read_history(*args, **options)
            self.reads += 1
            if self.reads == 2:  # it is about to write what it has read
                await store.user("u-42").erase()
            return found

    async with stateward.open(file) as store:
        await turn(StatewardConversationStore(store), "s-1", "my secret", scope="u-42")
        with pytest.raises(ConversationConflict):
            await Slow(store).fork("s-1", new_conversation_id="s-2")
        assert [thread.id async for thread in store.threads()] == []


async def test_without_the_store_nothing_is_lost_in_silence(mortal: RedisServer) -> None:
    policy = stateward.Policy(0.3, 0.3, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy) as store:
        kept = StatewardConversationStore(store)
        conversation = await turn(kept, "s-1", "a")
        mortal.kill()
        conversation.messages.append(ModelRequest([UserPromptPart("b")]))
        for call in (kept.load("s-1"), kept.save(conversation), kept.list_conversations()):
            with pytest.raises(stateward.StoreUnavailable):
                await call
        mortal.start()


def test_a_blocking_store_serves_it_in_any_loop(file: str) -> None:
    kept = StatewardConversationStore(stateward.sync.open(file), retain=3600)
    for question in ("a", "b"):
        asyncio.run(turn(kept, "s-1", question))
    loaded = asyncio.run(kept.load("s-1"))
    assert loaded is not None
    assert texts(loaded.messages) == ["a", "to a", "b", "to b"]
    with stateward.sync.open(file) as store:
        assert store.thread("s-1").load().version == 4
