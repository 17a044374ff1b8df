"""Strands' session managers over a Stateward store."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers.redis import RedisServer
from strands import Agent, tool
from strands.hooks import BeforeInvocationEvent
from strands.session import RepositorySessionManager, SnapshotSessionManager
from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

import stateward
import stateward.sync
from frameworks.conftest import Start
from frameworks.other_turns import CHAT, LANGCHAIN
from frameworks.strands_model import Scripted, waiter
from stateward import InvalidInput, StateConflictError, StoreUnavailable, ThreadListener
from stateward.integrations.strands import (
    StatewardSessionManager,
    StatewardSessionRepository,
    StatewardStorage,
)


def managed(store: Any, session: str = "s-1", user: str | None = "u-42") -> Any:
    repository = StatewardSessionRepository(store, user=user)
    return RepositorySessionManager(session, session_repository=repository)


def snapshots(store: Any, user: str | None = "u-42") -> Any:
    return SnapshotSessionManager("s-1", storage=StatewardStorage(store, user=user))


def texts(agent: Any) -> list[str]:
    return [m["content"][0].get("text") or next(iter(m["content"][0])) for m in agent.messages]


def a_message(index: int, text: str) -> SessionMessage:
    return SessionMessage({"role": "user", "content": [{"text": text}]}, index)


@pytest.fixture
def repository(url: str) -> Any:
    with stateward.sync.open(url) as store:
        repository = StatewardSessionRepository(store)
        repository.create_session(Session("s-1", SessionType.AGENT))
        repository.create_agent("s-1", SessionAgent("a", {}, {}))
        yield repository


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize("how", ["repository", "snapshots"])
def test_a_tool_call_in_one_process_is_remembered_in_the_next(
    url: str, how: str, start: Start
) -> None:
    assert start("strands_turn", how, url, "s-1").finish() == ['"Here it is."']
    with stateward.sync.open(url) as store:
        manager = managed(store) if how == "repository" else snapshots(store)
        agent = waiter(manager, "It was medium rare.")
        assert agent.state.get("table") == 7
        agent("How was it done?")
        assert texts(agent) == [
            "A steak, please.", "toolUse", "toolResult", "Here it is.",
            "How was it done?", "It was medium rare.",
        ]  # fmt: skip
        model = agent.model
        assert isinstance(model, Scripted)
        assert "a medium rare steak" in json.dumps(model.seen[-1])


def test_a_conversation_of_another_framework_is_continued(file: str) -> None:
    with stateward.sync.open(file) as store:
        thread = store.thread("s-1", user="u-42")
        thread.append(*CHAT)
        agent = waiter(StatewardSessionManager(store, "s-1", user="u-42"), "It was rare.")
        agent("How was it done?")
        begun = ["A steak, please.", "toolUse", "toolResult", "Here it is."]
        assert texts(agent) == [*begun, "How was it done?", "It was rare."]
        thread.append(*LANGCHAIN)
        again = waiter(StatewardSessionManager(store, "s-1", user="u-42"), "Not at all.", "Bye.")
        again("Is it too much?")
        told = [*texts(agent), "And salt?", "A little.", "Is it too much?", "Not at all."]
        assert texts(again) == told
        assert isinstance(again.model, Scripted)
        roles = [message["role"] for message in again.model.seen[-1]]
        assert roles == [*("user", "assistant") * 4, "user"]
        assert again.messages[2]["content"][0]["toolResult"]["toolUseId"] == "c1"
        again("Thanks.")
        stored = thread.load().messages
        assert [message for message in stored if "strands" not in message] == CHAT + LANGCHAIN
        own = [message["strands"]["message_id"] for message in stored if "strands" in message]
        assert own == [0, 1, 2, 3, 4, 5]


def test_messages_and_agents_come_back_as_they_were_given(repository: Any) -> None:
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\x00\xff"}}}
    message = SessionMessage({"role": "user", "content": [{"text": "🥩 \x00"}, image]}, 0)
    repository.create_message("s-1", "a", message)
    repository.create_message("s-1", "a", a_message(1, "one"))
    assert repository.read_message("s-1", "a", 0) == message
    assert repository.list_messages("s-1", "a", offset=1) == [
        repository.read_message("s-1", "a", 1)
    ]
    assert repository.list_messages("s-1", "a", limit=1) == [message]
    agent = SessionAgent("a", {"count": 1, "nested": {"x": [1.5, None]}}, {"removed": 3})
    repository.update_agent("s-1", agent)
    assert repository.read_agent("s-1", "a") == agent
    session = repository.read_session("s-1")
    assert (session.session_id, session.session_type) == ("s-1", SessionType.AGENT)


def test_what_is_missing_is_none_to_read_and_an_error_to_change(repository: Any) -> None:
    assert repository.read_session("nobody") is None
    assert repository.read_agent("s-1", "b") is None
    assert repository.read_message("s-1", "a", 5) is None
    assert repository.read_multi_agent("s-1", "graph") is None
    with pytest.raises(SessionException, match="already exists"):
        repository.create_session(Session("s-1", SessionType.AGENT))
    with pytest.raises(SessionException, match="exists already"):
        repository.create_agent("s-1", SessionAgent("a", {}, {}))
    with pytest.raises(SessionException, match="no agent b"):
        repository.update_agent("s-1", SessionAgent("b", {}, {}))
    with pytest.raises(SessionException, match="does not exist"):
        repository.update_message("s-1", "a", a_message(5, "new"))
    with pytest.raises(SessionException, match="no agent b"):
        repository.list_messages("s-1", "b")
    with pytest.raises(SessionException, match="does not exist"):
        repository.create_message("nobody", "a", a_message(0, "lost"))
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("nobody")


def test_agents_of_one_session_do_not_disturb_each_other(repository: Any) -> None:
    other = StatewardSessionRepository(repository._store)
    other.create_agent("s-1", SessionAgent("b", {}, {}))
    for index in range(3):
        repository.create_message("s-1", "a", a_message(index, f"a{index}"))
        other.create_message("s-1", "b", a_message(index, f"b{index}"))
    for agent in "ab":
        listed = repository.list_messages("s-1", agent)
        assert [m.message["content"][0]["text"] for m in listed] == [
            f"{agent}{n}" for n in range(3)
        ]


def test_a_redacted_message_is_not_shown_any_more(repository: Any) -> None:
    repository.create_message("s-1", "a", a_message(0, "my secret"))
    message = repository.read_message("s-1", "a", 0)
    message.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    repository.update_message("s-1", "a", message)
    again = repository.list_messages("s-1", "a")[0]
    assert again.to_message()["content"] == [{"text": "[redacted]"}]
    assert again == message
    shown = repository._store.thread("s-1").load().messages[0]
    assert shown["content"] == [{"text": "[redacted]"}]


def test_a_replica_that_was_overtaken_is_told_until_it_reads_again(url: str) -> None:
    with stateward.sync.open(url) as one, stateward.sync.open(url) as other:
        waiter(managed(one), "first")("a")
        slow, fast = waiter(managed(one), "late", "later"), waiter(managed(other), "second")
        fast("b")
        for _ in range(2):  # also when it is asked again
            with pytest.raises(SessionException) as refused:
                slow("c")
            assert isinstance(refused.value.__cause__, StateConflictError)
        assert texts(waiter(managed(one), "third")) == ["a", "first", "b", "second"]


def test_an_agent_that_was_overtaken_goes_on_with_what_is_stored(url: str) -> None:
    def manager(store: stateward.sync.Store) -> StatewardSessionManager:
        return StatewardSessionManager(store, "s-1", user="u-42")

    with stateward.sync.open(url) as one, stateward.sync.open(url) as other:
        slow = waiter(manager(one), "first", "third")
        slow("a")
        fast = waiter(manager(other), "second", "fourth")
        fast("b")
        slow("c")
        fast("d")
        said = ["a", "first", "b", "second", "c", "third", "d", "fourth"]
        assert texts(waiter(manager(one))) == texts(fast) == said


def test_a_run_waits_for_another_unless_it_was_told_not_to(url: str) -> None:
    with stateward.sync.open(url) as one, stateward.sync.open(url) as other:
        second: list[Future[Any]] = []
        quick = waiter(StatewardSessionManager(other, "s-1"), "from the other")
        impatient = waiter(StatewardSessionManager(other, "s-1", wait=0), "never")
        threads = ThreadPoolExecutor()

        @tool
        def look() -> str:
            """Meanwhile another replica begins to serve the same user."""
            with pytest.raises(stateward.LeaseHeld):
                impatient("b")
            second.append(threads.submit(quick, "b"))
            return "seen"

        use = {"name": "look", "toolUseId": "use-1", "input": {}}
        slow = waiter(StatewardSessionManager(one, "s-1"), use, "from one")
        slow.tool_registry.register_tool(look)
        with threads:
            slow("a")
            second[0].result()
        heard = [message["content"][0].get("text") for message in quick.messages]
        assert heard == ["a", None, None, "from one", "b", "from the other"]


def test_a_run_from_within_a_run_of_its_session_does_not_wait_for_it(url: str) -> None:
    with stateward.sync.open(url) as store:
        inner = Agent(
            model=Scripted("from inside"),
            agent_id="inner",
            session_manager=StatewardSessionManager(store, "s-1", wait=0),
            callback_handler=None,
        )

        @tool
        def look() -> str:
            """Ask another agent of the same session."""
            return str(inner("b"))

        use = {"name": "look", "toolUseId": "use-1", "input": {}}
        outer = waiter(StatewardSessionManager(store, "s-1"), use, "from outside")
        outer.tool_registry.register_tool(look)
        outer("a")
        assert texts(inner) == ["b", "from inside"]
        assert outer.messages[-1]["content"] == [{"text": "from outside"}]


def test_a_run_that_failed_holds_up_nobody(url: str) -> None:
    with stateward.sync.open(url) as one, stateward.sync.open(url) as other:
        failing = waiter(StatewardSessionManager(one, "s-1"))  # its model has nothing to say
        with pytest.raises(IndexError):
            failing("a")
        agent = waiter(StatewardSessionManager(other, "s-1", wait=0), "hi")
        agent("b")
        assert texts(agent)[-2:] == ["b", "hi"]


def test_a_hook_that_failed_keeps_the_turn_no_longer_than_to_the_next_run(url: str) -> None:
    with stateward.sync.open(url) as one, stateward.sync.open(url) as other:
        agent = waiter(StatewardSessionManager(one, "s-1"), "hi")
        failures = [ValueError("no permission")]

        def permit(event: BeforeInvocationEvent) -> None:
            if failures:
                raise failures.pop()

        agent.hooks.add_callback(BeforeInvocationEvent, permit)
        with pytest.raises(ValueError, match="no permission"):
            agent("a")
        agent("b")
        waiter(StatewardSessionManager(other, "s-1", wait=0), "hi")("c")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_three_processes_in_one_session_double_no_question(url: str, start: Start) -> None:
    three_processes(url, start, 4)


@pytest.mark.soak
def test_three_processes_in_one_session_double_no_question_for_long(url: str, start: Start) -> None:
    three_processes(url, start, 20)


def three_processes(url: str, start: Start, runs: int) -> None:
    with stateward.sync.open(url) as store:
        waiter(StatewardSessionManager(store, "crowd"), "first")("first")
        start("strands_plain", url, 3, runs).finish(300.0)
        kept = StatewardSessionRepository(store).list_messages("crowd", "waiter")
    said = [message.message["content"][0]["text"] for message in kept[2:]]
    assert said[::2] == said[1::2]
    assert sorted(said[::2]) == sorted(f"{n}.{run}" for n in range(3) for run in range(runs))


def test_what_is_stored_is_redacted_and_told_to_the_hook(file: str) -> None:
    told: list[Any] = []

    def redact(message: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(message).replace("4711", "[number]")
        return dict(json.loads(text))

    class Hook(ThreadListener):
        def appended(self, namespace: str, thread: str, user: Any, messages: Any, _: int) -> None:
            told.append((thread, user, messages[0]["content"][0]["text"]))

    with stateward.sync.open(file, redact=redact, listener=Hook()) as store:
        waiter(managed(store), "Thanks.")("My card is 4711.")
        assert texts(waiter(managed(store)))[0] == "My card is [number]."
    assert told == [("s-1", "u-42", "My card is [number]."), ("s-1", "u-42", "Thanks.")]


def test_two_replicas_that_change_an_agents_state_lose_no_change(url: str) -> None:
    with stateward.sync.open(url) as store:
        waiter(managed(store), "hello")("hi")
        one, other = (StatewardSessionRepository(store, user="u-42") for _ in range(2))
        agents = [repository.read_agent("s-1", "waiter") for repository in (one, other)]
        for agent in agents:
            agent.state["count"] = agent.state.get("count", 0) + 1
        one.update_agent("s-1", agents[0])
        with pytest.raises(SessionException, match="changed by another"):
            other.update_agent("s-1", agents[1])


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_eight_processes_in_one_session_split_no_turn(url: str, start: Start) -> None:
    with stateward.sync.open(url) as store:
        waiter(managed(store, "crowd", None), "first")("first")
        said = [json.loads(line) for line in start("strands_crowd", url, 8).finish(120.0)]
        kept = StatewardSessionRepository(store).list_messages("crowd", "waiter")
    done = [name for name, what in said if what == "done"]
    refused = [name for name, what in said if what == "refused"]
    assert len(done) + len(refused) == 8 * 2
    assert {f"{n}.{turn}" for n in range(8) for turn in range(1)} <= {*done}
    # Of what was refused some may be there: whoever asked was told.
    names = [message.message["content"][0]["text"] for message in kept[2:]]
    heard = [name for name in names if name not in refused]
    assert heard[::2] == heard[1::2]
    assert sorted(heard[::2]) == sorted(done)


def test_two_replicas_with_snapshots_lose_no_turn(url: str) -> None:
    with stateward.sync.open(url) as one, stateward.sync.open(url) as other:
        waiter(snapshots(one), "first")("a")
        slow, fast = waiter(snapshots(one), "late"), waiter(snapshots(other), "second")
        fast("b")
        with pytest.raises(StorageError):
            slow("c")
        assert texts(waiter(snapshots(one))) == ["a", "first", "b", "second"]


async def test_a_storage_keeps_bytes_by_key(url: str) -> None:
    with stateward.sync.open(url) as store:
        storage = StatewardStorage(store)
        for key in ("b/2", "b/10", "a", "b{}:*"):
            await storage.write(key, key.encode())
        await storage.write("raw", b"\x00\xff\xfe")
        assert await storage.read("raw") == b"\x00\xff\xfe"
        assert await storage.read("b/2") == b"b/2"
        assert await storage.read("none") is None
        assert await storage.list("b/") == ["b/10", "b/2"]
        assert await storage.list() == ["a", "b/10", "b/2", "b{}:*", "raw"]
        await storage.delete("a")
        await storage.delete("a")
        assert await storage.read("a") is None
        inner = storage.namespace("b")
        assert await inner.list() == ["10", "2"]


async def test_a_storage_may_be_told_to_overwrite(file: str) -> None:
    with stateward.sync.open(file) as store:
        one, other = StatewardStorage(store), StatewardStorage(store, conflict="overwrite")
        assert await one.read("k") is await other.read("k") is None
        await other.write("k", b"theirs")
        with pytest.raises(StorageError):
            await one.write("k", b"mine")
        await one.read("k")
        await one.write("k", b"mine")
        await other.write("k", b"theirs")
        assert await one.read("k") == b"theirs"
        with pytest.raises(StorageError):
            await one.write("k" * 600, b"")
        with pytest.raises(InvalidInput, match="conflict="):
            StatewardStorage(store, conflict="merge")  # type: ignore[arg-type]


def test_what_was_said_is_kept_while_the_store_is_dead(mortal: RedisServer, tmp_path: Path) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    with stateward.sync.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:
        agent = waiter(managed(store), "first", "second")
        agent("a")
        mortal.kill()
        assert str(agent("b")).strip() == "second"
        with pytest.raises(StoreUnavailable):
            managed(store)
        mortal.start()
    with stateward.sync.open(mortal.url) as store:
        assert texts(waiter(managed(store))) == ["a", "first", "b", "second"]


def test_an_agent_goes_on_after_an_outage(mortal: RedisServer, tmp_path: Path) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    with stateward.sync.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:
        agent = waiter(managed(store), "first", "second", "third")
        agent("a")
        mortal.kill()
        agent("b")
        mortal.start()
        while store.health().spill_depth:
            time.sleep(0.01)  # no event tells it
        assert str(agent("c")).strip() == "third"
    with stateward.sync.open(mortal.url) as store:
        assert texts(waiter(managed(store))) == ["a", "first", "b", "second", "c", "third"]


def test_export_and_erase_find_sessions_and_snapshots(url: str, tmp_path: Path) -> None:
    with stateward.sync.open(url) as store:
        waiter(managed(store), "hello")("my secret")
        waiter(snapshots(store), "hello")("my other secret")
        with pytest.raises(stateward.NotYoursError):
            managed(store, user="u-7")
        store.user("u-42").export(str(tmp_path / "export.jsonl"))
        exported = (tmp_path / "export.jsonl").read_text()
        assert "my secret" in exported
        assert "my other secret" in exported
        assert store.user("u-42").erase().removed == {"thread": 1, "blob": 1}
        assert texts(waiter(managed(store))) == texts(waiter(snapshots(store))) == []


async def test_only_a_blocking_store_is_taken_and_urls_open_their_own(file: str) -> None:
    for kind in (StatewardSessionRepository, StatewardStorage):
        with pytest.raises(InvalidInput, match=r"stateward\.sync\.open"):
            kind(stateward.open(file))
        own = kind.from_url(file, user="u-42")
        own.close()
        with pytest.raises(stateward.StoreMisused):
            own._store.thread("s-1").load()
        with stateward.sync.open(file) as store:
            kind(store).close()
            store.thread("s-1").load()
