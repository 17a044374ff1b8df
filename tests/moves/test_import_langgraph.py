"""Threads of LangGraph's own savers go on with ours."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from backup.conftest import NewStore
from backup.states import everything
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore
from langgraph.types import Command, interrupt
from servers.postgres import PostgresServer

from moves.kills import import_killed
from stateward import InvalidInput, NotYoursError, sync
from stateward.integrations.langgraph import StatewardSaver, StatewardStore
from stateward.transfer.moves import entity_writer
from stateward.transfer.moves.mover import import_from


class State(MessagesState):
    notes: Annotated[list[str], operator.add]


@dataclass
class Ticket:
    number: int


def agent(saver: BaseCheckpointSaver[Any]) -> Any:
    """Answers; asked for a refund, a graph within it waits for a person."""

    def answer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")], "notes": ["x" * 300]}

    def approve(state: MessagesState) -> dict[str, Any]:
        if state["messages"][-2].content != "refund":
            return {}
        return {"messages": [AIMessage(interrupt("may I?"))]}

    inner = StateGraph(MessagesState).add_node(approve).add_edge(START, "approve").compile()
    outer = StateGraph(State).add_node(answer).add_node("check", inner)
    return outer.add_edge(START, "answer").add_edge("answer", "check").compile(checkpointer=saver)


def config(thread: str, **more: str) -> Any:
    return {"configurable": {"thread_id": thread, "user_id": "u-7", **more}}


def asks(text: str) -> Any:
    return {"messages": [("user", text)]}


def live(saver: BaseCheckpointSaver[Any], threads: int = 3) -> None:
    """Conversations; one with a branch, and one that waits for a person."""
    graph = agent(saver)
    for number in range(threads):
        for turn in range(3):
            graph.invoke(asks(f"question {turn}"), config(f"t-{number}"))
    past = list(graph.get_state_history(config("t-0")))[4]
    graph.update_state(past.config, {"messages": [("user", "rather this")]})
    graph.invoke(asks("refund"), config("waits"))


@contextmanager
def sqlite_source(path: Path) -> Iterator[tuple[BaseCheckpointSaver[Any], str]]:
    with SqliteSaver.from_conn_string(str(path / "old.db")) as saver:
        yield saver, f"langgraph:sqlite:///{path / 'old.db'}"


@contextmanager
def postgres_source(server: PostgresServer) -> Iterator[tuple[BaseCheckpointSaver[Any], str]]:
    server.run_sql("DROP TABLE IF EXISTS store, store_migrations CASCADE")  # other tests' items
    with PostgresSaver.from_conn_string(server.url) as saver:
        saver.setup()
        for (id,) in server.run_sql("SELECT DISTINCT thread_id FROM checkpoints"):
            saver.delete_thread(id)
        yield saver, f"langgraph:{server.url}"


@pytest.fixture(params=["sqlite", "postgres"])
def old(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[BaseCheckpointSaver[Any], str]]:
    if request.param == "sqlite":
        with sqlite_source(tmp_path) as source:
            yield source
    else:
        with postgres_source(request.getfixturevalue("postgres")) as source:
            yield source


def history(saver: BaseCheckpointSaver[Any], thread: str) -> list[Any]:
    """Every checkpoint of every namespace, with what was written after it."""
    found = saver.list({"configurable": {"thread_id": thread}})
    return sorted(
        (
            each.config["configurable"]["checkpoint_ns"],
            each.config["configurable"]["checkpoint_id"],
            each.parent_config and each.parent_config["configurable"]["checkpoint_id"],
            repr(sorted(each.checkpoint.items())),
            repr(sorted(each.metadata.items())),
            repr(each.pending_writes),
        )
        for each in found
    )


def test_a_thread_is_there_with_all_that_it_had_and_goes_on(
    old: tuple[BaseCheckpointSaver[Any], str], new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_writer, "PART", 4000)  # so that a thread comes in many commits
    before, source = old
    live(before)
    url = new_store("valkey" if source.startswith("langgraph:sqlite") else "postgres")
    planned = import_from(source, url, dry_run=True)
    report = import_from(source, url)
    assert (report.moved, report.refused, report.is_equal) == (4, 0, True)
    assert planned.digest == report.digest
    with StatewardSaver.from_url(url) as saver:
        for thread in ("t-0", "t-1", "t-2", "waits"):
            assert history(saver, thread) == history(before, thread)
        with pytest.raises(NotYoursError):
            saver.get_tuple({"configurable": {"thread_id": "t-0", "user_id": "u-8"}})
    held = everything(url)
    again = import_from(source, url)
    assert (again.moved, again.added, again.there, again.digest) == (0, 0, 4, report.digest)
    assert everything(url) == held

    with StatewardSaver.from_url(url) as saver:
        for graph in (agent(before), agent(saver)):  # the same next turns, there and here
            waits = graph.get_state(config("waits"))
            assert [each.value for each in waits.interrupts] == ["may I?"]
            done = graph.invoke(Command(resume="yes"), config("waits"))
            assert done["messages"][-1].content == "yes"
            state = graph.invoke(asks("one more"), config("t-1"))
            assert len(state["messages"]) == 8
            assert state["messages"][-1].content == "answer 7"
            past = list(graph.get_state_history(config("t-2")))[4]
            forked = graph.invoke(None, past.config)
            assert len(forked["messages"]) <= 6
            newest = graph.get_state(config("t-0")).values["messages"]
            assert newest[-1].content == "rather this"
    gone_on = import_from(source, url)
    assert {each.id for each in gone_on.refusals} == {"t-1", "t-2", "waits"}
    assert "continued" in gone_on.refusals[0].why
    assert gone_on.is_equal


def test_killed_it_is_gone_on_with_and_what_is_new_is_added(
    tmp_path: Path, new_store: NewStore
) -> None:
    url = new_store("sqlite")
    with sqlite_source(tmp_path) as (before, source):
        live(before, 9)
        for words in (1, 4):
            assert import_killed(source, url, words).isdigit()
        report = import_from(source, url)
        assert report.moved > 0
        assert (report.moved + report.there, report.is_equal) == (10, True)
        agent(before).invoke(asks("late"), config("t-3"))
        assert import_from(source, url).moved == 1
        with StatewardSaver.from_url(url) as saver:
            for thread in ("t-0", "t-3", "t-8", "waits"):
                assert history(saver, thread) == history(before, thread)


def test_types_of_ones_own_are_moved_if_they_are_allowed(
    tmp_path: Path, new_store: NewStore
) -> None:
    class Tickets(TypedDict):
        ticket: Ticket

    with sqlite_source(tmp_path) as (before, source):
        graph = StateGraph(Tickets).add_node("open", lambda state: {"ticket": Ticket(7)})
        graph.add_edge(START, "open").compile(checkpointer=before).invoke({}, config("t"))
    url = new_store("sqlite")
    refused = import_from(source, url)
    assert (refused.moved, refused.refused) == (0, 1)
    assert "Ticket" in refused.refusals[0].why
    report = import_from(f"{source}?allow={__name__}", url)
    assert (report.moved, report.is_equal) == (1, True)
    with StatewardSaver.from_url(url, allow=[Ticket]) as saver:
        found = saver.get_tuple(config("t"))
        assert found is not None
        assert found.checkpoint["channel_values"]["ticket"] == Ticket(7)


def told(items: list[Any]) -> list[Any]:
    """What there is of items; SQLite's have times without a zone, in UTC."""
    found = []
    for item in items:
        at = item.created_at if item.created_at.tzinfo else item.created_at.replace(tzinfo=UTC)
        found.append((item.key, item.value["number"], round(at.timestamp(), 3)))
    return sorted(found)


