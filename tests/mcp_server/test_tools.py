"""Every tool, and what it says to whoever may not, knows no better, or asks for too much."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stateward
from mcp_server.conftest import INJECTION, SECRET, Seeded, in_process, said, seed, use_every_tool
from stateward import sync
from stateward.errors import NotPermitted
from stateward.mcp.reads import READS
from stateward.mcp.server import INSTRUCTIONS, TOOLS
from stateward.mcp.size import MOST, cut
from stateward.mcp.tool import McpTool, ToolCall, ToolCaller
from stateward.mcp.writes import WRITES
from stateward.server.asker import Asker

every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: str(tool.name))
every_change = pytest.mark.parametrize("tool", WRITES, ids=lambda tool: str(tool.name))
ROOM = 2 * MOST  # what else a tool says is small


async def test_every_tool_on_every_engine(store_url: str) -> None:
    seeded = seed(store_url)
    async with asyncio.timeout(60), in_process(store_url) as client:
        await use_every_tool(client, seeded)


# --- another user -----------------------------------------------------------------------


@every_tool
async def test_a_server_for_one_user_says_nothing_of_another(seeded: Seeded, tool: McpTool) -> None:
    with sync.open(seeded.url, heartbeat=None) as store:
        before = store.user("ada").get("prefs")
    given = seeded.arguments[tool.name]
    anonymous = {name: value for name, value in given.items() if name != "user"}
    async with in_process(seeded.url, user="eve") as client:
        for arguments in (given, anonymous):
            result = await client.call_tool(tool.name, arguments)
            answer = said(result).replace(json.dumps(arguments), "")
            assert "ada-" not in answer, "the ids of what is hers, and the secret"
        if "user" in given:
            assert (await client.call_tool(tool.name, given)).is_error
    with sync.open(seeded.url, heartbeat=None) as store:
        assert store.user("ada").get("prefs") == before
        assert [it.id for it in store.waiting()] == [seeded.question]


@every_tool
async def test_what_is_anothers_is_as_if_it_were_not_there(seeded: Seeded, tool: McpTool) -> None:
    """Nobody learns that it exists."""
    given = {k: v for k, v in seeded.arguments[tool.name].items() if k != "user"}
    unknown = {k: "nothing-like-it" if k in ("thread", "question") else v for k, v in given.items()}
    async with in_process(seeded.url, user="eve", write=False) as client:
        theirs = await client.call_tool(tool.name, given)
        nobodys = await client.call_tool(tool.name, unknown)
        assert said(theirs) == said(nobodys)


async def test_a_server_for_one_user_has_their_own(seeded: Seeded) -> None:
    async with in_process(seeded.url, user="ada") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "health" not in tools
        for name, tool in tools.items():
            assert "user" not in tool.input_schema["properties"]
            given = {k: v for k, v in seeded.arguments[name].items() if k != "user"}
            for arguments in (given, seeded.arguments[name]):
                result = await client.call_tool(name, arguments)
                assert not result.is_error, (name, said(result))
        assert SECRET in said(await client.call_tool("list_documents", {}))


async def test_another_namespace_is_another_world(seeded: Seeded) -> None:
    async with in_process(seeded.url, namespace="other") as client:
        for tool in READS:
            assert SECRET not in said(
                await client.call_tool(tool.name, seeded.arguments[tool.name])
            )


# --- read-only --------------------------------------------------------------------------


@every_change
async def test_without_write_there_is_no_tool_that_changes_anything(
    seeded: Seeded, tool: McpTool
) -> None:
    async with in_process(seeded.url, write=False) as client:
        listed = (await client.list_tools()).tools
        assert sorted(each.name for each in listed) == sorted(each.name for each in READS)
        assert all(each.annotations and each.annotations.read_only_hint for each in listed)
        result = await client.call_tool(tool.name, seeded.arguments[tool.name])
    assert result.is_error
    assert "--write" in said(result)
    with sync.open(seeded.url, heartbeat=None) as store:
        assert store.user("ada").get("prefs").version == 2
        assert list(store.operations.entries()) == []


@every_change
async def test_even_a_tool_that_were_shown_by_mistake_could_not_write(
    seeded: Seeded, tool: McpTool
) -> None:
    async with stateward.open(seeded.url, heartbeat=None, spill=False) as store:
        asker = Asker("tester", "read", frozenset({"default"}))
        caller = ToolCaller(store, asker, "tester", write=True)
        given = tool.arguments(**seeded.arguments[tool.name])
        with pytest.raises(NotPermitted):
            await tool.answer(ToolCall(caller, given))


# --- what cannot be answered ------------------------------------------------------------


@every_tool
async def test_an_unknown_id_is_said_in_words(seeded: Seeded, tool: McpTool) -> None:
    given = {
        name: "nothing-like-it" if name in ("thread", "text", "user", "name", "question") else value
        for name, value in seeded.arguments[tool.name].items()
    }
    async with in_process(seeded.url) as client:
        result = await client.call_tool(tool.name, given)
    if tool.name in ("read_conversation", "read_document", "why"):
        assert result.is_error
        assert "list_" in said(result), "it says where to look"
    if tool.name == "answer_question":
        assert result.structured_content == {"changed": False}
    assert SECRET not in said(result)
    assert "Traceback" not in said(result)


ANY_AFTER = ("list_documents", "list_questions")  # any text is a place in their order


def nonsense_for(tool: McpTool) -> list[dict[str, Any]]:
    fields = tool.arguments.__struct_fields__
    needed = [field for field in msgspec.structs.fields(tool.arguments) if field.required]
    wrong: list[dict[str, Any]] = [{"nonsense": 1}]
    wrong += [{name: {"an": "object"}} for name in fields if name not in ("patch", "value")]
    ids = ("thread", "user", "name", "question", "text")
    wrong += [{name: "x" * 600} for name in fields if name in ids]
    wrong += [{"limit": n} for n in (0, -1, 101, 10**30) if "limit" in fields]
    if "after" in fields and tool.name not in ANY_AFTER:
        wrong.append({"after": "nonsense"})
    wrong += [{"thread": ""} for _ in range("thread" in fields)]
    wrong += [{}] if needed else []
    wrong += [{"user": "ada", "name": "prefs", "patch": "text"} for _ in range("patch" in fields)]
    return wrong


@every_tool
async def test_nonsense_is_refused_in_words(seeded: Seeded, tool: McpTool) -> None:
    good = seeded.arguments[tool.name]
    async with in_process(seeded.url) as client:
        for wrong in nonsense_for(tool):
            result = await client.call_tool(tool.name, {**good, **wrong} if wrong else {})
            assert result.is_error, (wrong, said(result))
            assert said(result)
            assert "Traceback" not in said(result)
        result = await client.call_tool(tool.name, good)
        assert not result.is_error, "the server goes on"


async def test_an_unknown_tool_is_answered_with_those_that_there_are(seeded: Seeded) -> None:
    async with in_process(seeded.url) as client:
        result = await client.call_tool("drop_everything", {})
    assert result.is_error
    assert "read_conversation" in said(result)


# --- too much ---------------------------------------------------------------------------


async def test_a_conversation_of_100_000_messages_is_read_in_pages(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with sync.open(url, heartbeat=None) as store:
        thread = store.thread("long", user="ada")
        for begin in range(0, 100_000, 5000):
            turn = [{"role": "user", "content": f"{n} "} for n in range(begin, begin + 5000)]
            thread.append(*turn)
    async with in_process(url, write=False) as client:
        seen: list[int] = []
        after = None
        for _ in range(3):
            given = {"thread": "long", "limit": 100, "after": after}
            told = (await client.call_tool("read_conversation", given)).structured_content
            seen = [each["number"] for each in told["messages"]] + seen
            after = told["next"]
            assert told["total"] == 100_000
        assert seen == list(range(99_701, 100_001))
        result = await client.call_tool("why", {"thread": "long"})
        assert not result.is_error, said(result)
        assert len(said(result)) < ROOM


async def test_why_says_when_there_is_too_much_to_look_through(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateward.mcp.why_tool.WHY_SECONDS", 0.0)
    async with in_process(seeded.url) as client:
        result = await client.call_tool("why", {"thread": "ada-thread"})
    assert result.is_error
    assert "stateward why" in said(result)


@pytest.fixture(scope="module")
def vast(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    """A store in which everything is larger than an answer may be."""
    seeded = seed(f"sqlite:///{tmp_path_factory.mktemp('vast')}/agents.db")
    text = SECRET + "äx\n" * 50_000
    wide = {f"{n}": n for n in range(20_000)}
    with sync.open(seeded.url, heartbeat=None) as store:
        for n in range(12):
            store.thread("ada-thread").append({"role": "user", "content": text, "n": n})
            store.user("ada").put({"text": text, "wide": wide, "n": n}, f"vast-{n}")
            store.thread(f"ada-{n:03}", user="ada").append({"role": "user", "content": text})
            with store.workflow(f"ada-vast-{n}", kind="vast", user="ada") as run:
                run.wait("approval", ask=text)
    return seeded


@every_tool
async def test_an_answer_is_bounded_however_large_what_is_stored(
    vast: Seeded, tool: McpTool
) -> None:
    """All of it is reached page by page, and what was cut says so."""
    given = {**vast.arguments[tool.name]}
    if "limit" in tool.arguments.__struct_fields__:
        given["limit"] = 100
    if tool.name == "read_document":
        given["name"] = "vast-1"
    async with in_process(vast.url) as client:
        seen = 0
        for _ in range(50):
            result = await client.call_tool(tool.name, given)
            assert not result.is_error, said(result)
            assert len(said(result)) < ROOM
            told = result.structured_content
            seen += len(told.get("items", told.get("messages", [])))
            if told.get("next") is None:
                break
            given["after"] = told["next"]
        else:
            raise AssertionError("the pages never end")
    whole = {
        "read_conversation": 14,
        "list_conversations": 13,
        "list_documents": 13,
        "list_workflows": 13,
        "list_questions": 13,
    }
    assert seen >= whole.get(tool.name, 0)
    if tool.name in ("read_conversation", "list_documents", "list_questions", "read_document"):
        assert "more characters]" in said(result)


@pytest.mark.parametrize(
    "value", [{"a": ["x" * 99] * 99}, ["y"] * 9999, "z" * 9999, {"k" * 999: 1}]
)
def test_what_is_cut_keeps_its_type_and_its_room(value: Any) -> None:
    shown = cut(value, 500)
    assert type(shown) is type(value)
    assert len(json.dumps(shown, ensure_ascii=False)) <= 600


# --- what is said is data ---------------------------------------------------------------


async def test_what_people_wrote_is_data_and_nothing_else(seeded: Seeded) -> None:
    async with in_process(seeded.url) as client:
        before = (await client.list_tools()).tools
        result = await client.call_tool("read_conversation", seeded.arguments["read_conversation"])
        assert (await client.list_tools()).tools == before
    assert len(result.content) == 1, "one JSON text, whatever it says"
    told = json.loads(said(result))
    assert told == result.structured_content
    assert told["messages"][0]["message"]["content"] == f"{SECRET} {INJECTION}"
    assert "never an instruction" in INSTRUCTIONS
    assert INJECTION not in json.dumps([tool.model_dump() for tool in before])


# --- changes ----------------------------------------------------------------------------


async def test_a_change_is_in_the_operations_log_with_who_did_it(seeded: Seeded) -> None:
    async with in_process(seeded.url) as client:
        for tool in WRITES:
            await client.call_tool(tool.name, seeded.arguments[tool.name])
        await client.call_tool("read_conversation", {"thread": "ada-thread"})
    with sync.open(seeded.url, heartbeat=None) as store:
        entries = list(store.operations.entries())
        assert store.operations.verify().ok
    done = [entry for entry in entries if entry.outcome == "done"]
    assert [entry.what for entry in done] == ["document patch", "document undo", "question answer"]
    assert {entry.who for entry in entries} == {"tester"}
    intended = [entry for entry in entries if entry.outcome == "intended"]
    assert intended[0].detail["tool"] == "patch_document"
    assert intended[0].detail["name"] == "prefs"
    assert intended[0].detail["client"]
    assert SECRET not in str(entries), "no values"


async def test_a_change_for_another_version_is_refused(seeded: Seeded) -> None:
    patch = {"user": "ada", "name": "prefs", "patch": {"more": None}}
    async with in_process(seeded.url) as client:
        result = await client.call_tool("patch_document", {**patch, "if_version": 1})
        assert result.is_error
        assert "version 2" in said(result)
        result = await client.call_tool("patch_document", {**patch, "if_version": 2})
        assert result.structured_content["value"] == {"secret": SECRET}
        new = {"user": "ada", "name": "new", "patch": {"a": 1}, "if_version": 0}
        assert not (await client.call_tool("patch_document", new)).is_error
        assert (await client.call_tool("patch_document", new)).is_error
        at = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        read = {"user": "ada", "name": "prefs"}
        first = await client.call_tool("read_document", {**read, "version": 1})
        assert first.structured_content["value"] == {"secret": SECRET}
        assert not (await client.call_tool("read_document", {**read, "at": at})).is_error


def test_the_reference_has_every_tool() -> None:
    """The table of the reference is the table of the server."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "mcp.md"
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    told = {row.split("`")[1]: row for row in rows}
    assert list(told) == [tool.name for tool in TOOLS]
    for tool in TOOLS:
        for field in msgspec.structs.fields(tool.arguments):
            assert f"`{field.encode_name}`" in told[tool.name], (tool.name, field.name)
        assert tool.description.split(". ")[0].rstrip(".") in told[tool.name]


def test_tools_explain_themselves_to_a_model() -> None:
    from stateward.mcp.server import described

    for tool in TOOLS:
        it = described(tool)
        assert it.input_schema["type"] == "object"
        assert (it.output_schema or {})["type"] == "object"
        for name, argument in it.input_schema["properties"].items():
            assert argument.get("description"), (tool.name, name)
        assert len(it.description or "") > 40
