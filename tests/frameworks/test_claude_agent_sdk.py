"""`StatewardSessionStore` under the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    MirrorErrorMessage,
    ResultMessage,
    delete_session_via_store,
    fold_session_summary,
    fork_session_via_store,
    get_session_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    list_subagents_from_store,
    project_key_for_directory,
    query,
    rename_session_via_store,
)
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import SessionKey, SessionStore
from servers.redis import RedisServer

import stateward
import stateward.sync
from frameworks.claude_cli import command
from frameworks.conftest import Start
from stateward import InvalidInput, StoreUnavailable
from stateward.integrations.claude_agent_sdk import REMEMBERED, StatewardSessionStore
from stateward.integrations.kept import kept_state
from stateward.testing.faults import open_faulty

PATIENT = 60.0
KEY: SessionKey = {"project_key": "proj", "session_id": "s-1"}
SUB: SessionKey = {**KEY, "subpath": "subagents/agent-1"}


def line(uuid: str, **more: Any) -> Any:
    return {"type": "user", "uuid": uuid, "timestamp": "2026-01-01T00:00:00.000Z", **more}


def uuids(lines: list[Any] | None) -> list[str]:
    return [each["uuid"] for each in lines or []]


class Place:
    """A machine with a folder of its own: what is in it alone is on no other one."""

    def __init__(self, folder: Path, store: SessionStore) -> None:
        self.folder, self.store = folder, store
        self.work = folder.parent / "work"
        for each in (folder, self.work):
            each.mkdir(exist_ok=True)

    async def ask(self, question: str, **options: Any) -> ResultMessage:
        asked = ClaudeAgentOptions(
            session_store=self.store,
            cli_path=command(self.folder),
            cwd=self.work,
            env={"CLAUDE_CONFIG_DIR": str(self.folder), "HOME": str(self.folder)},
            **options,
        )
        said = [message async for message in query(prompt=question, options=asked)]
        assert not [each for each in said if isinstance(each, MirrorErrorMessage)]
        (result,) = (each for each in said if isinstance(each, ResultMessage))
        return result


# --- the contract -------------------------------------------------------------------------


async def contracts(url: str) -> None:
    names = itertools.count()
    async with stateward.open(url) as store:
        await run_session_store_conformance(
            lambda: StatewardSessionStore(store.within(f"n{next(names)}"), user="u-42")
        )


async def test_the_sdks_fourteen_contracts_hold(url: str) -> None:
    await contracts(url)


async def test_the_sdks_fourteen_contracts_hold_in_memory() -> None:
    await contracts("memory://")


async def test_the_sdks_fourteen_contracts_hold_on_a_blocking_store(file: str) -> None:
    names = itertools.count()
    with stateward.sync.open(file) as store:
        await run_session_store_conformance(
            lambda: StatewardSessionStore(store.within(f"n{next(names)}"))
        )


# --- sessions of the SDK --------------------------------------------------------------------


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_a_session_is_resumed_in_a_fresh_process(url: str, start: Start, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    question = "A steak, please; grill it."
    first = start("claude_turn", url, "u-42", tmp_path / "one", question, "").report()
    assert first["said"] == f"I remember: {question}"
    again = start("claude_turn", url, "u-42", tmp_path / "two", "And?", first["session"]).report()
    assert again == {"session": first["session"], "said": f"I remember: {question}; And?"}


async def test_all_that_the_sdk_does_with_a_session(file: str, tmp_path: Path) -> None:
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store, user="u-42")
        here = Place(tmp_path / "here", sessions)
        id = (await here.ask("A steak, please; grill it.")).session_id
        work = str(here.work)
        assert await list_subagents_from_store(sessions, id, directory=work) == ["1"]
        elsewhere = Place(tmp_path / "there", StatewardSessionStore(store, user="u-42"))
        said = await elsewhere.ask("How was it?", continue_conversation=True)
        assert said.session_id == id
        assert said.result == "I remember: A steak, please; grill it.; How was it?"
        messages = await get_session_messages_from_store(sessions, id, directory=work)
        assert [each.type for each in messages] == ["user", "assistant"] * 3

        (info,) = await list_sessions_from_store(sessions, directory=work)
        assert (info.session_id, info.summary) == (id, "A steak, please; grill it.")
        await rename_session_via_store(sessions, id, "Steak", directory=work)
        (info,) = await list_sessions_from_store(sessions, directory=work)
        assert info.summary == "Steak"
        fork = await fork_session_via_store(sessions, id, directory=work)
        assert len(await list_sessions_from_store(sessions, directory=work)) == 2
        await delete_session_via_store(sessions, fork.session_id, directory=work)
        await delete_session_via_store(sessions, id, directory=work)
        assert await list_sessions_from_store(sessions, directory=work) == []
        assert [thread async for thread in store.threads()] == []


async def test_a_transcript_of_a_machine_is_brought_along_and_nothing_twice(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateward.open(file) as store:
        lost = StatewardSessionStore(store.within("elsewhere"))
        here = Place(tmp_path / "here", lost)
        id = (await here.ask("A steak, please; grill it.")).session_id
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(here.folder))
        sessions = StatewardSessionStore(store)
        key: SessionKey = {"project_key": project_key_for_directory(here.work), "session_id": id}
        for size in (500, 1, 2, 3):  # other batches each time, as after a gap in the mirror
            again = StatewardSessionStore(store)
            await import_session_to_store(id, again, directory=str(here.work), batch_size=size)
            loaded = await sessions.load(key)
            assert uuids([each for each in loaded or [] if "uuid" in each]) == uuids(
                [each for each in await lost.load(key) or [] if "uuid" in each]
            )
            sub: SessionKey = {**key, "subpath": "subagents/agent-1"}
            assert await sessions.load(sub) == await lost.load(sub)
        result = await Place(tmp_path / "there", sessions).ask("And?", resume=id)
        assert result.result == "I remember: A steak, please; grill it.; And?"


OPENAI_TURN = [
    {"role": "system", "content": "You are a waiter."},
    {"role": "user", "content": "A steak, please."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "grill", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a rare steak"},
    {"role": "assistant", "content": "Here it is."},
]
RESPONSES_TURN = [
    {"role": "user", "content": [{"type": "input_text", "text": "Salt?"}]},
    {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c2", "output": "a little"},
    {
        "type": "message",
        "id": "m-1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "A little.", "annotations": []}],
    },
]


async def test_a_conversation_begun_elsewhere_goes_on_here(file: str, tmp_path: Path) -> None:
    id = "0c7b3a52-6f0e-4c55-9d0a-0f6b4f5a1c11"
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store, user="u-42")
        here = Place(tmp_path / "here", sessions)
        key: SessionKey = {"project_key": project_key_for_directory(here.work), "session_id": id}
        await sessions.thread(key).append(*OPENAI_TURN)
        said = await here.ask("How was it?", resume=id)
        assert said.result == "I remember: A steak, please.; How was it?"
        await sessions.thread(key).append(*RESPONSES_TURN)
        there = Place(tmp_path / "there", StatewardSessionStore(store, user="u-42"))
        await there.ask("And?", resume=id)

        lines = await sessions.load(key)
        chain = [each for each in lines or [] if "parentUuid" in each]
        assert [each["parentUuid"] for each in chain] == [None, *uuids(chain)[:-1]]
        messages = [each["message"] for each in chain]
        assert [each["role"] for each in messages] == ["user", "assistant"] * 6
        blocks = [block for each in messages for block in each["content"]]
        calls = [each["id"] for each in blocks if isinstance(each, dict) and "id" in each]
        results = [each["tool_use_id"] for each in blocks if "tool_use_id" in each]
        assert calls == results == ["c1", "c2"]
        (info,) = await list_sessions_from_store(sessions, directory=str(here.work))
        assert info.first_prompt == "A steak, please."
        thread = await store.thread(sessions.thread(key).id, user="u-42").load()
        assert thread.messages[:5] == OPENAI_TURN  # stored as it was given
        said_there = [each for each in thread.messages if "sessionId" not in each]
        assert said_there == OPENAI_TURN + RESPONSES_TURN


# --- races and repetitions ------------------------------------------------------------------


async def race(url: str, start: Start, processes: int, batches: int) -> None:
    start("claude_crowd", url, processes, batches).finish(300.0)
    key: SessionKey = {"project_key": "crowd", "session_id": "s-1"}
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store, user="u-42")
        lines = await sessions.load(key)
        assert lines is not None
        own = [f"{n}.{b}.{c}" for n in range(processes) for b in range(batches) for c in "ab"]
        shared = [f"shared.{b}" for b in range(batches)]
        told = [each for each in lines if "uuid" in each]
        assert Counter(uuids(told)) == Counter(own + shared)
        assert len(lines) == len(told) + processes  # and the tags
        for n in range(processes):  # each in its own order
            mine = [each for each in uuids(told) if each.startswith(f"{n}.")]
            assert mine == [f"{n}.{b}.{c}" for b in range(batches) for c in "ab"]
        (summary,) = await sessions.list_session_summaries("crowd")
        assert summary["data"] == fold_session_summary(None, key, lines)["data"]
        stored = await store.thread("crowd/s-1").handle.fetch(documents=("derived",))
        derived = json.loads(stored.documents["derived"].json)
        assert derived == {"version": len(lines), "data": summary["data"]}  # it was never behind


@pytest.mark.parametrize("url", ["redis"], indirect=True)
async def test_eight_processes_on_one_session_lose_nothing(url: str, start: Start) -> None:
    await race(url, start, 8, 5)


@pytest.mark.soak
async def test_eight_processes_on_one_session_lose_nothing_for_long(url: str, start: Start) -> None:
    await race(url, start, 8, 200)


async def test_many_tasks_of_one_process_lose_nothing(file: str) -> None:
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store)
        await asyncio.gather(*(sessions.append(KEY, [line(str(n))]) for n in range(50)))
        assert Counter(uuids(await sessions.load(KEY))) == Counter(map(str, range(50)))


async def test_lines_are_known_again_in_any_batch(url: str) -> None:
    lines = [line(str(n)) for n in range(8)]
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store)
        await sessions.append(KEY, lines[:3])
        await sessions.append(KEY, lines[1:5] + lines[2:6])
        await StatewardSessionStore(store).append(KEY, lines)  # another process, which knows none
        assert await sessions.load(KEY) == lines
        assert (await store.thread("proj/s-1").load()).version == 8


async def test_a_batch_whose_reply_was_lost_is_not_stored_again() -> None:
    batch = [line("1"), {"type": "tag", "tag": "blue"}]
    policy = stateward.Policy(0.3, 0.6, "raise", breaker_failures=1_000_000)
    for known in (True, False):
        async with open_faulty(policy=policy) as store:
            sessions = StatewardSessionStore(store)
            if known:
                await sessions.append(KEY, [line("0")])
            with store.faults.lose_reply(times=1000), pytest.raises(StoreUnavailable):
                await sessions.append(KEY, batch)
            await sessions.append(KEY, batch)  # as the SDK does it
            assert (await sessions.load(KEY) or [])[-2:] == batch
            assert len(await sessions.load(KEY) or []) == 2 + known
            await sessions.append(KEY, batch[1:])  # another tag of the same name
            assert len(await sessions.load(KEY) or []) == 3 + known


async def test_only_so_many_transcripts_are_remembered(file: str) -> None:
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store)
        keys: list[SessionKey] = [
            {"project_key": "proj", "session_id": str(n)} for n in range(REMEMBERED + 2)
        ]
        for key in keys * 2:
            await sessions.append(key, [line("1")])
        assert [len(await sessions.load(key) or []) for key in keys] == [1] * len(keys)


# --- as any other conversation --------------------------------------------------------------


async def test_export_and_erase_find_a_session_with_its_subagents(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store, user="u-42")
        await sessions.append(KEY, [line("1", secret="my secret")])
        await sessions.append(SUB, [line("2")])
        other = StatewardSessionStore(store, user="u-7")
        with pytest.raises(stateward.NotYoursError):
            await other.load(KEY)
        with pytest.raises(stateward.NotYoursError):
            await other.append(KEY, [line("3")])
        assert await other.list_sessions("proj") == []
        exported = await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert exported.messages == 2
        assert "my secret" in (tmp_path / "export.jsonl").read_text()
        assert (await store.user("u-42").erase()).removed == {"thread": 2}
        assert await StatewardSessionStore(store).load(KEY) is None
        assert await StatewardSessionStore(store).list_session_summaries("proj") == []


async def test_what_is_edited_is_gone_from_the_summary_too(url: str) -> None:
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store)
        await sessions.append(KEY, [line("1", customTitle="my secret"), line("2")])
        await sessions.thread(KEY).edit({1: None})
        assert "my secret" not in str(await sessions.list_session_summaries("proj"))
        fetched = await sessions.thread(KEY).handle.fetch(all_documents=True)
        assert "my secret" not in str(fetched.documents)
        await sessions.append(KEY, [line("3")])
        assert uuids(await sessions.load(KEY)) == ["2", "3"]
        (summary,) = await sessions.list_session_summaries("proj")
        assert "custom_title" not in summary["data"]


async def test_what_others_have_added_is_in_the_summary(url: str) -> None:
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store)
        await sessions.append(KEY, [line("1", gitBranch="main")])
        await store.thread("proj/s-1").append(line("2", customTitle="by another way"))
        (summary,) = await sessions.list_session_summaries("proj")
        assert summary["data"]["custom_title"] == "by another way"
        assert summary["data"]["git_branch"] == "main"
        await sessions.append(KEY, [line("2"), line("3")])
        assert uuids(await sessions.load(KEY)) == ["1", "2", "3"]
        (summary,) = await sessions.list_session_summaries("proj")
        assert summary["data"]["custom_title"] == "by another way"


async def test_a_text_that_was_cut_within_a_character_is_stored_with_a_mark(file: str) -> None:
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store)
        await sessions.append(KEY, [line("1", text="cut \ud83e"), line("2", text="\U0001f969")])
        told = [each["text"] for each in await sessions.load(KEY) or []]
        assert told == ["cut \ufffd", "\U0001f969"]


async def test_ids_with_slashes_are_kept_apart(file: str) -> None:
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store)
        one: SessionKey = {"project_key": "a/b", "session_id": "c%2F"}
        other: SessionKey = {"project_key": "a", "session_id": "b/c%2F"}
        await sessions.append(one, [line("1")])
        await sessions.append(other, [line("2")])
        assert uuids(await sessions.load(one)) == ["1"]
        assert [each["session_id"] for each in await sessions.list_sessions("a/b")] == ["c%2F"]
        assert [each["session_id"] for each in await sessions.list_sessions("a")] == ["b/c%2F"]


async def test_retention_is_that_of_a_thread(file: str) -> None:
    async with stateward.open(file) as store:
        await StatewardSessionStore(store).append(KEY, [line("1")])
        sessions = StatewardSessionStore(store, retain=None)
        await sessions.append(KEY, [line("2")])
        await sessions.append(SUB, [line("3")])
        assert [each.expires_at async for each in store.threads()] == [None, None]
        with pytest.raises(InvalidInput, match="retain"):
            StatewardSessionStore(store, retain=-1)


async def test_what_is_kept_is_told_in_words(file: str) -> None:
    async with stateward.open(file) as store:
        sessions = StatewardSessionStore(store)
        for key in (KEY, SUB):
            await sessions.append(key, [line("1")])
        told = []
        for key in (KEY, SUB):
            handle = sessions.thread(key).handle
            says = kept_state(handle.entity, (await handle.fetch()).head)
            assert says is not None
            assert says.entry(line("1")) == "user 1"
            told.append(says.entity(handle.entity, (await handle.fetch()).head))
        assert told == [
            "session s-1 of the Claude Agent SDK in proj",
            "subagent agent-1 in the session s-1 of the Claude Agent SDK in proj",
        ]
        assert says.document("derived") == "the SDK's summary of the session"


# --- outages ----------------------------------------------------------------------------------


async def test_lines_are_kept_through_an_outage(mortal: RedisServer, tmp_path: Path) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    new: SessionKey = {"project_key": "proj", "session_id": "s-2"}
    async with stateward.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:
        sessions = StatewardSessionStore(store, user="u-42")
        await sessions.append(KEY, [line("1")])
        mortal.kill()
        await sessions.append(KEY, [line("2", customTitle="in an outage")])
        await sessions.append(new, [line("3")])  # whose transcript nobody has read here
        with pytest.raises(StoreUnavailable):  # never an empty transcript
            await sessions.load(KEY)
        mortal.start()
        async with asyncio.timeout(PATIENT):
            while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
        assert uuids(await sessions.load(KEY)) == ["1", "2"]
        assert uuids(await sessions.load(new)) == ["3"]
        titles = {
            each["session_id"]: each["data"].get("custom_title")
            for each in await sessions.list_session_summaries("proj")
        }
        assert titles == {"s-1": "in an outage", "s-2": None}


async def test_a_line_that_two_processes_kept_during_an_outage_is_read_once(
    mortal: RedisServer, tmp_path: Path
) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with (
        stateward.open(mortal.url, policy=policy, spill=tmp_path / "a") as one,
        stateward.open(mortal.url, policy=policy, spill=tmp_path / "b") as other,
    ):
        sessions = [StatewardSessionStore(store, user="u-42") for store in (one, other)]
        for each in sessions:
            await each.append(KEY, [line("1")])
        mortal.kill()
        for number, each in enumerate(sessions):
            await each.append(KEY, [line("2"), line(f"3.{number}"), {"type": "tag", "tag": "x"}])
        mortal.start()
        async with asyncio.timeout(PATIENT):
            for store in (one, other):
                while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                    await asyncio.sleep(0.02)
        stored = (await one.thread(sessions[0].thread(KEY).id, user="u-42").load()).messages
        assert Counter(each.get("uuid") for each in stored)["2"] == 2
        lines = await sessions[0].load(KEY)
        assert lines is not None
        found = Counter(each.get("uuid") for each in lines)
        assert found == {"1": 1, "2": 1, "3.0": 1, "3.1": 1, None: 2}


async def test_one_from_a_url_closes_its_own_store_and_no_other(file: str) -> None:
    sessions = StatewardSessionStore.from_url(file, user="u-42")
    await sessions.append(KEY, [line("1")])
    await sessions.append(KEY, [])
    await sessions.close()
    with pytest.raises(stateward.StoreMisused):
        await sessions.load(KEY)
    async with stateward.open(file) as store:
        await StatewardSessionStore(store).close()
        assert uuids(await StatewardSessionStore(store).load(KEY)) == ["1"]
