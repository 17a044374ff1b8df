"""Sessions of Strands' own files go on in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backup.conftest import NewStore
from backup.states import everything
from frameworks.strands_model import Scripted
from strands import Agent
from strands.session.file_session_manager import FileSessionManager
from strands.session.session_manager import SessionManager

from moves.kills import import_killed
from stateward import InvalidInput, sync
from stateward.integrations.strands import StatewardSessionManager, StatewardSessionRepository
from stateward.transfer.moves.mover import import_from


def ask(manager: SessionManager, agent_id: str, question: str, answer: str) -> list[Any]:
    """What the model was given."""
    model = Scripted(answer)
    agent = Agent(model=model, agent_id=agent_id, session_manager=manager, callback_handler=None)
    agent.state.set("asked", question)
    agent(question)
    return model.seen[0]


def live(folder: Path, sessions: int, turns: int = 2) -> str:
    for number in range(sessions):
        for turn in range(turns):
            manager = FileSessionManager(f"s-{number}", storage_dir=str(folder))
            ask(manager, "waiter", f"question {turn} grüße", f"answer {turn}")
    return f"strands:{folder}"


def test_sessions_are_there_as_they_were_and_go_on(tmp_path: Path, new_store: NewStore) -> None:
    folder = tmp_path / "sessions"
    source, url = live(folder, 5), new_store("sqlite")
    for agent in ("cook", "waiter"):  # two agents in a session, one after the other
        manager = FileSessionManager("s-0", storage_dir=str(folder))
        ask(manager, agent, f"a word, {agent}", "yes")
    for words in (2, 7):
        assert import_killed(source, url, words).isdigit()
    planned = import_from(source, url, dry_run=True, user="u-7")
    report = import_from(source, url, user="u-7")
    assert (report.threads, report.items, report.refused) == (5, 24, 0)
    assert (report.is_equal, report.digest) == (True, planned.digest)
    held = everything(url)
    again = import_from(source, url, user="u-7")
    assert (again.added, again.there, again.digest) == (0, 5, report.digest)
    assert everything(url) == held

    files = FileSessionManager("s-0", storage_dir=str(folder))
    with sync.open(url) as store:
        here = StatewardSessionRepository(store)
        for number in range(5):
            session = f"s-{number}"
            assert here.read_session(session) == files.read_session(session)
            for agent in ("cook", "waiter") if number == 0 else ("waiter",):
                assert here.read_agent(session, agent) == files.read_agent(session, agent)
                assert here.list_messages(session, agent) == files.list_messages(session, agent)
        said = [each["strands"]["agent"] for each in store.thread("s-0").load().messages]
        assert said == ["waiter"] * 4 + ["cook"] * 2 + ["waiter"] * 2
        given = ask(StatewardSessionManager(store, "s-1"), "waiter", "one more", "here you are")
        assert [message["content"][0]["text"] for message in given] == [
            "question 0 grüße",
            "answer 0",
            "question 1 grüße",
            "answer 1",
            "one more",
        ]
    ask(FileSessionManager("s-1", storage_dir=str(folder)), "waiter", "there too", "no")
    ask(FileSessionManager("s-2", storage_dir=str(folder)), "waiter", "only there", "yes")
    report = import_from(source, url, user="u-7")
    assert [each.id for each in report.refusals] == ["s-1"]
    assert (report.moved, report.added, report.is_equal) == (1, 2, True)


def test_what_cannot_be_read_is_refused_and_the_others_are_moved(
    tmp_path: Path, new_store: NewStore
) -> None:
    folder = tmp_path / "sessions"
    source, url = live(folder, 4, 1), new_store("sqlite")
    (folder / "session_s-0" / "session.json").write_text("{", "utf-8")
    (folder / "session_s-1" / "agents" / "agent_waiter" / "agent.json").write_text("{", "utf-8")
    messages = folder / "session_s-2" / "agents" / "agent_waiter" / "messages"
    (messages / "message_0.json").write_text("[]", "utf-8")
    report = import_from(source, url)
    assert [each.id for each in report.refusals] == ["s-0", "s-1", "s-2"]
    assert (report.moved, report.added) == (1, 2)
    with pytest.raises(InvalidInput, match="no sessions"):
        import_from(f"strands:{tmp_path}", url)
