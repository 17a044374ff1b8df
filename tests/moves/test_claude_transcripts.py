"""Transcripts as Claude Code writes them, and the same session in the new store."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from backup.conftest import NewStore
from claude_agent_sdk import (
    ClaudeAgentOptions,
    InMemorySessionStore,
    ResultMessage,
    fold_session_summary,
    list_sessions_from_store,
    project_key_for_directory,
    query,
)
from claude_agent_sdk.types import SessionKey, SessionStore
from frameworks.claude_cli import command

import stateward
from moves.kills import import_killed
from stateward.integrations.claude_agent_sdk import StatewardSessionStore
from stateward.transfer.moves.mover import import_from


async def ask(home: Path, store: SessionStore, question: str, **options: Any) -> ResultMessage:
    """A turn on a machine whose home this is; all have the same working directory."""
    work = home.parent / "work"
    for folder in (home, work):
        folder.mkdir(exist_ok=True)
    asked = ClaudeAgentOptions(
        session_store=store,
        cli_path=command(home),
        cwd=work,
        env={"CLAUDE_CONFIG_DIR": str(home), "HOME": str(home)},
        **options,
    )
    said = [each async for each in query(prompt=question, options=asked)]
    (result,) = (each for each in said if isinstance(each, ResultMessage))
    return result


def lines(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "type": "user",
            "uuid": str(uuid.UUID(int=number)),
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": {"role": "user", "content": f'question {number}: 🥩 " \\ \u2028'},
        }
        for number in range(first, first + count)
    ]


def write(path: Path, told: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in told)


async def test_the_same_session_goes_on_where_it_was(tmp_path: Path, new_store: NewStore) -> None:
    old, home, url = InMemorySessionStore(), tmp_path / "home", new_store("sqlite")
    id = (await ask(home, old, "A steak, please; grill it.")).session_id
    other = (await ask(home, old, "Salt?")).session_id
    project = project_key_for_directory(tmp_path / "work")
    meta = home / "projects" / project / id / "subagents" / "agent-1.meta.json"
    meta.write_text('{"agentType": "cook"}')

    assert import_from(f"claude:{home}", url, dry_run=True).threads == 3
    report = import_from(f"claude:{home}", url, user="u-42")
    assert (report.moved, report.refused, report.lost) == (3, 0, ())
    assert report.digest == report.read != ""
    again = import_from(f"claude:{home / 'projects'}", url, user="u-42")
    assert (again.added, again.there) == (0, 3)

    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store, user="u-42")
        for session_id in (id, other):
            key: SessionKey = {"project_key": project, "session_id": session_id}
            before = await old.load(key)
            assert before is not None
            assert await sessions.load(key) == before
            fetched = await sessions.thread(key).handle.fetch(documents=("derived",))
            derived = json.loads(fetched.documents["derived"].json)
            folded = fold_session_summary(None, key, before)["data"]
            assert derived == {"version": len(before), "data": folded}
        sub: SessionKey = {"project_key": project, "session_id": id}
        assert await sessions.list_subkeys(sub) == ["subagents/agent-1"]
        sub = {**sub, "subpath": "subagents/agent-1"}
        assert await sessions.load(sub) == [
            {"agentType": "cook", "type": "agent_metadata"},
            *(await old.load(sub) or []),
        ]
        said = await ask(tmp_path / "new", sessions, "How was it?", resume=id)
        assert said.result == "I remember: A steak, please; grill it.; How was it?"
        listed = await list_sessions_from_store(sessions, directory=str(tmp_path / "work"))
        assert [each.session_id for each in listed] == [id, other]

    # What the old files get now: the session that has gone on in the store is refused.
    await ask(home, old, "And?", session_id=id)
    await ask(home, old, "And?", session_id=other)
    report = import_from(f"claude:{home / 'projects' / project}", url, user="u-42")
    assert [each.id for each in report.refusals] == [f"{project}/{id}"]
    assert (report.moved, report.added, report.there) == (1, 3, 1)


async def test_killed_and_run_again_everything_is_there_once(
    tmp_path: Path, new_store: NewStore
) -> None:
    url, folder = new_store("sqlite"), tmp_path / "projects" / "-home-me"
    for number in range(3):
        write(folder / f"s-{number}.jsonl", lines(300))
        write(folder / f"s-{number}" / "subagents" / "workflows" / "agent-7.jsonl", lines(50))
    source = f"claude:{folder.parent}"
    for words in (2, 4, 6):
        assert import_killed(source, url, words).isdigit()
    report = import_from(source, url)
    assert (report.moved + report.there, report.refused) == (6, 0)
    assert report.is_equal
    assert import_from(source, url).added == 0
    write(folder / "s-1.jsonl", lines(10, 300))  # which goes on meanwhile
    assert import_from(f"claude:{folder / 's-1.jsonl'}", url).added == 10
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store)
        for number in range(3):
            key: SessionKey = {"project_key": "-home-me", "session_id": f"s-{number}"}
            assert await sessions.load(key) == lines(310 if number == 1 else 300)
            sub: SessionKey = {**key, "subpath": "subagents/workflows/agent-7"}
            assert await sessions.load(sub) == lines(50)
            await sessions.append(key, lines(305))  # a mirror that brings them all along
            assert len(await sessions.load(key) or []) == (310 if number == 1 else 305)


@pytest.mark.soak
def test_a_hundred_thousand_lines_survive_twenty_kills(tmp_path: Path, new_store: NewStore) -> None:
    url, folder = new_store("sqlite"), tmp_path / "projects" / "-home-me"
    for number in range(40):
        write(folder / f"s-{number}.jsonl", lines(2500))
    source = f"claude:{folder.parent}"
    for kill in range(20):
        assert import_killed(source, url, 20 + 45 * kill).isdigit()
    report = import_from(source, url)
    assert (report.items, report.refused, report.is_equal) == (100_000, 0, True)
    again = import_from(source, url)
    assert (again.added, again.there, again.digest) == (0, 40, report.digest)


async def test_what_is_no_line_is_left_out_and_named(tmp_path: Path, new_store: NewStore) -> None:
    url, folder = new_store("sqlite"), tmp_path / "-home-me"
    first, second = lines(2)
    write(folder / "s-1.jsonl", [first, first])
    with (folder / "s-1.jsonl").open("a") as file:
        file.write('[1]\n\n{"type": "user", "uuid": "cut", "text": "\\ud83e"}\n')
        file.write(json.dumps(second)[:-5])
    report = import_from(f"claude:{folder}", url)
    assert (report.added, report.is_equal) == (2, True)
    assert report.lost == (
        "line 2 of -home-me/s-1, which is a duplicate",
        "line 3 of -home-me/s-1, which is not a JSON object",
        "the end of -home-me/s-1, which is still being written",
    )
    key: SessionKey = {"project_key": "-home-me", "session_id": "s-1"}
    async with stateward.open(url) as store:
        sessions = StatewardSessionStore(store)
        cut = {"type": "user", "uuid": "cut", "text": "\ufffd"}
        assert await sessions.load(key) == [first, cut]
    with (folder / "s-1.jsonl").open("a") as file:
        file.write(json.dumps(second)[-5:] + "\n")
    assert import_from(f"claude:{folder}", url).added == 1


def test_a_folder_without_transcripts_is_an_error_in_words(
    tmp_path: Path, new_store: NewStore
) -> None:
    for source, words in {
        f"claude:{tmp_path}": "no transcript",
        f"claude:{tmp_path}/none": "not a folder",
        "claude:": "nothing to import",
    }.items():
        with pytest.raises(stateward.InvalidInput, match=words):
            import_from(source, new_store("memory"))