def test_items_of_the_long_term_store_come_too(
    request: pytest.FixtureRequest, tmp_path: Path, new_store: NewStore
) -> None:
    path, server = tmp_path / "old.db", request.getfixturevalue("postgres")
    with postgres_source(server):
        pass  # without the threads of other tests
    with (
        postgres_source(server),  # removes what other tests have left
        SqliteStore.from_conn_string(str(path)) as file,
        PostgresStore.from_conn_string(server.url) as database,
    ):
        for old, source in ((file, f"sqlite:///{path}"), (database, server.url)):
            old.setup()
            for number in range(60):
                old.put(("memories", f"u-{number % 2}"), f"k/{number}", {"number": number})
            old.put(("short",), "lived", {}, ttl=60)
            url = new_store("sqlite")
            report = import_from(
                f"langgraph:{source}", url, user_pattern="^memories/([^/]+)/", user="u-9"
            )
            assert (report.added, report.refused, report.is_equal) == (61, 0, True)
            assert [text.split(":")[0] for text in report.lost] == ["how long items live"]
            assert import_from(f"langgraph:{source}", url).added == 0
            with StatewardStore.from_url(url) as store:
                space = ("memories", "u-1")
                was, now = (told(each.search(space, limit=100)) for each in (old, store))
                assert now == was
                assert len(now) == 30
            with sync.open(url) as opened:
                assert opened.user("u-1").erase().removed == {"langgraph-item": 30}


@pytest.mark.parametrize("place", ["sqlite:///nowhere.db", "sqlite:///empty.db", "mysql://db/x"])
def test_a_source_without_checkpoints_is_refused(
    place: str, tmp_path: Path, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    with pytest.raises(InvalidInput, match=r"checkpoints of LangGraph|no file"):
        import_from(f"langgraph:{place}", new_store("sqlite"))
    with sync.open("memory://") as store:
        assert list(store.threads()) == []
